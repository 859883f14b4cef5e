"""An OSIC-like cohort with a known truth: who the patients are and how their visits go.

Every constant below is an aggregate of the public competition table (158 patients, 1,394 visits)
or chosen so that the simulated aggregate agrees with it; no row of that table is used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tidegauge.arrays import FloatArray
from tidegauge.errors import InputError
from tidegauge.schema.osic import SMOKING_STATUSES, VISIT_COLUMNS

# Shares of patients.
_MALE_SHARE = 0.80
_SMOKING_SHARES = {"Male": (0.76, 0.19, 0.05), "Female": (0.31, 0.66, 0.03)}  # SMOKING_STATUSES
_AGE_YEARS = (67.4, 6.9)  # mean and sd; the table spans 51 to 88
_AGE_RANGE_YEARS = (50, 88)
_REPEATED_WEEK_SHARE = 7 / 158  # patients with two visits in one week

# What Percent is relative to: ml = intercept + slope * age, with a residual sd.
_PREDICTED_ML = {"Male": (5804.0, -29.6, 387.0), "Female": (3821.0, -23.1, 345.0)}
_LOG_PERCENT = (np.log(77.0), 0.23)  # mean and sd of log Percent at the first visit
_PREDICTED_PERCENT_PULL = -0.35  # tall patients keep a smaller share
_PERCENT_RANGE = (42.0, 145.0)

# When visits happen: first week by its quantiles, then a protocol with a week of slack.
_FIRST_WEEK_QUANTILES = (
    (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0),
    (-5.0, -1.0, 3.0, 9.0, 21.75, 44.0, 79.0),
)
_FIRST_GAP_WEEKS = (1, 2, 3, 4, 5, 6, 7)
_FIRST_GAP_SHARES = (0.30, 0.30, 0.13, 0.10, 0.07, 0.05, 0.05)
_LATER_GAPS_WEEKS = (2, 2, 2, 6, 12, 12, 16, 3)
_VISIT_COUNTS = (6, 7, 8, 9, 10)
_VISIT_COUNT_SHARES = (0.006, 0.038, 0.146, 0.747, 0.063)

# Decline at 2,700 ml, in ml a week: a two-piece Student t, longer towards fast decline.
_SLOPE_CENTRE = -3.4
_SLOPE_SCALES = (4.3, 2.3)  # below and above the centre
_SLOPE_DF = 3.5
_SLOPE_RANGE = (-35.0, 15.0)
_CURRENT_SMOKER_SLOPE = 4.0  # the few current smokers of the table decline less
_REFERENCE_ML = 2700.0

# Visit noise relative to the level: a Student t whose scale differs by patient.
_NOISE_SCALE = 0.030  # median over patients
_NOISE_LOG_SD = 0.38
_NOISE_DF = 4.5
_NOISE_CAP = 6.0  # in scales: a spirometer reading is repeated when it is absurd
_DRIFT_SHARE = 0.024  # sd of slow departures from the line, relative to the level
_DRIFT_WEEKS = 12.0  # and how long they last
_LOWEST_FVC_ML = 500.0

# Fibrosis: the share of the lung it takes. Its correlation with the slope is an assumption: CT
# features published of the real patients reach 0.23, a ridge of twelve 0.15 on unseen ones.
SCAN_CORRELATION = 0.2
_COPULA_PER_CORRELATION = 1.13  # of the normals behind the two, whose maps are not linear
_FIBROSIS_PERCENT_PULL = -0.25  # worse lungs also start lower
_FIBROSIS_LOGIT = (-1.7, 0.75)
_LUNG_TO_FVC = (1.45, 0.12)  # median and log sd of CT lung volume over FVC


_KNOWN = ("Age", "Sex", "SmokingStatus")


@dataclass(frozen=True)
class SimulatedCohort:
    """Visits as a user gets them, and what made them.

    Attributes
    ----------
    visits : DataFrame
        ``VISIT_COLUMNS``, rows grouped by patient in order of id, then by week; ml and percent.
    truth : DataFrame
        One row a patient: ``baseline_ml`` (the level at the first visit without noise),
        ``slope_ml_per_week``, ``predicted_ml`` (what Percent is relative to), ``noise_share``
        (relative scale of a visit's error), ``fibrosis_fraction`` and ``lung_volume_ml`` (CT).
    """

    visits: pd.DataFrame
    truth: pd.DataFrame


def simulate_cohort(
    *, n_patients: int = 176, scan_correlation: float = SCAN_CORRELATION, seed: int
) -> SimulatedCohort:
    """Draw a cohort whose marginals are those of the public table.

    Parameters
    ----------
    scan_correlation : float
        How strongly fibrosis on the scan goes with the speed of decline, 0 to 0.85.

    Raises
    ------
    InputError
        `n_patients` is not in 1 to 50,000, `seed` is negative, or no such correlation is possible.
    """
    if not 1 <= n_patients <= 50_000:
        raise InputError(f"n_patients={n_patients}: must be from 1 to 50,000")
    if seed < 0:
        raise InputError(f"seed={seed}: must be 0 or more")
    if not 0 <= scan_correlation <= 0.85:
        raise InputError(f"scan_correlation={scan_correlation}: must be from 0 to 0.85")
    rng = np.random.default_rng(seed)
    patients = _draw_patients(n_patients, scan_correlation, rng)
    return SimulatedCohort(_draw_visits(patients, rng), patients.drop(columns=list(_KNOWN)))


def _draw_patients(n: int, scan_correlation: float, rng: np.random.Generator) -> pd.DataFrame:
    """One row a patient: what is known of them and what is true of them."""
    sex = np.where(rng.random(n) < _MALE_SHARE, "Male", "Female")
    smoking = [rng.choice(SMOKING_STATUSES, p=_SMOKING_SHARES[s]) for s in sex]
    age = np.clip(np.rint(rng.normal(*_AGE_YEARS, n)), *_AGE_RANGE_YEARS).astype(int)
    intercept, per_year, spread = np.array([_PREDICTED_ML[s] for s in sex]).T
    predicted_z = rng.normal(size=n)
    predicted_ml = np.round(intercept + per_year * age + spread * predicted_z, 1)
    predicted_ml = np.maximum(predicted_ml, 1200.0)

    slope_z, fibrosis_z = _linked_normals(n, scan_correlation, rng)
    log_mean, log_sd = _LOG_PERCENT
    pulls = np.array([_FIBROSIS_PERCENT_PULL, _PREDICTED_PERCENT_PULL])
    percent_z = pulls @ [fibrosis_z, predicted_z] + np.sqrt(1 - pulls @ pulls) * rng.normal(size=n)
    percent = np.clip(np.exp(log_mean + log_sd * percent_z), *_PERCENT_RANGE)
    baseline_ml = predicted_ml * percent / 100
    is_current = np.array(smoking) == "Currently smokes"
    reference_slope = _slopes(slope_z) + _CURRENT_SMOKER_SLOPE * is_current
    median_ratio, ratio_log_sd = _LUNG_TO_FVC
    return pd.DataFrame(
        {
            "Patient": _patient_ids(n, rng),
            "Age": age,
            "Sex": sex,
            "SmokingStatus": smoking,
            "baseline_ml": baseline_ml,
            # Between proportional and constant, as the table has it.
            "slope_ml_per_week": reference_slope * np.sqrt(baseline_ml / _REFERENCE_ML),
            "predicted_ml": predicted_ml,
            "noise_share": _NOISE_SCALE * np.exp(_NOISE_LOG_SD * rng.normal(size=n)),
            "fibrosis_fraction": _fibrosis(fibrosis_z),
            "lung_volume_ml": baseline_ml
            * median_ratio
            * np.exp(ratio_log_sd * rng.normal(size=n)),
        }
    )


def _linked_normals(
    n: int, scan_correlation: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw what lies behind slope and fibrosis: the faster the decline, the more fibrosis."""
    slope_z = rng.normal(size=n)
    link = -_COPULA_PER_CORRELATION * scan_correlation
    return slope_z, link * slope_z + np.sqrt(1 - link**2) * rng.normal(size=n)


def _fibrosis(z: FloatArray) -> FloatArray:
    """Map standard normals to the share of the lungs that is fibrotic."""
    centre, spread = _FIBROSIS_LOGIT
    share: FloatArray = 1 / (1 + np.exp(-(centre + spread * z)))
    return share


def _slopes(z: FloatArray) -> FloatArray:
    """Map standard normals to the two-piece t of slopes, in ml a week at 2,700 ml."""
    from scipy import stats

    t = stats.t.ppf(stats.norm.cdf(z), df=_SLOPE_DF)
    below, above = _SLOPE_SCALES
    slopes: FloatArray = np.clip(_SLOPE_CENTRE + t * np.where(t < 0, below, above), *_SLOPE_RANGE)
    return slopes


def _patient_ids(n: int, rng: np.random.Generator) -> list[str]:
    """Ids such as ID00007637202177411956430: a rising number, then a rising time stamp."""
    numbers = 6 + np.cumsum(rng.integers(1, 4 if n < 30_000 else 2, size=n))
    ticks = 637_202_177_000_000_000 + np.cumsum(rng.integers(10**7, 10**9, size=n))
    return [f"ID{number:05d}{tick:018d}" for number, tick in zip(numbers, ticks, strict=True)]


def _draw_visits(patients: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
    """Every patient's rows, in order of week."""
    baseline, slope, noise = (
        patients[name].to_numpy() for name in ("baseline_ml", "slope_ml_per_week", "noise_share")
    )
    weeks, levels = [], []
    for index in range(len(patients)):
        gaps = _draw_gaps_weeks(rng)
        first_week = int(np.floor(np.interp(rng.random(), *_FIRST_WEEK_QUANTILES)))
        error = np.clip(rng.standard_t(_NOISE_DF, size=len(gaps)), -_NOISE_CAP, _NOISE_CAP)
        relative = 1 + _drift(gaps, rng) + noise[index] * error
        weeks.append(first_week + gaps)
        levels.append((baseline[index] + slope[index] * gaps) * relative)
    rows = patients.loc[patients.index.repeat([len(w) for w in weeks])].reset_index(drop=True)
    fvc = np.rint(np.maximum(np.concatenate(levels), _LOWEST_FVC_ML))
    percent = fvc / rows["predicted_ml"] * 100
    rows = rows.assign(Weeks=np.concatenate(weeks), FVC=fvc.astype(int), Percent=percent)
    return rows[list(VISIT_COLUMNS)]


def _drift(gaps: NDArray[np.int64], rng: np.random.Generator) -> FloatArray:
    """Slow departures from the line (infections, treatment): an Ornstein-Uhlenbeck path."""
    correlation = np.exp(-np.abs(gaps[:, None] - gaps) / _DRIFT_WEEKS)
    # The ridge keeps two visits of one week from making the matrix singular.
    factor = np.linalg.cholesky(correlation + 1e-9 * np.eye(len(gaps)))
    path: FloatArray = _DRIFT_SHARE * factor @ rng.normal(size=len(gaps))
    return path


def _draw_gaps_weeks(rng: np.random.Generator) -> NDArray[np.int64]:
    """Weeks since the first visit, starting at 0; two visits may share a week."""
    n_visits = int(rng.choice(_VISIT_COUNTS, p=_VISIT_COUNT_SHARES))
    first_gap = int(rng.choice(_FIRST_GAP_WEEKS, p=_FIRST_GAP_SHARES))
    due = np.cumsum([0, first_gap, *_LATER_GAPS_WEEKS])[:n_visits]
    slack = rng.choice((-1, 0, 1), p=(0.1, 0.75, 0.15), size=n_visits)
    gaps = np.maximum.accumulate(due + np.where(due > first_gap, slack, 0))
    gaps += np.concatenate([[0], np.cumsum(np.diff(gaps) == 0)])  # a repeat is drawn apart
    if rng.random() < _REPEATED_WEEK_SHARE:
        repeat = int(rng.integers(1, n_visits))
        gaps[repeat] = gaps[repeat - 1]
    return gaps.astype(np.int64)
