"""Charts of forecasts: a patient's fan, scores, calibration."""

from __future__ import annotations

from typing import Any

import altair as alt
import numpy as np

from tidegauge.fvc.prognosis import LEVELS, Prognosis
from tidegauge.fvc.validation import NESTED, Crossval, gap_labels
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, chart_data

_PIT_BINS = 10


def _sized(chart: Any, *, width: int = 420, height: int = 240) -> Any:
    return chart.properties(width=width, height=height)


def _gap_axis(field: str) -> Any:
    title = "weeks since the first visit"
    return alt.X(f"{field}:N", sort=gap_labels(), title=title, axis=alt.Axis(labelAngle=0))


def fan_chart(one: Prognosis) -> Any:
    """Draw measured visits over the median and the 50, 80 and 95 % fan of the forecast."""
    rows = [
        {"week": float(one.week + gap), **{f"q{i}": float(q[i]) for i in range(len(LEVELS))}}
        for gap, q in zip(one.gap_weeks, one.quantiles_ml.T, strict=True)
    ]
    visits = [
        {"week": float(one.week + gap), "fvc": float(ml), "visit": "first" if k == 0 else "later"}
        for k, (gap, ml) in enumerate(zip(one.visit_gaps_weeks, one.visits_ml, strict=True))
    ]
    x = alt.X("week:Q", title="week", scale=alt.Scale(nice=False))
    base = alt.Chart(chart_data(rows))
    bands = [
        base.mark_area(color=ACCENT, opacity=0.16).encode(
            x=x,
            y=alt.Y(f"q{k}:Q", title="FVC, ml", scale=alt.Scale(zero=False)),
            y2=f"q{len(LEVELS) - 1 - k}:Q",
        )
        for k in range(len(LEVELS) // 2)
    ]
    median = base.mark_line(color=ACCENT, strokeWidth=2).encode(x=x, y=f"q{len(LEVELS) // 2}:Q")
    dots = (
        alt.Chart(chart_data(visits))
        .mark_point(filled=True, size=45, opacity=1, stroke="white", strokeWidth=0.8)
        .encode(
            x=x,
            y="fvc:Q",
            color=alt.Color(
                "visit:N",
                scale=alt.Scale(domain=["first", "later"], range=[SECOND, INK]),
                legend=None,
            ),
        )
    )
    return _sized(alt.layer(*bands, median, dots), width=300, height=190)


def decline_chart(prognoses: list[Prognosis]) -> Any:
    """Draw how expected yearly changes are spread over the cohort."""
    rows = [{"change": one.change_ml_per_year} for one in prognoses]
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar(color=ACCENT)
        .encode(
            x=alt.X("change:Q", bin=alt.Bin(maxbins=25), title="expected change, ml per year"),
            y=alt.Y("count()", title="patients"),
        )
    )
    return _sized(bars)


def score_chart(result: Crossval) -> Any:
    """Draw each forecaster's score with its standard error over patients."""
    table = result.scores()
    rows = [
        {
            "forecaster": row["forecaster"],
            "score": row["score"],
            "low": row["score"] - row["score_se"],
            "high": row["score"] + row["score_se"],
            "kind": "nested" if row["forecaster"] == NESTED else "one",
        }
        for row in table.to_dict("records")
    ]
    order = [row["forecaster"] for row in rows]
    base = alt.Chart(chart_data(rows))
    y = alt.Y("forecaster:N", sort=order, title=None)
    colour = alt.Color(
        "kind:N", scale=alt.Scale(domain=["nested", "one"], range=[SECOND, ACCENT]), legend=None
    )
    title = "score (higher is better), ± one standard error"
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title=title, scale=alt.Scale(zero=False)), x2="high:Q", y=y, color=colour
    )
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(x="score:Q", y=y, color=colour)
    return _sized(bars + dots, height=24 * len(rows))


def coverage_chart(result: Crossval) -> Any:
    """Draw how often central intervals hold the truth, by weeks since the first visit."""
    table = result.calibration()
    rows = [
        {"gap": row["gap_weeks"], "nominal": f"{c} %", "coverage": row[f"coverage_{c}%"]}
        for row in table[table["forecaster"] == NESTED].to_dict("records")
        for c in (50, 80, 95)
        if row["gap_weeks"] != "all"
    ]
    targets = [{"nominal": f"{c} %", "target": c / 100} for c in (50, 80, 95)]
    colour = alt.Color(
        "nominal:N",
        title="interval",
        legend=alt.Legend(orient="bottom"),
        scale=alt.Scale(domain=["50 %", "80 %", "95 %"], range=[MUTED, ACCENT, SECOND]),
    )
    lines = (
        alt.Chart(chart_data(rows))
        .mark_line(point=True)
        .encode(
            x=_gap_axis("gap"),
            y=alt.Y(
                "coverage:Q",
                title="share of visits inside",
                scale=alt.Scale(domain=[0.2, 1]),
                axis=alt.Axis(format="%"),
            ),
            color=colour,
        )
    )
    rules = (
        alt.Chart(chart_data(targets))
        .mark_rule(strokeDash=[4, 4])
        .encode(y="target:Q", color=colour)
    )
    return _sized(lines + rules)


def pit_chart(result: Crossval) -> Any:
    """Draw where truths fall in their predictive distributions: flat is calibrated."""
    nested = result.forecasts[result.forecasts["forecaster"] == NESTED]
    counts, edges = np.histogram(nested["pit"], bins=_PIT_BINS, range=(0, 1))
    share = counts / max(counts.sum(), 1)
    rows = [
        {"left": float(a), "right": float(b), "share": float(s)}
        for a, b, s in zip(edges[:-1], edges[1:], share, strict=True)
    ]
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar(color=ACCENT)
        .encode(
            x=alt.X("left:Q", title="predictive probability below the truth", bin="binned"),
            x2="right:Q",
            y=alt.Y("share:Q", title="share of visits", axis=alt.Axis(format="%")),
        )
    )
    flat = (
        alt.Chart(chart_data([{"flat": 1 / _PIT_BINS}]))
        .mark_rule(color=INK, strokeDash=[4, 4])
        .encode(y="flat:Q")
    )
    return _sized(bars + flat)


def gap_score_chart(result: Crossval) -> Any:
    """Draw every forecaster's score by weeks since the first visit."""
    table = result.calibration()
    rows = table[table["gap_weeks"] != "all"][["forecaster", "gap_weeks", "score"]]
    lines = (
        alt.Chart(chart_data(rows.to_dict("records")))
        .mark_line(point=True)
        .encode(
            x=_gap_axis("gap_weeks"),
            y=alt.Y("score:Q", title="score", scale=alt.Scale(zero=False)),
            color=alt.Color(
                "forecaster:N",
                sort=result.names(),
                title=None,
                legend=alt.Legend(orient="bottom", columns=4),
            ),
        )
    )
    return _sized(lines)
