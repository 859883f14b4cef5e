"""A prepared competition on disk: public files for the agent, private answers for the grader."""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tidegauge.bench.competitions.base import Competition
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.errors import InputError
from tidegauge.io import sha256_of
from tidegauge.manifest import MANIFEST
from tidegauge.schema.submission import (
    Source,
    Verdict,
    check_submission,
    max_table_bytes,
    read_keys,
)

STAGING = ".preparing"
READY = "ready"
PARTS = ("private", "public", MANIFEST)
SOURCE = "source.txt"  # in private/: where the raw data was


@dataclass(frozen=True)
class Prepared:
    """A competition with its two folders.

    Attributes
    ----------
    expected_keys : list of str
        The rows a submission must hold, from the public sample submission: validation never
        needs the private folder.
    """

    competition: Competition
    public: Path
    private: Path
    expected_keys: list[str]

    @cached_property
    def max_bytes(self) -> int:
        """How large a submission may be."""
        return max_table_bytes(self.expected_keys)

    @property
    def source(self) -> Path | None:
        """The raw data that this was prepared from, which holds the answers too; None if gone."""
        try:
            path = Path((self.private / SOURCE).read_text(encoding="utf-8").strip())
        except (OSError, ValueError):
            return None
        return path if path.is_absolute() and path.exists() else None

    def answers_sha256(self) -> str:
        """Return a hash of the private files that the score depends on."""
        total = hashlib.sha256()
        for path in sorted(self.private.rglob("*.csv")):
            total.update(f"{path.relative_to(self.private)} {sha256_of(path)}\n".encode())
        return total.hexdigest()

    def check(self, source: Source) -> Verdict:
        """Check a submission; the server, ``bench validate`` and the grader all call this."""
        competition = self.competition
        verdict = check_submission(
            source,
            form=competition.form,
            expected_keys=self.expected_keys,
            max_bytes=self.max_bytes,
        )
        if verdict.table is not None and (problems := competition.validate(verdict.table)):
            return Verdict(problems, verdict.notes)
        return verdict


def open_prepared(competition: Competition | str, folder: Path | str) -> Prepared:
    """Open what ``bench prepare`` wrote: DIR/public and DIR/private, or DIR/prepared/....

    Parameters
    ----------
    competition : Competition or str
        The competition, or its name.

    Raises
    ------
    InputError
        The folder is not prepared, or for another competition.

    Examples
    --------
    >>> prepared = open_prepared("osic", "prepared")  # doctest: +SKIP
    >>> prepared.check("submission.csv").sentence()   # doctest: +SKIP
    'Submission is valid.'
    """
    if isinstance(competition, str):
        competition = get_competition(competition)
    folder = Path(folder).resolve()
    if is_interrupted(folder):
        raise InputError(
            f"{folder}: its preparation was interrupted at the last moment; "
            f"run `tidegauge bench prepare {competition.name}` with the same options again"
        )
    root = next((f for f in (folder, folder / "prepared") if (f / "public").is_dir()), None)
    if root is None:
        raise InputError(
            f"{folder}: holds no prepared competition (public/ and private/); "
            f"run `tidegauge bench prepare {competition.name} --out {folder}`"
        )
    sample = root / "public" / "sample_submission.csv"
    keys = read_keys(sample, competition.form.key)
    return Prepared(competition, root / "public", root / "private", keys)


def is_interrupted(out: Path) -> bool:
    """Whether a preparation was killed while its two parts were being put into place."""
    staging = out / STAGING
    return (staging / READY).exists() and any((staging / part).exists() for part in PARTS)


def finish_prepare(out: Path) -> None:
    """Put a whole preparation into place; for who holds the lock of `out`.

    Each old part is out of the way before the new one comes, so that what is there is never a
    mixture, and no two commands delete each other's.
    """
    staging = out / STAGING
    if not (staging / READY).exists():
        return
    for part in PARTS:
        if (staging / part).exists():
            if (out / part).exists():
                shutil.rmtree(staging / f"old-{part}", ignore_errors=True)
                os.rename(out / part, staging / f"old-{part}")
            os.rename(staging / part, out / part)
    shutil.rmtree(staging)
