"""Bad days at random moments of the commands, and what the next command makes of them.

``python tests/fault_runs.py 20`` repeats each that often and writes the counts into
docs/reliability.md. Full and read-only disks are small file systems of their own: these need root.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from builders import agent_row
from fuzz_readers import write_table
from tidegauge.bench.competition_folder import open_prepared
from tidegauge.bench.competitions import surge
from tidegauge.errors import TideGaugeError
from tidegauge.progress import SILENT
from tidegauge.schema.runs import RunRecord, append_run, read_runs
from tidegauge.schema.submission import OSIC_FORM, check_submission, read_keys

AGENT = "cp input/sample_submission.csv submission/submission.csv; sleep 0.3"
RECORDS = 500
Fault = Callable[[Path, random.Random], str | None]


def tidegauge(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tidegauge", *map(str, arguments)]


def command(*arguments: object) -> list[str]:
    return tidegauge("bench", *arguments)


def call(arguments: list[str], **more: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, **more)


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return call(command(*arguments))


def killed(arguments: list[str], seconds: float) -> None:
    """Start a command and kill it, unless it ends before."""
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(seconds)
    process.send_signal(signal.SIGKILL)
    process.wait()


def is_clean(done: subprocess.CompletedProcess[str]) -> str | None:
    """Return what is wrong with how a command ended, if anything is."""
    if done.returncode not in (0, 1, 2) or "Traceback" in done.stderr:
        return f"exit {done.returncode}: {done.stderr[-300:]}"
    return None


def kill_prepare(folder: Path, rng: random.Random) -> str | None:
    surge.simulate(folder / "raw", 1, False, SILENT)
    prepare = command("prepare", "surge", "--raw", folder / "raw", "--out", folder / "p")
    killed(prepare, rng.uniform(0.1, 0.9))
    try:
        open_prepared("surge", folder / "p")
    except TideGaugeError as error:
        if "prepare" not in str(error):
            return f"no remedy: {error}"
    done = run(*prepare[4:])
    return is_clean(done) or (None if open_prepared("surge", folder / "p") else "not prepared")


def kill_run(folder: Path, rng: random.Random) -> str | None:
    prepared, out = _prepared(folder), folder / "out"
    arguments = ["run", "surge", "--prepared", prepared, "--out", out, "--agent", AGENT, "-q"]
    killed(command(*arguments), rng.uniform(0.3, 1.6))
    if problem := is_clean(run("list")) or is_clean(run(*arguments)):
        return problem
    started = [
        path.parent
        for path in out.glob("*/transcript.jsonl")
        if '"event": "start"' in path.read_text()
    ]
    recorded = [record.run_id for record in read_runs(out / "runs.jsonl")]
    if len(set(recorded)) != len(recorded):
        return "a run was recorded twice"
    if len(started) > len(recorded):
        return f"{len(started)} runs started, {len(recorded)} recorded"
    return None


def full_disk(folder: Path, rng: random.Random) -> str | None:
    prepared = _prepared(folder)
    with mounted(folder / "disk", f"size={rng.randint(8, 600)}k") as disk:
        done = run("prepare", "surge", "--simulate", "--out", disk / "p")
        if problem := is_clean(done):
            return f"prepare: {problem}"
        arguments = ("--prepared", prepared, "--out", disk / "out", "--agent", AGENT, "-q")
        return is_clean(run("run", "surge", *arguments))


def read_only_disk(folder: Path, rng: random.Random) -> str | None:
    prepared = _prepared(folder)
    with mounted(folder / "disk", "ro") as disk:
        for arguments in (
            ("prepare", "surge", "--simulate", "--out", disk / "p"),
            ("workspace", "surge", "--prepared", prepared, "--out", disk / "w"),
            ("run", "surge", "--prepared", prepared, "--out", disk, "--agent", AGENT, "-q"),
        ):
            done = run(*arguments)
            if problem := is_clean(done):
                return f"{arguments[0]}: {problem}"
            if done.returncode != 2:
                return f"{arguments[0]}: exit {done.returncode} on a read-only disk"
    return None


def truncated_file(folder: Path, rng: random.Random) -> str | None:
    prepared = _prepared(folder)
    sample = (prepared / "public" / "sample_submission.csv").read_bytes()
    (folder / "submission.csv").write_bytes(sample)
    files = sorted(path for path in prepared.rglob("*") if path.is_file())
    victim = rng.choice(files)
    data = victim.read_bytes()
    victim.write_bytes(data[: rng.randint(0, len(data))])
    return is_clean(run("grade", "surge", folder / "submission.csv", "--prepared", prepared))


def twenty_writers(folder: Path, rng: random.Random) -> str | None:
    path = folder / "runs.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_records, args=(path, n)) for n in range(20)]
    for writer in writers:
        writer.start()
    victim = rng.choice(writers)
    time.sleep(rng.uniform(0.05, 5.0))
    os.kill(victim.pid or 0, signal.SIGKILL)
    for writer in writers:
        writer.join()
    found: dict[str, int] = {}
    for line in path.read_text().splitlines():
        run_id = json.loads(line)["run_id"]
        found[run_id] = found.get(run_id, 0) + 1
    others = sum(not name.startswith(f"{writers.index(victim)}-") for name in found)
    if set(found.values()) != {1} or (missing := 19 * RECORDS - others):
        return f"{missing} records missing, or some repeated"
    return None


def _write_records(path: Path, writer: int) -> None:
    for number in range(RECORDS):
        append_run(path, RunRecord(**agent_row(run_id=f"{writer}-{number}")))


def kill_fit(folder: Path, rng: random.Random) -> str | None:
    fit = _fit_command(folder)
    killed(fit, rng.uniform(0.5, 9.0))
    report = tidegauge("horizon", "report", folder / "fit", "-q")
    before = call(report)
    if problem := is_clean(before):
        return problem
    if before.returncode == 2 and "tidegauge horizon fit" not in before.stderr:
        return f"no remedy: {before.stderr}"
    return is_clean(call(fit)) or _must_succeed(call(report))


def kill_report(folder: Path, rng: random.Random) -> str | None:
    call(_fit_command(folder))
    page = folder / "page.html"
    report = tidegauge("horizon", "report", folder / "fit", "--out", page, "-q")
    page.write_text("older </html>")
    killed(report, rng.uniform(0.5, 6.0))
    if not page.read_text().rstrip().endswith("</html>"):
        return "half a page"
    return _must_succeed(call(report))


def kill_solve(folder: Path, rng: random.Random) -> str | None:
    solve = _solve_command(folder)
    killed(solve, rng.uniform(0.5, 9.0))
    return _submission_or_nothing(folder) or _solved(folder, solve)


def kill_serve(folder: Path, rng: random.Random) -> str | None:
    """Kill the server while uploads are under way; another one serves the same port."""
    prepared = _prepared(folder)
    sample = prepared / "public" / "sample_submission.csv"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = command("serve", "surge", "--prepared", prepared, "--port", port, "--also", 0, "-q")
    for ending in (signal.SIGKILL, signal.SIGTERM):
        server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
        try:
            if not _validates(sample, port, seconds=60):
                return "an upload was not answered"
            with ThreadPoolExecutor(8) as pool:
                uploads = [pool.submit(_validates, sample, port) for _ in range(40)]
                time.sleep(rng.uniform(0.0, 0.3))
                server.send_signal(ending)
                for upload in uploads:
                    upload.result()
        finally:
            server.kill()
            _, said = server.communicate()
        if "Traceback" in said:
            return said[-300:]
    return None


def _validates(sample: Path, port: int, *, seconds: float = 0.0) -> bool:
    gives_up_at = time.monotonic() + seconds
    while True:
        url = f"http://127.0.0.1:{port}/validate"
        asked = call(["curl", "-s", "-m", "20", "--form", f"file=@{sample}", url])
        if "Submission is valid" in asked.stdout:
            return True
        if time.monotonic() > gives_up_at:
            return False
        time.sleep(0.2)


def full_disk_of_results(folder: Path, rng: random.Random) -> str | None:
    """Fit, page and submission on a disk that is too small for some of them or for all."""
    call(fit := _fit_command(folder))
    with mounted(folder / "disk", f"size={rng.choice([8, 64, 200, 400, 800])}k") as disk:
        for arguments in (
            [*fit, "--out", disk / "fit"],
            tidegauge("horizon", "report", folder / "fit", "--out", disk / "page.html"),
            [*_solve_command(folder), "--output", disk / "submission.csv"],
        ):
            done = call([str(word) for word in arguments])
            if problem := is_clean(done):
                return f"{arguments[3:5]}: {problem}"
            if done.returncode == 2 and str(disk) not in done.stderr:
                return f"{arguments[3:5]}: does not name the place: {done.stderr[-300:]}"
    return None


def closed_place(folder: Path, rng: random.Random) -> str | None:
    """No permission: a read-only disk for what is written, and an unreadable input."""
    call(fit := _fit_command(folder))
    with mounted(folder / "disk", "ro") as disk:
        for arguments in (
            [*fit, "--out", disk / "fit"],
            tidegauge("horizon", "report", folder / "fit", "--out", disk / "page.html"),
            [*_solve_command(folder), "--output", disk / "submission.csv"],
        ):
            done = call([str(word) for word in arguments])
            if (problem := is_clean(done)) or done.returncode != 2:
                return f"{arguments[3:5]}: exit {done.returncode}: {problem}"
    return None


def truncated_result(folder: Path, rng: random.Random) -> str | None:
    """Cut a file of a fit; the page is the same as before, or it is refused with a remedy."""
    call(_fit_command(folder))
    report = tidegauge("horizon", "report", folder / "fit", "--out", folder / "page.html", "-q")
    files = sorted(path for path in (folder / "fit").iterdir() if path.is_file())
    victim = rng.choice(files)
    data = victim.read_bytes()
    victim.write_bytes(data[: rng.randrange(len(data))])
    done = call(report)
    if problem := is_clean(done):
        return f"{victim.name}: {problem}"
    read = victim.name in ("manifest.json", "diagnostics.json", "posterior.nc")
    if read != (done.returncode == 2) or (read and "tidegauge horizon fit" not in done.stderr):
        return f"{victim.name}: exit {done.returncode}: {done.stderr[-300:]}"
    return is_clean(call(_fit_command(folder))) or _must_succeed(call(report))


# The clock of the machine is not ours to move: that of Python is, at a random moment.
MOVE_CLOCK = """
import os, time
_real, _began = time.time, time.monotonic()
def _moved():
    late = time.monotonic() - _began > float(os.environ["CLOCK_AFTER"])
    return _real() + late * float(os.environ["CLOCK_BY"])
