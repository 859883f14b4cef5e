"""Charts of a horizon fit: does it converge, does it predict, what does it say."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
from scipy.stats import rankdata

from tidegauge.horizon.analysis import Analysis
from tidegauge.horizon.data.design import Design, human_log2_mean
from tidegauge.horizon.horizons.predictive import PredictiveChecks
from tidegauge.horizon.result import posterior_of
from tidegauge.horizon.sampler.fit import HorizonFit
from tidegauge.horizon.studies.recovery import TruthComparison
from tidegauge.report.charts import ACCENT, INK, MUTED, SECOND, save_chart

_SCALARS = ("mu_global", "sigma_global", "sigma_family", "sigma_human", "sigma_estimate")
_POINTS_PER_TRACE = 250
_RANK_BINS = 20
_MINUTES = alt.Scale(type="log")


def fit_charts(analysis: Analysis) -> dict[str, Any]:
    """Return every chart of an analysis by the name of its file."""
    charts: dict[str, Any] = {"horizons": horizons_chart(analysis.outputs.horizons)}
    if analysis.fit is not None and analysis.predictive is not None:
        charts |= {
            "trace": trace_chart(analysis.fit),
            "rank": rank_chart(analysis.fit),
            "sampling": sampling_chart(analysis.fit.diagnosis.parameters),
            "difficulty": difficulty_chart(analysis.fit),
        }
        if analysis.predictive.rates:  # none where every task is outside the buckets
            charts["predictive_success"] = success_chart(analysis.predictive)
        if analysis.predictive.human:
            charts["predictive_human"] = human_chart(analysis.predictive)
    return charts


def horizons_chart(table: pd.DataFrame) -> alt.LayerChart:
    """Draw each agent's 50 % horizon with its 95 % interval, on a log scale of minutes."""
    # A bar that would run off any axis is cut where it no longer tells; the table has the number.
    low, high = 1e-3, 1e7
    data = table[["agent"]].copy()
    for name in ("p50", "p50q0.025", "p50q0.975"):
        data[name.replace(".", "_")] = table[name].clip(low, high)
    base = alt.Chart(data, title="Time horizon at 50 % success, 95 % interval").encode(
        y=alt.Y("agent:N", sort=alt.SortField("p50", order="descending"), title=None)
    )
    ticks = alt.Axis(values=[10.0**k for k in range(-3, 8)], format="~g")
    x = alt.X("p50q0_025:Q", scale=_MINUTES, axis=ticks, title="minutes of human work")
    bars = base.mark_rule(color=ACCENT, strokeWidth=3, opacity=0.45).encode(x=x, x2="p50q0_975:Q")
    dots = base.mark_circle(color=ACCENT, size=70, opacity=1).encode(x="p50:Q")
    return (bars + dots).properties(width=520)


def watched_draws(fit: HorizonFit) -> dict[str, np.ndarray]:
    """Return draws (chain, draw) of the scalars and of the parameter with the lowest ESS."""
    posterior = posterior_of(fit.design, fit.options, fit.point, fit.draws).posterior
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
    limits = alt.Chart(pd.DataFrame({"r_hat": [1.01]})).mark_rule(color=SECOND, strokeDash=[4, 4])
    least = alt.Chart(pd.DataFrame({"ess_bulk": [400]})).mark_rule(color=SECOND, strokeDash=[4, 4])
    layers = dots + limits.encode(y="r_hat:Q") + least.encode(x="ess_bulk:Q")
    return layers.properties(width=460, height=260)


def human_chart(predictive: PredictiveChecks) -> alt.FacetChart:
    """Draw the human log2 durations of each source against the model's replicates."""
    blocks = []
    for check in predictive.human:
        everything = np.concatenate([check.observed, check.replicated.ravel()])
        first, last = np.quantile(everything, [0.001, 0.999])
        edges = np.linspace(first, last, 25)
        middle = (edges[1:] + edges[:-1]) / 2
        counts = np.array([np.histogram(row, edges)[0] for row in check.replicated])
        low, median, high = np.quantile(counts, [0.025, 0.5, 0.975], axis=0)
        blocks.append(
            pd.DataFrame(
                {
                    "source": f"{check.source} ({check.observed.size} runs)",
                    "log2": middle,
                    "observed": np.histogram(check.observed, edges)[0],
                    "low": low,
                    "median": median,
                    "high": high,
                }
            )
        )
    base = alt.Chart(pd.concat(blocks)).encode(
        x=alt.X("log2:Q", title="log2 minutes of a successful human run")
    )
    band = base.mark_area(color=ACCENT, opacity=0.25, interpolate="step").encode(
        y=alt.Y("low:Q", title="runs"), y2="high:Q"
    )
    line = base.mark_line(color=ACCENT, interpolate="step").encode(y="median:Q")
    seen = base.mark_circle(color=INK, size=40, opacity=1).encode(y="observed:Q")
    return (
        (band + line + seen)
        .properties(width=320, height=200)
        .facet(
            facet=alt.Facet("source:N", title=None),
            columns=3,
            title="Human durations: seen (dots) and replicated (95 % band)",
        )
        .resolve_scale(x="independent", y="independent")
    )


