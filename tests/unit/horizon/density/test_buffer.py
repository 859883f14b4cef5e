"""The compiled functions read what was written, and a buffer that does not fit is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from designs import draw_design, usual_truth
from tidegauge.engine.priors import uniform_logit
from tidegauge.errors import InputError
from tidegauge.horizon.data.design import Design
from tidegauge.horizon.density import buffer as b
from tidegauge.horizon.model.options import CORE, DEFAULT_PRIORS, HorizonOptions
from tidegauge.horizon.sampler.target import start_reference, to_centred, whitened_density

OPTIONS = HorizonOptions(noise="weibull", failures="censor", pooling="all")


@pytest.fixture(scope="module")
def design() -> Design:
    rng = np.random.default_rng(6)
    return draw_design(usual_truth(rng, n_agents=3, n_tasks=7, n_families=2), rng, failed=4)


@pytest.fixture
def packed(design: Design) -> np.ndarray:
    reference = start_reference(design, DEFAULT_PRIORS, OPTIONS)
    return b.pack_data(design, DEFAULT_PRIORS, OPTIONS, reference.expansion)


def section(packed: np.ndarray, name: str) -> np.ndarray:
    """Return a section by its name, read without the compiled reader."""
    starts = packed[b.HEADER - len(b.SECTIONS) - 1 : b.HEADER].astype(int)
    number = list(b.SECTIONS).index(name)
    return packed[starts[number] : starts[number + 1]]


def test_compiled_reader_finds_every_section_by_its_name(packed: np.ndarray) -> None:
    data, expansion = b.read_data(packed), b.read_expansion(packed)
    read = {
        **{f"run_{name}": part for name, part in data.runs._asdict().items()},
        **{f"estimate_{name}": part for name, part in data.estimates._asdict().items()},
        **data.agents._asdict(),
        **{f"interval_{name}": part for name, part in data.intervals._asdict().items()},
        **{f"failed_{name}": part for name, part in data.failed._asdict().items()},
        **{name: part for name, part in data._asdict().items() if name in b.SECTIONS},
        **{f"cell_{name}": part for name, part in data.cells._asdict().items()},
        **b.Expansion(*expansion[:-2], *(b.Link(*link) for link in expansion[-2:])).sections(),
    }
    assert set(read) == set(b.SECTIONS)
    for name, part in read.items():
        np.testing.assert_array_equal(np.ravel(part), section(packed, name), err_msg=name)


def test_data_are_those_of_the_design(design: Design, packed: np.ndarray) -> None:
    data = b.read_data(packed)
    np.testing.assert_array_equal(data.attempts, design.attempts)
    np.testing.assert_array_equal(data.successes, design.successes)
    np.testing.assert_array_equal(data.failed.log2, design.failed_log2)
    assert data.intervals.task.size == design.run_task.size
    assert data.runs.number.sum() == 0
    assert data.settings.alpha_sd == DEFAULT_PRIORS.alpha.sd
    assert b.length_of(packed) == packed.size


def test_a_buffer_without_coordinates_has_empty_sections(design: Design) -> None:
    packed = b.pack_data(design, DEFAULT_PRIORS, CORE)
    assert b.read_expansion(packed).root.size == 0
    assert b.length_of(packed) == packed.size


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (0, 1.0, "no header of"),
        (1, 4.0, "sections do not fit their sizes: .*group has 3, should have 4"),
        (1, -3.0, "sizes must be whole numbers"),
        (1, np.nan, "sizes must be whole numbers"),
        (2, 6.5, "sizes must be whole numbers"),
        (b.HEADER - 1, 1e9, "sections do not fit"),
        (b.HEADER - 2, 0.0, "sections do not fit"),
        (b.HEADER - len(b.SECTIONS) - 2, 1.0, "blocks of the parameter vector overlap"),
    ],
)
def test_a_corrupted_header_is_refused(
    packed: np.ndarray, place: int, value: float, message: str
) -> None:
    b.check_buffer(packed)
    packed[place] = value
    with pytest.raises(ValueError, match=message):
        b.check_buffer(packed)


@pytest.mark.parametrize(
    "name", ["first_task", "source", "group", "interval_task", "failed_task", "order"]
)
def test_an_index_that_points_outside_is_refused(packed: np.ndarray, name: str) -> None:
    section(packed, name)[0] = 99
    with pytest.raises(ValueError, match=f"{name}=99: must be below"):
        b.check_buffer(packed)


def test_a_buffer_that_was_cut_short_is_refused_before_it_is_read(design: Design) -> None:
    density = whitened_density(design, DEFAULT_PRIORS, CORE, start_reference(design))
    with pytest.raises(ValueError, match="sections do not fit"):
        to_centred(replace(density, data=density.data[:-1]), np.zeros(density.size))


def test_a_prior_of_agents_that_is_not_compiled_is_refused(design: Design) -> None:
    priors = replace(DEFAULT_PRIORS, alpha=uniform_logit())
    with pytest.raises(InputError, match=r"alpha: logit of Uniform.*: must be a normal prior"):
        b.pack_data(design, priors, CORE)
