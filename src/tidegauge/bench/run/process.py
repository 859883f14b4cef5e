"""The agent's process tree: started under isolation, spoken to, and ended as a whole."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tidegauge.bench.run import supervisor as inside
from tidegauge.bench.run.isolation import (
    SANDBOX_SOCKET,
    Isolation,
    bubblewrap_arguments,
    give_to_agent,
)

PORTS = (5001, 5000)
MAX_LOG_BYTES = 16 * 1024 * 1024
_KILL_SECONDS = 1.5


class AgentGoneError(Exception):
    """The other end of a pipe closed."""


@dataclass
class AgentProcess:
    """A running agent: its pipes, and the socket to the supervisor beside it."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    last_words: dict[str, Any] | None = None  # that the agent exited, or could not be started
    _buffer: bytes = b""

    def send_control(self, message: Mapping[str, Any]) -> None:
        """Pass a request to the supervisor."""
        with contextlib.suppress(OSError):
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def receive_control(self, seconds: float) -> dict[str, Any] | None:
        """Return the supervisor's next message, None after `seconds`.

        Raises
        ------
        AgentGoneError
            The supervisor ended without a word: the agent killed it, or the sandbox failed.
        """
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.control], [], [], left)[0]:
                return None
            try:
                data = self.control.recv(65_536)
            except OSError:
                data = b""
            if not data:
                raise AgentGoneError
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "exit_code" not in message:
            self.last_words = message
        return message

    def write_line(self, message: Mapping[str, Any], seconds: float) -> None:
        """Write one line to the agent's stdin, for at most `seconds` if it does not read.

        Raises
        ------
        AgentGoneError
            It closed its stdin, or did not read in time.
        """
        assert self.process.stdin is not None
        descriptor = self.process.stdin.fileno()
        data = json.dumps(message).encode() + b"\n"
        deadline = time.monotonic() + seconds
        while data:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([], [descriptor], [], left)[1]:
                raise AgentGoneError
            try:
                data = data[os.write(descriptor, data) :]
            except BlockingIOError:
                continue
            except OSError:
                raise AgentGoneError from None

    def end(self) -> None:
        """Kill the agent and every process it started; return when they are gone."""
        deadline = time.monotonic() + _KILL_SECONDS
        # The supervisor adopts orphans, so everything is below it until it dies itself.
        while (found := inside.descendants(self.process.pid)) and time.monotonic() < deadline:
            for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped first: none forks meanwhile
                for pid in found:
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.kill(pid, number)
            time.sleep(0.005)
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait()
        self.control.close()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


@contextlib.contextmanager
def start_agent(
    command: str,
    *,
    isolation: Isolation,
    workspace: Path,
    environment: Mapping[str, str],
    validator: Path | None,
    logs: Path,
    steps: bool,
) -> Iterator[AgentProcess]:
    """Start the agent under isolation; when the block ends, its whole tree has ended.

    Parameters
    ----------
    validator : Path, optional
        Unix socket of the validator, for a sandbox without the host's network.
    logs : Path
        Folder for what the agent prints.
    steps : bool
        Its stdin and stdout carry the step protocol.
    """
    become: dict[str, Any] = give_to_agent(workspace) if isolation.kind == "user" else {}
    mark = ("TIDEGAUGE_RUN", secrets.token_hex(8))
    options = {"cwd": workspace, "env": {**environment, mark[0]: mark[1]}, **become}
    arguments = None
    if isolation.kind == "bwrap":
        arguments = bubblewrap_arguments(isolation, workspace=workspace, validator=validator)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_adopting_orphans())
        agent = _launch(arguments, options, reads_stdin=steps)
        outputs = {"stderr": agent.process.stderr}
        if not steps:
            outputs["stdout"] = agent.process.stdout
        pumps = [
            _keep(stream, stack.enter_context(open(logs / f"agent.{name}.txt", "wb")))
            for name, stream in outputs.items()
        ]
        relay = {"socket": SANDBOX_SOCKET, "ports": PORTS} if validator else None
        agent.send_control({"command": ["/bin/sh", "-c", command], "relay": relay})
        try:
            yield agent
        finally:
            agent.end()
            _end_adopted("=".join(mark))
            for pump in pumps:
                pump.join(timeout=0.5)


def _launch(
    bubblewrap: list[str] | None, options: dict[str, Any], *, reads_stdin: bool
) -> AgentProcess:
    """Start the supervisor, inside bubblewrap if its options are given."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", inside.__file__, str(theirs.fileno())]
    descriptors = [theirs.fileno()]
    if bubblewrap is not None:
        # Through a descriptor: /proc/1/cmdline inside would show them.
        descriptors.append(_in_memory("\0".join(bubblewrap).encode()))
        command = ["bwrap", "--args", str(descriptors[-1]), "--", *command]
    with theirs:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE if reads_stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=descriptors,
            start_new_session=True,
            **options,
        )
    for descriptor in descriptors[1:]:
        os.close(descriptor)
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
    return AgentProcess(process, ours)


def _in_memory(data: bytes) -> int:
    descriptor = os.memfd_create("arguments")
    os.write(descriptor, data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _keep(source: IO[bytes] | None, sink: IO[bytes]) -> threading.Thread:
    """Copy a pipe into a file up to a limit, and read on without keeping beyond it."""
    assert source is not None

    def run() -> None:
        kept = 0
        with contextlib.suppress(OSError, ValueError), source:
            while data := os.read(source.fileno(), 65_536):
                sink.write(data[: max(0, MAX_LOG_BYTES - kept)])
                sink.flush()
                kept += len(data)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


@contextlib.contextmanager
def _adopting_orphans() -> Iterator[None]:
    """Receive the agent's processes if it kills the supervisor above them."""
    libc = ctypes.CDLL(None)
    libc.prctl(inside.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        libc.prctl(inside.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _end_adopted(mark: str) -> None:
    """Kill what came to us when the supervisor died; other runs here carry other marks."""
    deadline = time.monotonic() + _KILL_SECONDS / 3
    while adopted := [pid for pid in inside.descendants(os.getpid()) if _is_marked(pid, mark)]:
        for pid in adopted:
            inside.kill(pid)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        if time.monotonic() > deadline:
            return
        time.sleep(0.005)


def _is_marked(pid: int, mark: str) -> bool:
    try:
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
