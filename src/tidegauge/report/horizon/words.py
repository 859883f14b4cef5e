"""The horizon page's plain language: the headline, the checks, and the trend."""

from __future__ import annotations

import numpy as np

from tidegauge.engine.diagnostics import Check
from tidegauge.horizon.result import SUCCESS, HorizonFit, HorizonResult
from tidegauge.horizon.store.studies import StoredTrend
from tidegauge.horizon.trend.frontier import AgentFacts
from tidegauge.horizon.trend.least_squares import Trendline
from tidegauge.report.durations import WORK_UNITS, duration_text
from tidegauge.report.horizon.content import Content, model_trends
from tidegauge.report.horizon.sections import date_table, next_agent_table
from tidegauge.report.horizon.trend_charts import months_text
from tidegauge.report.page import Block, Facts, Finding, Findings, Remark, Text

_CHECKS = {
    "r_hat": (
        "The chains agree",
        "R-hat compares the variance between chains with that within; it is near 1 at convergence.",
    ),
    "ess_bulk": (
        "Enough draws for the medians",
        "Draws are autocorrelated; this is the number of independent ones with the same error.",
    ),
    "ess_tail": (
        "Enough draws for the intervals",
        "The effective number of draws in the tails, on which 95 % intervals rest.",
    ),
    "divergences": (
        "No divergent transitions",
        "Divergences mark regions that the sampler could not explore; estimates may be biased.",
    ),
    "predictive_human_durations": (
        "Human times agree with the model",
        "Posterior predictive check of the mean and sd of human times.",
    ),
    "human_durations_left_out": (
        "Each human time agrees with the others",
        "Its probability by the posterior without it (LOO-PIT) is uniform if the model is right.",
    ),
    "predictive_success_rates": (
        "Success rates agree with the model",
        "Runs replicated at new tasks of the same lengths: few rates should lie outside their "
        "95 % intervals.",
    ),
    "predictive_cells": (
        "Runs of one agent at one task vary as the model says",
        "Replicated cells: if runs are more alike than that, intervals are too narrow.",
    ),
    "lengths_follow_people": (
        "Lengths follow people's times",
        "Where inferred lengths follow the agents' failures more, a length is a difficulty, and "
        "a horizon is circular.",
    ),
    "difficulty_against_human_time": (
        "How far tasks moved from their human time",
        "Where human runs are many, the inferred length should stay close to their mean.",
    ),
}


def summary(fit: HorizonResult) -> str:
    """Name the agent with the longest horizon, in the words of the estimand."""
    table = fit.horizons()
    best = max(
        table.to_dict("records"), key=lambda row: (row["horizon"] == row["horizon"], row["horizon"])
    )
    ends = f"{duration_text(best['q0.025'])} to {duration_text(best['q0.975'])}"
    length = duration_text(best["horizon"])
    does = f"it finishes half of the tasks that take people {length}"
    if fit.estimand != SUCCESS:
        does = f"at tasks that take people {length} its expected score is one half"
    return f"The longest 50 % horizon is that of {best['agent']}: {does} (95 % interval {ends})."


def verdict(fit: HorizonResult) -> Block:
    """Say whether the numbers can be relied on, and why."""
    if not isinstance(fit, HorizonFit):
        made = {"regression": "a regression and its bootstrap", "exact": "sums on a grid"}
        return Text(
            f"Nothing was sampled: the numbers come from {made[fit.method]}, so there is no "
            "convergence to check. Human times are taken as exact, so the intervals leave their "
            "measurement error out."
        )
    if not fit.converged:
        return Remark(
            "The sampler did not converge: do not rely on the numbers of this page. Fit again "
            "with more draws (--draws 4000 --tune 2000) or another --seed."
        )
    failed = sum(check.passed is False for check in fit.findings)
    if failed:
        return Remark(
            f"The sampler converged: the numbers are the model's posterior. But {failed} of the "
            "checks below failed: the model misses a feature of the data, so its "
            "intervals may be too narrow."
        )
    return Text(
        "The sampler converged: the numbers are the model's posterior. No check found "
        "the data at odds with the model."
    )


def findings(fit: HorizonResult) -> list[Block]:
    """Return every check in words, those of the sampler first."""
    items = [_finding(check) for check in fit.findings]
    return [Findings(items)] if items else []


