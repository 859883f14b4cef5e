"""Track the best valid submission of a run (for the operator only; the agent never sees it)."""

from __future__ import annotations

import os
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.grade import score_table
from tidegauge.bench.run.workspace import SUBMISSION, read_submission_file
from tidegauge.io import atomic_write_bytes
from tidegauge.schema.submission import MAX_BYTES


class BestSubmission:
    """Keeps the best valid submission as best.csv; the agent never hears of it.

    Attributes
    ----------
    score : float or None
        Its score.
    count : int
        Different valid submissions seen.
    """

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
