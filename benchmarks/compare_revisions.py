"""Two revisions side by side on the same commands: times in turn, as ratios with intervals.

    python benchmarks/compare_revisions.py --base REV             everything
    python benchmarks/compare_revisions.py --base REV --only core --only read --rounds 20

The working tree is compared with a checkout of REV. Each has one warm process, which runs the same
command lines; in every round both run a command, and which goes first alternates. A first round is
not counted: it compiles. `start` and `cold` begin processes of their own, `cold` with nothing
compiled. A ratio is the geometric mean over rounds of the working tree's seconds over REV's, with
the 95 % interval of Student's t. Command lines use the oldest spellings, which both understand.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

ROOT = Path(__file__).parents[1]

# Runs command lines that it is sent, and answers how long each took and how it ended.
WORKER = """
import contextlib, io, json, sys, time
from tidegauge.cli.main import main
for line in sys.stdin:
    said, code, began = io.StringIO(), 1, time.perf_counter()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(json.loads(line))
        except SystemExit as end:
            code = end.code
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "code": code, "said": said.getvalue()}), flush=True)
"""

Result = dict[str, Any]


class Checkout:
    """A source tree with a process that has it loaded."""

    def __init__(self, name: str, root: Path, scratch: Path) -> None:
        self.name, self.scratch = name, scratch
        scratch.mkdir()
        self.environment = {
            **os.environ,
            "PYTHONPATH": str(root / "src"),
            "NUMBA_CACHE_DIR": str(scratch / "compiled"),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self.environment,
            cwd=scratch,
        )

    def call(self, arguments: list[str]) -> Result:
        """Run a command line in the warm process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(arguments) + "\n")
        self._process.stdin.flush()
        answer: Result = json.loads(self._process.stdout.readline())
        return answer

    def start(self, arguments: list[str], **variables: str) -> Result:
        """Run a command line in a process of its own."""
        began = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-m", "tidegauge", *arguments],
            capture_output=True,
            text=True,
            env=self.environment | variables,
            cwd=self.scratch,
        )
        seconds = time.perf_counter() - began
        return {"seconds": seconds, "code": done.returncode, "said": done.stdout + done.stderr}

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextlib.contextmanager
def checkout_of(revision: str, scratch: Path) -> Iterator[Path]:
    """Check a revision out for as long as it is needed."""
    folder = scratch / "base"
    git = ["git", "-C", str(ROOT), "worktree"]
    subprocess.run(
        [*git, "add", "--detach", str(folder), revision], check=True, capture_output=True
    )
    try:
        yield folder
    finally:
        subprocess.run([*git, "remove", "--force", str(folder)], check=True, capture_output=True)


def make_inputs(checkout: Checkout, runs: Path | None, dates: Path | None) -> dict[str, Path]:
    """Make what the commands read, once, by the working tree; return where each thing is."""
    folder = checkout.scratch.parent / "inputs"
    folder.mkdir()
    made = {
        "simulated": ["horizon", "simulate", "--agents", "8", "--tasks", "60"],
        "prepared": ["bench", "prepare", "osic", "--simulate"],
        "cohort": ["fvc", "simulate", "--patients", "40"],
    }
    inputs = {}
    for name, arguments in made.items():
        inputs[name] = folder / name
        done = checkout.call([*arguments, "--out", str(inputs[name])])
        if done["code"] != 0:
            raise SystemExit(f"{' '.join(arguments)}: {done['said']}")
    inputs["runs"] = runs or inputs["simulated"] / "runs.jsonl"
    inputs["dates"] = dates or inputs["simulated"] / "release_dates.yaml"
    inputs["small"] = inputs["simulated"] / "runs.jsonl"
    inputs["sample"] = inputs["prepared"] / "public" / "sample_submission.csv"
    return inputs


def commands(inputs: dict[str, Path], out: Path) -> dict[str, list[str]]:
    """Return the command line of every workload of the warm process."""
    runs, small = str(inputs["runs"]), str(inputs["small"])
    dated, to = ["--release-dates", str(inputs["dates"])], ["--out", str(out)]
    fit = ["horizon", "fit", runs, *to, *dated]
    cohort, prepared = str(inputs["cohort"]), ["--prepared", str(inputs["prepared"])]
    return {
        "read": ["horizon", "check", runs],
        "core": [*fit, "--model", "core"],
        "full": [*fit, "--model", "full"],
        "regression": [*fit, "--method", "frequentist"],
        "exact": [*fit, "--method", "grid"],
        "compare": [
            *("horizon", "compare", small, *to, "--method", "core", "--method", "full"),
            *("--by", "family", "--workers", "1"),
        ],
        "multiverse": ["horizon", "multiverse", small, *to, "--universes", "8", "--workers", "1"],
        "report": ["horizon", "report", str(inputs["fit"]), "--out", str(out / "page.html")],
        "validate": ["bench", "validate", "osic", str(inputs["sample"]), *prepared],
        "crossval": ["fvc", "crossval", "--input", cohort, *to, "--repeats", "1"],
    }


