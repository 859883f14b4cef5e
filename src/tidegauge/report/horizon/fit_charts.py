"""Charts of a result, the same for ``--plots``, for the page and for a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.stats import rankdata

from tidegauge.engine.diagnostics import ESS_LIMIT, R_HAT_LIMIT
from tidegauge.horizon.horizons.curves import Curve, success_curves
from tidegauge.horizon.horizons.predictive import HumanCheck, RateCheck
from tidegauge.horizon.result import HorizonFit, HorizonResult
from tidegauge.horizon.studies.recovery import TruthComparison
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, chart_data
from tidegauge.report.durations import (
    SECONDS_PER_MINUTE,
    duration_axis,
    duration_scale,
    duration_text,
)
from tidegauge.report.horizon.headline import (
    Bar,
    Size,
    interval_chart,
    minutes_range,
    result_bars,
)

_SCALARS = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")
_POINTS_PER_TRACE = 250
_RANK_BINS = 20
_BINS = 18
_EVIDENCE = ("none", "1-2", "3-9", "10 or more")
CURVES, DIFFICULTY = Size(260, 150, columns=4), Size(760, 460)
RATES, HUMAN = Size(155, 100, columns=6), Size(300, 180, columns=3)


def result_charts(result: HorizonResult) -> dict[str, Callable[[], Any]]:
    """Return what draws each chart of a result, by the name of the chart."""
    charts: dict[str, Callable[[], Any]] = {
        "horizons": lambda: horizons_chart(result),
        "success_curves": lambda: curves_chart(success_curves(result), CURVES),
    }
    if isinstance(result, HorizonFit):
        fit, predictive = result, result.predictive
        charts |= {
            "trace": lambda: trace_chart(fit),
            "rank": lambda: rank_chart(fit),
            "sampling": lambda: sampling_chart(fit.diagnosis.parameters),
            "difficulty": lambda: difficulty_chart(fit.tasks(), DIFFICULTY),
        }
        if predictive.rates:  # none where every task is outside the buckets
            charts["predictive_success"] = lambda: rates_chart(predictive.rates, RATES)
        if predictive.human:
            charts["predictive_human"] = lambda: human_chart(predictive.human, HUMAN)
    return charts


def fit_charts(result: HorizonResult) -> dict[str, Any]:
    """Return every chart of a result by the name of its file."""
    return {name: draw() for name, draw in result_charts(result).items()}


def horizons_chart(result: HorizonResult) -> Any:
    """Draw each agent's 50 % horizon with its 95 % interval."""
    bars = result_bars(result, 0.5, "marginal")
    title = f"Time horizon: {result.estimand} of 50 %, 95 % interval"
    return interval_chart({"": bars}, minutes_range(bars), Size(520, 0), title=title)


def watched_draws(fit: HorizonFit) -> dict[str, np.ndarray]:
    """Return draws (chain, draw) of the scalars and of the parameter with the lowest ESS."""
    from tidegauge.horizon.inference_data import posterior_of

    posterior = posterior_of(fit.design, fit.options, fit.point, fit.statistics).posterior
    table = fit.diagnosis.parameters
    worst = str(table["parameter"].iloc[int(table["ess_bulk"].to_numpy().argmin())])
    watched = {}
    for name in (*_SCALARS, worst.partition("[")[0]):
        array = posterior[name]
        dims = array.dims[2:]  # at most one beside chain and draw: agent, task, source...
        for label in array.coords[dims[0]].values if dims else [""]:
            shown = f"{name}[{label}]" if dims else name
            if name in _SCALARS or shown == worst:
                draws = array.sel({dims[0]: label}) if dims else array
                note = " (lowest ESS)" if shown == worst else ""
                watched[shown + note] = np.asarray(draws)
    return watched


