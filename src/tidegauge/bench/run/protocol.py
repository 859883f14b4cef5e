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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from tidegauge.bench.run.budget import Budget, BudgetExceededError
from tidegauge.bench.run.process import AgentGoneError, AgentProcess

MAX_LINE_BYTES = 4 * 1024 * 1024
_POLL_SECONDS = 0.1
_WATCH_SECONDS = 0.5
_WRITE_SECONDS = 0.3  # for an agent that does not read, beyond its time
_PARTING_SECONDS = 0.8  # to read the last message before the end


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ended.

    Attributes
    ----------
    cause : str
        ``finished`` (the agent said so), ``exited`` (by itself), ``time``, ``steps``, ``failed``
        (it could not be started or broke its supervisor) or ``interrupted``.
    exit_code : int or None
        Of the agent, where it ended by itself.
    """

    cause: str
    exit_code: int | None = None
    detail: str = ""


@dataclass
class Transcript:
    """Everything said during a run, one JSON line an event."""

    path: Path
    tokens: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def write(self, event: str, **content: Any) -> None:
        """Append one event with its time."""
        line = json.dumps({"at": round(time.time(), 3), "event": event, **content})
        with self._lock, open(self.path, "a", encoding="utf-8") as handle:
            handle.write(line + "\n")


def run_plain(
    agent: AgentProcess, budget: Budget, transcript: Transcript, watch: Callable[[], None]
) -> Ending:
    """Wait for the agent to exit, or for its time to end."""
    while budget.seconds_left > 0:
        try:
            message = agent.receive_control(min(_WATCH_SECONDS, budget.seconds_left))
        except AgentGoneError:
            return _gone(agent)
        if message is not None:
            return _ending_of(message)
        watch()
    transcript.write("stopped", cause="time")
    return Ending("time")


def run_steps(
    agent: AgentProcess, budget: Budget, transcript: Transcript, watch: Callable[[], None]
) -> Ending:
    """Answer the agent's requests until it finishes, exits or has used up its budget."""
    assert agent.process.stdout is not None
    lines = _read_lines(agent.process.stdout)
    try:
        while True:
            line = _next_line(agent, lines, budget)
            if line is None:
                return _gone(agent)
            message = _parse(line)
            transcript.write("agent", message=message)
            _note_tokens(message, transcript)
            if message.get("finish") is True:
                return Ending("finished")
            budget.spend_step()
            answer = _answer(agent, message, budget)
            watch()
            reply = {**answer, **budget.left()}
            transcript.write("runner", message=reply)
            agent.write_line(reply, budget.seconds_left + _WRITE_SECONDS)
            budget.check_time()
            if budget.steps_left == 0:
                raise BudgetExceededError("steps", budget.steps_used, budget.limits.steps)
    except BudgetExceededError as error:
        _say_stopped(agent, transcript, error.kind)
        return Ending(error.kind)
    except AgentGoneError:
        if budget.seconds_left <= 0:
            transcript.write("stopped", cause="time")
            return Ending("time")
        return _gone(agent)


def _say_stopped(agent: AgentProcess, transcript: Transcript, kind: str) -> None:
    transcript.write("stopped", cause=kind)
    with contextlib.suppress(AgentGoneError):
        agent.write_line({"stopped": kind}, _WRITE_SECONDS)
        ends = time.monotonic() + _PARTING_SECONDS
        while (left := ends - time.monotonic()) > 0:
            message = agent.receive_control(left)
            # The answer to a command that was cut off may still come; only an exit ends the wait.
            if message is None or "exit_code" not in message:
                break


def _answer(agent: AgentProcess, message: dict[str, Any], budget: Budget) -> dict[str, Any]:
    command = message.get("run")
    if not isinstance(command, str):
        what = message.get("error") or 'write {"run": "shell command"} or {"finish": true}'
        return {"exit_code": None, "output": f"not a request: {what}", "clipped": False}
    agent.send_control({"run": command, "seconds": budget.seconds_left})
    answer = agent.receive_control(budget.seconds_left)
    if answer is None:
        limit = budget.limits.hours * 3600
        raise BudgetExceededError("time", limit, limit)
    if "exit_code" not in answer:  # the agent exited: nobody waits for the answer
        raise AgentGoneError
    return answer


def _parse(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        return {"error": f"{error}", "line": line[:200].decode(errors="replace")}
    if isinstance(message, dict):
        return message
    return {"error": "one JSON object a line", "line": line[:200].decode(errors="replace")}


def _note_tokens(message: dict[str, Any], transcript: Transcript) -> None:
    tokens = message.get("tokens")
    if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0:
        transcript.tokens = tokens


def _next_line(agent: AgentProcess, lines: queue.Queue[bytes], budget: Budget) -> bytes | None:
    """Return the agent's next line, or None once it has exited and said all.

    The end of its output alone tells nothing: its children, or the sandbox, may hold it open.
    """
    while True:
        budget.check_time()
        with contextlib.suppress(queue.Empty):
            return lines.get(timeout=min(_POLL_SECONDS, budget.seconds_left))
        if agent.last_words is not None:
            return None
        agent.receive_control(0.0)


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


def _ending_of(message: dict[str, Any]) -> Ending:
    if "failed" in message:
        return Ending("failed", detail=str(message["failed"]))
    return Ending("exited", exit_code=message.get("exited"))


def _gone(agent: AgentProcess) -> Ending:
    """Tell an agent that exited from one whose supervisor or sandbox broke."""
    with contextlib.suppress(AgentGoneError):
        while agent.last_words is None and agent.receive_control(1.0) is not None:
            pass
    if agent.last_words is not None:
        return _ending_of(agent.last_words)
    return Ending("failed", detail="the sandbox ended unexpectedly; see agent.stderr.txt")
