"""Prediction of unseen agents against refits, brute force and ArviZ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from tidegauge.engine.priors import gamma, half_cauchy, half_normal, normal, truncated_normal
from tidegauge.errors import InputError
from tidegauge.horizon.model.options import DEFAULT_PRIORS, HorizonPriors
from tidegauge.horizon.model.trend_shapes import SHAPES, TREND_SHAPES, trend_value
from tidegauge.horizon.trend.comparison import averaging_weights, stacking_weights
from tidegauge.horizon.trend.prediction import Measured, TrendModel, prior_quantile


def some_agents(n_agents: int, seed: int) -> Measured:
    rng = np.random.default_rng(seed)
    years = np.sort(rng.uniform(-2, 2, n_agents))
    sd = rng.uniform(0.3, 0.9, n_agents)
    log2 = 4 + years + rng.normal(0, 0.6, n_agents) + rng.normal(0, sd)
    return Measured(tuple(f"agent {a}" for a in range(n_agents)), years, log2, sd)


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest) -> TrendModel:
    measured = some_agents(7, seed=1)
    measured.years[3] = measured.years[4]  # two of one day
    return TrendModel(request.param, measured)


def test_leaving_one_out_is_predicting_it_from_the_others(model: TrendModel) -> None:
    measured = model.measured
    refitted = []
    for agent in range(len(measured.agents)):
        held = np.arange(len(measured.agents)) == agent
        refitted.append(model.predict(measured.part(~held), measured.part(held))[0])
    np.testing.assert_allclose(model.leave_one_out(), refitted, rtol=1e-7)


def test_leaving_the_future_out_is_predicting_from_the_past(model: TrendModel) -> None:
    measured = model.measured
    chosen, scores = model.leave_future_out(3)
    assert list(chosen) == [3, 4, 5, 6]
    for agent, score in zip(chosen, scores, strict=True):
        past = measured.years < measured.years[agent]
        held = np.arange(len(measured.agents)) == agent
        again = model.predict(measured.part(past), measured.part(held))[0]
        assert score == pytest.approx(again, rel=1e-7)


def test_prediction_is_that_of_a_million_prior_draws(model: TrendModel) -> None:
    rng, size = np.random.default_rng(2), 400_000
    seen, target = some_agents(4, seed=3), some_agents(3, seed=4)
    ends = model.measured.years.min(), model.measured.years.max()
    coefficients = {
        name: rng.uniform(*ends, size)
        if name == "trend_kink"
        else rng.normal(getattr(DEFAULT_PRIORS, name).mu, getattr(DEFAULT_PRIORS, name).sd, size)
        for name in TREND_SHAPES[model.shape].coefficients
    }
    prior = DEFAULT_PRIORS.sigma_horizon
    assert prior.kind == "gamma"
    scatter = rng.gamma((prior.mu / prior.sd) ** 2, prior.sd**2 / prior.mu, size)[:, None]

    def log_density(some: Measured) -> np.ndarray:
        centre = trend_value(model.shape, coefficients, some.years)
        return stats.norm.logpdf(some.log2, centre, np.hypot(scatter, some.sd))

    log_weight = log_density(seen).sum(axis=1)
    weight = np.exp(log_weight - logsumexp(log_weight))
    expected = weight @ np.exp(log_density(target))
    error = np.sqrt((weight**2) @ (np.exp(log_density(target)) - expected) ** 2) / expected
    assert error.max() < 0.05, "the brute force must be able to tell"
    difference = model.predict(seen, target) - np.log(expected)
    assert (np.abs(difference) < 4 * error + 0.01).all()


def test_draws_have_the_moments_of_the_regression(model: TrendModel) -> None:
    drawn = model.draw(20_000, np.random.default_rng(5))
    assert set(drawn) == {*TREND_SHAPES[model.shape].coefficients, "sigma_horizon"}
    measured = model.measured
    new = Measured(("new",), np.array([1.0]), np.array([5.0]), np.array([0.4]))
    centre = trend_value(model.shape, drawn, new.years)[:, 0]
    density = stats.norm.pdf(5.0, centre, np.hypot(drawn["sigma_horizon"], 0.4))
    exact = np.exp(model.predict(measured, new)[0])
    error = density.std() / np.sqrt(density.size)
    # The draws repeat the points, so their error is also that of some hundred points.
    assert density.mean() == pytest.approx(exact, abs=4 * error + 0.01 * exact)
    assert model.effective_points() > 200


def test_only_normal_priors_can_be_integrated_exactly() -> None:
    priors = HorizonPriors(trend_rate=truncated_normal(1, 2, upper=np.inf))
    with pytest.raises(InputError, match="trend_rate: a truncated_normal prior"):
        TrendModel("linear", some_agents(5, seed=1), priors=priors)
    TrendModel("logistic", some_agents(5, seed=1), priors=priors).leave_one_out()


@pytest.mark.parametrize(
    ("prior", "known"),
    [
        (normal(1, 2), stats.norm(1, 2)),
        (half_normal(2), stats.halfnorm(0, 2)),
        (half_cauchy(1), stats.halfcauchy(0, 1)),
        (truncated_normal(-0.5, 1.5, upper=0), stats.truncnorm(-np.inf, 1 / 3, -0.5, 1.5)),
        (gamma(mean=20, sd=200**0.5), stats.gamma(2, scale=10)),
        ((-1.0, 3.0), stats.uniform(-1, 4)),
    ],
)
def test_prior_quantiles_are_those_of_the_distribution(prior: object, known: object) -> None:
    places = np.linspace(0.01, 0.99, 21)
    found = prior_quantile(prior, places)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, known.ppf(places), rtol=1e-9)  # type: ignore[attr-defined]


def test_stacking_weights_are_those_of_arviz() -> None:
    import arviz as az

    rng = np.random.default_rng(7)
    density = rng.normal(-1, 0.7, (4, 60))
    found = stacking_weights(density)
    # Leaving out by importance does nothing to a log likelihood that all draws share.
    models = {
        f"shape {k}": az.from_dict(
            posterior={"x": rng.normal(size=(2, 100))},
            log_likelihood={"y": np.broadcast_to(row, (2, 100, 60))},
        )
        for k, row in enumerate(density)
    }
    with np.errstate(all="ignore"):
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            table = az.compare(models, ic="loo", method="stacking")
    expected = [table.loc[f"shape {k}", "weight"] for k in range(4)]
    np.testing.assert_allclose(found, expected, atol=2e-3)
    mixture = logsumexp(density + np.log(found)[:, None], axis=0).sum()
    theirs = logsumexp(density, axis=0, b=np.array(expected)[:, None]).sum()
    assert mixture >= theirs - 1e-6


def test_averaging_weights_follow_the_evidence_and_are_even_without_any() -> None:
    density = np.random.default_rng(8).normal(-1, 0.7, (1, 30))
    np.testing.assert_allclose(averaging_weights(np.repeat(density, 4, axis=0)), 0.25)
    # One nat an agent better: exp(-30) is left for the other.
    assert averaging_weights(np.concatenate([density, density - 1]))[0] > 0.999
    # Two shapes that win by turns share, where stacking mixes them.
    turns = np.tile([[0.0, -2.0]], (1, 10))
    pair = np.concatenate([turns, turns[:, ::-1]])
    np.testing.assert_allclose(averaging_weights(pair), 0.5, atol=0.05)
    np.testing.assert_allclose(stacking_weights(pair), 0.5, atol=1e-6)
