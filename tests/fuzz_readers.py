"""Every reader on spoiled inputs: it returns, or raises the user's error; nothing else.

``python tests/fuzz_readers.py 10000`` gives each reader that many inputs, in a process of its own
with limits of memory and time, and writes its counts into docs/reliability.md. `make test` gives
each a few hundred.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import multiprocessing
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click
import h5py
import numpy as np

import tidegauge.horizon as th
from builders import describe_anew, small_rows
from tidegauge.bench.competitions.osic import prepare as prepare_osic
from tidegauge.bench.medals import thresholds_from_leaderboard
from tidegauge.bench.plagiarism import compare_code
from tidegauge.bench.preparation import simulate_and_prepare
from tidegauge.bench.run.record import _last_state
from tidegauge.bench.verification import verify
from tidegauge.cli.main import cli
from tidegauge.engine.folder_comparison import compare_folders
from tidegauge.engine.store import read_npz
from tidegauge.errors import InputError, TideGaugeError
from tidegauge.fvc.data.folder import read_training
from tidegauge.fvc.data.tables import read_cohort, read_feature_table
from tidegauge.fvc.selection import fit_model
from tidegauge.fvc.store import load_model, save_model
from tidegauge.horizon.data.importers import (
    Imported,
    InspectOptions,
    import_inspect,
    import_mlebench,
    read_task_times,
)
from tidegauge.io import read_yaml
from tidegauge.schema.runs import append_runs, read_runs
from tidegauge.schema.submission import OSIC_FORM, check_submission
from tidegauge.simulate.osic import simulate_cohort, write_input
from tidegauge.system import limit_memory

MAX_SECONDS = 10
MAX_BYTES = 2**30  # more than what a reader has before its first input
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"

# Pieces that have broken readers before, here or elsewhere.
NASTY = [
    b"", b"\0", b"\n", b"\n\n", b"\r", b'"', b",", b"[" * 2_000, b'{"a":' * 2_000, b"9" * 400, b"-",
    b"1e999", b"NaN", b"Infinity", b"null", b"true", b"\xff\xfe", b"\xef\xbb\xbf", b"\\ud800",
    b"\\u0000", b"\x1b[2J", "\ufffe".encode(), b"../../x", b"/etc/passwd", b"1_000", b"=cmd()",
    b"&a [*a]", b"!!python/object:os.x", b"\x1f\x8b", b"PK\x03\x04", b"x" * 100_000,
]  # fmt: skip


# Values that are well formed where they stand, and wrong.
WRONG: list[object] = [
    None, True, -1, 0, 2**53 + 1, 2**64, 10**400, 1e308, -0.0, float("nan"), float("inf"), "", "NA",
    "=cmd()", "../../x", "\x1b[2J", "\ud800", "\u202e", "x" * 5_000, [], {}, [[[[1]]]], {"a": None},
]  # fmt: skip


def mutate(data: bytes, rng: random.Random) -> bytes:
    """Spoil a valid input: a field of it if it is JSON or a table, or one to four places."""
    if rng.random() < 0.5:
        for spoil in (_spoil_netcdf, _spoil_json, _spoil_table):
            if (spoilt := spoil(data, rng)) is not None:
                return spoilt
    return _spoil_bytes(data, rng)


def _spoil_netcdf(data: bytes, rng: random.Random) -> bytes | None:
    """Put another array in the place of one: HDF5 itself notices changed bytes of its headers."""
    if not data.startswith(b"\x89HDF"):
        return None
    held = io.BytesIO(data)
    with h5py.File(held, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, item: names.append(name))
        name = rng.choice(names)
        if isinstance(file[name], h5py.Dataset) and rng.random() < 0.8:
            values = np.asarray(file[name][()])
            wrong: list[Any] = [
                values.ravel()[:-1], values.T, values[None], np.full(values.shape, np.nan),
                np.full(values.shape, -1), np.full(values.shape, b"x"), np.float64(1e308), 2**62,
                np.zeros((0,)), "text", np.full(values.shape, 1e308), values.astype("S"),
            ]  # fmt: skip
            del file[name]
            with suppress(TypeError, ValueError):
                file.create_dataset(name, data=rng.choice(wrong))
        else:
            del file[name]
    return held.getvalue()


def _spoil_json(data: bytes, rng: random.Random) -> bytes | None:
    """Put a wrong value in the place of a random one, or take it away, in one of the lines."""
    lines = [data] if data.lstrip()[:1] in b"{[" and b"\n{" not in data else data.split(b"\n")
    at = rng.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except ValueError:
        return None
    places = list(_places(document))
    if not places:
        return None
    holder, key = rng.choice(places)
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = rng.choice(WRONG)
    lines[at] = json.dumps(document).encode()
    return b"\n".join(lines)


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict | list):
        for key in range(len(document)) if isinstance(document, list) else document:
            yield document, key
            yield from _places(document[key])


def _spoil_table(data: bytes, rng: random.Random) -> bytes | None:
    """Put a wrong value into a random cell of a table."""
    lines = data.split(b"\n")
    if b"," not in lines[0] or b"\0" in data:
        return None
    row = rng.randrange(len(lines))
    cells = lines[row].split(b",")
    text = str(rng.choice(WRONG) if rng.random() < 0.5 else rng.choice(NASTY).decode("latin-1"))
    cells[rng.randrange(len(cells))] = text.encode(errors="surrogatepass")
    lines[row] = b",".join(cells)
    return b"\n".join(lines)


def _spoil_bytes(data: bytes, rng: random.Random) -> bytes:
    for _ in range(rng.randint(1, 4)):
        at, to = sorted((rng.randint(0, len(data)), rng.randint(0, len(data))))
        kind = rng.randrange(7)
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
            size = rng.choice((1, 4, 8))  # a number in a binary header, perhaps
            data = data[:at] + rng.choice((b"\0", b"\xff", b"\x7f")) * size + data[at + size :]
        elif kind == 5:
            data = data[:to] + data[at:to][:5_000] * rng.randint(1, 5) + data[to:]
        else:
            data = data[:at] + data[to:]
    return data


@dataclass(frozen=True)
class Target:
    """A reader of files, a valid input for it, and how spoiled parts become a whole again.

    Attributes
    ----------
    meaning : object, optional
        What a spoilt input may be read as, if it is read at all: nothing else.
    """

    read: Callable[[Path], object]
    valid: bytes
    wrap: Callable[[bytes], bytes] = bytes
    meaning: object = None


@dataclass
class Outcome:
    """What one reader did with its inputs."""

    read: int = 0
    refused: int = 0
    slowest_seconds: float = 0.0
    peak_mib: int = 0
    findings: list[str] = field(default_factory=list)


def fuzz(
    target: Target, folder: Path, *, inputs: int, seed: int, outcome: Outcome | None = None
) -> Outcome:
    """Give a reader spoiled inputs; half are spoiled inside their compression."""
    outcome = outcome or Outcome()
    path = folder / "input"
    for number in range(outcome.read + outcome.refused + len(outcome.findings), inputs):
        rng = random.Random(f"{seed} {number}")
        if rng.random() < 0.5:
            data = target.wrap(mutate(target.valid, rng))
        else:
            data = mutate(target.wrap(target.valid), rng)
        path.write_bytes(data)
        began = time.monotonic()
        try:
            with at_most(MAX_SECONDS):
                found = target.read(path)
            if target.meaning is not None and found != target.meaning:
                outcome.findings.append(f"seed {seed}, input {number}: read as something else")
            else:
                outcome.read += 1
        except TideGaugeError:
            outcome.refused += 1
        except Exception as error:
            outcome.findings.append(f"seed {seed}, input {number}: {type(error).__name__}: {error}")
        outcome.slowest_seconds = max(outcome.slowest_seconds, time.monotonic() - began)
    return outcome


def fuzz_apart(target: Target, folder: Path, *, inputs: int, seed: int) -> Outcome:
    """Do the same in processes with a limit of memory; one that dies is a finding."""
    context = multiprocessing.get_context("fork")
    shared = context.Manager().Namespace(outcome=Outcome())

    def run() -> None:
        limit_memory(MAX_BYTES)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for done in range(100, inputs + 100, 100):
            outcome = shared.outcome
            fuzz(target, folder, inputs=min(done, inputs), seed=seed, outcome=outcome)
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            outcome.peak_mib = max(outcome.peak_mib, (peak - before) // 1024)
            shared.outcome = outcome

    while True:
        process = context.Process(target=run)
        process.start()
        process.join()
        outcome: Outcome = shared.outcome
        if process.exitcode == 0:
            return outcome
        # Which of the last hundred it was is found by hand; they are not given again.
        outcome.findings += [f"seed {seed}: exit {process.exitcode} within the next 100"]
        outcome.refused += 99
        shared.outcome = outcome


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


def _readable(imported: Imported, folder: Path) -> object:
    """What was imported must not make the file of records unreadable."""
    path = folder / "imported.jsonl"
    path.unlink(missing_ok=True)
    if not append_runs(path, imported.records):
        return []
    try:
        return list(read_runs(path))
    except TideGaugeError as error:
        raise AssertionError(f"imported what cannot be read: {error}") from error


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


@dataclass(frozen=True)
class _Fit:
    """A saved result of which one file is spoilt, with hashes that tell or that were forged."""

    folder: Path

    def target(self, name: str, *, forged: bool) -> Target:
        whole = {path.name: path.read_bytes() for path in self.folder.iterdir()}

        def read(path: Path) -> object:
            for file, data in whole.items():
                (self.folder / file).write_bytes(path.read_bytes() if file == name else data)
            if forged:
                with suppress(Exception):  # where nothing can be forged, it is not
                    describe_anew(self.folder)
            return th.load(self.folder)

        return Target(read, whole[name], meaning=None if forged else th.load(self.folder))


def _saved_fits(folder: Path) -> dict[str, Target]:
    runs, _ = th.simulate(agents=3, tasks=12, seed=1)
    th.fit_exact(runs).save(folder / "exact")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # too few draws to converge
        th.fit(runs, draws=20, tune=40, chains=2).save(folder / "core")
    core, exact = _Fit(folder / "core"), _Fit(folder / "exact")
    return {
        "fit: manifest": core.target("manifest.json", forged=False),
        "fit: manifest, forged": core.target("manifest.json", forged=True),
        "fit: diagnostics, forged": core.target("diagnostics.json", forged=True),
        "fit: posterior": core.target("posterior.nc", forged=False),
        "fit: posterior, forged": core.target("posterior.nc", forged=True),
        "fit: estimate, forged": exact.target("estimate.nc", forged=True),
        "rerun: manifest": Target(_rerun, (exact.folder / "manifest.json").read_bytes()),
        "rerun: table": _compared(folder, exact.folder / "horizons.csv"),
        "rerun: NetCDF": _compared(folder, exact.folder / "estimate.nc"),
    }


def _rerun(path: Path) -> object:
    """Repeat the command of a manifest; none has its inputs here, so that none is run."""
    data = path.read_bytes()
    with suppress(ValueError, RecursionError, TypeError):
        described = json.loads(data)
        words = ["horizon", "fit", "nowhere.jsonl", "--out", "x"]
        command = {"arguments": words, "inputs": {"nowhere.jsonl": ""}, "out": "x"}
        data = json.dumps({"command": command, **described}).encode()
    path.write_bytes(data)
    try:
        return cli.main(["rerun", str(path)], standalone_mode=False)
    except (click.ClickException, click.exceptions.Exit) as error:
        raise InputError(str(error)) from error
    except InputError as error:
        if "nowhere.jsonl: is not there" in str(error):
            return "all but run"
        raise


def _compared(folder: Path, file: Path) -> Target:
    """One file of a result against that of another folder, as ``rerun`` compares them."""
    old, new = folder / f"old-{file.name}", folder / f"new-{file.name}"
    for place in (old, new):
        place.mkdir()
        shutil.copyfile(file, place / file.name)

    def read(path: Path) -> object:
        shutil.copyfile(path, old / file.name)
        return compare_folders(old, new)

    return Target(read, file.read_bytes())


def _fvc(folder: Path) -> dict[str, Target]:
    write_input(simulate_cohort(n_patients=24, seed=3), folder / "cohort", seed=3)
    cohort = read_training(folder / "cohort")
    model = folder / "model"
    save_model(fit_model(cohort, seed=1, workers=1), model)
    content, arrays = ((model / name).read_bytes() for name in ("model.json", "arrays.npz"))

    def read_content(path: Path) -> object:
        (model / "arrays.npz").write_bytes(arrays)
        shutil.copyfile(path, model / "model.json")
        return load_model(model)

    def read_arrays(path: Path) -> object:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        (model / "model.json").write_text(json.dumps({**json.loads(content), "sha256": digest}))
        shutil.copyfile(path, model / "arrays.npz")
        return load_model(model)

    with zipfile.ZipFile(io.BytesIO(arrays)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    first = next(iter(members))

    def pack(member: bytes) -> bytes:
        held = io.BytesIO()
        with zipfile.ZipFile(held, "w") as archive:
            for name, data in members.items():
                archive.writestr(name, member if name == first else data)
        return held.getvalue()

    table = (folder / "cohort" / "train.csv").read_bytes()
    features = b"Patient,emphysema,score\nP1,0.5,3\nP2,,4\nP3,NA,5\n"
    return {
        "fvc visits": Target(read_cohort, table[:3_000].rpartition(b"\n")[0]),
        "fvc visits, gzip": Target(read_cohort, table[:3_000].rpartition(b"\n")[0], gzip.compress),
        "fvc features": Target(read_feature_table, features),
        "fvc model": Target(read_content, content),
        "fvc model: arrays, forged": Target(read_arrays, members[first], pack),
        "npz": Target(lambda path: read_npz(path, path.read_bytes()), members[first], pack),
    }


def targets(folder: Path) -> dict[str, Target]:
    """Every reader of other people's files."""
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
    report = {
        "competition_id": "c",
        "alias": "a",
        "any_medal": True,
        "score": 1.0,
        "created_at": "2025-01-01",
    }
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
        return _readable(import_mlebench([path], times), folder)

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
            lambda path: _readable(import_inspect([path], {}, InspectOptions()), folder),
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
        **_saved_fits(folder),
        **_fvc(folder),
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


def main(inputs: int, only: str = "") -> int:
    """Fuzz every reader, print and write the table; 1 if anything was found."""
    rows: list[tuple[object, ...]] = []
    with tempfile.TemporaryDirectory() as name:
        for reader, target in targets(Path(name)).items():
            if only not in reader:
                continue
            outcome = fuzz_apart(target, Path(name), inputs=inputs, seed=1)
            limits = f"{outcome.slowest_seconds:.2f}", outcome.peak_mib
            findings = len(outcome.findings)
            rows.append((reader, inputs, outcome.read, outcome.refused, *limits, findings))
            print(*rows[-1], *outcome.findings[:5], sep="\n  ", flush=True)
    if not only:
        header = ("reader", "inputs", "read", "refused", "slowest s", "peak MiB", "findings")
        write_table("fuzz", header, rows)
    return int(any(row[-1] for row in rows))


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000, *sys.argv[2:]))
