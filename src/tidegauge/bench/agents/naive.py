"""The agent that carries on what it last saw: the last FVC forward, or the training mean."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

# The best constant for last-FVC-forward on the training patients lies between 250 and 350 ml.
CONFIDENCE_ML = 300


def read_rows(path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file."""
    with open(path, encoding="utf-8", newline="") as handle:
        return list(csv.DictReader(handle))


def carry_forward(folder: Path) -> Iterable[dict[str, object]]:
    """Yield each OSIC row with the patient's only known FVC."""
    last_ml = {row["Patient"]: row["FVC"] for row in read_rows(folder / "test.csv")}
    for row in read_rows(folder / "sample_submission.csv"):
        patient = row["Patient_Week"].rpartition("_")[0]
        yield row | {"FVC": last_ml[patient], "Confidence": CONFIDENCE_ML}


def training_mean(folder: Path) -> Iterable[dict[str, object]]:
    """Yield each row with the training mean of every column to be predicted."""
    sample = read_rows(folder / "sample_submission.csv")
    train = read_rows(folder / "train.csv")
    _, *targets = sample[0]
    means = {name: sum(float(row[name]) for row in train) / len(train) for name in targets}
    for row in sample:
        yield {**row, **means}


def main() -> None:
    """Write submission/submission.csv from input/."""
    folder = Path("input")
    sample = read_rows(folder / "sample_submission.csv")
    rows = carry_forward(folder) if "Patient_Week" in sample[0] else training_mean(folder)
    with open("submission/submission.csv", "w", encoding="utf-8", newline="") as handle:
        writer = csv.DictWriter(handle, list(sample[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    main()
