"""The competitions as Inspect tasks: ``inspect eval tidegauge/osic --model ...``.

The sandbox is ours (bubblewrap, with the validator inside), the tools tell the remaining time and
steps after every call, and the scorer is the grader. Needs the extra ``inspect``.
"""

# mypy: disable-error-code="untyped-decorator"

from __future__ import annotations

import asyncio
import contextlib
import shlex
import tempfile
import time
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.agent import AgentContinue, AgentState, react
from inspect_ai.dataset import Sample
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from inspect_ai.tool import Tool, tool
from inspect_ai.util import (
    ExecResult,
    LimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentSpec,
    sandbox,
    sandboxenv,
    store,
)
from pydantic import BaseModel

from tidegauge.bench.competition_folder import Prepared, open_prepared
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.bench.grading import grade_submission
from tidegauge.bench.preparation import simulate_and_prepare
from tidegauge.bench.run.isolation import (
    agent_environment,
    choose_isolation,
    give_workspace,
    make_isolation,
)
from tidegauge.bench.run.options import Limits
from tidegauge.bench.run.process import PORTS, AgentGoneError, AgentProcess, open_place
from tidegauge.bench.run.workspace import SUBMISSION, make_workspace, read_agents_file
from tidegauge.bench.server import listen, validating

_BEGAN, _STEPS = "tidegauge_began", "tidegauge_steps"
_simulated: dict[str, tempfile.TemporaryDirectory[str]] = {}


@task
def osic(
    prepared: str | None = None, hours: float = 12.0, steps: int = 500, isolation: str = "auto"
) -> Task:
    """Forecast lung capacity; `prepared` is the folder of ``bench prepare``, or it is simulated."""
    return competition_task("osic", prepared, Limits(hours, steps), isolation)


@task
def surge(
    prepared: str | None = None, hours: float = 1.0, steps: int = 100, isolation: str = "auto"
) -> Task:
    """Forecast storm surge; `prepared` is the folder of ``bench prepare``, or it is simulated."""
    return competition_task("surge", prepared, Limits(hours, steps), isolation)


def competition_task(
    name: str, prepared: str | None, limits: Limits, isolation: str = "auto"
) -> Task:
    """Return the Inspect task of any registered competition."""
    folder = prepared or _simulate(name)
    found = open_prepared(get_competition(name), Path(folder))
    place = SandboxPlace(
        name=name, folder=str(Path(folder).resolve()), isolation=choose_isolation(isolation)
    )
    metadata = {"human_minutes": found.competition.human_minutes, "human_source": "estimate"}
    sample = Sample(
        id=found.competition.competition_id,
        input=f"{found.competition.description}\n{limits.sentence()} Read instructions.txt first.",
        metadata=metadata,
    )
    return Task(
        name=name,
        dataset=[sample],
        setup=start_clock(),
        solver=react(
            tools=[shell(limits), validate_submission(name, folder, limits)],
            on_continue=_until_steps_end(limits),
        ),
        scorer=competition_grade(name, folder),
        sandbox=SandboxEnvironmentSpec("tidegauge", place),
        time_limit=int(limits.hours * 3600),
        message_limit=4 * limits.steps + 20,  # a backstop: the tools count the steps
    )


def _simulate(name: str) -> str:
    if name not in _simulated:
        _simulated[name] = tempfile.TemporaryDirectory(prefix=f"tidegauge-{name}-")
        simulate_and_prepare(get_competition(name), Path(_simulated[name].name), seed=1)
    return _simulated[name].name


