"""The agent's process tree: started under isolation, spoken to, and ended as a whole."""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import secrets
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

import msgspec

from tidegauge.bench.run import supervisor as inside
from tidegauge.bench.run.isolation import (
    SANDBOX_SOCKET,
    Isolation,
    bubblewrap_command,
    launch_command,
    supervisor_python,
)
from tidegauge.bench.run.options import Resources
from tidegauge.bench.run.resources import (
    ControlGroup,
    control_group,
    limits_in_force,
    process_limits,
)
from tidegauge.errors import InputError

PORTS = (5001, 5000)
MAX_LOG_BYTES = 16 * 1024 * 1024
MAX_CONTROL_BYTES = 128 * 1024  # a whole answer, even if every character must be escaped
_KILL_SECONDS = 1.5
_START_SECONDS = 60.0
_MARK = "TIDEGAUGE_RUN"


class AgentGoneError(Exception):
    """The other end of a pipe closed, or holds what no supervisor writes."""


class Message(msgspec.Struct, frozen=True):
    """What comes from the supervisor, or from an agent that has taken its place."""

    id: int | None = None
    exit_code: int | None = None
    output: str = ""
    clipped: bool = False
    ready: bool = False
    exited: int | None = None


_decode = msgspec.json.Decoder(Message).decode


@dataclass
class AgentProcess:
    """A running agent: its pipes, and the socket to the supervisor beside it."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    isolation: Isolation
    mark: str
    limits: Mapping[str, str] = field(default_factory=dict)  # how each is kept
    group: ControlGroup = field(default_factory=ControlGroup)
    exit_code: int | None = None  # of the agent, once it has exited by itself
    ended_for: str | None = None  # a limit for which it was ended from another thread
    _requests: int = 0
    _buffer: bytes = b""
    _ending: threading.Lock = field(default_factory=threading.Lock)

    def start(self, command: str) -> None:
        """Start the agent itself; without it, only the commands of `run` are executed."""
        self._send({"start": ["/bin/sh", "-c", command]})

    def run(
        self, command: str, seconds: float, given: bytes = b"", *, patience_seconds: float = 0.0
    ) -> Message | None:
        """Have a shell command executed beside the agent, and killed after `seconds`.

        Return its answer, or None if there is none `patience_seconds` later.

        Raises
        ------
        AgentGoneError
            The supervisor ended, or the agent did.
        """
        self._requests += 1
        number = self._requests
        text = base64.b64encode(given).decode()
        self._send({"id": number, "run": command, "seconds": seconds, "input": text})
        deadline = time.monotonic() + seconds + patience_seconds
        while (message := self.receive(deadline - time.monotonic())) is not None:
            if message.id == number and message.exit_code is not None:
                return message
            if self.exit_code is not None:  # nobody waits for the answer
                raise AgentGoneError
        return None

    def _send(self, message: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self.control.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, seconds: float) -> Message | None:
        """Return the supervisor's next message, None after `seconds`.

        Raises
        ------
        AgentGoneError
            The supervisor ended: the agent killed it, or the sandbox failed.
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
            self._buffer += data
            if not data or len(self._buffer) > MAX_CONTROL_BYTES:
                raise AgentGoneError
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            message = _decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise AgentGoneError from None
        if message.exited is not None:
            self.exit_code = message.exited
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

    def end(self, reason: str | None = None) -> None:
        """Kill the agent and every process it started; return when they are gone.

        May be called from any thread, and again.
        """
        with self._ending:
            self.ended_for = self.ended_for or reason
            self.group.kill()
            deadline = time.monotonic() + _KILL_SECONDS
            # The supervisor adopts orphans, so everything is below it until it dies itself. In a
            # namespace the first process to go is its first, and the rest go with it.
            while (found := inside.descendants(self.process.pid)) and time.monotonic() < deadline:
                for number in (signal.SIGSTOP, signal.SIGKILL):  # stopped: none forks meanwhile
                    for pid in found:
                        with contextlib.suppress(ProcessLookupError, PermissionError):
                            os.kill(pid, number)
                time.sleep(0.005)
            with contextlib.suppress(subprocess.TimeoutExpired):
                if self.isolation.has_own_processes:
                    self.process.wait(_KILL_SECONDS)  # it ends once the namespace is empty
            self.process.kill()
            self.process.wait()
            if not self.isolation.has_own_processes:
                self._end_escaped()

    def _end_escaped(self) -> None:
        """Kill what left the tree: all of the agent's user, or what came to us from it."""
        deadline = time.monotonic() + _KILL_SECONDS
        while escaped := [pid for pid in inside.processes() if self._is_agents(pid)]:
            for pid in escaped:
                inside.kill(pid)
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(pid, os.WNOHANG)
            if time.monotonic() > deadline:
                return
            time.sleep(0.005)

    def _is_agents(self, pid: int) -> bool:
        if self.isolation.user is not None:
            return _status(pid, "Uid").split()[:1] == [str(self.isolation.user)]
        fields = inside.stat_fields(pid)
        if not fields or int(fields[1]) != os.getpid() or pid in _running:
            return False
        # Environments can be changed and sessions left; this flag is for life, and the agent's
        # processes have it from the supervisor. Where we have it too, the mark must do.
        flagged = _status(pid, "NoNewPrivs") == "1" != _status(os.getpid(), "NoNewPrivs")
        return flagged or _is_marked(pid, self.mark)


