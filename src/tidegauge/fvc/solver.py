"""Solve the competition: a valid submission in seconds, then better ones until done or out of time.

Stages, each of which ends by replacing the submission atomically:

1. the direct model on the tables, as it is;
2. the candidate that inner cross-validation chooses on the tables;
3. where there are scans: the same with what they measure, kept if it did better inside.

Then the whole procedure is cross-validated once more around itself, to say where it stands.
"""

from __future__ import annotations

import _thread
import contextlib
import re
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from tidegauge.errors import InputError
from tidegauge.fvc.data.cohort import Cohort
from tidegauge.fvc.data.folder import (
    EVERYTHING,
    FeatureSource,
    TestSet,
    add_features,
    read_test,
    read_training,
)
from tidegauge.fvc.medal_odds import Standing, find_standing
from tidegauge.fvc.prediction import measure_for
from tidegauge.fvc.selection import LEAST_PATIENTS, QUICK, fit_model, fit_one
from tidegauge.fvc.submit import write_forecast
from tidegauge.fvc.validation import NESTED, crossval
from tidegauge.progress import SILENT, Progress

STANDING_REPEATS = 1  # more would steady the mean by a few thousandths: far below its error
_ALARM = getattr(signal, "SIGALRM", signal.SIGTERM)  # Windows has no alarm
_UNITS_SECONDS = {"": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}


class DeadlineReached(Exception):
    """The time limit has come; what is written stays."""


@dataclass(frozen=True)
class Solution:
    """How a submission came about.

    Attributes
    ----------
    chosen : str
        The forecaster behind the file that was left.
    n_rows, n_patients : int
        What was forecast.
    standing : Standing or None
        None where time or patients did not suffice to find it.
    finished : bool
        False when the deadline came first.
    seconds : float
    """

    chosen: str
    n_rows: int
    n_patients: int
    standing: Standing | None
    finished: bool
    seconds: float


def parse_duration(text: str) -> float:
    """Return seconds from text such as ``12h``, ``30m``, ``90s`` or ``90``.

    Raises
    ------
    InputError
        It is something else, or not above 0.
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh]?)\s*", text)
    seconds = float(match[1]) * _UNITS_SECONDS[match[2]] if match else 0.0
    if seconds <= 0:
        raise InputError(f"time limit {text!r}: give a duration such as 12h, 30m or 90s")
    return seconds


def solve(
    folder: Path,
    output: Path,
    *,
    seed: int = 1,
    time_limit_seconds: float = 12 * 3600.0,
    source: FeatureSource = EVERYTHING,
    standing: bool = True,
    workers: int | None = None,
    progress: Progress = SILENT,
) -> Solution:
    """Write the best submission that the time allows.

    Parameters
    ----------
    source : FeatureSource
        Scans of the folder, a table of features, or both.
    standing : bool
        Cross-validate the whole procedure once more in the end, to say where it stands.

    Raises
    ------
    InputError
        A fault of the input; nothing is written then.
    """
    began = time.monotonic()
    training = read_training(folder, progress=progress)
    test = read_test(folder, progress=progress)
    write_forecast(fit_one(training, QUICK, seed=seed), test, output)
    progress.note(f"{output}: a first valid submission is written ({len(test.asked.keys):,} rows)")
    state = Solution(QUICK, len(test.asked.keys), test.cohort.n_patients, None, False, 0.0)
    stages = _improve(folder, output, training, test, source, seed, standing, workers, progress)
    try:
        # Work in hand needs a moment to stop, and the limit is the user's, not ours to overrun.
        usable = time_limit_seconds - min(10.0, 0.2 * time_limit_seconds)
        with _deadline(usable - (time.monotonic() - began)):
            for chosen, found in stages:
                state = replace(state, chosen=chosen, standing=found)
            state = replace(state, finished=True)
    except DeadlineReached:
        progress.note(f"time limit reached; {output} holds the best submission so far")
    return replace(state, seconds=time.monotonic() - began)


def _improve(
    folder: Path,
    output: Path,
    training: Cohort,
    test: TestSet,
    source: FeatureSource,
    seed: int,
    standing: bool,
    workers: int | None,
    progress: Progress,
) -> Iterator[tuple[str, Standing | None]]:
    """Yield after each better submission, and at last with where it stands."""
    if training.n_patients < LEAST_PATIENTS:
        progress.note(f"{training.n_patients} patients are too few to compare forecasters on")
        return
    model = fit_model(training, seed=seed, visits=1, workers=workers, progress=progress)
    write_forecast(model.blend, test, output)
    yield model.chosen, None
    if source.is_there(folder, "train"):
        training = add_features(
            training, folder, "train", source, workers=workers, progress=progress
        )
        model = fit_model(training, seed=seed, visits=1, workers=workers, progress=progress)
        measured = measure_for(
            model, test.cohort, folder, source=source, workers=workers, progress=progress
        )
        test = replace(test, cohort=measured)
        write_forecast(model.blend, test, output)
        yield model.chosen, None
    if not standing or training.n_patients < 2 * LEAST_PATIENTS:
        return
    result = crossval(
        training, repeats=STANDING_REPEATS, seed=seed, workers=workers, progress=progress
    )
    scores = result.per_patient()[NESTED].to_numpy()
    yield model.chosen, find_standing(scores, n_test=test.cohort.n_patients, seed=seed)


@contextlib.contextmanager
def _deadline(seconds: float) -> Iterator[None]:
    """Raise `DeadlineReached` in this block when the time is up."""
    if threading.current_thread() is not threading.main_thread():
        yield  # a signal reaches the main thread only; elsewhere every stage runs to its end
        return

    def ring(number: int, frame: FrameType | None) -> None:
        raise DeadlineReached

    before = signal.signal(_ALARM, ring)
    seconds = max(seconds, 0.001)
    # A timer's thread cannot wake a main thread that waits for a worker, so it is second best.
    timer = threading.Timer(seconds, _thread.interrupt_main, [_ALARM])
    timer.daemon = True
    try:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, seconds)
        else:  # Windows
            timer.start()
        yield
    finally:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        timer.cancel()
        signal.signal(_ALARM, before)
