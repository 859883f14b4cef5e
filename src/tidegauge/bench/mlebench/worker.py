"""The process that runs a checkout's graders and preparers, in the checkout's own interpreter.

``PYTHON -I -B worker.py FD CHECKOUT`` answers requests on a socket of packets: one JSON
object each, with the files it is about as descriptors. It imports the standard library, the
checkout and what the checkout needs, never tidegauge. What graders print goes to a log that nobody
is shown.

Files come as descriptors: a sandbox needs no path to the answers, and a grader that looks for other
files finds none.
"""

from __future__ import annotations

import contextlib
import copy
import importlib
import importlib.util
import json
import math
import os
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

MAX_PACKET_BYTES = 128 * 1024
_MESSAGE_CHARACTERS = 2_000
_FILE_BYTES = 2**32  # what a grader may write into one file

Reply = dict[str, Any]
answers_read: list[Any] = []  # one competition a process: read once, copied for every call


def main() -> None:
    """Answer until the other end closes."""
    control, checkout, memory_bytes = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    silence_output()
    limit_memory(memory_bytes)
    sys.argv = [""]
    sys.path.insert(0, checkout)
    with socket.socket(fileno=control) as channel:
        while True:
            data, descriptors, _, _ = socket.recv_fds(channel, MAX_PACKET_BYTES, 4)
            if not data:
                return
            reply = answer(json.loads(data), descriptors)
            channel.send(json.dumps(reply).encode())


def silence_output() -> None:
    """Send what is printed to a log in the current folder, before anything is imported."""
    log = os.open("worker.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in (1, 2):
        os.dup2(log, number)
    os.close(log)


def limit_memory(memory_bytes: int) -> None:
    """Let a grader that wants too much memory have an exception instead of the machine."""
    import resource  # Unix only

    for kind, value in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_FSIZE, _FILE_BYTES),
        (resource.RLIMIT_CORE, 0),
    ):
        _, most = resource.getrlimit(kind)
        if most == resource.RLIM_INFINITY or value < most:
            resource.setrlimit(kind, (value, value))


def answer(request: dict[str, Any], descriptors: list[int]) -> Reply:
    """Carry out one request; whatever it raises is the reply."""
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open(number, "rb")) for number in descriptors]
        try:
            reply = OPERATIONS[request.pop("do")](files, **request)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a grader may also call sys.exit
            reply = {"error": describe(error)}
    return {**reply, "seconds": round(time.monotonic() - began, 4)}


def describe(error: BaseException) -> Reply:
    """Name an exception; `invalid` are those by which graders reject a submission."""
    names = {kind.__name__ for kind in type(error).__mro__}
    try:
        text = str(error)
    except Exception:
        text = ""
    return {
        "type": type(error).__name__,
        "message": text[:_MESSAGE_CHARACTERS],
        "invalid": bool(names & {"InvalidSubmissionError", "ParticipantVisibleError"}),
        "stage": getattr(error, "tidegauge_stage", "grade"),
    }


def versions(files: list[Any], modules: list[str]) -> Reply:
    """Return the interpreter's version, those of the usual packages, and what is missing."""
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": sys.version.split()[0]}
    for name in ("pandas", "numpy", "scikit-learn", "scipy"):
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    missing = [name for name in modules if not is_importable(name)]
    return {"versions": found, "missing": missing}


def is_importable(name: str) -> bool:
    """Whether a package can be found; it is not imported."""
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def load_answers(files: list[Any], kind: str) -> Reply:
    """Read the answers once."""
    if kind == ".csv":
        found = read_table(files[0])
    elif kind == ".jsonl":
        found = [json.loads(line) for line in files[0].read().splitlines() if line.strip()]
    else:
        raise ValueError(f"answers of kind {kind}")
    answers_read[:] = [found]
    return {"rows": len(found)}


def grade(files: list[Any], grade_fn: str) -> Reply:
    """Score a submission as MLE-bench does: on the file as it is."""
    submission = read_submission(files[0])
    return {"score": plain(load(grade_fn)(submission, copied(answers_read[0])))}


def read_submission(file: Any) -> Any:
    """Read a submission; what pandas cannot read is a fault of the file."""
    try:
        return read_table(file)
    except Exception as error:
        error.tidegauge_stage = "read"  # type: ignore[attr-defined]
        raise


def read_table(file: Any) -> Any:
    """Read a CSV file as MLE-bench does; one without a byte is an empty table."""
    import pandas as pd

    if os.fstat(file.fileno()).st_size == 0:
        return pd.DataFrame()
    return pd.read_csv(file, float_precision="round_trip")


def load(name: str) -> Callable[..., Any]:
    """Import ``module:function`` of the checkout."""
    module, _, function = name.partition(":")
    found = getattr(importlib.import_module(module), function)
    if not callable(found):
        raise TypeError(f"{name} is no function")
    return found  # type: ignore[no-any-return]


def copied(frame: Any) -> Any:
    """Return a copy: graders alter what they are given."""
    return frame.copy() if hasattr(frame, "columns") else copy.deepcopy(frame)


def plain(score: Any) -> float | int | str:
    """Return a score that JSON can hold; int stays int."""
    if hasattr(score, "item"):
        score = score.item()
    if isinstance(score, bool) or not isinstance(score, int | float):
        raise TypeError(f"the grader returned {type(score).__name__}, not a number")
    return score if math.isfinite(score) else str(float(score))


