"""The hierarchical Bayesian model on the shared engine, with its whole posterior.

A new patient's slope is drawn from the population given covariates; the level at the first visit
from the population given the noisy measurement. The standard variates behind these draws are part
of the fit, so a patient's forecast does not depend on who else is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, stdtrit
from scipy.stats import gamma, norm, qmc

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.config import SamplerConfig
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions, Visits
from tidegauge.fvc.data.covariates import TABLE_COVARIATES, FeatureScaling, column_numbers
from tidegauge.fvc.forecasters import DRAWS, Array, State, reduce_draws
from tidegauge.fvc.model.design import (
    DEFAULT_PRIORS,
    SCALARS,
    TIME_WEEKS,
    HierarchicalPriors,
    PatientDesign,
    design_cohort,
    design_patients,
)

KEPT_DRAWS = 1000
_LEVEL_GRID = 16  # quantiles of the first visit's noise precision
_BLOCK_PATIENTS = 64
_CANDIDATES = 16
# Rotations of the variates that keep them even in each dimension (roots of the plastic numbers).
_SHIFT = np.array([0.8567, 0.7339, 0.6287, 0.5386])
SAMPLER = SamplerConfig(draws=250, tune=300, chains=2, cores=1)


class _Courses(NamedTuple):
    """Draws for each patient, shape (patients, draws), in units: level, slope, scale, tail."""

    level: FloatArray
    slope: FloatArray
    scale: FloatArray
    nu: FloatArray


@dataclass(frozen=True, slots=True)
class HierarchicalFit:
    """Posterior draws of the population, with the variates that make forecasts repeatable.

    Attributes
    ----------
    scalars : ndarray of shape (draws, scalars)
        Unconstrained, in the order of `design.SCALARS`.
    effects : ndarray of shape (draws, covariates)
        Change of slope for one standard deviation of a covariate.
    uniforms : ndarray of shape (draws, 4)
        For slope, precision of the first visit, level, and noise of the visit asked about.
    columns : ndarray
        Which table covariates are used.
    scaling : FeatureScaling
        Of the scan features.
    r_hat : float
        The largest of the population's parameters; near 1 when the chains agree.
    """

    scalars: FloatArray
    effects: FloatArray
    uniforms: FloatArray
    columns: IntArray
    scaling: FeatureScaling
    r_hat: float = 1.0

    def forecast(
        self, baselines: Baselines, questions: Questions, seen: Visits | None = None
    ) -> FloatArray:
        """Return posterior predictive draws of a measurement at each question's week.

        Parameters
        ----------
        seen : Visits, optional
            Later visits that are known already; the forecast is conditioned on them.
        """
        draws = np.empty((len(questions), DRAWS))
        asked, patient = np.unique(questions.patient, return_inverse=True)
        for start in range(0, len(asked), _BLOCK_PATIENTS):
            rows = np.flatnonzero((patient >= start) & (patient < start + _BLOCK_PATIENTS))
            block = asked[start : start + _BLOCK_PATIENTS]
            t = questions.gap_weeks[rows] / TIME_WEEKS
            known = seen.of(block) if seen is not None else None
            values = self._draws(baselines.take(block), patient[rows] - start, t, known)
            draws[rows] = reduce_draws(values)
        return draws

    def _draws(
        self, baselines: Baselines, patient: IntArray, t: FloatArray, seen: Visits | None
    ) -> FloatArray:
        patients = design_patients(baselines, self.columns, self.scaling)
        if seen is not None and len(seen):
            courses = self._conditioned(baselines, patients, seen)
        else:
            courses = self._courses(patients, self.uniforms)
        noise = stdtrit(courses.nu, self.uniforms[:, 3]) * courses.scale
        change = courses.level[patient] + courses.slope[patient] * t[:, None] + noise[patient]
        result: FloatArray = (
            baselines.fvc_ml[patient, None] + patients.unit_ml[patient, None] * change
        )
        return result

    def _courses(self, patients: PatientDesign, uniforms: FloatArray) -> _Courses:
        """Draw each patient's course given the first visit."""
        s = self._by_name()
        slope_unit = stdtrit(1.0 + np.exp(s["log_nu_slope"]), uniforms[:, 0])
        slope = (
            s["slope_mean"] + patients.x @ self.effects.T + np.exp(s["log_slope_sd"]) * slope_unit
        )
        scale = np.exp(s["log_sigma"] + patients.log_size[:, None] * s["growth"])
        nu = np.broadcast_to(1.0 + np.exp(s["log_nu"]), scale.shape)
        return _Courses(self._levels(patients, uniforms), slope, scale, nu)

    def _conditioned(self, baselines: Baselines, patients: PatientDesign, seen: Visits) -> _Courses:
        """Draw courses given every visit seen: importance resampling of those given the first.

        Each candidate is weighted by the Student-t density of the later visits. Shifted copies of
        the variates give `_CANDIDATES` candidates for each draw of the population.
        """
        copies = ((self.uniforms + k * _SHIFT) % 1.0 for k in range(_CANDIDATES))
        parts = [self._courses(patients, uniforms) for uniforms in copies]
        courses = _Courses(*(np.concatenate(field, axis=1) for field in zip(*parts, strict=True)))
        unit = patients.unit_ml[seen.patient]
        change = (seen.fvc_ml - baselines.fvc_ml[seen.patient]) / unit
        i, t = seen.patient, (seen.gap_weeks / TIME_WEEKS)[:, None]
        z = (change[:, None] - courses.level[i] - courses.slope[i] * t) / courses.scale[i]
        nu = courses.nu[i]
        constant = gammaln((nu + 1) / 2) - gammaln(nu / 2) - 0.5 * np.log(nu * np.pi)
        log_density = constant - np.log(courses.scale[i]) - (nu + 1) / 2 * np.log1p(z**2 / nu)
        log_weight = np.zeros(courses.level.shape)
        np.add.at(log_weight, i, log_density)
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weight, axis=1)
        n = len(self.uniforms)
        targets = (np.arange(n) + 0.5) / n * cumulative[:, -1:]
        picked = np.array(
            [np.searchsorted(c, at) for c, at in zip(cumulative, targets, strict=True)]
        )
        # The noise of the visit asked about must not follow the order of the candidates.
        picked = picked[:, np.argsort(self.uniforms[:, 1], kind="stable")]
        return _Courses(*(np.take_along_axis(field, picked, axis=1) for field in courses))

    def _levels(self, patients: PatientDesign, uniforms: FloatArray) -> FloatArray:
        """Draw true minus measured level at the first visit, given that measurement.

        Student-t noise is normal noise with a gamma precision. The precision is drawn first, on
        a grid of quantiles of its prior reweighted by how well it explains the measurement; then
        the level is normal.
        """
        s = self._by_name()
        nu = 1.0 + np.exp(s["log_nu"])
        grid = (np.arange(_LEVEL_GRID) + 0.5) / _LEVEL_GRID
        precision = gamma.ppf(grid[:, None], nu / 2) / (nu / 2)  # (grid, draws)
        prior_mean = s["level_mean"] + patients.expected[:, None] * s["level_expected"]
        prior_mean = prior_mean * patients.centre[:, None]
        prior_mean = prior_mean - patients.observed[:, None]  # (patients, draws)
        prior_var = (patients.centre[:, None] * np.exp(s["log_level_sd"])) ** 2
        noise_var = np.exp(2 * (s["log_sigma"] + patients.log_size[:, None] * s["growth"]))
        noise = noise_var[:, None, :] / precision  # (patients, grid, draws)
        total = noise + prior_var[:, None, :]
        log_weight = -0.5 * (prior_mean[:, None, :] ** 2 / total + np.log(total))
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weight, axis=1)
        target = uniforms[:, 1] * cumulative[:, -1, :]
        picked = (cumulative < target[:, None, :]).sum(axis=1)
        chosen = np.take_along_axis(noise, picked[:, None, :], axis=1)[:, 0, :]
        share = prior_var / (prior_var + chosen)
        levels: FloatArray = prior_mean * (1 - share) + np.sqrt(share * chosen) * norm.ppf(
            uniforms[:, 2]
        )
        return levels

    def _by_name(self) -> dict[str, FloatArray]:
        """Return the draws of each scalar of the population."""
        return dict(zip(SCALARS, self.scalars.T, strict=True))

    def state(self) -> dict[str, Array]:
        """Return posterior draws, variates and scaling."""
        return {
            "scalars": self.scalars,
            "effects": self.effects,
            "uniforms": self.uniforms,
            "columns": self.columns,
            "feature_mean": self.scaling.mean,
            "feature_sd": self.scaling.sd,
            "r_hat": np.array(self.r_hat),
        }


