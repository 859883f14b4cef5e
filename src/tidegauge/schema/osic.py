"""The columns and keys of the OSIC tables, as `bench` and `fvc` both read them."""

from __future__ import annotations

from tidegauge.errors import InputError

VISIT_COLUMNS = ("Patient", "Weeks", "FVC", "Percent", "Age", "Sex", "SmokingStatus")
SUBMISSION_COLUMNS = ("Patient_Week", "FVC", "Confidence")
SEXES = ("Male", "Female")
SMOKING_STATUSES = ("Ex-smoker", "Never smoked", "Currently smokes")
# Kaggle's private leaderboard: 2,097 teams, the best at -6.8305.
MEDAL_THRESHOLDS = {"gold": -6.8412, "silver": -6.8533, "bronze": -6.8683, "median": -6.8993}
SCORED_VISITS = 3  # only each patient's last three visits score


def patient_week(patient: str, week: int) -> str:
    """Return the key of a submission row, such as ``ID00126637202218610655908_-3``."""
    return f"{patient}_{week}"


def split_patient_week(key: str) -> tuple[str, int]:
    """Split a submission key into patient and week; the week may be negative.

    Raises
    ------
    InputError
        The key does not end in an underscore and a whole number.
    """
    patient, separator, week = key.rpartition("_")
    try:
        if not separator or not patient:
            raise ValueError
        return patient, int(week)
    except ValueError:
        raise InputError(
            f"Patient_Week={key!r}: must be a patient id, an underscore and a whole week"
        ) from None