def halves(
    files: list[Any],
    grade_fn: str,
    key: list[str],
    unit: dict[str, str | None] | None,
    by_position: bool,
    draws: int,
    seconds: float,
    seed: int,
) -> Reply:
    """Score random halves of the test units, two at a time, until time or draws are used up.

    Returns each half's score and number of units; a score that cannot be computed is null.
    """
    submission, answers = read_submission(files[0]), answers_read[0]
    units = unit_codes(submission, answers, key, unit, by_position)
    return draw_halves(load(grade_fn), submission, answers, units, draws, seconds, seed)


def draw_halves(
    function: Callable[..., Any],
    submission: Any,
    answers: Any,
    units: tuple[Any, Any],
    draws: int,
    seconds: float,
    seed: int,
) -> Reply:
    """Score halves by a function; `units` number the unit of each row of answers and submission."""
    import numpy as np

    of_answers, of_submission = units
    n_units = int(of_answers.max()) + 1
    scores: list[float | None] = []
    sizes: list[int] = []
    rng, began = np.random.default_rng(seed), time.monotonic()
    while n_units > 1 and len(scores) < draws:
        chosen = np.zeros(n_units, dtype=bool)
        chosen[rng.permutation(n_units)[: n_units // 2]] = True
        for half in (chosen, ~chosen):
            # Rows of a unit that no answer names stay in both.
            given = cut(submission, half[of_submission] | (of_submission < 0))
            scores.append(score_or_none(function, given, cut(answers, half[of_answers])))
            sizes.append(int(half.sum()))
        if time.monotonic() - began > seconds:
            break
    return {"n_units": n_units, "scores": scores, "sizes": sizes}


def score_or_none(function: Callable[..., Any], submission: Any, answers: Any) -> float | None:
    """Return a finite score, or None."""
    try:
        score = plain(function(submission, answers))
    except Exception:
        return None
    return None if isinstance(score, str) else float(score)


def cut(table: Any, kept: Any) -> Any:
    """Return the kept rows in the order of the file, numbered anew."""
    if hasattr(table, "columns"):
        return table[kept].reset_index(drop=True).copy()
    return [copy.deepcopy(row) for row, is_kept in zip(table, kept, strict=True) if is_kept]


def unit_codes(
    submission: Any,
    answers: Any,
    key: list[str],
    unit: dict[str, str | None] | None,
    by_position: bool,
) -> tuple[Any, Any]:
    """Return the unit of each row of answers and submission; -1 where no answer has the unit."""
    import numpy as np

    table = table_of(answers)
    rows = [tuple(row) for row in table[key].itertuples(index=False)] if has(table, key) else None
    given = [tuple(row) for row in submission[key].itertuples(index=False)]
    if unit is None and (by_position or rows is None):
        if len(table) != len(submission):
            raise ValueError("rows are paired by position, and the numbers of rows differ")
        numbers = np.arange(len(table))
        return numbers, numbers
    of_answers: list[Any] = rows or []
    of_submission: list[Any] = given
    if unit is None:
        pass
    elif unit["part"] is None and unit["column"] not in submission.columns:
        of_answers = list(table[unit["column"]])
        group = dict(zip(rows or [], of_answers, strict=True))
        of_submission = [group.get(row) for row in given]
    else:
        of_answers = [part_of(value, unit["part"]) for value in table[unit["column"]]]
        of_submission = [part_of(value, unit["part"]) for value in submission[unit["column"]]]
    known = {name: number for number, name in enumerate(dict.fromkeys(of_answers))}
    numbered = np.array([known[name] for name in of_answers], dtype=int)
    return numbered, np.array([known.get(name, -1) for name in of_submission], dtype=int)


def table_of(answers: Any) -> Any:
    """Return the answers as a table, those in JSON lines too."""
    import pandas as pd

    return answers if hasattr(answers, "columns") else pd.DataFrame(answers)


def has(table: Any, names: list[str]) -> bool:
    """Whether a table has all columns."""
    return all(name in table.columns for name in names)


def part_of(value: Any, part: str | None) -> str:
    """Return the part of a key that names its unit."""
    text = str(value)
    if part == "first":
        return text.partition("_")[0]
    if part == "last":
        return text.rpartition("_")[0] or text
    return str(int(value) // 100) if part == "// 100" else text


def prepare(
    files: list[Any], preparer: str, raw: str, public: str, private: str, link: bool
) -> Reply:
    """Run a preparer with keywords, as MLE-bench does."""
    from pathlib import Path

    with linking() if link else contextlib.nullcontext():
        load(preparer)(raw=Path(raw), public=Path(public), private=Path(private))
    return {}


@contextlib.contextmanager
def linking() -> Iterator[None]:
    """Make shutil's copies hard links where the file system allows it: no second terabyte."""

    def link(source: Any, target: Any, *, follow_symlinks: bool = True) -> Any:
        place = os.path.join(target, os.path.basename(source)) if os.path.isdir(target) else target
        with contextlib.suppress(OSError):
            if os.path.exists(place) and not os.path.samefile(source, place):
                os.unlink(place)
            os.link(os.path.realpath(source), place)
            return place
        return originals["copy2"](source, target, follow_symlinks=follow_symlinks)

    def copytree(source: Any, target: Any, *arguments: Any, **options: Any) -> Any:
        options.setdefault("copy_function", link)
        return originals["copytree"](source, target, *arguments, **options)

    replaced = {"copy": link, "copy2": link, "copyfile": link, "copytree": copytree}
    originals: dict[str, Any] = {name: getattr(shutil, name) for name in replaced}
    for name, function in replaced.items():
        setattr(shutil, name, function)
    try:
        yield
    finally:
        for name, function in originals.items():
            setattr(shutil, name, function)


OPERATIONS: dict[str, Callable[..., Reply]] = {
    "versions": versions,
    "answers": load_answers,
    "grade": grade,
    "halves": halves,
    "prepare": prepare,
}

if __name__ == "__main__":
    main()
