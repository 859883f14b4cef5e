"""The two ways to run an agent: a plain process, and the step protocol.

Both return why the run ended. The step protocol is one JSON object a line: the agent writes
``{"run": "shell command"}`` or ``{"finish": true}``; the runner answers with exit_code, output,
clipped, seconds_left and steps_left, and after the last one with ``{"stopped": "steps" | "time"}``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from tidegauge.bench.run.budget import Budget, BudgetExceededError
from tidegauge.bench.run.process import AgentGoneError, AgentProcess
from tidegauge.bench.run.workspace import Submissions

MAX_LINE_BYTES = 1024 * 1024
_POLL_SECONDS = 0.1
_WATCH_SECONDS = 0.5
_WRITE_SECONDS = 0.3  # for an agent that does not read, beyond its time
PARTING_SECONDS = 0.8  # to read the last message before the end


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ended.

    Attributes
    ----------
    cause : str
        ``finished`` (the agent said so), ``exited`` (by itself), ``time``, ``steps``, ``disk``,
        ``killed`` (it ended its supervisor), ``failed`` (the runner did) or ``interrupted``.
    exit_code : int or None
        Of the agent, where it ended by itself.
    """

    cause: str
    exit_code: int | None = None
    detail: str = ""


@dataclass
class Transcript:
    """Everything that passed between agent and runner, one JSON line an event.

    Attributes
    ----------
    lost : int
        Events that could not be written: a full disk ends no run.
    """

    path: Path
    tokens: int | None = None
    lost: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, event: str, **content: Any) -> None:
        """Append one event with its time."""
        line = json.dumps({"at": round(time.time(), 3), "event": event, **content})
        try:
            with self._lock, open(self.path, "a", encoding="utf-8") as handle:
                handle.write(line + "\n")
        except OSError:
            self.lost += 1


def run_plain(
    agent: AgentProcess, budget: Budget, transcript: Transcript, submissions: Submissions
) -> Ending:
    """Wait for the agent to exit, or for its time to end."""
    while budget.seconds_left > 0:
        try:
            agent.receive(min(_WATCH_SECONDS, budget.seconds_left))
        except AgentGoneError:
            break
        if agent.exit_code is not None:
            break
        submissions.look()
    return _ending_of(agent, budget, transcript)


def run_steps(
    agent: AgentProcess, budget: Budget, transcript: Transcript, submissions: Submissions
) -> Ending:
    """Answer the agent's requests until it finishes, exits or has used up its budget."""
    assert agent.process.stdout is not None
    lines = _read_lines(agent.process.stdout)
    try:
        while (line := _next_line(agent, lines, budget)) is not None:
            message = _parse(line)
            transcript.write("agent", message=message)
            _note_tokens(message, transcript)
            if message.get("finish") is True:
                return Ending("finished")
            budget.spend_step()
            reply = {**_answer(agent, message, budget), **budget.left()}
            submissions.look()
            transcript.write("runner", message=reply)
            agent.write_line(reply, budget.seconds_left + _WRITE_SECONDS)
            budget.check_time()
            if budget.steps_left == 0:
                raise BudgetExceededError("steps", budget.steps_used, budget.limits.steps)
    except BudgetExceededError as error:
        submissions.freeze()  # what is written from now on is too late
        _say_stopped(agent, transcript, error.kind)
        return Ending(error.kind)
    except AgentGoneError:
        pass
    return _ending_of(agent, budget, transcript)


def _say_stopped(agent: AgentProcess, transcript: Transcript, kind: str) -> None:
    transcript.write("stopped", cause=kind)
    with contextlib.suppress(AgentGoneError):
        agent.write_line({"stopped": kind}, _WRITE_SECONDS)
        ends = time.monotonic() + PARTING_SECONDS
        while (left := ends - time.monotonic()) > 0 and agent.exit_code is None:
            agent.receive(left)


def _answer(agent: AgentProcess, message: dict[str, Any], budget: Budget) -> dict[str, Any]:
    command = message.get("run")
    if not isinstance(command, str):
        what = message.get("error") or 'write {"run": "shell command"} or {"finish": true}'
        return {"exit_code": None, "output": f"not a request: {what}", "clipped": False}
    answer = agent.run(command, budget.seconds_left)
    if answer is None:
        limit = budget.limits.hours * 3600
        raise BudgetExceededError("time", limit, limit)
    return {"exit_code": answer.exit_code, "output": answer.output, "clipped": answer.clipped}


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(line, type=dict[str, Any])
        json.dumps(message)  # what cannot be written to the transcript is no message either
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        return {"error": f"{error}", "line": line[:200].decode(errors="replace")}
    return message


def _note_tokens(message: dict[str, Any], transcript: Transcript) -> None:
    if is_token_count(tokens := message.get("tokens")):
        transcript.tokens = tokens


def is_token_count(value: object) -> bool:
    """Whether an agent's count of tokens can be one; true and false are numbers to Python."""
    return type(value) is int and 0 <= value < 2**53


def _next_line(agent: AgentProcess, lines: queue.Queue[bytes], budget: Budget) -> bytes | None:
    """Return the agent's next line, or None once it has exited and said all.

    The end of its output alone tells nothing: its children, or the sandbox, may hold it open.
    """
    while True:
        budget.check_time()
        with contextlib.suppress(queue.Empty):
            return lines.get(timeout=min(_POLL_SECONDS, budget.seconds_left))
        if agent.exit_code is not None:
            return None
        agent.receive(0.0)


def _read_lines(stream: IO[bytes]) -> queue.Queue[bytes]:
    """Read lines on a thread; few are held at a time, and none that is absurdly long."""
    lines: queue.Queue[bytes] = queue.Queue(maxsize=16)

    def run() -> None:
        buffer = b""
        with contextlib.suppress(OSError, ValueError):
            while data := os.read(stream.fileno(), 65_536):
                *whole, buffer = (buffer + data).split(b"\n")
                for line in whole:
                    if line.strip():
                        lines.put(line)
                if len(buffer) > MAX_LINE_BYTES:
                    lines.put(b"line too long")
                    buffer = b""
            if buffer.strip():
                lines.put(buffer)

    threading.Thread(target=run, daemon=True).start()
    return lines


def _ending_of(agent: AgentProcess, budget: Budget, transcript: Transcript) -> Ending:
    """Tell an agent that exited from one that ran out of something or ended its supervisor."""
    kind = agent.ended_for or ("time" if budget.seconds_left <= 0 else None)
    if kind is not None:
        transcript.write("stopped", cause=kind)
        return Ending(kind)
    with contextlib.suppress(AgentGoneError):
        while agent.exit_code is None and agent.receive(1.0) is not None:
            pass
    if agent.exit_code is not None:
        return Ending("exited", exit_code=agent.exit_code)
    return Ending("killed", detail="the agent ended its own supervisor; see agent.stderr.txt")
