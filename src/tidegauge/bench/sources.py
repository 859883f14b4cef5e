"""Where competitions come from: this package, others' entry points, a checkout of MLE-bench."""

from __future__ import annotations

from pathlib import Path

from tidegauge.bench.competition_folder import Prepared, open_prepared
from tidegauge.bench.competitions.base import Competition
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.mlebench.checkout import PREFIX, known_checkout, open_checkout
from tidegauge.bench.mlebench.competition import (
    CheckoutCompetition,
    checkout_competition,
    open_checkout_prepared,
)
from tidegauge.errors import InputError


def find_competition(
    name: str, *, prefer_checkout: bool = False
) -> Competition | CheckoutCompetition:
    """Return a competition by name: ``osic``, ``mlebench/<id>``, or an id.

    Parameters
    ----------
    prefer_checkout : bool
        Look in the checkout first; otherwise an id that ships, or comes from a package, wins.

    Raises
    ------
    InputError
        There is none of that name.
    """
    if name.startswith(PREFIX):
        return checkout_competition(open_checkout(), name.removeprefix(PREFIX))
    checkout = known_checkout()
    is_there = checkout is not None and name in checkout.competition_ids
    try:
        if not (is_there and prefer_checkout):
            return get_competition(name)
    except InputError:
        if not is_there:
            raise
    assert checkout is not None
    return checkout_competition(checkout, name)


def open_competition(
    competition: str | Competition | CheckoutCompetition, folder: Path | str | None = None
) -> Prepared:
    """Open a prepared competition.

    Parameters
    ----------
    folder : Path or str, optional
        May be left out for a competition of a checkout: it is then looked for in MLE-bench's data.

    Raises
    ------
    InputError
        There is no such competition, or it is not prepared there.
    """
    if isinstance(competition, str):
        competition = find_competition(competition)
    if isinstance(competition, CheckoutCompetition):
        return open_checkout_prepared(competition, None if folder is None else Path(folder))
    if folder is None:
        raise InputError(
            f"{competition.name}: name its folder by --prepared; `tidegauge bench prepare "
            f"{competition.name}` makes one"
        )
    return open_prepared(competition, folder)