def trace_chart(fit: HorizonFit) -> alt.FacetChart:
    """Draw the chains of the scalar parameters and of the one that mixes worst."""
    blocks = []
    for name, draws in watched_draws(fit).items():
        thin = max(1, draws.shape[1] // _POINTS_PER_TRACE)
        for chain, values in enumerate(draws[:, ::thin]):
            steps = np.arange(values.size) * thin
            blocks.append(
                pd.DataFrame(
                    {"parameter": name, "chain": str(chain), "draw": steps, "value": values}
                )
            )
    return (
        alt.Chart(pd.concat(blocks))
        .mark_line(strokeWidth=0.7, opacity=0.8)
        .encode(
            x=alt.X("draw:Q", title="draw"),
            y=alt.Y("value:Q", scale=alt.Scale(zero=False), title=None),
            color=alt.Color("chain:N", title="chain"),
        )
        .properties(width=300, height=110)
        .facet(facet=alt.Facet("parameter:N", title=None), columns=2, title="Trace")
        .resolve_scale(y="independent")
    )


def rank_chart(fit: HorizonFit) -> alt.FacetChart:
    """Draw rank histograms: chains that agree have flat ones."""
    blocks = []
    for name, draws in watched_draws(fit).items():
        ranks = rankdata(draws).reshape(draws.shape)
        edges = np.linspace(0.5, draws.size + 0.5, _RANK_BINS + 1)
        for chain, values in enumerate(ranks):
            counts = np.histogram(values, edges)[0] * _RANK_BINS / values.size
            blocks.append(
                pd.DataFrame(
                    {
                        "parameter": name,
                        "chain": str(chain),
                        "bin": np.arange(_RANK_BINS),
                        "relative": counts,
                    }
                )
            )
    return (
        alt.Chart(pd.concat(blocks))
        .mark_line(interpolate="step", strokeWidth=1.5)
        .encode(
            x=alt.X("bin:Q", title="rank (20 bins)"),
            y=alt.Y("relative:Q", title="relative frequency", scale=alt.Scale(domainMin=0)),
            color=alt.Color("chain:N", title="chain"),
        )
        .properties(width=300, height=110)
        .facet(facet=alt.Facet("parameter:N", title=None), columns=2, title="Ranks by chain")
    )


def sampling_chart(parameters: pd.DataFrame) -> alt.LayerChart:
    """Draw R-hat against bulk ESS of every parameter, with the limits of the gate."""
    data = parameters[["parameter", "r_hat", "ess_bulk"]]
    dots = (
        alt.Chart(data, title="Every parameter: R-hat against effective sample size")
        .mark_circle(color=ACCENT, opacity=0.5)
        .encode(
            x=alt.X("ess_bulk:Q", title="bulk ESS"),
            y=alt.Y("r_hat:Q", scale=alt.Scale(zero=False), title="R-hat"),
            tooltip=["parameter", "r_hat", "ess_bulk"],
        )
    )
    limits, least = (
        alt.Chart(pd.DataFrame({name: [limit]})).mark_rule(color=SECOND, strokeDash=[4, 4])
        for name, limit in (("r_hat", R_HAT_LIMIT), ("ess_bulk", ESS_LIMIT))
    )
    layers = dots + limits.encode(y="r_hat:Q") + least.encode(x="ess_bulk:Q")
    return layers.properties(width=460, height=260)


def curve_chart(curve: Curve, size: Size, *, title: str = "") -> Any:
    """Draw the curve with its 95 % band over the success rates that were seen."""
    limits = float(curve.minutes[0]), float(curve.minutes[-1])
    x = alt.X(
        "seconds:Q",
        title=None,
        scale=duration_scale(*limits),
        axis=duration_axis(*limits, grid=False),
    )
    scale = alt.Scale(domain=[0, 1])
    y = alt.Y("rate:Q", title="success", scale=scale, axis=alt.Axis(format="%", tickCount=3))
    rows = [
        {"seconds": float(m) * SECONDS_PER_MINUTE, "rate": float(r)}
        for m, r in zip(curve.minutes, curve.median, strict=True)
        if np.isfinite(r)
    ]
    layers = [alt.Chart(chart_data(rows)).mark_line(color=ACCENT, aria=False).encode(x=x, y=y)]
    if curve.low is not None and curve.high is not None:
        band = [
            {"seconds": float(m) * SECONDS_PER_MINUTE, "low": float(a), "high": float(b)}
            for m, a, b in zip(curve.minutes, curve.low, curve.high, strict=True)
        ]
        area = alt.Chart(chart_data(band)).mark_area(color=ACCENT, opacity=0.2, aria=False)
        layers.insert(0, area.encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"))
    if limits[0] < curve.p50_minutes < limits[1]:
        half = [{"seconds": curve.p50_minutes * SECONDS_PER_MINUTE}]
        rule = alt.Chart(chart_data(half)).mark_rule(color=MUTED, strokeDash=[4, 4], aria=False)
        layers.insert(0, rule.encode(x=x))
    layers.append(_seen_dots(curve, x, y))
    options = {"title": title} if title else {}
    return alt.layer(*layers).properties(width=size.width, height=size.height, **options)


def _seen_dots(curve: Curve, x: Any, y: Any) -> Any:
    rows = []
    for i, (minutes, rate) in enumerate(zip(curve.seen_minutes, curve.seen_rate, strict=True)):
        runs = None if curve.seen_runs is None else float(curve.seen_runs[i])
        counted = "" if runs is None else f" of {runs:.0f} runs"
        rows.append(
            {
                "seconds": float(minutes) * SECONDS_PER_MINUTE,
                "rate": float(rate),
                "runs": 30.0 if runs is None else runs,
                "text": f"about {duration_text(float(minutes))}: {rate:.0%}{counted}",
            }
        )
    dots = alt.Chart(chart_data(rows)).mark_circle(color=INK, opacity=0.75)
    # Area by the number of runs, from a dot that can still be seen.
    area = alt.Size("runs:Q", scale=alt.Scale(domain=[0, 200], range=[18, 130], clamp=True))
    return dots.encode(x=x, y=y, size=area.legend(None), description="text:N")


def curves_chart(curves: Sequence[Curve], size: Size) -> Any:
    """Draw all agents' curves as one picture."""
    charts = [curve_chart(curve, size, title=curve.agent) for curve in curves]
    return alt.concat(*charts, columns=size.columns)


def difficulty_chart(tasks: pd.DataFrame, size: Size) -> Any:
    """Draw each task's inferred length with its 95 % interval against the file's human time."""
    ends = np.exp2(tasks[["log2_q0.025", "log2_q0.975"]].to_numpy())
    human = tasks["human_minutes"].to_numpy()
    limits = min(ends.min(), human.min()) / 1.3, max(ends.max(), human.max()) * 1.3
    evidence = np.array(_EVIDENCE)[np.digitize(tasks["n_human_runs"], [1, 3, 10])]
    middle = np.exp2(tasks["log2_mean"].to_numpy())
    rows = [
        {
            "human": human[i] * SECONDS_PER_MINUTE,
            "inferred": middle[i] * SECONDS_PER_MINUTE,
            "low": ends[i, 0] * SECONDS_PER_MINUTE,
            "high": ends[i, 1] * SECONDS_PER_MINUTE,
            "evidence": str(evidence[i]),
            "text": f"{task}: file {duration_text(human[i])}, inferred "
            f"{duration_text(middle[i])} ({duration_text(ends[i, 0])} to "
            f"{duration_text(ends[i, 1])})",
        }
        for i, task in enumerate(tasks["task_id"])
    ]
    scale, axis = duration_scale(*limits), duration_axis(*limits)
    x = alt.X("human:Q", title="human time in the file", scale=scale, axis=axis)
    colour = alt.Color(
        "evidence:N",
        title="successful human runs",
        sort=list(_EVIDENCE),
        scale=alt.Scale(domain=list(_EVIDENCE), range=[MUTED, SECOND, "#2563eb", ACCENT]),
        legend=alt.Legend(orient="top", columns=2 if size.narrow else 4),
    )
    base = alt.Chart(chart_data(rows)).encode(x=x, color=colour)
    bars = base.mark_rule(opacity=0.5).encode(
        y=alt.Y("low:Q", title="inferred", scale=scale, axis=axis), y2="high:Q"
    )
    dots = base.mark_circle(size=36, opacity=0.9).encode(
        y=alt.Y("inferred:Q", scale=scale), description="text:N"
    )
    corners = [{"human": end * SECONDS_PER_MINUTE} for end in limits]
    line = alt.Chart(chart_data(corners)).mark_line(
        color=INK, strokeDash=[4, 4], strokeWidth=1, aria=False
    )
    diagonal = line.encode(x=x, y=alt.Y("human:Q", scale=scale))
    return alt.layer(diagonal, bars, dots).properties(width=size.width, height=size.height)


def rates_chart(rates: Sequence[RateCheck], size: Size) -> Any:
    """Draw each agent's success rate by task length over its 95 % predictive interval."""
    buckets = list(dict.fromkeys(rate.bucket for rate in rates))
    rows = [
        {
            **asdict(rate),
            "inside": "inside" if rate.low <= rate.observed <= rate.high else "outside",
            "text": f"{rate.agent}, {rate.bucket}: {rate.observed:.0%} of {rate.n_runs} runs, "
            f"predicted {rate.low:.0%} to {rate.high:.0%}",
        }
        for rate in rates
    ]
    x = alt.X("bucket:N", sort=buckets, title=None, axis=alt.Axis(labelAngle=-60))
    base = alt.Chart().encode(x=x)
    scale = alt.Scale(domain=[0, 1])
    bars = base.mark_rule(color=ACCENT, strokeWidth=8, opacity=0.3, aria=False).encode(
        y=alt.Y("low:Q", title="success", scale=scale, axis=alt.Axis(format="%", tickCount=3)),
        y2="high:Q",
    )
    dots = base.mark_circle(size=40, opacity=1).encode(
        y=alt.Y("observed:Q", scale=scale), color=_inside_colour(), description="text:N"
    )
    return (
        alt.layer(bars, dots, data=chart_data(rows))
        .properties(width=size.width, height=size.height)
        .facet(facet=alt.Facet("agent:N", title=None), columns=size.columns)
    )


def human_chart(checks: Sequence[HumanCheck], size: Size) -> Any:
    """Draw the number of human runs by duration over its 95 % predictive interval."""
    panels = []
    for check in checks:
        everything = np.concatenate([check.observed, check.replicated.ravel()])
        ends = np.quantile(everything, [0.002, 0.998])
        edges = np.linspace(ends[0] - 1e-6, ends[1] + 1e-6, _BINS + 1)
        counts = np.array([np.histogram(row, edges)[0] for row in check.replicated])
        low, high = np.quantile(counts, [0.025, 0.975], axis=0)
        seen = np.histogram(check.observed, edges)[0]
        limits = float(2 ** edges[0]), float(2 ** edges[-1])
        rows = [
            {
                "seconds": float(2 ** ((edges[i] + edges[i + 1]) / 2)) * SECONDS_PER_MINUTE,
                "seen": int(seen[i]),
                "low": float(low[i]),
                "high": float(high[i]),
                "inside": "inside" if low[i] <= seen[i] <= high[i] else "outside",
                "text": f"{duration_text(2 ** edges[i])} to {duration_text(2 ** edges[i + 1])}: "
                f"{seen[i]} runs, predicted {low[i]:.0f} to {high[i]:.0f}",
            }
            for i in range(_BINS)
        ]
        x = alt.X(
            "seconds:Q",
            title=None,
            scale=duration_scale(*limits),
            axis=duration_axis(*limits, grid=False),
        )
        base = alt.Chart(chart_data(rows)).encode(x=x)
        bars = base.mark_rule(color=ACCENT, strokeWidth=9, opacity=0.3, aria=False)
        dots = base.mark_circle(size=40, opacity=1).encode(
            y="seen:Q", color=_inside_colour(), description="text:N"
        )
        layers = alt.layer(bars.encode(y=alt.Y("low:Q", title="runs"), y2="high:Q"), dots)
        title = f"{check.source}, {check.observed.size} runs"
        panels.append(layers.properties(width=size.width, height=size.height, title=title))
    return alt.concat(*panels, columns=size.columns)


def _inside_colour() -> alt.Color:
    scale = alt.Scale(domain=["inside", "outside"], range=[INK, SECOND])
    return alt.Color("inside:N", scale=scale, legend=None)


def truth_chart(comparison: TruthComparison) -> Any:
    """Draw each method's intervals beside the truth of a simulation, which is black."""
    table = comparison.table
    bars: Mapping[str, Sequence[Bar]] = {
        str(method): [
            Bar(row["agent"], row["p50"], row["low"], row["high"]) for row in own.to_dict("records")
        ]
        for method, own in table.groupby("method", sort=False)
    }
    limits = minutes_range([bar for own in bars.values() for bar in own])
    title = "50 % horizon by method against the truth (black), 95 % intervals"
    chart = interval_chart(bars, limits, Size(560, 0), title=title)
    rows = [
        {"agent": row["agent"], "true": row["true"] * SECONDS_PER_MINUTE}
        for row in table.drop_duplicates("agent").to_dict("records")
    ]
    ticks = alt.Chart(chart_data(rows)).mark_tick(color=INK, thickness=2, height=26, clip=True)
    return alt.layer(
        *chart.layer,
        ticks.encode(x=alt.X("true:Q", scale=duration_scale(*limits)), y="agent:N"),
    ).properties(width=560, height=chart.height, title=title)
