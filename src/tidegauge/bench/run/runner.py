"""One run from workspace to record.

A run passes through four stages, and from the second on every path ends in one record:
checked (nothing is written yet) -> started -> ended (none of the agent's processes lives) ->
graded and recorded. What depends on the answers happens in the last stage only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
import signal
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions.base import Thresholds
from tidegauge.bench.gateway import parse_host
from tidegauge.bench.grade_report import Grade, Report
from tidegauge.bench.run.budget import Budget, Deadline
from tidegauge.bench.run.isolation import (
    Isolation,
    agent_environment,
    agent_may,
    files_named_in,
    give_workspace,
    make_isolation,
    take_back,
)
from tidegauge.bench.run.options import RunOptions
from tidegauge.bench.run.process import PORTS, AgentProcess, open_place
from tidegauge.bench.run.protocol import (
    PARTING_SECONDS,
    Ending,
    Transcript,
    is_token_count,
    run_plain,
    run_steps,
)
from tidegauge.bench.run.record import RunState, finished_record, interrupted_record
from tidegauge.bench.run.resources import disk_watched
from tidegauge.bench.run.workspace import (
    MLEBENCH_PLACES,
    Best,
    Submissions,
    make_workspace,
    read_agents_file,
)
from tidegauge.bench.server import Validator, listen, validating
from tidegauge.errors import InputError
from tidegauge.io import append_lines, atomic_write, atomic_write_bytes, make_folder
from tidegauge.progress import SILENT, Progress
from tidegauge.schema.faults import HUMAN, has_control_character

_RESERVE_BYTES = 2**18  # given back when the agent has ended, so that its end can be written


@dataclass(frozen=True)
class _Run:
    """Everything that belongs to one run."""

    prepared: Prepared
    options: RunOptions
    isolation: Isolation
    thresholds: Thresholds | None
    folder: Path
    run_id: str
    seed: int
    transcript: Transcript
    submissions: Submissions

    @property
    def workspace(self) -> Path:
        """The folder the agent works in."""
        return self.folder / "workspace"

    @property
    def counts_steps(self) -> bool:
        """Whether the agent speaks the step protocol."""
        return self.options.protocol == "steps"


@dataclass
class _Work:
    """What is known of the agent's time when it has ended.

    The clock of the machine may be moved meanwhile: only the beginning is taken from it.
    """

    began: float
    seconds: float
    ending: Ending
    validations: int = 0
    limits: Mapping[str, str] = field(default_factory=dict)
    memory_kills: int | None = None


def run_agent(
    prepared: Prepared,
    out: Path | str,
    runs: Path | str,
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
        An option cannot be met here, and nothing was run; or the record could not be appended,
        and the next ``bench`` command will do it.
    KeyboardInterrupt
        The run was interrupted; it is graded and recorded as such.

    Examples
    --------
    >>> options = RunOptions(command="python agent.py", alias="mine")
    >>> run_agent(prepared, "runs", "runs.jsonl", options)["score"]  # doctest: +SKIP
    """
    out, runs = Path(out), Path(runs)
    run = _checked(prepared, out, runs, options, seed)
    progress.note(f"{options.alias}, seed {seed}: {run.folder}, {run.isolation.sentence()}")
    record = interrupted_record(prepared, options, run.run_id, seed)
    with _interrupts() as hold_interrupts:
        state = RunState(run.folder, runs, record)
        if not state.is_kept:
            progress.note("no state folder to write to: if this runner is killed, no record is")
        try:
            work = _work(run, hold_interrupts, progress)
        except BaseException as error:  # it never started, or was interrupted before it did
            state.forget()
            shutil.rmtree(run.folder, ignore_errors=True)
            if isinstance(error, OSError):
                raise InputError(f"{run.folder}: the run cannot be prepared ({error})") from error
            raise
        report = _report(run, work)
        try:
            state.finish(finished_record(record, report, prepared, options))
        finally:
            state.close()
    if work.ending.cause == "interrupted":
        raise KeyboardInterrupt
    return report


