"""Small run files for tests: rows as plain dicts, so that a test can spoil any field."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.horizon.store.folder import hash_of, hashes_of

Row = dict[str, Any]

# (family, task, human_minutes): five lengths in three families, from 2 minutes to 8 hours.
TASKS = (
    ("words", "words/count", 2.0),
    ("words", "words/sort", 8.0),
    ("code", "code/fix", 30.0),
    ("code", "code/port", 120.0),
    ("research", "research/replicate", 480.0),
)


def agent_row(task_id: str | None = "words/count", **fields: Any) -> Row:
    """One run of an agent; the named fields replace the usual ones, None removes a field."""
    row: Row = {
        "task_id": task_id,
        "task_family": (task_id or "words").split("/")[0],
        "alias": "agent-a",
        "score_binarized": 1,
        "score_cont": 1.0,
        "human_minutes": 8.0,
        "human_source": "baseline",
        "task_source": "HCAST",
        **fields,
    }
    return {name: value for name, value in row.items() if value is not None}


def human_row(task_id: str = "words/count", *, minutes: float = 8.0, **fields: Any) -> Row:
    """One timed human run of `minutes`, written as HCAST does: from 0 to the duration in ms."""
    times = {"started_at": 0, "completed_at": round(minutes * 60_000)}
    return agent_row(task_id, **{"alias": "human", **times, **fields})


def small_rows(
    *, agents: Iterable[str] = ("agent-a", "agent-b"), runs: int = 6, seed: int = 0
) -> list[Row]:
    """A small, ordinary file: every task timed three times and tried `runs` times by each agent."""
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for family, task, minutes in TASKS:
        shared = {"task_family": family, "human_minutes": minutes}
        log2 = rng.normal(0, 0.7, 3)  # human_minutes is the geometric mean of the runs
        rows += [
            human_row(task, minutes=minutes * 2**off, run_id=f"h{i}", **shared)
            for i, off in enumerate((log2 - log2.mean()).tolist())
        ]
        for a, agent in enumerate(agents):
            win = 1 / (1 + minutes / (10 * (a + 1)))
            for i in range(runs):
                won = float(rng.random() < win)
                run_id = f"{agent}-{task}-{i}"
                rows.append(
                    agent_row(
                        task,
                        alias=agent,
                        score_binarized=won,
                        score_cont=won,
                        run_id=run_id,
                        **shared,
                    )
                )
    return rows


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write rows as JSON lines; NaN and infinity are written as Python's json does."""
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
    path.write_text("".join(lines), encoding="utf-8")
    return path


def describe_anew(folder: Path) -> None:
    """Make a manifest name itself and the files beside it as they are now, as a forger would."""
    path = folder / "manifest.json"
    described = {**json.loads(path.read_text()), "files": hashes_of(folder)}
    described.pop("sha256", None)
    path.write_text(json.dumps({**described, "sha256": hash_of(described)}))
