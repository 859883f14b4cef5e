"""Bad days at random moments of bench's commands, and what the next command makes of them.

``python tests/fault_runs.py 20`` repeats each that often and writes the counts into
docs/reliability.md. Full and read-only disks are small file systems of their own: these need root.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from builders import agent_row
from fuzz_readers import write_table
from tidegauge.bench.competition_folder import open_prepared
from tidegauge.bench.competitions import surge
from tidegauge.errors import TideGaugeError
from tidegauge.progress import SILENT
from tidegauge.schema.runs import RunRecord, append_run, read_runs

AGENT = "cp input/sample_submission.csv submission/submission.csv; sleep 0.3"
Fault = Callable[[Path, random.Random], str | None]


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tidegauge", "bench", *map(str, arguments)]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, timeout=120)


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
    time.sleep(rng.uniform(0.05, 0.5))
    os.kill(victim.pid or 0, signal.SIGKILL)
    for writer in writers:
        writer.join()
    found: dict[str, int] = {}
    for line in path.read_text().splitlines():
        run_id = json.loads(line)["run_id"]
        found[run_id] = found.get(run_id, 0) + 1
    missing = 19 * 50 - sum(not name.startswith(f"{writers.index(victim)}-") for name in found)
    if set(found.values()) != {1} or missing:
        return f"{missing} records missing, or some repeated"
    return None


def _write_records(path: Path, writer: int) -> None:
    for number in range(50):
        append_run(path, RunRecord(**agent_row(run_id=f"{writer}-{number}")))


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
    "20 writers of 50 records each, one killed": twenty_writers,
}


def main(times: int) -> int:
    """Repeat every fault, print and write the table; 1 if anything was found."""
    rows, failed = [], False
    for name, fault in FAULTS.items():
        if "disk" in name and os.geteuid() != 0:
            print(f"{name}: needs root, left out")
            continue
        findings = []
        for number in range(times):
            with tempfile.TemporaryDirectory() as folder:
                os.environ["XDG_STATE_HOME"] = f"{folder}/state"
                if problem := fault(Path(folder), random.Random(number)):
                    findings.append(f"seed {number}: {problem}")
        rows.append((name, times, len(findings)))
        print(name, times, *findings, sep="\n  ", flush=True)
        failed = failed or bool(findings)
    write_table("faults", ("fault", "times", "findings"), rows)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
