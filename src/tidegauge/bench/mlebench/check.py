"""Whether a competition of a checkout works here: a broken environment is no bad submission."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path

from tidegauge.bench.mlebench.checkout import Checkout, pip_name
from tidegauge.bench.mlebench.client import Worker, WorkerError, ask_once
from tidegauge.bench.mlebench.competition import (
    CheckoutCompetition,
    CheckoutPrepared,
    checkout_competition,
    open_checkout_prepared,
)
from tidegauge.bench.mlebench.facts import facts_of
from tidegauge.bench.mlebench.preparation import differing_checksums
from tidegauge.errors import InputError

_SAMPLE_TOLERANCE = 1e-5 * (1 + 1e-9)  # both are rounded to five decimals


@dataclass
class CheckResult:
    """What was found of one competition.

    Attributes
    ----------
    problems : list of str
        What keeps it from being graded as MLE-bench would, with the remedy.
    facts : list of str
        What was measured.
    """

    competition_id: str
    problems: list[str] = field(default_factory=list)
    facts: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def missing_packages(checkout: Checkout, wanted: dict[str, list[str]]) -> dict[str, list[str]]:
    """Return which packages of each competition the checkout's interpreter lacks; by one question.

    Raises
    ------
    InputError
        The interpreter does not answer.
    """
    modules = sorted({name for names in wanted.values() for name in names})
    try:
        missing = set(ask_once(checkout, do="versions", modules=modules).get("missing", []))
    except WorkerError as error:
        raise InputError(
            f"{checkout.python}: does not run ({error}); name the checkout's Python by "
            "--mlebench-python"
        ) from error
    return {name: [m for m in names if m in missing] for name, names in wanted.items()}


def check_competition(
    checkout: Checkout, competition_id: str, folder: Path | None = None
) -> CheckResult:
    """Look for everything that could make grades differ from MLE-bench's."""
    result = CheckResult(competition_id)
    try:
        competition = checkout_competition(checkout, competition_id)
    except InputError as error:
        result.problems.append(str(error))
        return result
    if competition.lacks:
        result.problems.append(competition.lacks)
    _check_packages(checkout, competition_id, result)
    try:
        prepared = open_checkout_prepared(competition, folder)
    except InputError as error:
        result.problems.append(str(error))
        return result
    is_original = _check_checksums(competition, prepared, result)
    try:
        _check_grader(prepared, result, is_original=is_original)
    except (InputError, WorkerError) as error:
        result.problems.append(str(error))
    result.facts += [f"{notice.kind}: {notice.text}" for notice in competition.notices]
    return result


def _check_packages(checkout: Checkout, competition_id: str, result: CheckResult) -> None:
    for part in ("grade", "prepare"):
        names = checkout.imports(competition_id, part)
        if missing := missing_packages(checkout, {competition_id: names})[competition_id]:
            pip = " ".join(map(pip_name, missing))
            text = f"{part}.py needs {', '.join(missing)}: {checkout.python} -m pip install {pip}"
            (result.problems if part == "grade" else result.facts).append(text)


def _check_checksums(
    competition: CheckoutCompetition, prepared: CheckoutPrepared, result: CheckResult
) -> bool:
    """Compare the prepared files with the published sums; return whether they are the original."""
    if differ := differing_checksums(competition, prepared.public.parent):
        shown = "; ".join(differ[:5])
        result.problems.append(f"other checksums than MLE-bench's ({shown}); prepare it again")
    sums = competition.checkout.checksums(competition.competition_id)
    return not differ and any(sums.values())


def _check_grader(prepared: CheckoutPrepared, result: CheckResult, *, is_original: bool) -> None:
    versions = ", ".join(f"{name} {number}" for name, number in prepared.versions.items())
    side = prepared.side_files
    profile = side.profile
    if profile.gold.error or profile.sample.error:
        what = "gold" if profile.gold.error else "sample"
        path = prepared.gold if profile.gold.error else prepared.sample
        with prepared.worker(prepared.answers) as worker:
            reason = _fault_of(worker, path)
        result.problems.append(
            f"the grader rejects its own {what} submission ({reason}); with {versions}: install "
            f"other versions into {prepared.competition.checkout.python}, or prepare the data again"
        )
        return
    if not _is_better(prepared, profile.gold_score, profile.sample_score):
        result.problems.append(
            f"the gold submission scores {profile.gold_score}, the sample {profile.sample_score}: "
            "answers and sample are not of the same data; prepare it again"
        )
    result.facts.append(f"gold scores {profile.gold_score}, the sample {profile.sample_score}")
    if is_original:
        _check_sample_score(prepared, profile.sample_score, result)
    if side.decoys is None:
        judged = ", ".join(side.differing[:5]) or "too few rows"
        result.facts.append(f"no decoys ({judged}): validated by the sample's form alone")
    else:
        result.facts.append(f"validated on decoys: {side.decoy_kind}")
    lax = [name for name, probe in profile.probes.items() if probe.rows and probe.accepts]
    if lax:
        result.facts.append(f"scored although the rows are wrong: {', '.join(lax)}")
    if profile.row_order_matters:
        result.facts.append("the order of rows matters")
    if profile.column_order_matters:
        result.facts.append("the order of columns matters")
    result.facts.append(versions)


def _fault_of(worker: Worker, path: Path) -> str:
    fault = worker.try_grade(path).fault
    return f"{fault.type}: {fault.message}" if fault else "not this time"


def _is_better(prepared: CheckoutPrepared, gold: float | None, sample: float | None) -> bool:
    if gold is None or sample is None or prepared.competition.lower_is_better is None:
        return gold is not None  # the sample may score NaN
    return gold != sample and prepared.competition.better(gold, sample)


def _check_sample_score(
    prepared: CheckoutPrepared, score: float | None, result: CheckResult
) -> None:
    name = prepared.competition.competition_id
    known = facts_of(name)
    expected = prepared.competition.checkout.sample_scores.get(name)
    if expected is None and known is not None:
        expected = known.sample_score
    if expected is None or math.isnan(expected):
        return
    if score is None or abs(round(score, 5) - expected) > _SAMPLE_TOLERANCE:
        result.problems.append(
            f"the sample scores {score}, MLE-bench expects {expected}: the grader runs with other "
            "versions of its packages; install MLE-bench's"
        )
