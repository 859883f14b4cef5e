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
from tidegauge.horizon.trend.measured import Measured
from tidegauge.horizon.trend.prediction import TrendModel, prior_quantile


def some_agents(n_agents: int, seed: int, *, shared: float = 0.7) -> Measured:
    """Agents measured with errors of their own and one that all share."""
    rng = np.random.default_rng(seed)
    years = np.sort(rng.uniform(-2, 2, n_agents))
    sd = rng.uniform(0.3, 0.9, n_agents)
    cov = np.diag(sd**2) + shared**2
    value = 4 + years + rng.normal(0, 0.6, n_agents) + rng.multivariate_normal(0 * sd, cov)
    return Measured(tuple(f"agent {a}" for a in range(n_agents)), years, value, cov)


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest) -> TrendModel:
    measured = some_agents(7, seed=1)
    measured.years[3] = measured.years[4]  # two of one day
    return TrendModel(request.param, measured)


def test_leaving_one_out_is_predicting_it_from_the_others(model: TrendModel) -> None:
    agents = np.arange(len(model.measured.agents))
    everyone = model.log_evidence(agents >= 0)
    expected = [everyone - model.log_evidence(agents != agent) for agent in agents]
    np.testing.assert_allclose(model.leave_one_out(), expected, rtol=1e-7)


def test_leaving_the_future_out_is_predicting_from_the_past(model: TrendModel) -> None:
    years = model.measured.years
    chosen, scores = model.leave_future_out(3)
    assert list(chosen) == [3, 4, 5, 6]
    for agent, score in zip(chosen, scores, strict=True):
        past = years < years[agent]
        both = past | (np.arange(years.size) == agent)
        again = model.log_evidence(both) - model.log_evidence(past)
        assert score == pytest.approx(again, rel=1e-7)


def log_normals(value: np.ndarray, centre: np.ndarray, cov: np.ndarray) -> np.ndarray:
    """Log densities of multivariate normals, one a row."""
    root = np.linalg.cholesky(cov)
    white = np.linalg.solve(root, (value - centre)[..., None])[..., 0]
    logs = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)
    return -0.5 * (white**2).sum(axis=1) - logs - 0.5 * value.size * np.log(2 * np.pi)


@pytest.mark.parametrize("shared", [0.0, 1.5])
@pytest.mark.parametrize("shape", SHAPES)
def test_evidence_is_that_of_many_prior_draws(shape: str, shared: float) -> None:
    """Brute force: multivariate normals with the whole covariance, averaged over the prior."""
    measured = some_agents(4, seed=3, shared=shared)
    model = TrendModel(shape, measured)
    rng, size = np.random.default_rng(2), 300_000
    coefficients = {
        name: rng.uniform(measured.years.min(), measured.years.max(), size)
        if name == "trend_kink"
        else rng.normal(getattr(DEFAULT_PRIORS, name).mu, getattr(DEFAULT_PRIORS, name).sd, size)
        for name in TREND_SHAPES[shape].coefficients
    }
    prior = DEFAULT_PRIORS.sigma_horizon
    assert prior.kind == "gamma"
    scatter = rng.gamma((prior.mu / prior.sd) ** 2, prior.sd**2 / prior.mu, size)
    centre = trend_value(shape, coefficients, measured.years)
    cov = measured.cov + scatter[:, None, None] ** 2 * np.eye(4)
    for chosen in (np.array([True] * 4), np.array([True, True, False, True])):
        some = np.ix_(range(size), chosen, chosen)
        density = np.exp(log_normals(measured.value[chosen], centre[:, chosen], cov[some]))
        error = density.std() / np.sqrt(size) / density.mean()
        assert error < 0.05, "the brute force must be able to tell"
        difference = model.log_evidence(chosen) - np.log(density.mean())
        assert abs(difference) < 4 * error + 0.01


def test_leaving_one_out_of_a_known_scatter_is_the_conditional_normal() -> None:
    """With no freedom left in the line and the scatter, by the formula for normals."""
    still = normal(5, 1e-9)
    priors = HorizonPriors(
        trend_level=still, trend_rate=normal(1, 1e-9), sigma_horizon=gamma(mean=0.6, sd=1e-7)
    )
    measured = some_agents(6, seed=11)
    found = TrendModel("linear", measured, priors=priors).leave_one_out()
    cov, rest = measured.cov + 0.36 * np.eye(6), measured.value - 5 - measured.years
    for agent in range(6):
        others = np.arange(6) != agent
        pull = np.linalg.solve(cov[np.ix_(others, others)], cov[others, agent])
        sd = np.sqrt(cov[agent, agent] - pull @ cov[others, agent])
        expected = stats.norm.logpdf(rest[agent], pull @ rest[others], sd)
        assert found[agent] == pytest.approx(expected, abs=1e-5)
    alone = Measured(measured.agents, measured.years, measured.value, np.diag(measured.sd**2))
    independent = TrendModel("linear", alone, priors=priors).leave_one_out()
    assert np.abs(independent - found).max() > 0.3, "the errors that agents share must matter"


def test_draws_have_the_moments_of_the_regression(model: TrendModel) -> None:
    drawn = model.draw(20_000, np.random.default_rng(5))
    assert set(drawn) == {*TREND_SHAPES[model.shape].coefficients, "sigma_horizon"}
    measured = model.measured
    # Beside the agents, one more whose error is its own: its density is a ratio of evidences.
    years, value = np.append(measured.years, 1.0), np.append(measured.value, 5.0)
    cov = np.zeros((8, 8))
    cov[:7, :7], cov[7, 7] = measured.cov, 0.16
    more = TrendModel(model.shape, Measured((*measured.agents, "new"), years, value, cov))
    known = np.arange(8) < 7
    exact = np.exp(more.log_evidence(known | ~known) - more.log_evidence(known))
    centre = trend_value(model.shape, drawn, np.array([1.0]))[:, 0]
    density = stats.norm.pdf(5.0, centre, np.hypot(drawn["sigma_horizon"], 0.4))
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