@solver
def start_clock() -> Solver:
    """Note when the sample began, for the tools to tell what is left."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        store().set(_BEGAN, time.monotonic())  # the clock may be moved
        store().set(_STEPS, 0)
        return state

    return solve


def _spend_step(limits: Limits) -> str:
    """Count one tool call and return what is left."""
    used = int(store().get(_STEPS, 0)) + 1
    if used > limits.steps:  # several calls in one message
        raise LimitExceededError("custom", value=used, limit=limits.steps, message="stopped: steps")
    store().set(_STEPS, used)
    seconds = max(0.0, limits.hours * 3600 - (time.monotonic() - float(store().get(_BEGAN))))
    stopped = " stopped: steps" if used == limits.steps else ""
    return f"[seconds_left: {seconds:.0f}, steps_left: {limits.steps - used}]{stopped}"


def _until_steps_end(limits: Limits) -> AgentContinue:
    async def go_on(state: AgentState) -> bool:
        return int(store().get(_STEPS, 0)) < limits.steps

    return go_on


@tool
def shell(limits: Limits) -> Tool:
    """Return the tool that runs shell commands in the workspace."""

    async def execute(command: str) -> str:
        """Run a shell command in the workspace.

        Args:
            command: The command; its output is clipped if it is long.
        """
        left = _spend_step(limits)
        done = await sandbox().exec(["/bin/sh", "-c", command], timeout=int(limits.hours * 3600))
        return f"{done.stdout}{done.stderr}\nexit code {done.returncode} {left}"

    return execute


@tool
def validate_submission(name: str, folder: str, limits: Limits) -> Tool:
    """Return the tool that checks the submission; it never tells a score."""

    async def execute() -> str:
        """Check whether submission/submission.csv is well formed."""
        left = _spend_step(limits)
        data = await _read_submission()
        if data is None:
            return f"There is no file at {SUBMISSION}. {left}"
        check = open_prepared(get_competition(name), Path(folder)).check
        return f"{(await asyncio.to_thread(check, data)).sentence()} {left}"

    return execute


async def _read_submission() -> bytes | None:
    try:
        data: bytes = await sandbox().read_file(str(SUBMISSION), text=False)
        return data
    except (OSError, ValueError):
        return None


@scorer(metrics=[mean(), stderr()])
def competition_grade(name: str, folder: str) -> Scorer:
    """Return the grader as a scorer: 1 for any medal; the whole report is in the metadata."""

    async def score(state: TaskState, target: Target) -> Score:
        prepared = open_prepared(get_competition(name), Path(folder))
        data = await _read_submission()
        found: Path | bytes = SUBMISSION / "nothing" if data is None else data
        report = grade_submission(prepared, found).report(prepared.competition)
        report["submission_path"] = str(SUBMISSION)
        report["steps_used"] = store().get(_STEPS, 0)
        return Score(
            value=float(report["any_medal"]),
            explanation=f"score {report['score']}" if data else "no submission",
            metadata=report,
        )

    return score


class SandboxPlace(BaseModel, frozen=True):  # type: ignore[misc, unused-ignore]
    """What a sandbox is made from: the competition, its prepared folder, the isolation."""

    name: str
    folder: str
    isolation: str


@sandboxenv(name="tidegauge")
class CompetitionSandbox(SandboxEnvironment):  # type: ignore[misc]
    """A workspace under our isolation; one process tree for all of a sample's commands."""

    def __init__(self, prepared: Prepared, kind: str) -> None:
        super().__init__()
        self._prepared = prepared
        self._open = contextlib.ExitStack()
        self._busy = asyncio.Lock()
        place = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="tidegauge-")))
        isolation = make_isolation(kind, hidden=(prepared.private,))
        if isolation.kind == "user" and not isolation.namespaces:
            place.chmod(0o711)
        self._workspace = make_workspace(prepared, place / "workspace", link=kind != "none")
        give_workspace(self._workspace, isolation)
        own_network = isolation.has_own_network
        sockets = [] if own_network else [listen("127.0.0.1", 0)]
        validator = self._open.enter_context(validating(prepared, sockets))
        environment = agent_environment(
            isolation,
            workspace=self._workspace,
            private=prepared.private,
            extra={"SERVER_URL": validator.url or f"http://127.0.0.1:{PORTS[0]}"},
        )
        self._agent: AgentProcess = self._open.enter_context(
            open_place(
                isolation=isolation,
                workspace=self._workspace,
                environment=environment,
                validator=validator.path if own_network else None,
                logs=place,
            )
        )

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        """Make one sandbox for the sample."""
        prepared = open_prepared(get_competition(config.name), Path(config.folder))
        return {"default": cls(prepared, config.isolation)}

    @classmethod
    def config_deserialize(cls, config: dict[str, Any]) -> SandboxPlace:
        """Read the configuration back from a log."""
        return SandboxPlace(**config)

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        """End the process tree and remove the workspace."""
        for environment in environments.values():
            environment.as_type(cls)._open.close()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        """Run a command inside; both output streams come back as one, clipped."""
        line = shlex.join(cmd)
        if env:
            line = shlex.join(["/usr/bin/env", *(f"{k}={v}" for k, v in env.items())]) + " " + line
        given = input.encode() if isinstance(input, str) else input or b""
        if cwd is not None:
            line = f"cd {shlex.quote(cwd)} && {line}"
        seconds = float(timeout or 12 * 3600)
        async with self._busy:
            try:
                answer = await asyncio.to_thread(
                    self._agent.run, line, seconds, given, patience_seconds=5.0
                )
            except AgentGoneError:
                raise RuntimeError("the sandbox has ended: a command killed it") from None
        if answer is None or answer.exit_code is None:
            raise TimeoutError("the command did not end in time")
        return ExecResult(answer.exit_code == 0, answer.exit_code, answer.output, "")

    async def write_file(self, file: str, contents: str | bytes) -> None:
        """Write a file from inside, so that no link can lead out."""
        folder = shlex.quote(str(Path(file).parent))
        command = f"mkdir -p {folder} && cat > {shlex.quote(file)}"
        done = await self.exec(["/bin/sh", "-c", command], input=contents)
        if not done.success:
            raise PermissionError(done.stdout)

    async def read_file(self, file: str, text: bool = True) -> Any:
        """Read a file of the workspace, following no link."""
        path = Path(file)
        if path.is_absolute():
            if not path.is_relative_to(self._workspace):
                raise FileNotFoundError(file)
            path = path.relative_to(self._workspace)
        if ".." in path.parts:
            raise FileNotFoundError(file)
        private = self._prepared.private
        data = read_agents_file(
            self._workspace, path, private=private, max_bytes=self._prepared.max_bytes
        )
        if data is None:
            raise FileNotFoundError(file)
        return data.decode() if text else data