def _checked(prepared: Prepared, out: Path, runs: Path, options: RunOptions, seed: int) -> _Run:
    """Check everything that can be checked before an agent starts, then make the run's folder."""
    if options.alias == HUMAN or not options.alias or has_control_character(options.alias):
        raise InputError(
            f"alias={options.alias!r}: choose another name for the agent, without control "
            f"characters; {HUMAN!r} is for people"
        )
    isolation = _isolation(prepared, out, options)
    for host in options.allow_net:
        parse_host(host)
    if options.allow_net and not isolation.has_own_network:
        raise InputError(
            "--allow-net: without a network of its own an agent reaches every host; install "
            "bubblewrap, or leave the option out"
        )
    thresholds = prepared.thresholds(options.leaderboard)
    append_lines(runs, lambda held: [])  # it can be appended to, and is there when the disk is full
    run_id = uuid.uuid4().hex
    folder = out.resolve() / f"{_file_name(options.alias)}-seed{seed}-{run_id[:8]}"
    make_folder(folder)
    # An agent of another user without a mount table of its own must pass through here.
    passes = isolation.kind == "user" and not isolation.namespaces
    folder.chmod(0o711 if passes else 0o700)
    return _Run(
        prepared,
        options,
        isolation,
        thresholds,
        folder,
        run_id,
        seed,
        Transcript(folder / "transcript.jsonl"),
        Submissions(prepared, folder / "workspace", folder / "submissions"),
    )


def _isolation(prepared: Prepared, out: Path, options: RunOptions) -> Isolation:
    secrets = [path.resolve() for path in prepared.hidden]
    for path in options.mounts:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder to mount")
        if any(path.resolve().is_relative_to(secret) for secret in secrets):
            raise InputError(f"{path}: is private; an agent cannot be given it")
    named = files_named_in(_words(options.command))
    shown = [p for p in named if not any(p.resolve().is_relative_to(s) for s in secrets)]
    hidden = [*secrets, out]
    isolation = make_isolation(options.isolation, mounts=(*options.mounts, *shown), hidden=hidden)
    if isolation.kind == "user" and not isolation.namespaces:
        _refuse_readable(secrets, isolation)
    if options.layout == "mlebench":
        if isolation.kind != "bwrap":
            raise InputError("--layout mlebench: only bubblewrap can show /home; install it")
        isolation = replace(isolation, places=MLEBENCH_PLACES)
    return isolation


def _refuse_readable(secrets: list[Path], isolation: Isolation) -> None:
    """Refuse to run an agent whose user could read the answers, where nothing covers them."""
    for path in secrets:
        if agent_may(isolation, "-r", path):
            raise InputError(
                f"{path}: other users may read it, and it holds the answers; close it to them "
                f"(chmod -R go= {path}), or install bubblewrap"
            )


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise InputError(f"--agent {command!r}: {error}; check the quotes") from None


