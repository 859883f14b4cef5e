"""An agent that tries 25 ways to what is not its own: those that work are those that docs name."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.competitions import surge as surge_data
from tidegauge.bench.preparation import prepare_competition
from tidegauge.bench.run.isolation import namespaces_work
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.runner import run_agent
from tidegauge.errors import InputError
from tidegauge.progress import SILENT

AGENT = Path(__file__).parents[3] / "hostile_agent.py"
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
# As the table of docs/security.md has it.
SHARED_WITH_A_PLAIN_USER = {
    "reach a service of the host",
    "reach an abstract socket of the host",
    "see other processes",
    "see shared memory of others",
    "see temporary files of others",
}


@dataclass(frozen=True)
class Place:
    """A prepared competition in a folder that every user may enter, and an earlier run of it."""

    folder: Path
    prepared: Prepared

    def run(self, command: str, isolation: str) -> tuple[dict[str, Any], Path]:
        limits = Limits(hours=60 / 3600)
        options = RunOptions(command=command, alias="a", isolation=isolation, limits=limits)
        try:
            report = run_agent(
                self.prepared, self.folder / "out", self.folder / "runs.jsonl", options
            )
        except InputError as error:
            if "could not be started" in str(error):
                pytest.skip(str(error))  # the source tree itself is closed to other users
            raise
        return report, Path(report["submission_path"]).parent

    def tries(self, isolation: str) -> set[str]:
        """Let the agent try everything; return what worked."""
        _, other = self.run("echo x > kept; chmod -R a+rwX .", isolation)
        script = self.folder / "agent.py"
        script.write_bytes(AGENT.read_bytes())
        secret, name = uuid.uuid4().hex, f"tidegauge-{uuid.uuid4().hex}"
        marker = f"85{os.getpid()}.5"
        key = int.from_bytes(os.urandom(3), "big") + 1
        shared = Path("/dev/shm", name)
        temporary = Path("/tmp", name)
        service, abstract = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
        abstract.bind("\0" + name)
        abstract.listen()
        made = subprocess.run(["ipcmk", "-M", "64", "-p", "600"], capture_output=True, text=True)
        number = made.stdout.split()[-1] if made.returncode == 0 else ""
        if number:
            listed = subprocess.run(["ipcs", "-m", "-i", number], capture_output=True, text=True)
            key = _key_of(listed.stdout)
        os.environ["TIDEGAUGE_TEST_SECRET"] = secret
        shared.touch()
        temporary.touch()
        try:
            told = {
                "private": str(self.prepared.private),
                "raw": str(self.folder / "raw"),
                "port": service.getsockname()[1],
                "abstract": name,
                "operator": os.getpid(),
                "secret": secret,
                "shm": name,
                "shm_key": key,
                "temporary": name,
                "other": str(other),
                "runs": str(self.folder / "runs.jsonl"),
                "state": os.environ["XDG_STATE_HOME"],
                "marker": marker,
            }
            words = base64.b64encode(json.dumps(told).encode()).decode()
            python = "/usr/bin/python3" if isolation == "user" else sys.executable
            report, folder = self.run(f"{python} {script} {words}", isolation)
        finally:
            del os.environ["TIDEGAUGE_TEST_SECRET"]
            for path in (shared, temporary):
                path.unlink()
            for one in (service, abstract):
                one.close()
            if number:
                subprocess.run(["ipcrm", "-m", number], check=True)
        said = json.loads((folder / "agent.stdout.txt").read_text())
        assert said["tried"] == 24
        assert (report["exit_cause"], report["error"]) == ("exited", "")
        left = subprocess.run(["pgrep", "-f", f"^sleep {marker}"], capture_output=True)
        assert not left.stdout, "it outlives the run"
        if isolation != "none":
            lines = (self.folder / "runs.jsonl").read_text().splitlines()
            assert [json.loads(line)["alias"] for line in lines] == ["a", "a"]
        return set(said["worked"])


def _key_of(listed: str) -> int:
    """Return the key of a segment from what ``ipcs -m -i`` prints."""
    for line in Path("/proc/sysvipc/shm").read_text().splitlines()[1:]:
        key, number, *_ = line.split()
        if f"shmid={number}" in listed:
            return int(key)
    return 1


@pytest.fixture
def place() -> Iterator[Place]:
    with tempfile.TemporaryDirectory(dir="/var/tmp") as name:
        os.chmod(name, 0o755)
        folder = Path(name)
        surge_data.simulate(folder / "raw", 5, False, SILENT)
        prepared = prepare_competition("surge", folder / "raw", folder / "data")
        (folder / "raw").chmod(0o700)
        yield Place(folder, prepared)


@pytest.mark.usefixtures("bubblewrap")
def test_nothing_works_under_bubblewrap(place: Place) -> None:
    assert place.tries("bwrap") == set()


@ROOT_ONLY
def test_nothing_works_as_a_user_with_namespaces(place: Place) -> None:
    if not namespaces_work():
        pytest.skip("this root may make no namespaces")
    assert place.tries("user") == set()


@ROOT_ONLY
def test_as_a_user_without_namespaces_what_docs_name_is_shared(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tidegauge.bench.run.isolation.namespaces_work", lambda: False)
    found = place.tries("user")
    assert found - {"attach shared memory of others", "be root somewhere"} == (
        SHARED_WITH_A_PLAIN_USER
    )


def test_without_isolation_the_operators_files_are_open(place: Place) -> None:
    """The agent itself is sound: where nothing holds it, its ways work."""
    found = place.tries("none")
    assert {"read the answers", "read another run", "see other processes"} <= found
    assert {"reach a service of the host", "have the operator's secrets"} <= found