def split_r_hat(position: FloatArray) -> float:
    """Return the largest split R-hat of draws of shape (chain, draw, parameter)."""
    half = position.shape[1] // 2
    parts = np.concatenate([position[:, :half], position[:, half : 2 * half]])
    within = parts.var(axis=1, ddof=1).mean(axis=0)
    between = parts.mean(axis=1).var(axis=0, ddof=1)
    return float(np.sqrt((half - 1) / half + between / within).max())


@dataclass(frozen=True, slots=True)
class Hierarchical:
    """Sample the hierarchical model.

    Attributes
    ----------
    covariates : tuple of str
        Names out of `TABLE_COVARIATES` that may move the slope.
    scans : bool
        Whether scan features may move it too.
    sampler : SamplerConfig
        Its seed is replaced by that of `fit`.
    """

    name: str = "hierarchical"
    covariates: tuple[str, ...] = TABLE_COVARIATES
    scans: bool = False
    priors: HierarchicalPriors = DEFAULT_PRIORS
    sampler: SamplerConfig = SAMPLER

    def fit(self, cohort: Cohort, *, seed: int) -> HierarchicalFit:
        """Sample the posterior with NUTS and thin it to `KEPT_DRAWS`."""
        from tidegauge.engine.sampling import sample_density
        from tidegauge.fvc.model.density import make_density

        cohort = cohort if self.scans else cohort.without_features()
        columns = column_numbers(self.covariates)
        scaling = FeatureScaling.of(cohort.baselines.features)
        density = make_density(design_cohort(cohort, columns, scaling), self.priors)
        position = sample_density(density, replace(self.sampler, seed=seed)).position
        flat = position.reshape(-1, position.shape[-1])
        n, k = len(SCALARS), len(columns) + len(scaling.mean)
        rng = np.random.default_rng(seed)
        picked = np.resize(rng.permutation(len(flat)), KEPT_DRAWS)
        scalars = flat[picked, :n]
        effect_sd = np.exp(scalars[:, [SCALARS.index("log_effect_sd")]])
        effects = effect_sd * flat[picked, n : n + k]
        uniforms = qmc.LatinHypercube(4, rng=rng).random(KEPT_DRAWS)
        r_hat = split_r_hat(position[:, :, :n])
        return HierarchicalFit(scalars, effects, uniforms, columns, scaling, r_hat)

    def restore(self, state: State) -> HierarchicalFit:
        """Rebuild from the saved draws."""
        return HierarchicalFit(
            state["scalars"],
            state["effects"],
            state["uniforms"],
            state["columns"],
            FeatureScaling(state["feature_mean"], state["feature_sd"]),
            float(state["r_hat"]),
        )
