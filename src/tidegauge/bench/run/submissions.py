"""What the agent submitted during a run: copied while it runs, checked and scored only after.

Nothing here depends on the answers before the agent's processes have ended: neither the time it
takes nor the space it needs can tell the agent how good a submission is.
"""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.run.workspace import SUBMISSION, read_submission_file

MAX_COPIES = 32
MAX_COPIED_BYTES = 256 * 2**20


@dataclass(frozen=True, slots=True)
class Best:
    """The best of the copies: what the agent's last choice cost, for the operator.

    Attributes
    ----------
    score : float or None
        Of the best valid copy.
    data : bytes or None
        That copy.
    count : int
        Different valid submissions among the copies.
    """

    score: float | None = None
    data: bytes | None = None
    count: int = 0


class Submissions:
    """Copies of the submission as it changed, and the one to be graded.

    Where there are too many copies every second one is dropped: what stays is spread over the run.
    """

    def __init__(self, prepared: Prepared, workspace: Path, folder: Path) -> None:
        self._prepared, self._workspace, self._folder = prepared, workspace, folder
        self._stamp: tuple[int, int] | None = None
        self._last: bytes | None = None
        self._copies: list[Path] = []
        self._number = 0
        self._lock = threading.Lock()
        self._is_frozen = False
        self._final: bytes | None = None

    def look(self) -> None:
        """Copy the submission if it changed; no fault of the agent's files is raised."""
        with self._lock:
            if self._is_frozen:
                return
            with contextlib.suppress(OSError):
                status = os.lstat(self._workspace / SUBMISSION)
                stamp = (status.st_mtime_ns, status.st_size)
                if stamp != self._stamp and (data := self._read()) is not None:
                    self._stamp = stamp
                    self._keep(data)

    def freeze(self) -> bytes | None:
        """Return the submission as it is at the first call: the one that counts."""
        with self._lock:
            if not self._is_frozen:
                self._is_frozen = True
                self._final = self._read()
                if self._final is not None:
                    with contextlib.suppress(OSError):
                        self._keep(self._final)
            return self._final

    def best(self) -> Best:
        """Score the copies; only for when the agent's processes have ended."""
        found = Best()
        for path in self._copies:
            data = path.read_bytes()
            if (score := self._prepared.score(data)) is not None:
                better = found.score is None or self._prepared.competition.better(
                    score, found.score
                )
                kept = (score, data) if better else (found.score, found.data)
                found = Best(*kept, found.count + 1)
        return found

    def forget(self) -> None:
        """Remove the copies."""
        for path in self._copies:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        self._copies = []

    def _read(self) -> bytes | None:
        return read_submission_file(
            self._workspace, private=self._prepared.private, max_bytes=self._prepared.max_bytes
        )

    def _keep(self, data: bytes) -> None:
        if data == self._last or len(data) > self._prepared.max_bytes:
            return
        self._last = data
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{self._number:06d}.csv"
        self._number += 1
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self._copies.append(path)
        most = min(MAX_COPIES, max(2, MAX_COPIED_BYTES // self._prepared.max_bytes))
        if len(self._copies) > most:
            for path in self._copies[:-1:2]:
                path.unlink(missing_ok=True)
            self._copies = sorted({*self._copies} - {*self._copies[:-1:2]})
