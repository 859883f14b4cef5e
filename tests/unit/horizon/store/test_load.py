"""A result read back from its folder is the same object, or is refused with the file's name."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import pytest

import tidegauge.horizon as th
from builders import describe_anew
from tidegauge.errors import InputError
from tidegauge.horizon import HorizonFit, Runs, load
from tidegauge.horizon.model.option_file import make_model
from tidegauge.horizon.result import CurveFit

FILES = ("diagnostics.json", "posterior.nc", "manifest.json")
QUICK = {"draws": 40, "tune": 60, "chains": 2}
MODELS = {
    "core": {},
    "full": {"human_scale": "source", "discrimination": True, "noise_growth": True},
    "pooled": {"pooling": "lab", "trend": "logistic", "noise": "student_t", "estimate_bias": True},
}


@pytest.fixture
def spoilt(fit_folder: Path, tmp_path: Path) -> Path:
    """A copy of the fit that a test may spoil."""
    return Path(shutil.copytree(fit_folder, tmp_path / "fit"))


def edit_json(path: Path, **fields: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


@pytest.mark.parametrize("name", MODELS)
def test_a_fit_is_read_back_as_it_was_saved(name: str, dated_runs: Runs, tmp_path: Path) -> None:
    runs = replace(dated_runs, groups={"agent-01": "north"})
    priors = {"sigma_family": th.half_normal(3)}
    model = make_model("full" if name == "full" else "core", priors=priors, **MODELS[name])  # type: ignore[arg-type]
    fit = th.fit(runs, model, **QUICK)  # type: ignore[arg-type]
    fit.save(tmp_path)
    again = load(tmp_path)
    assert isinstance(again, HorizonFit)
    assert again == fit
    assert hash(again) == hash(fit)
    assert again.runs == fit.runs
    assert again.runs.notes == fit.runs.notes
    assert repr(again.runs) == repr(fit.runs)
    assert (again.options, again.sampler) == (fit.options, fit.sampler)
    assert again.priors.sigma_family == th.half_normal(3)
    assert again.diagnostics == fit.diagnostics
    assert repr(again) == repr(fit)
    for file, table in fit.tables().items():
        pd.testing.assert_frame_equal(again.tables()[file], table)
    saved_again = tmp_path / "again"
    again.save(saved_again)
    for file in fit.tables():
        assert (saved_again / file).read_bytes() == (tmp_path / file).read_bytes()


def test_other_data_options_seeds_and_draws_are_not_equal(
    fit_folder: Path, regression_folder: Path
) -> None:
    fit = load(fit_folder)
    assert isinstance(fit, HorizonFit)
    assert pickle.loads(pickle.dumps(fit)) == fit
    assert fit != load(regression_folder)
    assert fit != replace(fit, options=replace(fit.options, failures="censor"))
    assert fit != replace(fit, sampler=replace(fit.sampler, seed=99))
    assert fit != replace(fit, point=replace(fit.point, alpha=fit.point.alpha + 1))
    assert fit != replace(fit, priors=replace(fit.priors, mu_global=th.normal(5, 4)))
    fewer = replace(fit.design, attempts=fit.design.attempts + 1)
    assert fit != replace(fit, runs=replace(fit.runs, design=fewer))


def test_the_other_methods_are_read_back_as_they_were_saved(
    dated_runs: Runs, tmp_path: Path
) -> None:
    for found in (th.fit_regression(dated_runs, replicates=30), th.fit_exact(dated_runs)):
        found.save(tmp_path / found.method)
        again = load(tmp_path / found.method)
        assert isinstance(again, CurveFit)
        assert again == found
        assert hash(again) == hash(found)
        assert pickle.loads(pickle.dumps(found)) == found
        assert repr(again) == repr(found)
        for file, table in found.tables().items():
            pd.testing.assert_frame_equal(again.tables()[file], table)


@pytest.mark.parametrize("name", FILES)
def test_missing_file_is_named(spoilt: Path, name: str) -> None:
    (spoilt / name).unlink()
    with pytest.raises(InputError, match=rf"{name}.*tidegauge horizon fit RUNS --out"):
        load(spoilt)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("damage", ["empty", "binary", "half"])
@pytest.mark.parametrize("forged", [False, True])
def test_damaged_file_is_named(spoilt: Path, name: str, damage: str, forged: bool) -> None:
    noise, whole = np.random.default_rng(1).bytes(4000), (spoilt / name).read_bytes()
    spoils = {"empty": b"", "binary": noise, "half": whole[: len(whole) // 2]}
    (spoilt / name).write_bytes(spoils[damage])
    if forged and name != "manifest.json":
        describe_anew(spoilt)
    with pytest.raises(InputError, match=name):
        load(spoilt)


def test_one_changed_bit_of_the_draws_is_noticed(spoilt: Path) -> None:
    fit = load(spoilt)
    path = spoilt / "posterior.nc"
    data = bytearray(path.read_bytes())
    at = data.find(np.ascontiguousarray(fit.estimate.alpha[0, :1]).tobytes())
    assert at > 0
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"posterior\.nc: not the file that manifest\.json"):
        load(spoilt)


def test_a_fit_replaced_while_it_is_read_is_one_of_the_two(
    regression_folder: Path, exact_folder: Path, tmp_path: Path
) -> None:
    """Readers on two threads, and a writer that never rests; none sees a mixture, none fails."""
    expected = [load(regression_folder), load(exact_folder)]
    expected[0].save(tmp_path)
    stopped = threading.Event()

    def write() -> None:
        for result in itertools.cycle(reversed(expected)):
            if stopped.is_set():
                return
            result.save(tmp_path)

    def read(_: int) -> int:
        return expected.index(load(tmp_path))

    with ThreadPoolExecutor(3) as pool:
        writer = pool.submit(write)
        try:
            found = set(pool.map(read, range(40)))
        finally:
            stopped.set()
        writer.result()
    assert found == {0, 1}


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(spoilt: Path, name: str) -> None:
    (spoilt / name).unlink()
    os.mkfifo(spoilt / name)
    with pytest.raises(InputError, match=name):
        load(spoilt)


def drop_design(folder: Path) -> None:
    with h5py.File(folder / "posterior.nc", "a") as file:
        del file["constant_data"]


SPOIL: dict[str, tuple[Callable[[Path], None], str]] = {
    "another kind": (
        lambda f: edit_json(f / "manifest.json", kind="fvc/model"),
        r"manifest\.json: kind=fvc/model: not what is read here",
    ),
    "notes of the wrong type": (
        lambda f: edit_json(f / "manifest.json", notes=3),
        r"manifest\.json: .*notes",
    ),
    "checks of the wrong type": (
        lambda f: edit_json(f / "diagnostics.json", checks=[{"name": "r_hat"}]),
        r"diagnostics\.json: .*passed",
    ),
    "settings of another version": (
        lambda f: edit_json(f / "manifest.json", settings={}),
        r"posterior\.nc: cannot be read .*fit again with",
    ),
    "a folder of an older version": (
        drop_design,
        r"posterior\.nc: no constant_data: an older version wrote it; fit again with",
    ),
}


@pytest.mark.parametrize("name", SPOIL)
def test_wrong_content_is_refused_with_its_place(spoilt: Path, name: str) -> None:
    spoil, message = SPOIL[name]
    spoil(spoilt)
    describe_anew(spoilt)
    with pytest.raises(InputError, match=message):
        load(spoilt)


def test_what_is_not_a_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="not a folder"):
        load(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"no manifest\.json"):
        load(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="not a folder"):
        load(tmp_path / "file")


def test_an_interrupted_replacement_is_not_read_and_not_touched(
    regression_folder: Path, exact_folder: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(regression_folder, tmp_path / "fit"))
    shutil.copytree(exact_folder, folder / ".tidegauge-commit")
    before = sorted(folder.rglob("*"))
    with pytest.raises(InputError, match="was interrupted"):
        load(folder)
    assert sorted(folder.rglob("*")) == before
