"""The prognosis report and the files of a cross-validation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tidegauge.arrays import FloatArray
from tidegauge.engine.parallel import parallel_map
from tidegauge.engine.store import MANIFEST, manifest, write_json
from tidegauge.errors import InputError
from tidegauge.fvc.crossval import NESTED, Crossval, crossval
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import add_scans, has_scans, read_patients, read_training
from tidegauge.fvc.predict import measure_for
from tidegauge.fvc.prognosis import Prognosis, faster_share, prognose
from tidegauge.fvc.solve import fit_model
from tidegauge.fvc.store import SavedModel, load_model
from tidegauge.io import atomic_folder
from tidegauge.progress import SILENT, Progress
from tidegauge.report.charts import chart_svg, save_chart
from tidegauge.report.fvc import charts as charts
from tidegauge.report.fvc.slices import slice_png
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


def write_crossval(result: Crossval, folder: Path) -> None:
    """Write scores, per_patient, calibration, choices (.csv), summary, manifest (.json), charts.

    They replace those of an earlier run together.
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


def write_report(
    folder: Path,
    out: Path,
    *,
    model_folder: Path | None = None,
    scans: bool = True,
    workers: int | None = None,
    seed: int = 1,
    progress: Progress = SILENT,
) -> Path:
    """Write ``report.html``: an outlook of every patient, and how far to trust it.

    Patients of test.csv are forecast by a model fitted on train.csv (or by a saved one), patients
    of train.csv by models that did not see them. Either file may be missing, but without train.csv
    a saved model is needed, and there is no calibration page.

    Raises
    ------
    InputError
        A fault of the input, or neither file is there.
    """
    model = load_model(model_folder) if model_folder else None
    population: list[Prognosis] = []
    closing: list[Section] = []
    if (folder / "train.csv").is_file():
        training = read_training(folder, progress=progress)
        if scans and has_scans(folder, "train"):
            training = add_scans(training, folder / "train", workers=workers, progress=progress)
        result = crossval(training, repeats=1, seed=seed, workers=workers, progress=progress)
        model = model or fit_model(training, seed=seed, workers=workers, progress=progress)
        population = _unseen_prognoses(training, result)
        closing = [_calibration_section(result)]
    if model is None:
        raise InputError(f"{folder / 'train.csv'}: not found; give it, or a saved --model")
    groups = [("Training patients, forecast unseen", "train", population)] if population else []
    if (folder / "test.csv").is_file():
        cohort = read_patients(folder / "test.csv", progress=progress)
        cohort = measure_for(model, cohort, folder, workers=workers, progress=progress)
        groups.insert(0, ("Patients", "test", prognose(model.outlook, cohort)))
    if not groups:
        raise InputError(f"{folder}: neither train.csv nor test.csv; there is nobody to report on")
    sections = [
        _patient_section(
            title,
            part,
            ones,
            faster_share(ones, population or ones),
            _pictures(folder / part, ones, model, workers, progress),
        )
        for title, part, ones in groups
    ]
    page = Page(
        "Lung-function prognosis",
        f"The course from each patient's first visit, by the {model.outlook.members[0].name} model "
        f"of {model.training['n_patients']} patients.",
        [*sections, *closing],
    )
    with atomic_folder(out) as staging:
        write_page(page, staging / "report.html")
    return out / "report.html"


def _unseen_prognoses(training: Cohort, result: Crossval) -> list[Prognosis]:
    """Return outlooks of training patients, each by the fold that did not learn from them."""
    found: dict[int, Prognosis] = {}
    for fold, outlook in enumerate(result.outlooks[: result.folds]):
        held = result.held_out(0, fold)
        found |= dict(zip(held.tolist(), prognose(outlook, training.take(held)), strict=True))
    return [found[i] for i in range(training.n_patients)]


def _pictures(
    scans: Path,
    prognoses: list[Prognosis],
    model: SavedModel,
    workers: int | None,
    progress: Progress,
) -> dict[str, bytes]:
    """Return a slice of each patient who has a usable scan, where the model looks at scans."""
    if not model.feature_names:
        return {}
    folders = [scans / one.patient for one in prognoses]
    slices = parallel_map(
        slice_png, folders, workers=workers, label="drawing slices", progress=progress
    )
    pairs = zip(prognoses, slices, strict=True)
    return {one.patient: png for one, png in pairs if png is not None}


def _patient_section(
    title: str,
    anchor: str,
    prognoses: list[Prognosis],
    faster: FloatArray,
    pictures: dict[str, bytes],
) -> Section:
    order = sorted(range(len(prognoses)), key=lambda i: -prognoses[i].fall_probability)
    table = Table(
        ("patient", "age", "first FVC, ml", "Percent", "in a year, ml", "P(10 % fall in a year)"),
        [_row(prognoses[i]) for i in order],
        "Sorted by the probability of measuring at least 10 % less a year after the first visit.",
        [f"{anchor}-{prognoses[i].patient}" for i in order],
    )
    cards = [_card(prognoses[i], faster[i], anchor, pictures) for i in order]
    spread = [
        Figure(
            chart_svg(charts.decline_chart(prognoses)),
            "Expected change in the year after the first visit, over these patients.",
        )
    ]
    intro = Text(
        "Dots are measurements: the first (orange) is all the forecast has seen. The line is the "
        "median, the bands hold 50, 80 and 95 % of what would be measured."
    )
    few = len(prognoses) < _FEWEST_FOR_A_HISTOGRAM
    return Section(title, [intro, table, *([] if few else spread), Grid(cards)], anchor)


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


def _card(one: Prognosis, faster: float, anchor: str, pictures: dict[str, bytes]) -> Card:
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
    if one.patient in pictures:
        blocks.append(
            Image(pictures[one.patient], "A slice of the scan; the outline is the segmented lung.")
        )
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
