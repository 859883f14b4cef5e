"""A checkout of MLE-bench, read from its files alone: nothing of it is imported."""

from __future__ import annotations

import ast
import csv
import os
import re
import statistics
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from tidegauge.bench.competitions.base import Thresholds
from tidegauge.bench.medals import medal_ranks, read_scores
from tidegauge.bench.mlebench.facts import facts_of
from tidegauge.errors import InputError, did_you_mean
from tidegauge.io import read_yaml

CHECKOUT = "TIDEGAUGE_MLEBENCH"
PYTHON = "TIDEGAUGE_MLEBENCH_PYTHON"
DATA = "TIDEGAUGE_MLEBENCH_DATA"
PREFIX = "mlebench/"
GIT_LFS_PULL = "run `git lfs pull` in the checkout"

_LFS_FIRST_LINE = b"version https://git-lfs.github.com/spec/v1"
_IMPORT_STRING = re.compile(r"mlebench(\.[\w-]+)+:[A-Za-z_]\w*")
# What the names of import statements are called by pip.
_PIP_NAMES = {"sklearn": "scikit-learn", "PIL": "pillow", "bson": "pymongo", "yaml": "pyyaml"}
# Imported only when called, so that no import statement at the top shows them.
_HIDDEN_IMPORTS = ("tensorflow", "fastparquet")


@dataclass(frozen=True, slots=True)
class Config:
    """A competition's config.yaml.

    Attributes
    ----------
    answers, sample, gold : PurePosixPath
        Below ``prepared/``; without a gold submission the answers serve as one.
    """

    competition_id: str
    title: str
    description: Path
    answers: PurePosixPath
    sample: PurePosixPath
    gold: PurePosixPath
    grade_fn: str
    preparer: str


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """What a leaderboard says, its rows in the order of the file: best first."""

    n_teams: int
    lower_is_better: bool
    thresholds: Thresholds


