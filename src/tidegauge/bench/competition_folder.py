"""A prepared competition on disk: public files for the agent, private answers for the grader."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tidegauge.bench.competitions.base import Competition
from tidegauge.errors import InputError
from tidegauge.manifest import MANIFEST
from tidegauge.schema.submission import Source, Verdict, check_submission, read_keys

STAGING = ".preparing"
READY = "ready"
PARTS = ("private", "public", MANIFEST)


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

    def check(self, source: Source) -> Verdict:
        """Check a submission; the server, ``bench validate`` and the grader all call this."""
        competition = self.competition
        verdict = check_submission(source, form=competition.form, expected_keys=self.expected_keys)
        if verdict.table is not None and (problems := competition.validate(verdict.table)):
            return Verdict(problems, verdict.notes)
        return verdict


def open_prepared(competition: Competition, folder: Path) -> Prepared:
    """Open what ``bench prepare`` wrote: DIR/public and DIR/private, or DIR/prepared/....

    Raises
    ------
    InputError
        The folder is not prepared, or for another competition.
    """
    folder = folder.resolve()
    finish_prepare(folder)
    root = next((f for f in (folder, folder / "prepared") if (f / "public").is_dir()), None)
    if root is None:
        raise InputError(
            f"{folder}: holds no prepared competition (public/ and private/); "
            f"run `tidegauge bench prepare {competition.name} --out {folder}`"
        )
    sample = root / "public" / "sample_submission.csv"
    keys = read_keys(sample, competition.form.key)
    return Prepared(competition, root / "public", root / "private", keys)


def finish_prepare(out: Path) -> None:
    """Complete the renames of a preparation that was killed during them; otherwise do nothing."""
    staging = out / STAGING
    if not (staging / READY).exists():
        return
    for part in PARTS:
        if (staging / part).exists():
            shutil.rmtree(out / part, ignore_errors=True)
            os.replace(staging / part, out / part)
    shutil.rmtree(staging)