time.time = _moved
"""


def moved_clock(folder: Path, rng: random.Random) -> str | None:
    (folder / "sitecustomize.py").write_text(MOVE_CLOCK)
    by = rng.choice([-86_400.0, -60.0, 60.0, 86_400.0 * 365])
    paths = f"{folder}:{os.environ.get('PYTHONPATH', '')}"
    clock = {"PYTHONPATH": paths, "CLOCK_BY": str(by), "CLOCK_AFTER": str(rng.uniform(0.1, 2.0))}
    environment = {**os.environ, **clock}
    out = folder / "out"
    arguments = ("--prepared", _prepared(folder), "--out", out, "--agent", f"{AGENT}; sleep 1")
    done = call(command("run", "surge", *arguments, "--hours", "0.01", "-q"), env=environment)
    if done.returncode != 0:
        return f"run: exit {done.returncode}: {done.stderr[-300:]}"
    (record,) = read_runs(out / "runs.jsonl")
    if not 1.0 <= record.duration_minutes * 60 < 36:
        return f"run: took {record.duration_minutes * 60} s by its record"
    return _must_succeed(call(_fit_command(folder), env=environment), codes=(0, 1)) or _solved(
        folder, _solve_command(folder), env=environment
    )


def _fit_command(folder: Path) -> list[str]:
    if not (folder / "simulated").exists():
        sizes = ("--agents", 3, "--tasks", 12)
        call(tidegauge("horizon", "simulate", "--out", folder / "simulated", *sizes))
    sizes = ("--draws", 50, "--tune", 100, "--chains", 2)
    runs = folder / "simulated" / "runs.jsonl"
    return tidegauge("horizon", "fit", runs, "--out", folder / "fit", "-q", *sizes)


def _solve_command(folder: Path) -> list[str]:
    if not (folder / "cohort").exists():
        call(tidegauge("fvc", "simulate", "--patients", 30, "--out", folder / "cohort"))
    output = ("--output", folder / "submission.csv", "--time-limit", "60s", "--no-standing")
    return tidegauge("fvc", "solve", "--input", folder / "cohort", *output, "--workers", 1, "-q")


def _submission_or_nothing(folder: Path) -> str | None:
    path = folder / "submission.csv"
    if not path.exists():
        return None
    expected = read_keys(folder / "cohort" / "sample_submission.csv", OSIC_FORM.key)
    verdict = check_submission(path, form=OSIC_FORM, expected_keys=expected)
    return None if verdict.table is not None else f"half a submission: {verdict.sentence()}"


def _solved(folder: Path, solve: list[str], **more: Any) -> str | None:
    return (
        _must_succeed(call(solve, **more))
        or _submission_or_nothing(folder)
        or (None if (folder / "submission.csv").exists() else "no submission")
    )


def _must_succeed(
    done: subprocess.CompletedProcess[str], codes: tuple[int, ...] = (0,)
) -> str | None:
    if done.returncode in codes:
        return is_clean(done)
    return f"exit {done.returncode}: {done.stderr[-300:]}"


def _prepared(folder: Path) -> Path:
    done = run("prepare", "surge", "--simulate", "--out", folder / "p")
    assert done.returncode == 0, done.stderr
    return folder / "p"


@contextmanager
def mounted(place: Path, options: str) -> Iterator[Path]:
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "x", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


FAULTS: dict[str, Fault] = {
    "kill -9 of `bench prepare`": kill_prepare,
    "kill -9 of `bench run`": kill_run,
    "a full disk under `bench prepare` and `bench run`": full_disk,
    "a read-only disk under `bench prepare`, `workspace` and `run`": read_only_disk,
    "a truncated file of a prepared competition": truncated_file,
    f"20 writers of {RECORDS} records each, one killed": twenty_writers,
    "kill -9 of `horizon fit`": kill_fit,
    "kill -9 of `horizon report`": kill_report,
    "kill -9 of `fvc solve`": kill_solve,
    "kill -9 of `bench serve` under uploads": kill_serve,
    "a full disk under `horizon fit`, `report` and `fvc solve`": full_disk_of_results,
    "a read-only disk under `horizon fit`, `report` and `fvc solve`": closed_place,
    "a truncated file of a fit": truncated_result,
    "the clock moved under `bench run`, `horizon fit` and `fvc solve`": moved_clock,
}


def main(times: int, only: str = "") -> int:
    """Repeat every fault, print and write the table; 1 if anything was found."""
    rows, failed = [], False
    for name, fault in FAULTS.items():
        if only not in name:
            continue
        if "disk" in name and os.geteuid() != 0:
            print(f"{name}: needs root, left out")
            continue
        findings = []
        for number in range(times):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_STATE_HOME"] = f"{folder}/state"
                try:
                    problem = fault(Path(folder), random.Random(number))
                except subprocess.TimeoutExpired as error:
                    problem = f"hangs: {error}"
                if problem:
                    findings.append(f"seed {number}: {problem}")
        rows.append((name, times, len(findings)))
        print(name, times, *findings, sep="\n  ", flush=True)
        failed = failed or bool(findings)
    if not only:
        write_table("faults", ("fault", "times", "findings"), rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20, *sys.argv[2:]))