@dataclass(frozen=True)
class Checkout:
    """A checkout, and the interpreter that its graders run in."""

    root: Path
    python: Path

    @property
    def _competitions(self) -> Path:
        return self.root / "mlebench" / "competitions"

    @cached_property
    def competition_ids(self) -> list[str]:
        """The competitions' ids, which are the names of their folders."""
        folders = (path.parent for path in self._competitions.glob("*/config.yaml"))
        return sorted(folder.name for folder in folders)

    def folder(self, competition_id: str) -> Path:
        """Return a competition's folder.

        Raises
        ------
        InputError
            There is no such competition.
        """
        if competition_id not in self.competition_ids:
            raise InputError(
                f"{self.root}: has no competition {competition_id!r}"
                f"{did_you_mean(competition_id, self.competition_ids)}; "
                "`tidegauge bench list --source mlebench` lists them"
            )
        return self._competitions / competition_id

    def config(self, competition_id: str) -> Config:
        """Read a competition's config.yaml.

        Raises
        ------
        InputError
            It is not YAML, or a key is missing or leads out of the competition's folder.
        """
        path = self.folder(competition_id) / "config.yaml"
        document = read_yaml(path)

        def value(*names: str) -> str:
            found: Any = document
            for name in names:
                found = found.get(name) if isinstance(found, dict) else None
            if not isinstance(found, str) or not found:
                raise InputError(f"{path}: {'.'.join(names)} is missing or no text; restore it")
            return found

        def prepared(name: str) -> PurePosixPath:
            text = value("dataset", name)
            start = PurePosixPath(competition_id, "prepared")
            place = PurePosixPath(text)
            if not place.is_relative_to(start) or ".." in place.parts:
                raise InputError(f"{path}: dataset.{name}={text} is not below {start}; restore it")
            return place.relative_to(start)

        def function(*names: str) -> str:
            if not _IMPORT_STRING.fullmatch(text := value(*names)):
                raise InputError(f"{path}: {'.'.join(names)}={text} is no module:function")
            return text

        if value("id") != competition_id:
            raise InputError(f"{path}: id={value('id')} is not the folder's name; restore it")
        dataset = document["dataset"] if isinstance(document.get("dataset"), dict) else {}
        answers = prepared("answers")
        return Config(
            competition_id=competition_id,
            title=value("name"),
            description=_inside(self.root, value("description"), path),
            answers=answers,
            sample=prepared("sample_submission"),
            gold=prepared("gold_submission") if dataset.get("gold_submission") else answers,
            grade_fn=function("grader", "grade_fn"),
            preparer=function("preparer"),
        )

    def split(self, name: str) -> list[str]:
        """Return the competition ids of a split, such as ``low``.

        Raises
        ------
        InputError
            There is no such split.
        """
        folder = self.root / "experiments" / "splits"
        names = sorted(path.stem for path in folder.glob("*.txt"))
        if name not in names:
            raise InputError(
                f"{folder}: has no split {name!r}{did_you_mean(name, names)}; "
                f"there are: {', '.join(names) or 'none'}"
            )
        text = (folder / f"{name}.txt").read_text(encoding="utf-8")
        return [line.strip() for line in text.splitlines() if line.strip()]

    def split_of(self, competition_id: str) -> str | None:
        """Return low, medium, high or dev."""
        for name in ("low", "medium", "high", "dev"):
            path = self.root / "experiments" / "splits" / f"{name}.txt"
            if path.is_file() and competition_id in self.split(name):
                return name
        known = facts_of(competition_id)
        return known.split if known else None

    def leaderboard(self, competition_id: str) -> Leaderboard:
        """Read a leaderboard.

        Raises
        ------
        InputError
            It is a pointer of Git LFS, or cannot be read.
        """
        path = self.folder(competition_id) / "leaderboard.csv"
        if is_lfs_pointer(path):
            raise InputError(
                f"{path}: is a Git LFS pointer, so no medals are known; {GIT_LFS_PULL}"
            )
        return read_leaderboard(path)

    def checksums(self, competition_id: str) -> dict[str, dict[str, str]]:
        """Return the MD5 of the prepared files: ``public`` and ``private``, by file name."""
        path = self.folder(competition_id) / "checksums.yaml"
        if not path.is_file():
            return {}
        document = read_yaml(path)
        parts = document if isinstance(document, dict) else {}
        return {
            part: {str(name): str(value) for name, value in parts[part].items()}
            for part in ("public", "private")
            if isinstance(parts.get(part), dict)
        }

    @cached_property
    def sample_scores(self) -> dict[str, float]:
        """What the sample submissions score on the real data, from tests/constants.py."""
        path = self.root / "tests" / "constants.py"
        try:
            tree = ast.parse(path.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError):
            return {}
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.Dict):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                if any(ast.unparse(target) == "sample_submission_scores" for target in targets):
                    return _numbers_of(node.value)
        return {}

    def commit(self) -> str | None:
        """Return the commit that is checked out, if the checkout is a git repository."""
        git = self.root / ".git"
        try:
            head = (git / "HEAD").read_text(encoding="utf-8").strip()
            if not head.startswith("ref: "):
                return head
            name = head.removeprefix("ref: ")
            if (git / name).is_file():
                return (git / name).read_text(encoding="utf-8").strip()
            packed = (git / "packed-refs").read_text(encoding="utf-8").splitlines()
            return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
        except OSError:
            return None

    def imports(self, competition_id: str, part: str) -> list[str]:
        """Return the packages outside the standard library that ``grade`` or ``prepare`` needs.

        The competition's own modules and the checkout's are followed.
        """
        found: set[str] = set()
        waiting = [self.folder(competition_id) / f"{part}.py"]
        seen: set[Path] = set()
        while waiting:
            path = waiting.pop()
            if path in seen or not path.is_file():
                continue
            seen.add(path)
            for name, level in _imported_names(path):
                if level or name.split(".")[0] == "mlebench":
                    waiting += self._modules_of(path, name, level)
                elif name.split(".")[0] not in sys.stdlib_module_names:
                    found.add(name.split(".")[0])
        known = facts_of(competition_id)
        if part == "prepare" and known:
            found |= {name for name in known.prepare_packages if name in _HIDDEN_IMPORTS}
        return sorted(found)

    def _modules_of(self, path: Path, name: str, level: int) -> list[Path]:
        """Return the files that an import of the checkout's own modules may mean."""
        base = path.parents[level - 1] if level else self.root
        parts = name.split(".") if name else []
        # `from package.module import thing` names a module, or a thing in it.
        places = [base.joinpath(*parts), base.joinpath(*parts[:-1])]
        return [place.with_name(f"{place.name}.py") for place in places]


