"""Code compared with known solutions by winnowing: fingerprints that survive renaming."""

from __future__ import annotations

import io
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tidegauge.errors import InputError
from tidegauge.io import atomic_write
from tidegauge.progress import SILENT, Progress

EXTENSIONS = (".py", ".ipynb", ".r", ".jl", ".cpp", ".c", ".java", ".js", ".ts", ".sh")
DEFAULT_THRESHOLD = 0.6
_GRAM_TOKENS = 25  # shorter matches are common phrases of any program
_WINDOW_TOKENS = 1
_MAX_CHARACTERS = 2**20  # of a file; one longer is data, and comparing it takes for ever


@dataclass(frozen=True, slots=True)
class Match:
    """How much of one file is found in another.

    Attributes
    ----------
    similarity : float
        Share of the code's fingerprint that the reference also has, from 0 to 1.
    tokens : int
        Characters of normalised code in common.
    """

    code: str
    reference: str
    similarity: float
    tokens: int


def compare_code(code: Path, against: Path, *, progress: Progress = SILENT) -> list[Match]:
    """Compare every source file in `code` with every one in `against`, most similar first.

    Names, literals and comments do not count, so that renaming hides nothing.

    Raises
    ------
    InputError
        There is no source file in one of the two places.
    """
    from copydetect import compare_files

    ours, theirs = _fingerprints(code), _fingerprints(against)
    matches = []
    with progress.step("comparing", total=len(ours) * len(theirs)) as step:
        for mine, mine_print in ours.items():
            for other, other_print in theirs.items():
                tokens, (similarity, _), _ = compare_files(mine_print, other_print)
                matches.append(Match(mine, other, float(similarity), int(tokens)))
                step.update(len(matches))
    return sorted(matches, key=lambda match: (-match.similarity, match.code, match.reference))


def mark_report(path: Path, matches: Sequence[Match], *, threshold: float) -> bool:
    """Write into a run's report whether its code disqualifies it; return that.

    Raises
    ------
    InputError
        The file is no report.
    """
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        if "competition_id" not in report:
            raise ValueError("no competition_id")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: not a report of a grade or a run ({error})") from error
    worst = matches[0]
    report["disqualified"] = worst.similarity >= threshold
    report["similarity"] = {"threshold": threshold, **asdict(worst)}
    with atomic_write(path) as handle:
        handle.write(json.dumps(report, indent=2) + "\n")
    return bool(report["disqualified"])


def _fingerprints(place: Path) -> dict[str, object]:
    from copydetect import CodeFingerprint

    if not place.exists():
        raise InputError(f"{place}: no such file or folder; give code to compare")
    files = [place] if place.is_file() else sorted(_source_files(place))
    found = {}
    for path in files:
        try:
            text = _code_of(path)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue  # not text, too long, or no notebook: it has no code to compare
        name = str(path.with_suffix(".py")) if path.suffix == ".ipynb" else str(path)
        found[str(path)] = CodeFingerprint(name, _GRAM_TOKENS, _WINDOW_TOKENS, fp=io.StringIO(text))
    if not found:
        kinds = " ".join(EXTENSIONS)
        raise InputError(f"{place}: holds no source file ({kinds}); give code to compare")
    return found


def _code_of(path: Path) -> str:
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), encoding="utf-8") as handle:
        text = handle.read(_MAX_CHARACTERS + 1)
    if len(text) > _MAX_CHARACTERS:
        raise ValueError("data rather than code")
    if path.suffix != ".ipynb":
        return text
    cells = json.loads(text)["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")


def _source_files(folder: Path) -> list[Path]:
    return [
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in EXTENSIONS and path.is_file() and not path.is_symlink()
    ]
