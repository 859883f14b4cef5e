"""Every reader on spoiled inputs: it returns, or raises the user's error; nothing else.

``python tests/fuzz_readers.py 10000`` gives each reader that many inputs, under limits of memory
and time, and writes its counts into docs/reliability.md. `make test` gives each a few hundred.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from builders import small_rows
from tidegauge.bench.competitions.osic import prepare as prepare_osic
from tidegauge.bench.medals import thresholds_from_leaderboard
from tidegauge.bench.plagiarism import compare_code
from tidegauge.bench.preparation import simulate_and_prepare
from tidegauge.bench.run.state import _last_state
from tidegauge.bench.verification import verify
from tidegauge.errors import TideGaugeError
from tidegauge.horizon.data.importers import (
    InspectOptions,
    import_inspect,
    import_mlebench,
    read_task_times,
)
from tidegauge.io import read_yaml
from tidegauge.schema.runs import read_runs
from tidegauge.schema.submission import OSIC_FORM, check_submission

MAX_SECONDS = 10
MAX_BYTES = 3 * 2**30  # of address space; the libraries alone map two
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"

# Pieces that have broken readers before, here or elsewhere.
NASTY = [
    b"", b"\0", b"\n", b"\n\n", b"\r", b'"', b",", b"[" * 2_000, b'{"a":' * 2_000, b"9" * 400, b"-",
    b"1e999", b"NaN", b"Infinity", b"null", b"true", b"\xff\xfe", b"\xef\xbb\xbf", b"\\ud800",
    b"\\u0000", b"\x1b[2J", "\ufffe".encode(), b"../../x", b"/etc/passwd", b"1_000", b"=cmd()",
    b"&a [*a]", b"!!python/object:os.x", b"\x1f\x8b", b"PK\x03\x04", b"x" * 100_000,
]  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Spoil a valid input in one to four places."""
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        kind = rng.randrange(6)
        if kind == 0:
            data = data[:at]
        elif kind == 1:
            data = data[:at] + rng.choice(NASTY) + data[at:]
        elif kind == 2:
            data = data[:at] + rng.choice(NASTY) + data[to:]
        elif kind == 3 and data:
            where = rng.randrange(len(data))
            data = data[:where] + bytes([rng.randrange(256)]) + data[where + 1 :]
        elif kind == 4:
            data = data[:to] + data[at:to][:5_000] * rng.randint(1, 5) + data[to:]
        else:
            data = data[:at] + data[to:]
    return data


@dataclass(frozen=True)
class Target:
    """A reader of files, a valid input for it, and how spoiled parts become a whole again."""

    read: Callable[[Path], object]
    valid: bytes
    wrap: Callable[[bytes], bytes] = bytes


@dataclass
class Outcome:
    """What one reader did with its inputs."""

    read: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    findings: list[str] = field(default_factory=list)