def _inside(root: Path, text: str, named_in: Path) -> Path:
    path = PurePosixPath(text)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{named_in}: {text} leads out of the checkout; restore it")
    return root / path


def _numbers_of(found: ast.Dict) -> dict[str, float]:
    scores = {}
    for key, value in zip(found.keys, found.values, strict=True):
        try:
            name, number = ast.literal_eval(key) if key else None, float(ast.literal_eval(value))
        except (ValueError, TypeError):
            continue  # such as float("nan")
        scores[str(name)] = number
    return scores


def _imported_names(path: Path) -> list[tuple[str, int]]:
    """Return the names that a module imports at its top, with the level of relative ones."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return []
    names: list[tuple[str, int]] = []
    for node in tree.body:
        if isinstance(node, ast.Import):
            names += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = f"{node.module}." if node.module else ""
            names += [(start + alias.name, node.level) for alias in node.names]
    return names


def pip_name(module: str) -> str:
    """Return what pip calls a module."""
    return _PIP_NAMES.get(module, module)


def is_lfs_pointer(path: Path) -> bool:
    """Whether a file is a pointer of Git LFS instead of its content."""
    try:
        with open(path, "rb") as handle:
            return handle.readline().rstrip() == _LFS_FIRST_LINE
    except OSError:
        return False


def read_leaderboard(path: Path) -> Leaderboard:
    """Read a leaderboard in the order of its rows, as MLE-bench does.

    The direction follows from the first and the last row: best first.

    Raises
    ------
    InputError
        It cannot be read.
    """
    scores = read_scores(path)
    gold, silver, bronze = (scores[rank - 1] for rank in medal_ranks(len(scores)))
    thresholds = Thresholds(gold, silver, bronze, statistics.median(scores))
    return Leaderboard(len(scores), scores[0] < scores[-1], thresholds)


def read_categories(root: Path) -> dict[str, dict[str, str]]:
    """Return experiments/competition_categories.csv by competition id; empty if it is not there."""
    path = root / "experiments" / "competition_categories.csv"
    if not path.is_file() or is_lfs_pointer(path):
        return {}
    with open(path, encoding="utf-8-sig", newline="") as handle:
        return {row["competition_id"]: row for row in csv.DictReader(handle)}


def open_checkout(root: Path | str | None = None, python: Path | str | None = None) -> Checkout:
    """Open a checkout: the given one, or that of TIDEGAUGE_MLEBENCH.

    Parameters
    ----------
    python : Path, optional
        The interpreter of its graders. By default TIDEGAUGE_MLEBENCH_PYTHON, the checkout's own
        .venv or venv, or the one that runs tidegauge.

    Raises
    ------
    InputError
        None was named, or there is none.
    """
    given = root or os.environ.get(CHECKOUT)
    if not given:
        raise InputError(
            f"no checkout of MLE-bench is known; pass --mlebench DIR, or set {CHECKOUT}"
        )
    folder = Path(given).expanduser().resolve()
    if not (folder / "mlebench" / "competitions").is_dir():
        raise InputError(
            f"{folder}: is no checkout of MLE-bench (it has no mlebench/competitions); clone "
            "https://github.com/openai/mle-bench there, or name another folder"
        )
    return Checkout(folder, _find_python(folder, python or os.environ.get(PYTHON)))


def _find_python(root: Path, given: Path | str | None) -> Path:
    if given:
        # Not resolved: a virtual environment is known by the path of its link.
        path = Path(given).expanduser().absolute()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise InputError(f"{path}: is no program; give the Python of the checkout")
        return path
    for name in (".venv", "venv"):
        if os.access(path := root / name / "bin" / "python", os.X_OK):
            return path
    return Path(sys.executable)


def known_checkout() -> Checkout | None:
    """Return the checkout of the environment, if one is named there."""
    return open_checkout() if os.environ.get(CHECKOUT) else None


def data_folder() -> Path:
    """Return where MLE-bench keeps its data: TIDEGAUGE_MLEBENCH_DATA, or its own default."""
    if given := os.environ.get(DATA):
        return Path(given).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "mle-bench" / "data"
