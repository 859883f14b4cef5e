"""The errors a user can cause, each saying what is wrong, where, and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

SHOWN_PROBLEMS = 20


class TideGaugeError(Exception):
    """Bad input or usage: the command line prints the message alone and exits 2."""

    exit_code = 2


class InputError(TideGaugeError):
    """A file or value that cannot be used; the message names it and the remedy."""


class ProblemsError(InputError):
    """Many faults of one input: all are counted, the first twenty are shown.

    Attributes
    ----------
    problems : list of str
        The first faults, one line each.
    n_problems : int
        How many there were in all.
    """

    def __init__(self, problems: Sequence[str], n_problems: int | None = None) -> None:
        self.problems = list(problems[:SHOWN_PROBLEMS])
        self.n_problems = len(problems) if n_problems is None else n_problems
        super().__init__("\n".join([*self.problems, *self._rest()]))

    def _rest(self) -> list[str]:
        hidden = self.n_problems - len(self.problems)
        return [f"... and {hidden:,} more ({self.n_problems:,} in all)"] if hidden > 0 else []


class RunFileError(ProblemsError):
    """Faults of a file of run records, as ``file:line: field=value: what; what to do``."""


class SubmissionError(ProblemsError):
    """Faults of a submission. It is the user's; any other exception while grading is ours."""


class MissingExtraError(TideGaugeError):
    """An optional dependency is not installed; the message is the command that installs it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs an extra: pip install 'tidegauge[{extra}]'")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return the known name nearest to a mistyped one, as a remark to end a message with.

    >>> did_you_mean("ful", ["core", "full"])
    ' (did you mean full?)'
    >>> did_you_mean("zebra", ["core", "full"])
    ''
    """
    names = {name.lower(): name for name in known}
    near = difflib.get_close_matches(word.lower(), names, n=1)
    return f" (did you mean {names[near[0]]}?)" if near else ""


class TideGaugeWarning(UserWarning):
    """A result that is not to be relied on as it stands; filter it by its type."""


class ConvergenceWarning(TideGaugeWarning):
    """The sampler did not converge."""


class ModelCheckWarning(TideGaugeWarning):
    """The fitted model would hardly have produced data like these, or has another mode."""