def fuzz(target: Target, folder: Path, *, inputs: int, seed: int) -> Outcome:
    """Give a reader spoiled inputs; half are spoiled inside their compression."""
    rng = random.Random(seed)
    outcome = Outcome()
    path = folder / "input"
    for number in range(inputs):
        spoiled = mutate(target.valid, rng)
        data = (
            target.wrap(spoiled) if rng.random() < 0.5 else mutate(target.wrap(target.valid), rng)
        )
        path.write_bytes(data)
        began = time.monotonic()
        try:
            with at_most(MAX_SECONDS):
                target.read(path)
            outcome.read += 1
        except TideGaugeError:
            outcome.refused += 1
        except Exception as error:
            outcome.findings.append(f"seed {seed}, input {number}: {type(error).__name__}: {error}")
        outcome.slowest_seconds = max(outcome.slowest_seconds, time.monotonic() - began)
    return outcome


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    def stop(number: int, frame: object) -> None:
        raise TimeoutError(f"over {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _lines(rows: list[dict[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _eval_log(sample: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "x/words", "model": "m"}}))
        archive.writestr("samples/1.json", sample)
    return held.getvalue()


def _notebook(folder: Path) -> Callable[[Path], object]:
    known = folder / "known.py"
    known.write_text("import os\n" + "x = [i * 2 for i in range(10)]\n" * 20)

    def read(path: Path) -> object:
        notebook = folder / "agent.ipynb"
        shutil.copyfile(path, notebook)
        return compare_code(notebook, known)

    return read


def _report(folder: Path) -> tuple[Callable[[Path], object], bytes]:
    prepared = simulate_and_prepare("surge", folder / "surge", seed=1)
    run = folder / "run"
    run.mkdir()
    valid = json.dumps(
        {"competition_id": prepared.competition.competition_id, "score": 1.0}
    ).encode()

    def read(path: Path) -> object:
        shutil.copyfile(path, run / "report.json")
        return verify(run, prepared)

    return read, valid


def _raw_osic(folder: Path) -> Callable[[Path], object]:
    raw, public, private = (folder / name for name in ("raw", "public", "private"))
    for place in (raw, public, private):
        place.mkdir()

    def read(path: Path) -> object:
        shutil.copyfile(path, raw / "train.csv")
        prepare_osic(raw, public, private)
        return None

    return read


def targets(folder: Path) -> dict[str, Target]:
    """Every reader of other people's files that bench and the importers have."""
    keys = [f"P{number}_{week}" for number in range(3) for week in range(4)]
    submission = "\n".join(["Patient_Week,FVC,Confidence", *(f"{key},2000,100" for key in keys)])
    sample = {
        "id": 1,
        "epoch": 1,
        "scores": {"s": {"value": "C"}},
        "started_at": "2025-01-01T00:00:00",
        "metadata": {"human_minutes": 3},
        "model_usage": {"m": {"total_tokens": 5}},
    }
    report = {"competition_id": "c", "any_medal": True, "score": 1.0, "created_at": "2025-01-01"}
    notebook = {"cells": [{"cell_type": "code", "source": ["import os\n", "x = 1\n"]}]}
    visits = "Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus\n" + "".join(
        f"P{number},{week},{2000 + week},60.5,70,Male,Ex-smoker\n"
        for number in range(12)
        for week in (0, 5, 9)
    )
    state = {"folder": "/x", "runs": "/y", "record": small_rows()[0]}
    read_report, valid_report = _report(folder)

    def check(path: Path) -> object:
        return check_submission(path, form=OSIC_FORM, expected_keys=keys)

    def mlebench(path: Path) -> object:
        times = read_task_times(tasks)
        return import_mlebench([path], times, alias="a")

    tasks = folder / "tasks.csv"
    tasks.write_text("task_id,human_minutes\nc,60\n")
    return {
        "submission": Target(check, submission.encode()),
        "submission, gzip": Target(check, submission.encode(), gzip.compress),
        "run records": Target(lambda path: list(read_runs(path)), _lines(small_rows()[:6])),
        "run records, gzip": Target(
            lambda path: list(read_runs(path)), _lines(small_rows()[:6]), gzip.compress
        ),
        "Inspect log": Target(
            lambda path: import_inspect([path], {}, InspectOptions()),
            json.dumps(sample).encode(),
            _eval_log,
        ),
        "MLE-bench report": Target(mlebench, json.dumps(report).encode()),
        "task times": Target(
            read_task_times, b"task_id,human_minutes,human_source\na,3,baseline\n"
        ),
        "YAML": Target(read_yaml, b"a: 1\nb: [1, 2]\nc: {d: 2024-01-01}\n"),
        "leaderboard": Target(
            lambda path: thresholds_from_leaderboard(path, lower_is_better=True),
            b"team,score\na,1.5\nb,2.5\nc,3.5\n",
        ),
        "raw OSIC table": Target(_raw_osic(folder), visits.encode()),
        "report of a run": Target(read_report, valid_report),
        "state of a run": Target(
            lambda path: _last_state(path.read_bytes()), json.dumps(state).encode() + b"\n"
        ),
        "notebook": Target(_notebook(folder), json.dumps(notebook).encode()),
    }


def write_table(name: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Replace one table of docs/reliability.md."""
    text = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    head, _, rest = text.partition(begin)
    lines = [
        "| " + " | ".join(map(str, row)) + " |" for row in [header, ["---"] * len(header), *rows]
    ]
    tail = rest.partition(end)[2]
    PAGE.write_text("\n".join([head + begin, "", *lines, "", end + tail]), encoding="utf-8")


def main(inputs: int) -> int:
    """Fuzz every reader, print and write the table; 1 if anything was found."""
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        found = targets(Path(name))
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        for reader, target in found.items():
            outcome = fuzz(target, Path(name), inputs=inputs, seed=1)
            slowest, findings = f"{outcome.slowest_seconds:.2f}", len(outcome.findings)
            rows.append((reader, inputs, outcome.read, outcome.refused, slowest, findings))
            print(*rows[-1], *outcome.findings[:5], sep="\n  ", flush=True)
    write_table("fuzz", ("reader", "inputs", "read", "refused", "slowest s", "findings"), rows)
    return int(any(row[-1] for row in rows))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000))
