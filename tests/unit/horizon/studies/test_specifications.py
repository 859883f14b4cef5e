"""Grids of choices: what they expand to, what they look at, and what they refuse."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.errors import InputError
from tidegauge.horizon.data.counts import read_tally
from tidegauge.horizon.data.design import Design, build_design
from tidegauge.horizon.data.subset import estimate_only, resample_tasks, subset_tasks
from tidegauge.horizon.methods.hierarchical import Hierarchical
from tidegauge.horizon.model.options import FULL, HorizonOptions
from tidegauge.horizon.studies.specifications import (
    APPLIES,
    CHOICES,
    Universe,
    check_names,
    default_grid,
    expand,
    read_grid,
)
from tidegauge.progress import LineProgress


@pytest.fixture
def design() -> Design:
    """Twelve tasks in four families; even ones timed, odd ones estimated; two sources."""
    rng = np.random.default_rng(3)
    truth = usual_truth(rng, n_agents=3, n_tasks=12, n_families=4)
    drawn = draw_design(truth, rng, failed=6)
    years = np.array([-1.0, 0.0, 1.0])
    return replace(
        drawn,
        task_source=("HCAST",) * 10 + ("RE-Bench",) * 2,
        agent_years=years,
        agent_groups=("x", "y", "z"),
    )


def test_default_grid_is_64_universes_that_differ(design: Design) -> None:
    grid = default_grid(design)
    assert len(grid) == len(set(grid)) == 64
    levels = {name: {one.choices[name] for one in grid if name in one.choices} for name in CHOICES}
    assert levels["method"] == {"regression", "exact", "core"}
    assert levels["weighting"] == {"invsqrt", "equal", "none"}
    assert levels["regularisation"] == {1e-5, 0.1}
    assert levels["lengths"] == {"given", "simex"}
    assert levels["residual"] == {"none", "family"}
    assert levels["noise"] == {"normal", "student_t"}
    assert levels["failures"] == {"ignore", "censor"}
    assert levels["estimates"] == {"used", "dropped"}
    assert levels["sources"] == {"all", "without RE-Bench"}
    assert levels["tasks"] == {"all", *(f"resampled {n}" for n in (1, 2, 3, 4))}


@pytest.mark.realdata
def test_default_grid_of_the_public_file_is_64_universes(realdata: Path) -> None:
    design = build_design(read_tally([realdata / "metr" / "all_runs.jsonl"]))
    grid = default_grid(design)
    assert len(grid) == 64
    assert {one.sources for one in grid} == {"all", "without RE-Bench"}
    for universe in grid:  # every one of them has data to look at
        assert universe.data_of(design, seed=1).attempts.sum() > 0


def test_default_grid_leaves_out_a_family_where_there_is_one_source(design: Design) -> None:
    one_source = replace(design, task_source=("HCAST",) * 12)
    grid = default_grid(one_source)
    assert len(grid) == 64
    assert {one.sources for one in grid} == {"all", "without family 000"}
    one_family = replace(one_source, families=("only",), task_family=np.zeros(12, dtype=np.int64))
    assert len(default_grid(one_family)) == 49


def test_default_grid_does_not_vary_what_the_file_has_nothing_of(design: Design) -> None:
    no_failure = replace(
        design, failed_task=design.failed_task[:0], failed_log2=design.failed_log2[:0]
    )
    assert {one.model.failures for one in default_grid(no_failure)} == {"ignore"}
    estimated = replace(
        design, run_task=design.run_task[:0], run_log2=design.run_log2[:0],
        estimate_task=np.arange(12), estimate_log2=design.log2_minutes,
    )  # fmt: skip
    assert {one.estimates for one in default_grid(estimated)} == {"used"}
    assert {one.regression.lengths for one in default_grid(estimated)} == {"given"}
    timed = replace(design, run_task=np.arange(12), run_log2=design.log2_minutes)
    assert {one.estimates for one in default_grid(timed)} == {"used"}
    assert {one.regression.lengths for one in default_grid(timed)} == {"given"}


def test_a_block_is_every_combination_and_repeats_count_once() -> None:
    block = {"method": ["regression"], "weighting": ["equal", "none"], "tasks": ["all"]}
    grid = expand([block, block, {"noise": ["weibull"], "rounding": [True, False]}])
    assert [one.choices["method"] for one in grid] == ["regression"] * 2 + ["core"] * 2
    assert grid[2].model == HorizonOptions(noise="weibull", rounding=True)
    assert "weighting" not in grid[2].choices
    assert "noise" not in grid[0].choices


def test_choices_of_a_universe_are_those_its_method_has() -> None:
    for method, names in APPLIES.items():
        assert set(Universe(method=method).choices) == {"method", *names}


def test_a_grid_file_gives_its_universes(tmp_path: Path) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        "- method: regression\n"
        "  regularisation: [1e-5, 0.1, 1]\n"
        "- method: core\n"
        "  failures: [ignore, censor]\n"
        "  noise_growth: [true, false]\n"
        "  sources: without SWAA\n"
    )
    grid = read_grid(path)
    assert [one.regression.regularisation for one in grid[:3]] == [1e-5, 0.1, 1.0]
    assert {one.model.noise_growth for one in grid[3:]} == {True, False}
    assert {one.sources for one in grid[3:]} == {"without SWAA"}
    assert len(grid) == 7


def test_former_names_of_methods_mean_the_same_and_are_noted_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(
        "- method: [frequentist, grid]\n- method: frequentist\n  weighting: equal\n"
        "- method: hierarchical\n  residual: [none, family]\n"
    )
    grid = read_grid(path, progress=LineProgress())
    assert [one.method for one in grid] == [*("regression", "exact", "regression"), "core", "core"]
    assert capsys.readouterr().err.splitlines() == [
        f"note: {path}: method frequentist is now called regression",
        f"note: {path}: method grid is now called exact",
        f"note: {path}: method hierarchical is now called core",
    ]


def test_full_starts_from_its_own_options() -> None:
    (universe,) = expand([{"method": ["full"], "noise": ["student_t"]}])
    assert universe.model == replace(FULL, noise="student_t")
    assert universe.fitted_by == Hierarchical("full", options=universe.model)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "must be a list of blocks"),
        ("[]", "must be a list of blocks"),
        ("just words", "must be a list of blocks"),
        ("- [a, b]", "block 1: must map choices"),
        ("- {}", "block 1: must map choices"),
        ("a: [b", "not readable as YAML"),
        ("- colour: [red]", "block 1: colour: no such choice; choose from method"),
        ("- 7: [red]", "block 1: 7: no such choice"),
        ("- method: [exact]\n- method: [magic]", "block 2: method=magic: must be one of"),
        ("- method: []", "method: no level given"),
        ("- method: exact\n  noise: normal", "noise is not a choice of method exact"),
        ("- method: [exact, regression]\n  weighting: equal", "weighting is not a choice of"),
        ("- noise: cauchy", "noise=cauchy: must be one of normal, student_t, weibull"),
        ("- rounding: perhaps", "rounding=perhaps: must be true or false"),
        ("- method: regression\n  regularisation: 0", "regularisation=0.0: must be above 0"),
        ("- method: regression\n  regularisation: much", "must be a number above 0"),
        ("- method: regression\n  regularisation: .nan", "regularisation=nan: must be above 0"),
        ("- method: regression\n  weighting: heavy", "weighting=heavy: must be one of"),
        ("- method: regression\n  lengths: {a: 1}", "must be a word, a number, true or false"),
        ("- sources: SWAA", "sources=SWAA: must be all, or 'without NAME'"),
        ("- sources: 'without '", "name what is left out"),
        ("- sources: [5]", "sources=5: must be all"),
        ("- sources: yes", "sources=True: must be all"),
        ("- tasks: resampled", "tasks=resampled: must be all, or 'resampled 1'"),
        ("- tasks: resampled -1", "tasks=resampled -1: must be all"),
        ("- estimates: no", "estimates=False: must be one of used, dropped"),
        ("- estimates: ~", "estimates=None: must be a word"),
        (f"- tasks: [{', '.join(f'resampled {n}' for n in range(400))}]\n"
         f"  sources: [{', '.join(f'without {n}' for n in range(400))}]", "160,000 combinations"),
    ],
)  # fmt: skip
def test_a_bad_grid_file_is_refused_with_its_block_and_remedy(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "grid.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        read_grid(path)
    assert message in str(error.value)
    assert str(error.value).startswith(str(path))


def test_a_missing_or_binary_grid_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not readable as YAML"):
        read_grid(tmp_path / "none.yaml")
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="not readable as YAML"):
        read_grid(tmp_path / "binary")


def test_names_are_checked_against_the_data(design: Design) -> None:
    check_names(expand([{"sources": ["all", "without RE-Bench", "without family 001"]}]), design)
    with pytest.raises(InputError, match="without SWAA: no task is of it; the sources are HCAST"):
        check_names(expand([{"sources": ["without SWAA"]}]), design)


def test_data_of_a_universe_are_what_its_choices_say(design: Design) -> None:
    assert Universe().data_of(design, seed=1) is design
    without = Universe(sources="without RE-Bench").data_of(design, seed=1)
    assert without.tasks == design.tasks[:10]
    timed = Universe(estimates="dropped").data_of(design, seed=1)
    assert timed.tasks == design.tasks[::2]
    assert timed.estimate_task.size == 0
    first, again, second, other_seed = (
        Universe(tasks=f"resampled {n}").data_of(design, seed=seed)
        for n, seed in ((1, 1), (1, 1), (2, 1), (1, 2))
    )
    assert first.tasks == again.tasks
    assert first.tasks != second.tasks
    assert first.tasks != other_seed.tasks


def test_a_subset_keeps_all_that_is_known_of_its_tasks(design: Design) -> None:
    keep = np.zeros(12, dtype=bool)
    keep[[1, 2, 8]] = True
    part = subset_tasks(design, keep)
    assert part.tasks == tuple(design.tasks[i] for i in (1, 2, 8))
    assert part.families == ("family 000", "family 002")
    assert [part.families[f] for f in part.task_family] == [
        design.families[design.task_family[i]] for i in (1, 2, 8)
    ]
    np.testing.assert_array_equal(part.successes, design.successes[:, [1, 2, 8]])
    np.testing.assert_array_equal(part.human_minutes, design.human_minutes[[1, 2, 8]])
    for name in ("run", "failed", "estimate"):
        whole_task = getattr(design, f"{name}_task")
        for new, old in enumerate((1, 2, 8)):
            mine = getattr(part, f"{name}_log2")[getattr(part, f"{name}_task") == new]
            np.testing.assert_array_equal(mine, getattr(design, f"{name}_log2")[whole_task == old])
    assert part.agent_groups == design.agent_groups


def test_a_subset_leaves_out_agents_without_a_run(design: Design) -> None:
    attempts = design.attempts.copy()
    attempts[1, :6] = 0
    part = subset_tasks(replace(design, attempts=attempts), np.arange(12) < 6)
    assert part.agents == ("agent 0", "agent 2")
    assert part.agent_groups == ("x", "z")
    assert part.agent_years.tolist() == [-1, 1]
    with pytest.raises(InputError, match="no agent run is left"):
        subset_tasks(design, np.zeros(12, dtype=bool))


def test_estimate_only_tasks_are_those_without_a_timed_success(design: Design) -> None:
    np.testing.assert_array_equal(estimate_only(design), np.arange(12) % 2 == 1)
    both = replace(design, run_task=np.append(design.run_task, 1), run_log2=np.append(
        design.run_log2, 3.0))  # fmt: skip
    assert not estimate_only(both)[1]


def test_resampled_tasks_are_copies_of_whole_families_drawn_evenly(design: Design) -> None:
    rng = np.random.default_rng(9)
    drawn, times = Counter[str](), 600
    for _ in range(times):
        again = resample_tasks(design, rng)
        assert len(again.families) == len(design.families)
        assert len(set(again.tasks)) == len(again.tasks)
        assert (np.diff(again.task_family) >= 0).all()
        for name, family in zip(again.tasks, again.task_family, strict=True):
            original = design.tasks.index(name.split(" #")[0])
            of_copy = again.families[family].split(" #")[0]
            assert of_copy == design.families[design.task_family[original]]
        drawn.update(name.split(" #")[0] for name in again.tasks)
    # Each task is expected once a draw; the families' luck gives a count a variance of nearly 2.
    counts = np.array([drawn[task] for task in design.tasks])
    assert np.abs(counts - times).max() < 4 * np.sqrt(2 * times)
    for new, name in enumerate(again.tasks):
        old = design.tasks.index(name.split(" #")[0])
        np.testing.assert_array_equal(again.successes[:, new], design.successes[:, old])
        np.testing.assert_array_equal(
            again.run_log2[again.run_task == new], design.run_log2[design.run_task == old]
        )
