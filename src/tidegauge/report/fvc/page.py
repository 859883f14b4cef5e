"""The prognosis report and the files of a cross-validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tidegauge.arrays import FloatArray
from tidegauge.engine.store import MANIFEST, manifest, write_json
from tidegauge.fvc.outlook import Outlook, PatientGroup
from tidegauge.fvc.prognosis import Prognosis, faster_share
from tidegauge.fvc.scans.cache import ScanPicture
from tidegauge.fvc.validation import NESTED, Crossval
from tidegauge.io import atomic_folder
from tidegauge.report.charts import chart_svg, save_chart
from tidegauge.report.fvc import charts as charts
from tidegauge.report.page import (
    Block,
    Card,
    Facts,
    Figure,
    Grid,
    Image,
    Page,
    Remark,
    Section,
    Table,
    Text,
    write_page,
)


def write_crossval(
    result: Crossval, folder: Path, *, by_visits: pd.DataFrame | None = None
) -> None:
    """Write scores, per_patient, calibration, choices (.csv), summary, manifest (.json), charts.

    They replace those of an earlier run together; visits.csv if there is such a table.
    """
    scores = result.scores()
    nested = scores[scores["forecaster"] == NESTED].iloc[0]
    summary = {
        "score": float(nested["score"]),
        "score_se": float(nested["score_se"]),
        "n_patients": result.n_patients,
        "repeats": result.repeats,
        "folds": result.folds,
        "seed": result.seed,
        "chosen": result.choices["chosen"].value_counts().to_dict(),
        "warnings": result.warnings(),
    }
    with atomic_folder(folder) as staging:
        scores.to_csv(staging / "scores.csv", index=False)
        result.per_patient().to_csv(staging / "per_patient.csv")
        result.calibration().to_csv(staging / "calibration.csv", index=False)
        result.choices.to_csv(staging / "choices.csv", index=False)
        if by_visits is not None:
            by_visits.to_csv(staging / "visits.csv", index=False)
        (staging / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
        settings = {name: summary[name] for name in ("repeats", "folds", "seed")}
        described = manifest(kind="fvc/crossval", inputs={}, settings=settings)
        write_json(staging / MANIFEST, described)
        for name, chart in _crossval_charts(result).items():
            save_chart(chart, staging / name)


def _crossval_charts(result: Crossval) -> dict[str, Any]:
    return {
        "scores": charts.score_chart(result),
        "coverage": charts.coverage_chart(result),
        "pit": charts.pit_chart(result),
        "score_by_gap": charts.gap_score_chart(result),
    }


def write_report(outlook: Outlook, out: Path) -> Path:
    """Write ``report.html``: an outlook of every patient, and how far to trust it."""
    population = next((g.prognoses for g in outlook.groups if g.part == "train"), [])
    sections = [
        _patient_section(group, faster_share(group.prognoses, population or group.prognoses))
        for group in outlook.groups
    ]
    if outlook.validation is not None:
        sections.append(_calibration_section(outlook.validation))
    model = outlook.model
    page = Page(
        "Lung-function prognosis",
        f"The course from each patient's first visit, by the {model.outlook.members[0].name} model "
        f"of {model.training['n_patients']} patients.",
        sections,
    )
    with atomic_folder(out) as staging:
        write_page(page, staging / "report.html")
    return out / "report.html"


def _patient_section(group: PatientGroup, faster: FloatArray) -> Section:
    title, intro = _GROUP_WORDS[group.part]
    prognoses, anchor = group.prognoses, group.part
    order = sorted(range(len(prognoses)), key=lambda i: -prognoses[i].fall_probability)
    table = Table(
        ("patient", "age", "first FVC, ml", "Percent", "in a year, ml", "P(10 % fall in a year)"),
        [_row(prognoses[i]) for i in order],
        "Sorted by the probability of measuring at least 10 % less a year after the first visit.",
        [f"{anchor}-{prognoses[i].patient}" for i in order],
    )
    cards = [_card(prognoses[i], faster[i], anchor, group.pictures) for i in order]
    spread = [
        Figure(
            chart_svg(charts.decline_chart(prognoses)),
            "Expected change in the year after the first visit, over these patients.",
        )
    ]
    few = len(prognoses) < _FEWEST_FOR_A_HISTOGRAM
    return Section(title, [Text(intro), table, *([] if few else spread), Grid(cards)], anchor)


def _row(one: Prognosis) -> list[str]:
    low, middle, high = one.year_ml
    return [
        one.patient,
        f"{one.age:.0f}",
        f"{one.fvc_ml:,.0f}",
        f"{one.percent:.0f}",
        f"{middle:,.0f} ({low:,.0f} to {high:,.0f})",
        f"{one.fall_probability:.0%}",
    ]


def _card(one: Prognosis, faster: float, anchor: str, pictures: dict[str, ScanPicture]) -> Card:
    low, middle, high = one.year_ml
    blocks: list[Block] = [
        Figure(chart_svg(charts.fan_chart(one)), "Weeks are relative to the scan."),
        Facts(
            [
                ("expected change", f"{one.change_ml_per_year:+,.0f} ml per year"),
                ("against the population", f"faster decline than {faster:.0%}"),
                ("a year after the first visit", f"{middle:,.0f} ml ({low:,.0f} to {high:,.0f})"),
                ("10 % fall within a year", f"probability {one.fall_probability:.0%}"),
            ]
        ),
    ]
    if (picture := pictures.get(one.patient)) is not None:
        if picture.png is not None:
            caption = "A slice of the scan; right lung orange, left lung blue."
            blocks.append(Image(picture.png, caption))
        blocks += [Remark(f"Scan: {warning}") for warning in picture.warnings]
    return Card(one.patient, blocks, f"{anchor}-{one.patient}")


def _calibration_section(result: Crossval) -> Section:
    figures = [
        Card("", [Figure(chart_svg(chart), _CAPTIONS[name])])
        for name, chart in _crossval_charts(result).items()
    ]
    intro = (
        f"Nested cross-validation, {result.folds} folds by patient: every choice was made without "
        "the patients that score it."
    )
    remarks = [Remark(line) for line in result.warnings()]
    blocks: list[Block] = [Text(intro), *remarks, *_calibration_tables(result), Grid(figures)]
    return Section("How far to trust it", blocks, "calibration")


def _calibration_tables(result: Crossval) -> list[Table]:
    cover = result.calibration()
    scores = [
        [row["forecaster"], *(_signed(row[k]) for k in _SCORE_COLUMNS)]
        for row in result.scores().to_dict("records")
    ]
    inside = [
        [
            row["gap_weeks"],
            f"{row['visits']}",
            *(f"{row[f'coverage_{c}%']:.0%}" for c in (50, 80, 95)),
            f"{row['mean_error_ml']:.0f}",
            f"{row['score']:.3f}",
        ]
        for row in cover[cover["forecaster"] == NESTED].to_dict("records")
    ]
    return [
        Table(("forecaster", "score", "error", "difference to nested", "its error"), scores),
        Table(
            ("gap, weeks", "visits", "50 %", "80 %", "95 %", "mean error, ml", "score"),
            inside,
            "Share of visits inside the central intervals of the nested forecast.",
        ),
    ]


_BANDS = "The line is the median, the bands hold 50, 80 and 95 % of what would be measured."
_GROUP_WORDS = {
    "test": ("Patients", f"Dots are measurements, and the forecast has seen all of them. {_BANDS}"),
    "train": (
        "Training patients, forecast unseen",
        "Dots are measurements: the first (orange) is all the forecast has seen. " + _BANDS,
    ),
}
_CAPTIONS = {
    "scores": "Score of each forecaster over patients. Quote the nested row only.",
    "coverage": "Coverage of central intervals by weeks since the first visit.",
    "pit": "Where truths fall in their predictive distributions; calibrated is flat.",
    "score_by_gap": "Score by weeks since the first visit.",
}
_FEWEST_FOR_A_HISTOGRAM = 10
_SCORE_COLUMNS = ("score", "score_se", "difference", "difference_se")


def _signed(value: float) -> str:
    return "–" if not np.isfinite(value) else f"{value:.4f}"