def alternate(checkouts: list[Checkout], rounds: int, run: Callable[[Checkout], Result]) -> Result:
    """Time a workload in both checkouts by turns; the first round is not counted."""
    seconds: dict[str, list[float]] = {checkout.name: [] for checkout in checkouts}
    for number in range(rounds + 1):
        for checkout in checkouts if number % 2 else checkouts[::-1]:
            done = run(checkout)
            if done["code"] not in (0, 1):  # 1: ran, and a check of its result failed
                return {"failed": checkout.name, "said": str(done["said"]).strip()[-200:]}
            if number:
                seconds[checkout.name].append(done["seconds"])
    return {"seconds": seconds}


def ratio_interval(new: list[float], base: list[float]) -> tuple[float, float, float]:
    """Return the geometric mean of paired ratios and its 95 % interval."""
    logs = np.log(np.array(new) / np.array(base))
    half = stats.t.ppf(0.975, logs.size - 1) * logs.std(ddof=1) / np.sqrt(logs.size)
    middle = logs.mean()
    return float(np.exp(middle)), float(np.exp(middle - half)), float(np.exp(middle + half))


def row_text(name: str, found: Result) -> str:
    """Return one row of the table."""
    if "failed" in found:
        return f"| {name} | does not run in {found['failed']}: {found['said']} | | |"
    new, base = found["seconds"]["new"], found["seconds"]["base"]
    middle, low, high = ratio_interval(new, base)
    medians = f"{np.median(base):.3g} | {np.median(new):.3g}"
    return f"| {name} | {medians} | {middle:.2f} ({low:.2f} to {high:.2f}) |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--base", required=True, help="the revision to compare with")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", action="append", metavar="WORKLOAD", help="may be repeated")
    parser.add_argument("--runs", type=Path, help="run records; simulated ones without it")
    parser.add_argument("--release-dates", type=Path)
    chosen = parser.parse_args()
    if chosen.rounds < 2:
        parser.error("--rounds: an interval needs at least 2")

    with (
        tempfile.TemporaryDirectory() as scratch,
        checkout_of(chosen.base, Path(scratch)) as base_root,
        contextlib.ExitStack() as stack,
    ):
        checkouts = [
            Checkout("new", ROOT, Path(scratch) / "work-new"),
            Checkout("base", base_root, Path(scratch) / "work-base"),
        ]
        for checkout in checkouts:
            stack.callback(checkout.close)
        inputs = make_inputs(checkouts[0], chosen.runs, chosen.release_dates)

        def command_of(name: str, checkout: Checkout) -> list[str]:
            own = {**inputs, "fit": checkout.scratch / "core"}
            return commands(own, checkout.scratch / name)[name]

        def warm(name: str) -> Callable[[Checkout], Result]:
            return lambda checkout: checkout.call(command_of(name, checkout))

        def started(checkout: Checkout) -> Result:
            return checkout.start(command_of("read", checkout))

        def cold(checkout: Checkout) -> Result:
            with tempfile.TemporaryDirectory() as empty:
                return checkout.start(command_of("core", checkout), NUMBA_CACHE_DIR=empty)

        workloads: dict[str, Callable[[Checkout], Result]] = {
            "start": started,
            "cold": cold,
            **{name: warm(name) for name in commands({**inputs, "fit": Path()}, Path())},
        }
        names = chosen.only or list(workloads)
        if unknown := set(names) - set(workloads):
            parser.error(
                f"--only: there is no {', '.join(unknown)}; there are {', '.join(workloads)}"
            )
        if "report" in names:  # the page of the core fit
            names = ["core", *(name for name in names if name != "core")]
        print("| workload | base, s | new, s | new / base (95 %) |")
        print("| --- | --- | --- | --- |")
        for name in names:
            print(row_text(name, alternate(checkouts, chosen.rounds, workloads[name])), flush=True)


if __name__ == "__main__":
    main()