_running: set[int] = set()  # supervisors of this process's own agents


def _status(pid: int, name: str) -> str:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines():
            if line.startswith(f"{name}:"):
                return line.partition(":")[2].strip()
    return ""


def _is_marked(pid: int, mark: str) -> bool:
    with contextlib.suppress(OSError):
        return mark.encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return False


@contextlib.contextmanager
def open_place(
    *,
    isolation: Isolation,
    workspace: Path,
    environment: Mapping[str, str],
    validator: Path | None,
    logs: Path,
    resources: Resources | None = None,
    steps: bool = False,
) -> Iterator[AgentProcess]:
    """Make the place an agent runs in; when the block ends, all processes in it have ended.

    Parameters
    ----------
    validator : Path, optional
        Unix socket of the validator, for a sandbox without the host's network.
    logs : Path
        Folder for what the agent prints.
    steps : bool
        Its stdin and stdout carry the step protocol.

    Raises
    ------
    InputError
        It cannot be made here; the message says why. No agent has run.
    """
    resources = resources or Resources()
    mark = secrets.token_hex(8)
    options = {"cwd": workspace, "env": {**environment, _MARK: mark}}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_adopting_orphans())
        ours, theirs = socket.socketpair()
        stack.enter_context(ours)
        program = [supervisor_python(isolation), "-I", inside.__file__, str(theirs.fileno())]
        if isolation.kind == "bwrap":
            launch = bubblewrap_command(
                program,
                isolation,
                workspace=workspace,
                validator=validator,
                resources=resources,
            )
        else:
            launch = launch_command(
                program, isolation, folder=workspace, validator=validator, closed=[theirs.fileno()]
            )
        wrapped, descriptors = stack.enter_context(launch)
        group = stack.enter_context(control_group(resources))
        process = _popen(
            group.entered_by(wrapped), [theirs.fileno(), *descriptors], options, reads_stdin=steps
        )
        theirs.close()
        in_force = limits_in_force(resources, isolation, group)
        agent = AgentProcess(process, ours, isolation, f"{_MARK}={mark}", in_force, group)
        stack.enter_context(_until_ended(agent, logs, keep_stdout=not steps))
        relay = {"socket": SANDBOX_SOCKET, "ports": PORTS} if validator else None
        limits = process_limits(resources, isolation, group)
        agent._send({"relay": relay, "limits": limits})
        _wait_until_ready(agent, logs)
        yield agent


def _wait_until_ready(agent: AgentProcess, logs: Path) -> None:
    with contextlib.suppress(AgentGoneError):
        while (message := agent.receive(_START_SECONDS)) is not None:
            if message.ready:
                return
    agent.end()
    time.sleep(0.05)  # for the last of its stderr to be copied
    said = (logs / "agent.stderr.txt").read_text(errors="replace").strip()[-400:]
    raise InputError(
        f"the agent could not be started ({agent.isolation.kind}): {said or 'no reason was given'}"
        "; the agent's user must be able to read the Python environment, or choose another "
        "--isolation"
    )


def _popen(
    command: list[str], descriptors: list[int], options: dict[str, Any], *, reads_stdin: bool
) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE if reads_stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=descriptors,
        start_new_session=True,
        **options,
    )
    if process.stdin is not None:
        os.set_blocking(process.stdin.fileno(), False)
    return process


@contextlib.contextmanager
def _until_ended(agent: AgentProcess, logs: Path, *, keep_stdout: bool) -> Iterator[None]:
    """Keep what the agent prints; end its tree with the block."""
    process = agent.process
    _running.add(process.pid)
    outputs = {"stderr": process.stderr}
    if keep_stdout:
        outputs["stdout"] = process.stdout
    with contextlib.ExitStack() as stack:
        pumps = [
            _keep(stream, stack.enter_context(open(logs / f"agent.{name}.txt", "wb")))
            for name, stream in outputs.items()
        ]
        try:
            yield
        finally:
            agent.end()
            _running.discard(process.pid)
            for pump in pumps:
                pump.join(timeout=0.5)
            for stream in (process.stdin, process.stdout):
                if stream is not None:
                    with contextlib.suppress(OSError):
                        stream.close()


def _keep(source: IO[bytes] | None, sink: IO[bytes]) -> threading.Thread:
    """Copy a pipe into a file up to a limit, and read on without keeping beyond it."""
    assert source is not None

    def run() -> None:
        kept = 0
        with contextlib.suppress(OSError, ValueError), source:
            while data := os.read(source.fileno(), 65_536):
                with contextlib.suppress(OSError):  # a full disk must not block the agent
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
