"""The hierarchical Bayesian model on the shared engine, with its whole posterior.

A new patient's slope is drawn from the population given covariates; the level at the first visit
from the population given the noisy measurement. The standard variates behind these draws are part
of the fit, so a patient's forecast does not depend on who else is asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.special import stdtrit
from scipy.stats import gamma, norm, qmc

from tidegauge.arrays import FloatArray, IntArray
from tidegauge.engine.config import SamplerConfig
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
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
SAMPLER = SamplerConfig(draws=250, tune=300, chains=2, cores=1)


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

    def forecast(self, baselines: Baselines, questions: Questions) -> FloatArray:
        """Return posterior predictive draws of a measurement at each question's week."""
        draws = np.empty((len(questions), DRAWS))
        asked, patient = np.unique(questions.patient, return_inverse=True)
        for start in range(0, len(asked), _BLOCK_PATIENTS):
            rows = np.flatnonzero((patient >= start) & (patient < start + _BLOCK_PATIENTS))
            block = baselines.take(asked[start : start + _BLOCK_PATIENTS])
            t = questions.gap_weeks[rows] / TIME_WEEKS
            draws[rows] = reduce_draws(self._draws(block, patient[rows] - start, t))
        return draws

    def slopes_ml_per_year(self, baselines: Baselines) -> FloatArray:
        """Return draws of each patient's yearly change, shape (patients, draws)."""
        patients = design_patients(baselines, self.columns, self.scaling)
        slopes: FloatArray = self._slopes(patients) * patients.unit_ml[:, None] * 52.18 / TIME_WEEKS
        return slopes

    def _draws(self, baselines: Baselines, patient: IntArray, t: FloatArray) -> FloatArray:
        patients = design_patients(baselines, self.columns, self.scaling)
        level, slope = self._levels(patients), self._slopes(patients)
        s = self.scalars
        nu = 1.0 + np.exp(s[:, 8])
        noise = stdtrit(nu, self.uniforms[:, 3])
        scale = np.exp(s[:, 6] + patients.log_size[:, None] * s[:, 7])
        change = level[patient] + slope[patient] * t[:, None] + (noise * scale)[patient]
        result: FloatArray = (
            baselines.fvc_ml[patient, None] + patients.unit_ml[patient, None] * change
        )
        return result

    def _slopes(self, patients: PatientDesign) -> FloatArray:
        s = self.scalars
        unit = stdtrit(1.0 + np.exp(s[:, 9]), self.uniforms[:, 0])
        slopes: FloatArray = s[:, 3] + patients.x @ self.effects.T + np.exp(s[:, 5]) * unit
        return slopes

    def _levels(self, patients: PatientDesign) -> FloatArray:
        """Draw true minus measured level at the first visit, given that measurement.

        Student-t noise is normal noise with a gamma precision. The precision is drawn first, on
        a grid of quantiles of its prior reweighted by how well it explains the measurement; then
        the level is normal.
        """
        s = self.scalars
        nu = 1.0 + np.exp(s[:, 8])
        grid = (np.arange(_LEVEL_GRID) + 0.5) / _LEVEL_GRID
        precision = gamma.ppf(grid[:, None], nu / 2) / (nu / 2)  # (grid, draws)
        prior_mean = (s[:, 0] + patients.expected[:, None] * s[:, 1]) * patients.centre[:, None]
        prior_mean = prior_mean - patients.observed[:, None]  # (patients, draws)
        prior_var = (patients.centre[:, None] * np.exp(s[:, 2])) ** 2
        noise_var = np.exp(2 * (s[:, 6] + patients.log_size[:, None] * s[:, 7]))
        noise = noise_var[:, None, :] / precision  # (patients, grid, draws)
        total = noise + prior_var[:, None, :]
        log_weight = -0.5 * (prior_mean[:, None, :] ** 2 / total + np.log(total))
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        cumulative = np.cumsum(weight, axis=1)
        target = self.uniforms[:, 1] * cumulative[:, -1, :]
        picked = (cumulative < target[:, None, :]).sum(axis=1)
        chosen = np.take_along_axis(noise, picked[:, None, :], axis=1)[:, 0, :]
        share = prior_var / (prior_var + chosen)
        levels: FloatArray = prior_mean * (1 - share) + np.sqrt(share * chosen) * norm.ppf(
            self.uniforms[:, 2]
        )
        return levels

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
        effects = np.exp(scalars[:, 4:5]) * flat[picked, n : n + k]
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
