"""One run: workspace, agent under a budget and isolation, grade, record."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

from tidegauge.bench.budget import Budget
from tidegauge.bench.grade import Report, find_thresholds, grade_submission, score_table
from tidegauge.bench.isolation import (
    AGENT_USER,
    Isolation,
    agent_environment,
    choose_isolation,
    files_named_in,
)
from tidegauge.bench.prepared import Prepared
from tidegauge.bench.process import PORTS, start_agent
from tidegauge.bench.protocol import Ending, Transcript, run_plain, run_steps
from tidegauge.bench.record import RunOptions, finished_record, interrupted_record
from tidegauge.bench.state import begin_run, end_run
from tidegauge.bench.workspace import SUBMISSION, make_workspace, read_submission_file
from tidegauge.errors import InputError
from tidegauge.io import atomic_write, atomic_write_bytes, make_folder
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.submission import MAX_BYTES

_PROTECTION = {
    "bwrap": "isolated by bubblewrap",
    "user": f"isolated as user {AGENT_USER}: the answers are out of reach, the network is not",
    "none": "WARNING: not isolated, the agent has your rights and can read the private answers",
}


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
    """
    isolation = _isolation(prepared, out, options)
    Budget(options.limits)  # impossible limits are refused before anything is written
    find_thresholds(prepared, options.leaderboard)  # a bad leaderboard fails before the run
    run_id = uuid.uuid4().hex
    folder = make_folder(out / f"{_file_name(options.alias)}-seed{seed}-{run_id[:8]}")
    record = interrupted_record(prepared, options, run_id, seed)
    begin_run(folder, record, runs)
    steps = options.protocol == "steps"
    workspace = make_workspace(
        prepared, folder / "workspace", limits=options.limits, counts_steps=steps
    )
    transcript = Transcript(folder / "transcript.jsonl")
    best = _BestSubmission(prepared, folder)
    progress.note(f"{options.alias}, seed {seed}: in {folder}, {_PROTECTION[isolation.kind]}")
    began = time.time()
    ending = _run(prepared, folder, workspace, isolation, options, seed, transcript, best)
    report = _grade(prepared, folder, workspace, best, options)
    report |= _run_report(options, isolation, ending, began, run_id, seed, transcript, workspace)
    with atomic_write(folder / "report.json") as handle:
        json.dump(report, handle, indent=2)
    end_run(folder, finished_record(record, report, prepared, options), runs)
    if ending.cause == "interrupted":
        raise KeyboardInterrupt
    return report


def _isolation(prepared: Prepared, out: Path, options: RunOptions) -> Isolation:
    kind = choose_isolation(options.isolation)
    mounts = (*options.mounts, *files_named_in(_words(options.command)))
    for path in mounts:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder to mount")
        if path.resolve().is_relative_to(prepared.private.resolve()):
            raise InputError(f"{path}: is private; an agent cannot be given it")
    return Isolation(kind, mounts, (prepared.private, out.resolve()))


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"--agent {command!r}: {error}; check the quotes") from None


def _run(
    prepared: Prepared,
    folder: Path,
    workspace: Path,
    isolation: Isolation,
    options: RunOptions,
    seed: int,
    transcript: Transcript,
    best: _BestSubmission,
) -> Ending:
    from tidegauge.bench.server import make_app, serving, unix_socket

    steps = options.protocol == "steps"
    with contextlib.ExitStack() as stack:
        unix, path = stack.enter_context(unix_socket())
        sockets, url = [unix], f"http://127.0.0.1:{PORTS[0]}"
        if not isolation.has_own_network:
            bound = _listen_somewhere()
            sockets.append(bound)
            url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        stack.enter_context(serving(make_app(prepared.check), sockets))
        budget = Budget(options.limits)
        extra = {
            "TIDEGAUGE_DEADLINE": f"{time.time() + budget.seconds_left:.3f}",
            "TIDEGAUGE_STEPS": str(options.limits.steps) if steps else "",
            "TIDEGAUGE_SEED": str(seed),
            "SERVER_URL": url,
        }
        environment = agent_environment(
            isolation,
            workspace=workspace,
            private=prepared.private,
            extra=extra,
            passed=options.passed,
        )
        transcript.write("start", command=options.command, isolation=isolation.kind)
        try:
            with (
                _stoppable(),
                start_agent(
                    options.command,
                    isolation=isolation,
                    workspace=workspace,
                    environment=environment,
                    validator=path if isolation.has_own_network else None,
                    logs=folder,
                    steps=steps,
                ) as agent,
            ):
                ending = (run_steps if steps else run_plain)(agent, budget, transcript, best.look)
        except KeyboardInterrupt:
            ending = Ending("interrupted")
    transcript.write("end", cause=ending.cause, exit_code=ending.exit_code, detail=ending.detail)
    return ending


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


class _BestSubmission:
    """Keeps the best valid submission seen: what the agent's last choice cost, for the operator."""

    def __init__(self, prepared: Prepared, folder: Path) -> None:
        self._prepared, self._folder = prepared, folder
        self._seen: bytes | None = None
        self._stamp: tuple[int, int] | None = None
        self.score: float | None = None
        self.count = 0

    def look(self) -> None:
        """Grade the submission if it changed."""
        workspace = self._folder / "workspace"
        try:
            status = os.lstat(workspace / SUBMISSION)
        except OSError:
            return
        if self._stamp == (stamp := (status.st_mtime_ns, status.st_size)):
            return
        self._stamp = stamp
        data = read_submission_file(workspace, private=self._prepared.private, max_bytes=MAX_BYTES)
        if data is None or data == self._seen:
            return
        self._seen = data
        table = self._prepared.check(data).table
        if table is None:
            return
        self.count += 1
        score = score_table(self._prepared, table).score
        if self.score is None or self._prepared.competition.better(score, self.score):
            self.score = score
            with atomic_write_bytes(self._folder / "best.csv") as handle:
                handle.write(data)


def _grade(
    prepared: Prepared, folder: Path, workspace: Path, best: _BestSubmission, options: RunOptions
) -> Report:
    best.look()
    final = folder / "submission.csv"
    data = read_submission_file(workspace, private=prepared.private, max_bytes=MAX_BYTES)
    if data is not None:
        with atomic_write_bytes(final) as handle:
            handle.write(data)
    report = grade_submission(prepared, final, leaderboard=options.leaderboard).report(prepared)
    return report | {"best_score": best.score, "valid_submissions_seen": best.count}


def _run_report(
    options: RunOptions,
    isolation: Isolation,
    ending: Ending,
    began: float,
    run_id: str,
    seed: int,
    transcript: Transcript,
    workspace: Path,
) -> Report:
    ended = time.time()
    return {
        "run_id": run_id,
        "alias": options.alias,
        "agent": options.command,
        "seed": seed,
        "protocol": options.protocol,
        "isolation": isolation.kind,
        "exit_cause": ending.cause,
        "exit_code": ending.exit_code,
        "exit_detail": ending.detail,
        "started_at": int(began * 1000),
        "completed_at": int(ended * 1000),
        "seconds": round(ended - began, 3),
        "hours_limit": options.limits.hours,
        "steps_limit": options.limits.steps if options.protocol == "steps" else None,
        "tokens_count": transcript.tokens or _reported_tokens(workspace),
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
