"""One run: workspace, agent under a budget and isolation, grade, record."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grade import Report, find_thresholds, grade_submission
from tidegauge.bench.run.best_submission import BestSubmission
from tidegauge.bench.run.budget import Budget
from tidegauge.bench.run.isolation import (
    AGENT_USER,
    Isolation,
    agent_environment,
    choose_isolation,
    files_named_in,
)
from tidegauge.bench.run.process import PORTS, start_agent
from tidegauge.bench.run.protocol import Ending, Transcript, run_plain, run_steps
from tidegauge.bench.run.record import RunOptions, finished_record, interrupted_record
from tidegauge.bench.run.state import abandon_run, begin_run, end_run
from tidegauge.bench.run.workspace import make_workspace, read_submission_file
from tidegauge.errors import InputError
from tidegauge.io import atomic_write, atomic_write_bytes, make_folder
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.submission import MAX_BYTES

_PROTECTION = {
    "bwrap": "isolated by bubblewrap",
    "user": f"isolated as user {AGENT_USER}: the answers are out of reach, the network is not",
    "none": "WARNING: not isolated, the agent has your rights and can read the private answers",
}


@dataclass(frozen=True)
class _Run:
    """Everything that belongs to one run."""

    prepared: Prepared
    options: RunOptions
    isolation: Isolation
    folder: Path
    run_id: str
    seed: int
    transcript: Transcript
    best: BestSubmission

    @property
    def workspace(self) -> Path:
        """The folder the agent works in."""
        return self.folder / "workspace"

    @property
    def counts_steps(self) -> bool:
        """Whether the agent speaks the step protocol."""
        return self.options.protocol == "steps"


def run_agent(
    prepared: Prepared,
    out: Path,
    runs: Path,
    options: RunOptions,
    *,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Report:
    """Run an agent once, grade what it left, append one record to `runs`, return the report.

    Everything is kept in a new folder below `out`: workspace/, transcript.jsonl, the agent's
    output, submission.csv (graded), best.csv (the best seen, for the operator only), report.json.

    Raises
    ------
    InputError
        An option cannot be met here; nothing was run.
    KeyboardInterrupt
        The run was interrupted; it is graded and recorded as such.
    """
    run = _new_run(prepared, out, options, seed)
    progress.note(f"{options.alias}, seed {seed}: {run.folder}, {_PROTECTION[run.isolation.kind]}")
    record = interrupted_record(prepared, options, run.run_id, seed)
    try:
        begin_run(run.folder, record, runs)  # within: Ctrl-C may come as soon as the run is known
        counts_steps = run.counts_steps
        make_workspace(prepared, run.workspace, limits=options.limits, counts_steps=counts_steps)
        began = time.time()
        ending = _work(run)
        report = _run_report(run, ending, began, time.time())
        report = _grade(run) | report
        with atomic_write(run.folder / "report.json") as handle:
            json.dump(report, handle, indent=2)
        end_run(run.folder, finished_record(record, report, prepared, options), runs)
    except InputError:
        abandon_run(run.folder, run.run_id)  # the agent was never started
        shutil.rmtree(run.folder)
        raise
    except KeyboardInterrupt:
        end_run(run.folder, record, runs)
        raise
    if ending.cause == "interrupted":
        raise KeyboardInterrupt
    return report


def _new_run(prepared: Prepared, out: Path, options: RunOptions, seed: int) -> _Run:
    """Check every option before anything is written."""
    isolation = _isolation(prepared, out, options)
    Budget(options.limits)
    find_thresholds(prepared, options.leaderboard)
    run_id = uuid.uuid4().hex
    folder = out.resolve() / f"{_file_name(options.alias)}-seed{seed}-{run_id[:8]}"
    make_folder(folder)
    transcript = Transcript(folder / "transcript.jsonl")
    best = BestSubmission(prepared, folder)
    return _Run(prepared, options, isolation, folder, run_id, seed, transcript, best)


def _isolation(prepared: Prepared, out: Path, options: RunOptions) -> Isolation:
    kind = choose_isolation(options.isolation)
    secret = prepared.private.resolve()
    for path in options.mounts:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder to mount")
        if path.resolve().is_relative_to(secret):
            raise InputError(f"{path}: is private; an agent cannot be given it")
    named = files_named_in(_words(options.command))
    shown = [path for path in named if not path.resolve().is_relative_to(secret)]
    return Isolation(kind, (*options.mounts, *shown), (secret, out.resolve()))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"--agent {command!r}: {error}; check the quotes") from None


def _work(run: _Run) -> Ending:
    """Serve the validator, start the agent, and follow it to its end."""
    from tidegauge.bench.server import make_app, serving, unix_socket

    with contextlib.ExitStack() as stack:
        unix, path = stack.enter_context(unix_socket())
        sockets, url = [unix], f"http://127.0.0.1:{PORTS[0]}"
        if not run.isolation.has_own_network:
            sockets.append(_listen_somewhere())
            url = f"http://127.0.0.1:{sockets[-1].getsockname()[1]}"
        stack.enter_context(serving(make_app(run.prepared.check), sockets))
        budget = Budget(run.options.limits)
        command = run.options.command
        run.transcript.write("start", command=command, isolation=run.isolation.kind)
        try:
            stack.enter_context(_stoppable())
            with start_agent(
                command,
                isolation=run.isolation,
                workspace=run.workspace,
                environment=_environment(run, budget, url),
                validator=path if run.isolation.has_own_network else None,
                logs=run.folder,
                steps=run.counts_steps,
            ) as agent:
                follow = run_steps if run.counts_steps else run_plain
                ending = follow(agent, budget, run.transcript, run.best.look)
        except KeyboardInterrupt:
            ending = Ending("interrupted")
    run.transcript.write("end", **asdict(ending))
    return ending


def _environment(run: _Run, budget: Budget, url: str) -> dict[str, str]:
    told = {
        "TIDEGAUGE_DEADLINE": str(
            int(time.time() + budget.seconds_left)
        ),  # whole: any shell reads it
        "TIDEGAUGE_STEPS": str(budget.steps_left),
        "TIDEGAUGE_SEED": str(run.seed),
        "SERVER_URL": url,
    }
    return agent_environment(
        run.isolation,
        workspace=run.workspace,
        private=run.prepared.private,
        extra=told,
        passed=run.options.passed,
    )


def _listen_somewhere() -> socket.socket:
    """Take the usual port, or any free one where another run has it: SERVER_URL tells which."""
    from tidegauge.bench.server import listen

    try:
        return listen("127.0.0.1", PORTS[0])
    except InputError:
        return listen("127.0.0.1", 0)


@contextlib.contextmanager
def _stoppable() -> Iterator[None]:
    """Treat SIGTERM as Ctrl-C, so that a stopped runner still ends its agent and its record."""

    def stop(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGTERM, stop)
    except ValueError:  # not the main thread: the caller's signals are not ours
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _grade(run: _Run) -> Report:
    run.best.look()
    final = run.folder / "submission.csv"
    private = run.prepared.private
    data = read_submission_file(run.workspace, private=private, max_bytes=MAX_BYTES)
    if data is not None:
        with atomic_write_bytes(final) as handle:
            handle.write(data)
    grade = grade_submission(run.prepared, final, leaderboard=run.options.leaderboard)
    extra = {"best_score": run.best.score, "valid_submissions_seen": run.best.count}
    return grade.report(run.prepared) | extra


def _run_report(run: _Run, ending: Ending, began: float, ended: float) -> Report:
    options = run.options
    return {
        "run_id": run.run_id,
        "alias": options.alias,
        "agent": options.command,
        "seed": run.seed,
        "protocol": options.protocol,
        "isolation": run.isolation.kind,
        "exit_cause": ending.cause,
        "exit_code": ending.exit_code,
        "exit_detail": ending.detail,
        "started_at": int(began * 1000),
        "completed_at": int(ended * 1000),
        "seconds": round(ended - began, 3),
        "hours_limit": options.limits.hours,
        "steps_limit": options.limits.steps if run.counts_steps else None,
        "tokens_count": run.transcript.tokens or _reported_tokens(run.workspace),
    }


def _reported_tokens(workspace: Path) -> int | None:
    """Return what a plain agent wrote to usage.json as ``{"tokens": N}``, if it did."""
    path = workspace / "usage.json"
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as handle:
            tokens = json.loads(handle.read(10_000))["tokens"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return tokens if isinstance(tokens, int) and tokens >= 0 else None


def _file_name(alias: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in alias)[:60] or "agent"
