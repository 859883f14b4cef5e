"""Two prepared competitions, and an agent run in a temporary folder."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import mlebench_checkout as made
from sharing import shared_folder
from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.mlebench.checkout import open_checkout
from tidegauge.bench.mlebench.competition import checkout_competition, open_checkout_prepared
from tidegauge.bench.preparation import prepare_competition, simulate_and_prepare
from tidegauge.bench.run.isolation import bubblewrap_works, choose_isolation
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.runner import run_agent
from tidegauge.errors import InputError
from tidegauge.simulate.osic import simulate_cohort, write_raw


@pytest.fixture(scope="session")
def bubblewrap() -> None:
    """Skip where there is no bubblewrap, or where it may make no namespaces."""
    if not bubblewrap_works():
        pytest.skip("bubblewrap does not work here")


@pytest.fixture(scope="session")
def some_isolation() -> None:
    """Skip where `--isolation auto` finds none, as it then says."""
    try:
        choose_isolation("auto")
    except InputError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def osic(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return simulate_and_prepare(
        get_competition("osic"), tmp_path_factory.mktemp("osic"), seed=3, salt="test"
    )


@pytest.fixture(scope="session")
def small_osic(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    """Thirty patients, so that three are tested."""
    folder = tmp_path_factory.mktemp("small")
    write_raw(simulate_cohort(n_patients=30, seed=5), folder / "raw")
    return prepare_competition(
        get_competition("osic"), folder / "raw", folder / "prepared", verify=False
    )


@pytest.fixture(scope="session")
def surge(tmp_path_factory: pytest.TempPathFactory) -> Prepared:
    return simulate_and_prepare(
        get_competition("surge"), tmp_path_factory.mktemp("surge"), seed=3, salt="test"
    )


@pytest.fixture(scope="session")
def mlebench(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A made-up checkout of MLE-bench, checkout/, and its prepared data, data/."""

    def make(folder: Path) -> None:
        made.write_world(folder)
        # Several tests copy this competition: its profile shall not be made meanwhile.
        name = "harbour-depths"
        competition = checkout_competition(open_checkout(folder / "checkout"), name)
        open_checkout_prepared(competition, folder / "data" / name).make_ready()

    return shared_folder(tmp_path_factory, "mlebench", make)


@pytest.fixture(autouse=True)
def own_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own list of running agents out of the tests, and theirs out of it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture
def reserved_port() -> Iterator[Callable[[], int]]:
    """Return a function that gives free ports, each held until the test ends.

    A socket that is bound but does not listen keeps others from being given its port, while a
    server that is told the port, and allows the address to be reused as ours does, can listen.
    """
    held: list[socket.socket] = []

    def reserve() -> int:
        bound = socket.socket()
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(("127.0.0.1", 0))
        held.append(bound)
        return int(bound.getsockname()[1])

    yield reserve
    for bound in held:
        bound.close()


RunIt = Callable[..., tuple[dict[str, Any], Path]]


@pytest.fixture
def run_it(surge: Prepared, tmp_path: Path) -> RunIt:
    """Run a command as an agent; return the report and the run's folder."""

    def run(
        command: str,
        *,
        prepared: Prepared = surge,
        seconds: float = 600.0,
        steps: int = 500,
        **more: Any,
    ) -> tuple[dict[str, Any], Path]:
        limits = Limits(hours=seconds / 3600, steps=steps)
        options = RunOptions(
            **{"isolation": "none", **more}, command=command, alias="a", limits=limits
        )
        report = run_agent(prepared, tmp_path / "out", tmp_path / "runs.jsonl", options)
        (folder,) = (tmp_path / "out").glob(f"*-{report['run_id'][:8]}")
        return report, folder

    return run