def success_chart(predictive: PredictiveChecks) -> alt.FacetChart:
    """Draw each agent's success rate by task length against the predictive interval."""
    data = pd.DataFrame([asdict(rate) for rate in predictive.rates])
    base = alt.Chart(data).encode(
        x=alt.X("bucket:N", sort=list(dict.fromkeys(data["bucket"])), title=None)
    )
    bars = base.mark_rule(color=ACCENT, strokeWidth=7, opacity=0.3).encode(
        y=alt.Y("low:Q", title="success rate", scale=alt.Scale(domain=[0, 1])), y2="high:Q"
    )
    dots = base.mark_circle(color=INK, size=36, opacity=1).encode(y="observed:Q")
    return (
        (bars + dots)
        .properties(width=130, height=90)
        .facet(
            facet=alt.Facet("agent:N", title=None),
            columns=5,
            title="Success by task length: seen (dots) and 95 % predictive (bars)",
        )
    )


def difficulty_chart(fit: HorizonFit) -> alt.LayerChart:
    """Draw inferred difficulty against the file's human time: close where runs are many."""
    data = _difficulty_data(fit.design, fit.point.mu_task.reshape(-1, len(fit.design.tasks)))
    base = alt.Chart(data, title="Inferred difficulty against human time").encode(
        x=alt.X("human_log2:Q", title="log2 minutes: mean of the human runs, or the estimate"),
        color=alt.Color(
            "evidence:N",
            title="successful human runs",
            sort=["none", "1-2", "3-9", "10 or more"],
            scale=alt.Scale(range=[MUTED, SECOND, "#2563eb", ACCENT]),
        ),
        tooltip=["task", "human_log2", "mean", "runs"],
    )
    bars = base.mark_rule(opacity=0.5).encode(
        y=alt.Y("low:Q", title="inferred log2 minutes, 95 % interval"), y2="high:Q"
    )
    dots = base.mark_circle(size=35, opacity=0.9).encode(y="mean:Q")
    ends = data["human_log2"].agg(["min", "max"]).to_numpy()
    line = alt.Chart(pd.DataFrame({"human_log2": ends, "mean": ends})).mark_line(
        color=INK, strokeDash=[4, 4], strokeWidth=1
    )
    return (line.encode(x="human_log2:Q", y="mean:Q") + bars + dots).properties(
        width=520, height=360
    )


def _difficulty_data(design: Design, draws: np.ndarray) -> pd.DataFrame:
    runs, human_log2 = human_log2_mean(design)
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    return pd.DataFrame(
        {
            "task": design.tasks,
            "human_log2": human_log2,
            "mean": draws.mean(axis=0),
            "low": low,
            "high": high,
            "runs": runs,
            "evidence": np.array(["none", "1-2", "3-9", "10 or more"])[
                np.digitize(runs, [1, 3, 10])
            ],
        }
    )


def save_truth_chart(comparison: TruthComparison, stem: Path) -> None:
    """Save each method's intervals beside the truth of a simulation."""
    low, high = 1e-3, 1e7
    data = comparison.table.assign(
        **{name: comparison.table[name].clip(low, high) for name in ("true", "p50", "low", "high")}
    )
    order = list(dict.fromkeys(data["agent"]))
    base = alt.Chart(data).encode(
        y=alt.Y("agent:N", sort=order, title=None), yOffset=alt.YOffset("method:N")
    )
    ticks = alt.Axis(values=[10.0**k for k in range(-3, 8)], format="~g")
    x = alt.X("low:Q", scale=_MINUTES, axis=ticks, title="50 % horizon, minutes of human work")
    color = alt.Color("method:N", scale=alt.Scale(range=[SECOND, MUTED, ACCENT]))
    bars = base.mark_rule(strokeWidth=2.5, opacity=0.7).encode(x=x, x2="high:Q", color=color)
    dots = base.mark_circle(size=35, opacity=1).encode(x="p50:Q", color=color)
    true = (
        alt.Chart(data)
        .mark_tick(color=INK, thickness=2, height=26)
        .encode(x="true:Q", y=alt.Y("agent:N", sort=order))
    )
    title = "Three methods against the truth (black), 95 % intervals"
    chart = (bars + dots + true).properties(width=560, height=alt.Step(11), title=title)
    save_chart(chart, stem)
