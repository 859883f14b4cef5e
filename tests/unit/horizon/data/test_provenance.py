"""Human rows that are no baselines: found where they are, and not made up where they are not."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import build_design, human_table
from tidegauge.horizon.data.provenance import AGREE, SPLIT, UNEXPLAINED, TaskRows, baseline_rows


def of(*minutes: float, length: float, scores: list[float] | None = None, score: float | None = 1):
    scores = scores or [1.0] * len(minutes)
    return TaskRows(minutes, scores, [score > 0.5 for score in scores], length, score)


def alone(rows: TaskRows) -> tuple[str, tuple[int, ...]]:
    """One task whose rows are in doubt, in a file where most tasks have such a row."""
    usual = {f"usual {i}": of(100 + 7.3 * i, 5, length=100 + 7.3 * i) for i in range(20)}
    return baseline_rows({**usual, "it": rows})["it"]


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        (of(30, length=30), (AGREE, (0,))),
        (of(20, 7, length=11.832), (AGREE, (0, 1))),  # sqrt(140)
        (of(124, 30, length=124), (SPLIT, (0,))),
        (of(50, 95, 5, length=68.92), (SPLIT, (0, 1))),
        # Whole minutes rounded down: 3 is anything from 3 to 4, and 43 from 43 to 44.
        (of(3, 47, length=3.171), (SPLIT, (0,))),
        (of(43, 460, length=43.86), (SPLIT, (0,))),
        (of(43.0, 44.0, length=43.9), (AGREE, (0, 1))),
        # The exact geometric mean of two outweighs a band about that of all three.
        (of(30, 15, 10, length=17.321), (SPLIT, (0, 2))),
        # The mean score decides between rows of the same duration.
        (of(10, 20, 20, length=14.142, scores=[1, 0.6, 1], score=1), (SPLIT, (0, 2))),
        (of(124, 30, length=124, score=None), (UNEXPLAINED, (0, 1))),
        # Failed runs that a publisher left out are failed runs, not estimates.
        (of(20, 5, 90, length=10, scores=[1, 1, 0], score=0.667), (AGREE, (0, 1, 2))),
        (of(80, 5, 90, length=80, scores=[1, 1, 0], score=1), (SPLIT, (0, 2))),
        (of(60, 10, length=30), (UNEXPLAINED, (0, 1))),
        # Failed runs alone, with a score that none of them has: there is no subset to look at.
        (of(60, 10, length=30, scores=[0, 0], score=0.5), (UNEXPLAINED, (0, 1))),
    ],
)
def test_rows_that_reproduce_the_length(rows: TaskRows, expected: tuple[str, tuple[int, ...]]):
    assert alone(rows) == expected


def test_a_file_of_one_task_is_trusted_unless_chance_is_small() -> None:
    assert baseline_rows({"it": of(2, 8, length=8)})["it"][0] == UNEXPLAINED
    assert baseline_rows({"it": of(2, 191, length=191)})["it"] == (SPLIT, (1,))


def file_of_tasks(rng: np.random.Generator, *, tasks: int, others: bool) -> dict[str, TaskRows]:
    """Baselined tasks of three runs in whole minutes, with or without one more, shorter row."""
    made = {}
    for i in range(tasks):
        times = np.exp2(rng.normal(5, 2) + rng.normal(0, 1.5, 3)) + 1
        length = round(float(np.exp(np.log(times).mean())), 3)
        more = [float(np.ceil(times.min() / 4))] if others else []
        made[str(i)] = of(*np.floor(times).tolist(), *more, length=length)
    return made


def test_a_file_whose_rows_agree_is_left_as_it_is() -> None:
    rng = np.random.default_rng(1)
    for _ in range(5):
        found = baseline_rows(file_of_tasks(rng, tasks=60, others=False))
        assert {said for said, _ in found.values()} == {AGREE}


def test_added_rows_are_found_and_baselines_kept() -> None:
    found = baseline_rows(file_of_tasks(np.random.default_rng(2), tasks=200, others=True))
    right = sum(said == SPLIT and rows == (0, 1, 2) for said, rows in found.values())
    # Of a band a few per cent wide another subset may be nearer: rarely.
    assert right >= 180


def test_lengths_that_belong_to_other_tasks_split_hardly_any_rows() -> None:
    rng = np.random.default_rng(3)
    made = file_of_tasks(rng, tasks=200, others=True)
    lengths = [rows.human_minutes for rows in made.values()]
    rng.shuffle(lengths)
    shuffled = {
        task: TaskRows(rows.minutes, rows.scores, rows.won, length, rows.human_score)
        for (task, rows), length in zip(made.items(), lengths, strict=True)
    }
    found = Counter(said for said, _ in baseline_rows(shuffled).values())
    assert found[SPLIT] <= 10  # where they fit by chance: about as often as chance says
    assert found[UNEXPLAINED] > 150


def test_the_order_of_rows_does_not_matter() -> None:
    minutes = [264, 32, 145, 21, 14, 20, 15, 15]
    scores = [1.0, 1, 0, 1, 1, 1, 1, 1]
    seen = set()
    for seed in range(10):
        order = random.Random(seed).sample(range(8), 8)
        shuffled = [minutes[i] for i in order], [scores[i] for i in order]
        said, kept = alone(of(*shuffled[0], scores=shuffled[1], length=38.08, score=0.857))
        seen.add((said, tuple(sorted(minutes[order[i]] for i in kept))))
    assert len(seen) == 1


def test_failures_left_out_of_many_rows_are_recognised() -> None:
    times, scores = [float(10 + i) for i in range(40)], [1.0] * 20 + [0.0] * 20
    length = round(float(np.exp(np.mean(np.log(times[:20])))), 3)
    rows = of(*times, length=length, scores=scores, score=None)
    assert alone(rows) == (AGREE, tuple(range(40)))


def test_many_rows_are_searched_within_bounds() -> None:
    times = [float(10 + i) for i in range(40)]
    length = round(float(np.exp(np.mean(np.log(times[:39])))), 3)
    assert alone(of(*times, length=length)) == (SPLIT, tuple(range(39)))


@pytest.mark.realdata
def test_every_baselined_task_of_metrs_file_is_explained(realdata: Path) -> None:
    design = build_design(read_tally([realdata / "metr" / "all_runs.jsonl"]))
    table = human_table(design)
    assert Counter(design.task_provenance) == {"estimate": 39, SPLIT: 21, AGREE: 16, "window": 7}
    assert Counter(table.provenance) == {"run": 43, "row": 21, "human_minutes": 54}