def _work(run: _Run, hold_interrupts: Callable[[], None], progress: Progress) -> _Work:
    """Start the agent and follow it to its end; once it has started, nothing is raised."""
    options = run.options
    read_only_input = run.isolation.kind != "none"
    make_workspace(
        run.prepared,
        run.workspace,
        limits=options.limits,
        counts_steps=run.counts_steps,
        link=read_only_input,
        layout=options.layout,
        without_leaks=options.without_leaks,
    )
    give_workspace(run.workspace, run.isolation)
    (run.folder / "reserve").write_bytes(b"\0" * _RESERVE_BYTES)
    work = None
    try:
        with contextlib.ExitStack() as stack:
            validator = stack.enter_context(
                validating(run.prepared, _tcp_sockets(run), allowed=options.allow_net)
            )
            began, budget = time.time(), Budget(options.limits)
            own_network = run.isolation.has_own_network
            agent = stack.enter_context(
                open_place(
                    isolation=run.isolation,
                    workspace=run.workspace,
                    environment=_environment(run, budget, validator),
                    validator=validator.path if own_network else None,
                    logs=run.folder,
                    resources=options.resources,
                    steps=run.counts_steps,
                )
            )
            work = _Work(began, 0.0, Ending("failed"), limits=agent.limits)  # now it counts
            progress.note("limits: " + ", ".join(f"{k} {v}" for k, v in agent.limits.items()))
            run.transcript.write("start", command=options.command, isolation=run.isolation.kind)
            agent.start(options.command)
            work.ending = _follow(run, agent, budget)
            agent.end()
            work.memory_kills = agent.group.memory_kills()
            work.validations = validator.count()
            hold_interrupts()
    except KeyboardInterrupt:
        if work is None:
            raise
        work.ending = Ending("interrupted")
    except Exception as error:
        if work is None:
            raise
        work.ending = Ending("failed", detail=f"{type(error).__name__}: {error}")
    work.seconds = time.monotonic() - budget.began
    run.transcript.write("end", **asdict(work.ending))
    return work


def _follow(run: _Run, agent: AgentProcess, budget: Budget) -> Ending:
    grace = 2 * PARTING_SECONDS if run.counts_steps else 0.0
    deadline = Deadline(
        budget,
        freeze=run.submissions.freeze,
        end=lambda: agent.end("time"),
        grace_seconds=grace,
    )
    follow = run_steps if run.counts_steps else run_plain
    limit_bytes = run.options.resources.disk_bytes
    watch = disk_watched(run.workspace, limit_bytes=limit_bytes, end=lambda: agent.end("disk"))
    with deadline, watch:
        return follow(agent, budget, run.transcript, run.submissions)


def _tcp_sockets(run: _Run) -> list[socket.socket]:
    """Take the usual port, or any free one where another run has it: SERVER_URL tells which."""
    if run.isolation.has_own_network:
        return []
    try:
        return [listen("127.0.0.1", PORTS[0])]
    except InputError:
        return [listen("127.0.0.1", 0)]