def _finding(check: Check) -> Finding:
    name, _, part = check.name.removesuffix("]").partition("[")
    title, meaning = _CHECKS.get(name, (name.replace("_", " "), ""))
    title = f"{title} ({part})" if part else title
    return Finding(title, check.passed, f"{meaning} Found: {check.detail}.".strip())


def headline_caption(content: Content) -> str:
    """Say what the marks of the headline chart are."""
    text = "Dots are medians, bars 95 % intervals; an arrow marks a bar that goes on."
    first = content.headlines[0]
    if content.is_dated and first.line is not None:
        fan = ", its bands hold 50 and 95 % of such lines, one a draw"
        text += " The line is least squares through the medians"
        text += f"{fan}." if first.line.fan is not None else "."
    elif content.is_dated and first.trend is not None:
        text += (
            " The line is the median of the trend, its bands hold 50 and 95 % of its draws, the "
            "dotted lines 95 % for an agent released then; dashed is extrapolated."
        )
    undated = [bar.agent for bar in first.bars if bar.date is None]
    if content.is_dated and undated:
        text += f" Without a release date, and so not drawn: {', '.join(undated)}."
    return f"{text} {WORK_UNITS}"


def trend_blocks(content: Content) -> list[Block]:
    """Say what the trend is, how fast, and when it reaches which length of work."""
    if trends := model_trends(content.studies):
        return _model_blocks(content, trends)
    return _line_blocks(content)


def _model_blocks(content: Content, trends: list[StoredTrend]) -> list[Block]:
    blocks: list[Block] = []
    for trend in trends:
        pairs = [(f"doubling time, {trend.name}", months_text(trend.months()))]
        if rising := trend.value("rising_share"):
            pairs.append(("probability that it rises", f"{rising.median:.1%}"))
        if scatter := trend.value("scatter_log2"):
            pairs.append(("agents scatter around it by a factor of", f"{2**scatter.median:.2g}"))
        blocks.append(Facts(pairs))
    joint = [trend for trend in trends if trend.name.startswith("joint")]
    text = "The doubling time is that at the last release, with its 95 % interval. "
    if joint:
        text += (
            f"The {joint[0].name} trend was fitted together with all the rest: agents scatter "
            "around it, and its bands include the uncertainty of tasks, agents and scatter. "
        )
    for mixture in trends[len(joint) :]:
        text += (
            f"The {mixture.name} trend mixes four shapes by how well they predict unseen agents; "
            "see Trends below. "
        )
    text += (
        "Its bands stand for the trend; the next agent lies off it by the scatter, within the "
        "dotted lines 95 times in a hundred."
    )
    fit = content.fit
    facts = fit.trend_agents if isinstance(fit, HorizonFit) else {}
    chosen = AgentFacts(frontier=bool(facts.get("frontier")))
    curse = [Text(f"Note: {note}.") for note in chosen.notes if joint]
    tables = [table(trends[0]) for table in (next_agent_table, date_table)]
    return [*blocks, Text(text), *curse, *tables]


def _line_blocks(content: Content) -> list[Block]:
    lines = {one.rate: one.line for one in content.headlines if one.kind == "typical" and one.line}
    if not lines:
        return [
            Text("No trend: it needs release dates (--release-dates) of at least three agents.")
        ]
    n_agents = next(iter(lines.values())).n_agents
    text = (
        f"The trend is descriptive: a straight line through the {n_agents} agents that happen to "
        "have a date here, all counted alike. It is not the joint trend model, and not a forecast."
    )
    text += (
        " Its interval is the uncertainty of these agents' horizons alone, from a line through "
        "each draw; how agents scatter around a trend is not in it. Horizons more "
        "than 64 times shorter or longer than any task count as that."
    )
    pairs = [(f"doubling time at {rate[1:]} %", _line_text(line)) for rate, line in lines.items()]
    return [Facts(pairs), Text(text)]


def _line_text(line: Trendline) -> str:
    if not 0 < line.doubling_months < np.inf:
        return "none: the line does not rise"
    text = f"{line.doubling_months:.1f} months"
    if line.fastest_months is None or line.slowest_months is None:
        return text
    slowest = f"{line.slowest_months:.1f}" if np.isfinite(line.slowest_months) else "no doubling"
    return f"{text} ({line.fastest_months:.1f} to {slowest})"
