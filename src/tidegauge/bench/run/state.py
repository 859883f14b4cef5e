"""What a run leaves while it lives, so that even a killed runner is recorded.

Each run folder holds ``state.json`` until its record is written, and the user's state folder holds
a pointer to it. Any later ``bench`` command finds states whose runner is gone and settles them.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tidegauge.io import append_line, atomic_write
from tidegauge.schema.runs import RunRecord, append_run, encode_run
from tidegauge.system import file_lock

STATE = "state.json"
RECORD = "record.json"


def begin_run(folder: Path, record: RunRecord, runs: Path) -> None:
    """Write the state of a run that starts now: the record it gets if its runner is killed."""
    state = {
        "pid": os.getpid(),
        "pid_started": _start_ticks(os.getpid()),
        "runs": str(runs.resolve()),
        "record": json.loads(encode_run(record)),
    }
    with atomic_write(folder / STATE) as handle:
        json.dump(state, handle)
    with contextlib.suppress(OSError):  # no home folder: the run folder alone still serves
        pointers = _pointer_folder()
        pointers.mkdir(parents=True, exist_ok=True)
        (pointers / str(record.run_id)).write_text(str((folder / STATE).resolve()))


def end_run(folder: Path, record: RunRecord, runs: Path) -> None:
    """Append the run's record and forget its state, in an order that a kill cannot break."""
    with atomic_write(folder / RECORD) as handle:
        handle.write(encode_run(record).decode() + "\n")
    append_run(runs, record)
    _forget(folder / STATE, str(record.run_id))


def abandon_run(folder: Path, run_id: str) -> None:
    """Forget a run that never started."""
    _forget(folder / STATE, run_id)


def settle_interrupted(out: Path | None = None) -> list[str]:
    """Record every run whose runner was killed; return their ids.

    Parameters
    ----------
    out : Path, optional
        A folder of run folders to look at beside those of the user's state folder.
    """
    settled = []
    for state in _known_states(out):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            settled += _settle(state)
    return settled


def _known_states(out: Path | None) -> Iterator[Path]:
    found: dict[Path, None] = {}
    with contextlib.suppress(OSError):
        for pointer in sorted(_pointer_folder().iterdir()):
            state = Path(pointer.read_text())
            if state.exists():
                found[state] = None
            else:
                pointer.unlink(missing_ok=True)
    if out is not None:
        found |= dict.fromkeys(path.resolve() for path in sorted(out.glob(f"*/{STATE}")))
    yield from found


def _settle(path: Path) -> list[str]:
    # The lock: two commands at once make one record.
    with open(path, encoding="utf-8") as handle, file_lock(handle.fileno()):
        state = json.load(handle)
        if not path.exists() or _is_alive(state["pid"], state["pid_started"]):
            return []
        runs, record = Path(state["runs"]), state["record"]
        run_id = str(record["run_id"])
        interrupted = not (path.parent / RECORD).exists()
        if interrupted:
            record["completed_at"] = int(_last_sign_of_life(path.parent) * 1000)
            line = json.dumps(record)
        else:
            line = (path.parent / RECORD).read_text().strip()
        if not _holds(runs, run_id):
            append_line(runs, line)
        _forget(path, run_id)
    return [run_id] if interrupted else []


def _holds(runs: Path, run_id: str) -> bool:
    if not runs.exists():
        return False
    with open(runs, "rb") as handle:
        return any(run_id.encode() in line for line in handle)


def _last_sign_of_life(folder: Path) -> float:
    return max(path.stat().st_mtime for path in folder.iterdir() if path.is_file())


def _forget(state: Path, run_id: str) -> None:
    state.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (_pointer_folder() / run_id).unlink(missing_ok=True)


def _pointer_folder() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "tidegauge" / "running"


def _is_alive(pid: int, started: int | None) -> bool:
    return started is not None and _start_ticks(pid) == started


def _start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot: pids alone are used again."""
    try:
        fields: list[Any] = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in ("Z", "X") else int(fields[19])