def _environment(run: _Run, budget: Budget, validator: Validator) -> dict[str, str]:
    deadline = int(time.time() + budget.seconds_left)  # whole: any shell reads it
    told = {
        "TIDEGAUGE_DEADLINE": str(deadline),
        "TIDEGAUGE_STEPS": str(budget.steps_left),
        "TIDEGAUGE_SEED": str(run.seed),
        "TIDEGAUGE_SAMPLE": run.prepared.sample_name,
        "SERVER_URL": validator.url or f"http://127.0.0.1:{PORTS[0]}",
    }
    if run.options.allow_net:
        proxy = f"http://127.0.0.1:{PORTS[0]}"
        told |= {"HTTPS_PROXY": proxy, "https_proxy": proxy, "NO_PROXY": "127.0.0.1,localhost"}
    if run.options.layout == "mlebench":
        told |= {
            "COMPETITION_ID": run.prepared.competition.competition_id,
            "TIME_LIMIT_SECS": str(int(budget.seconds_left)),
            "STEP_LIMIT": str(budget.steps_left),
        }
    told |= run.options.extra
    return agent_environment(
        run.isolation,
        workspace=run.workspace,
        private=run.prepared.private,
        extra=told,
        passed=run.options.passed,
    )


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Treat SIGTERM as Ctrl-C, and raise the first of them only.

    Those that come later, or after the yielded call, wait for the end of the block: a run that has
    ended is recorded, and only once, however often the keys are pressed.
    """
    held: list[int] = []
    are_held = False

    def stop(number: int, frame: object) -> None:
        nonlocal are_held
        if are_held:
            held.append(number)
        else:
            are_held = True
            raise KeyboardInterrupt

    def hold() -> None:
        nonlocal are_held
        are_held = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    try:
        before = {number: signal.signal(number, stop) for number in numbers}
    except ValueError:  # not the main thread: the caller's signals are not ours
        yield hold
        return
    try:
        yield hold
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if held:
        raise KeyboardInterrupt


def _report(run: _Run, work: _Work) -> Report:
    """Grade what the agent left, and write the report; a fault of the grader is in it."""
    with contextlib.suppress(OSError):
        (run.folder / "reserve").unlink()
    take_back(run.workspace)
    run.folder.chmod(0o700)
    error = work.ending.detail if work.ending.cause == "failed" else ""
    best = Best()
    try:
        grade = _grade(run)
        best = run.submissions.best()
        if best.data is not None:
            _write(run.folder / "best.csv", best.data)
    except Exception as fault:  # ours or the competition's: it must not cost the record
        error = f"{type(fault).__name__}: {fault}"
        path = str(run.folder / "submission.csv")
        grade = Grade(path, True, None, None, [f"not graded: {error}"], run.thresholds)
    run.submissions.forget()
    report = {
        **grade.report(run.prepared.competition),
        "best_score": best.score,
        "valid_submissions_seen": best.count,
        **_facts(run, work),
        "error": error,
    }
    with contextlib.suppress(OSError, InputError), atomic_write(run.folder / "report.json") as file:
        json.dump(report, file, indent=2)
    return report


def _grade(run: _Run) -> Grade:
    data = run.submissions.freeze()
    final = run.folder / "submission.csv"
    if data is not None:
        _write(final, data)
    grade = run.prepared.grade(final if data is None else data, leaderboard=run.options.leaderboard)
    return replace(grade, submission_path=str(final))


def _write(path: Path, data: bytes) -> None:
    with contextlib.suppress(OSError, InputError), atomic_write_bytes(path) as handle:
        handle.write(data)


def _facts(run: _Run, work: _Work) -> Report:
    options, ending = run.options, work.ending
    data = run.submissions.freeze()
    return {
        "run_id": run.run_id,
        "alias": options.alias,
        "agent": options.command,
        "seed": run.seed,
        "protocol": options.protocol,
        "isolation": run.isolation.kind,
        "isolation_in_force": run.isolation.sentence(),
        "network": _network(run),
        "exit_cause": ending.cause,
        "exit_code": ending.exit_code,
        "exit_detail": ending.detail,
        "started_at": int(work.began * 1000),
        "completed_at": int((work.began + work.seconds) * 1000),
        "seconds": round(work.seconds, 3),
        "hours_limit": options.limits.hours,
        "steps_limit": options.limits.steps if run.counts_steps else None,
        "resource_limits": asdict(options.resources),
        "limits_in_force": dict(work.limits),
        "processes_ended_for_memory": work.memory_kills,
        "validations": work.validations,
        "lost_transcript_events": run.transcript.lost,
        "leaks_removed": options.without_leaks,
        "tokens_count": run.transcript.tokens or _reported_tokens(run),
        "submission_sha256": None if data is None else hashlib.sha256(data).hexdigest(),
        "answers_sha256": run.prepared.answers_sha256(),
    }


def _network(run: _Run) -> str:
    if not run.isolation.has_own_network:
        return "the host's"
    return ", ".join(["none but the validator", *run.options.allow_net])


def _reported_tokens(run: _Run) -> int | None:
    """Return what a plain agent wrote to usage.json as ``{"tokens": N}``, if it did."""
    private = run.prepared.private
    data = read_agents_file(run.workspace, Path("usage.json"), private=private, max_bytes=10_000)
    try:
        tokens = json.loads(data or b"{}").get("tokens")
    except (ValueError, AttributeError, RecursionError):
        return None
    return tokens if is_token_count(tokens) else None


def _file_name(alias: str) -> str:
    return "".join(c if c.isalnum() or c in "._-" else "-" for c in alias)[:60] or "agent"
