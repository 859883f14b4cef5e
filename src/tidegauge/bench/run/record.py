"""A run's line in runs.jsonl, and what stands in for it while the run lives.

Each living run has one file in the user's state folder, locked for as long as its runner lives. Its
first line is the record the run gets if nothing more is heard of it, a second one the record it
earned. Any later ``bench`` command appends the last of them to the file of records, once. Nothing
else is believed: not the run folders, which may come from somebody else.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from pathlib import Path

import msgspec

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grade_report import Report
from tidegauge.bench.run.options import RunOptions
from tidegauge.errors import TideGaugeError
from tidegauge.schema.runs import RunRecord, append_run
from tidegauge.system import fcntl

FAMILY = "mlebench"
_OF_CHECKOUTS = ("split", "notices", "checkout_commit", "package_versions", "leaks_removed")
_MAX_BYTES = 2**20
_FATAL = {"time": "usageLimits", "steps": "usageLimits", "disk": "usageLimits", "failed": "runner"}


def interrupted_record(
    prepared: Prepared, options: RunOptions, run_id: str, seed: int
) -> RunRecord:
    """Return the record as it stands if nothing more is ever heard of this run."""
    competition = prepared.competition
    now = int(time.time() * 1000)
    return RunRecord(
        task_id=f"{FAMILY}/{competition.competition_id}",
        task_family=FAMILY,
        run_id=run_id,
        alias=options.alias,
        score_binarized=0,
        human_minutes=competition.human_minutes,
        human_source="estimate",
        started_at=now,
        completed_at=now,
        time_limit=int(options.limits.hours * 3600),
        fatal_error_from="interrupted",
        scaffold=options.protocol,
        unknown={"exit_cause": "interrupted", "seed": seed},
    )


def finished_record(
    base: RunRecord, report: Report, prepared: Prepared, options: RunOptions
) -> RunRecord:
    """Return the record of a graded run."""
    score, cause = report["score"], report["exit_cause"]
    success = report["any_medal"]
    if options.success_at is not None:
        success = score is not None and prepared.competition.better(score, options.success_at)
    fatal = _FATAL.get(cause)
    if cause == "killed" or (cause == "exited" and report["exit_code"] != 0):
        fatal = "agent"
    if report["error"]:
        success, fatal = False, "runner"
    if cause == "interrupted":
        success, fatal = False, "interrupted"
    return msgspec.structs.replace(
        base,
        score_cont=score,
        score_binarized=int(success),
        started_at=report["started_at"],
        completed_at=report["completed_at"],
        tokens_count=report["tokens_count"],
        fatal_error_from=fatal,
        unknown={
            "exit_cause": cause,
            "seed": report["seed"],
            "score_se": report["score_se"],
            "isolation": report["isolation"],
            **{name: report[name] for name in _OF_CHECKOUTS if name in report},
        },
    )


class _State(msgspec.Struct, frozen=True):
    """A line of a state file: where the run is, where its record goes, the record itself."""

    folder: str
    runs: str
    record: RunRecord
    is_final: bool = False


class RunState:
    """The state of a living run; its lock is held until it is closed or the process ends."""

    def __init__(self, folder: Path, runs: Path, record: RunRecord) -> None:
        self._folder, self._runs = folder.resolve(), runs.resolve()
        self._descriptor: int | None = None
        self._path = _state_folder() / f"{record.run_id}.jsonl"
        with contextlib.suppress(OSError):  # no state folder: the run goes on, unprotected
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._descriptor = os.open(self._path, flags, 0o600)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            self._write(record)

    @property
    def is_kept(self) -> bool:
        """Whether a killed runner would be recorded."""
        return self._descriptor is not None

    def finish(self, record: RunRecord) -> None:
        """Append the run's record, once, and forget the state.

        Raises
        ------
        InputError
            The file of records cannot be appended to; a later command will do it.
        """
        with contextlib.suppress(OSError):
            self._write(record, is_final=True)
        append_run(self._runs, record)
        self.forget()

    def forget(self) -> None:
        """Remove the state: the run is recorded, or never started."""
        if self._descriptor is not None:
            self._path.unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Give up the lock."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _write(self, record: RunRecord, *, is_final: bool = False) -> None:
        if self._descriptor is not None:
            state = _State(str(self._folder), str(self._runs), record, is_final)
            os.write(self._descriptor, msgspec.json.encode(state) + b"\n")
            os.fsync(self._descriptor)


def settle_interrupted() -> list[str]:
    """Record every run whose runner was killed; return the ids of those that had not ended."""
    settled: list[str] = []
    if fcntl is None:  # agents run on Linux only
        return settled
    with contextlib.suppress(OSError):
        for path in sorted(_state_folder().glob("*.jsonl")):
            with contextlib.suppress(OSError, TideGaugeError):  # it stays for a better day
                settled += _settle(path)
    return settled


def _settle(path: Path) -> list[str]:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
            return []
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return []  # its runner lives
        state = _last_state(os.read(descriptor, _MAX_BYTES))
        if state is not None and path.exists():
            append_run(state.runs, state.record)
            path.unlink(missing_ok=True)
            return [] if state.is_final else [str(state.record.run_id)]
        return []
    finally:
        os.close(descriptor)


def _last_state(data: bytes) -> _State | None:
    """Return the last whole line; a kill may have cut the one after it short."""
    for line in reversed(data.split(b"\n")[:-1]):
        with contextlib.suppress(ValueError, TypeError, RecursionError):
            state = msgspec.json.decode(line, type=_State)
            if state.is_final:
                return state
            ended = int(_last_sign_of_life(Path(state.folder)) * 1000)
            record = msgspec.structs.replace(
                state.record, completed_at=max(ended, state.record.started_at)
            )
            return msgspec.structs.replace(state, record=record)
    return None


def _last_sign_of_life(folder: Path) -> float:
    times = [0.0]
    with contextlib.suppress(OSError):
        times += [entry.stat(follow_symlinks=False).st_mtime for entry in os.scandir(folder)]
    return max(times)


def _state_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return Path(base) / "tidegauge" / "running"
