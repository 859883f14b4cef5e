"""The process that stands between the runner and the agent, inside the sandbox.

It starts the agent, executes the shell commands that the runner passes on, and carries loopback
connections to the validator's Unix socket. It holds no budget and no secret: the runner outside
does, and takes whatever comes from here as if the agent had written it. Standard library only,
because it runs as a lone file (``python -I supervisor.py FD``) under whatever user and mounts the
agent has.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
HEAD_BYTES = TAIL_BYTES = 8_000  # of a command's output; the middle is clipped
_DRAIN_SECONDS = 0.2
_RELAYED_AT_ONCE = 64  # connections; each takes two threads


def main() -> None:
    """Serve the runner over the socket whose descriptor is the only argument."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as handle:
        handle.write("1000")  # where memory ends, the agent's processes go first
    libc = ctypes.CDLL(None)
    # First of all, while no agent runs: nobody may take our descriptors or look into our memory.
    libc.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    control = socket.socket(fileno=int(sys.argv[1]))
    reader = control.makefile("rb")
    set_process_options(libc)
    if not (first := reader.readline()):
        return
    config = json.loads(first)
    set_limits(config["limits"])
    if config.get("relay"):
        for port in config["relay"]["ports"]:
            start_relay(port, config["relay"]["socket"])
    send(control, {"ready": True})
    for line in reader:
        request = json.loads(line)
        if "start" in request:
            start_agent(request["start"], control)
        else:
            given = base64.b64decode(request.get("input") or "")
            answer = execute(request["run"], request["seconds"], given)
            send(control, {"id": request["id"], **answer})
    end_tree()  # the runner is gone


def set_process_options(libc: ctypes.CDLL) -> None:
    """Adopt orphans, so that no child escapes the tree; stop when the runner dies."""
    if os.getppid() != 1:  # in a PID namespace its first process adopts them, and reaps them too
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: end_tree())


def set_limits(limits: dict[str, int | None]) -> None:
    """Limit this process and all that it starts; a limit that is lower already stays."""
    import resource  # Unix only

    if (cpus := limits.pop("cpus", None)) is not None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
    for name, value in limits.items():
        kind = getattr(resource, name)
        _, most = resource.getrlimit(kind)
        if value is not None and (most == resource.RLIM_INFINITY or value < most):
            resource.setrlimit(kind, (value, value))


def end_tree() -> None:
    """Kill all descendants, then this process."""
    for _ in range(100):
        found = descendants(os.getpid())
        if not found:
            break
        for pid in found:
            kill(pid)
        time.sleep(0.01)
    os._exit(143)


def descendants(root: int) -> list[int]:
    """Return the living descendants of a process, from /proc."""
    children: dict[int, list[int]] = {}
    for pid, parent in processes().items():
        children.setdefault(parent, []).append(pid)
    found: list[int] = []
    queue = [root]
    while queue:
        queue = [child for pid in queue for child in children.get(pid, [])]
        found += queue
    return found


def processes() -> dict[int, int]:
    """Return the parent of every living process; none where descriptors have run out."""
    parents: dict[int, int] = {}
    with contextlib.suppress(OSError):
        for name in os.listdir("/proc"):
            if name.isdigit() and (fields := stat_fields(int(name))):
                parents[int(name)] = int(fields[1])
    return parents


def stat_fields(pid: int) -> list[bytes]:
    """Return a living process's state, parent, group, session...; nothing if it has ended."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as handle:
            # The command name may hold spaces and brackets: fields count from its end.
            fields = handle.read().rpartition(b")")[2].split()
    except OSError:
        return []
    return fields if fields[:1] not in ([b"Z"], [b"X"]) else []


def kill(pid: int) -> None:
    """Kill one process if it is still there."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


_sending = threading.Lock()


def send(control: socket.socket, message: dict[str, Any]) -> None:
    """Send one JSON line to the runner; if it left, so do we."""
    try:
        with _sending:
            control.sendall(json.dumps(message).encode() + b"\n")
    except OSError:
        end_tree()


def start_agent(command: list[str], control: socket.socket) -> None:
    """Start the agent, and tell the runner when it ends."""
    try:
        agent = subprocess.Popen(command, start_new_session=True)
    except OSError as error:
        sys.stderr.write(f"{command[0]}: {error.strerror}\n")
        send(control, {"exited": 127})
        return
    threading.Thread(target=wait_for_agent, args=(agent, control), daemon=True).start()


def wait_for_agent(agent: subprocess.Popen[bytes], control: socket.socket) -> None:
    """Tell the runner when the agent itself has ended."""
    send(control, {"exited": agent.wait()})


class Capture(threading.Thread):
    """Read a pipe to its end, keeping the first and last bytes: memory does not grow."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(daemon=True)
        self.descriptor, self.total = descriptor, 0
        self.head, self.tail = bytearray(), bytearray()

    def run(self) -> None:
        """Read until every writer has gone; background processes may hold it open for long."""
        while data := os.read(self.descriptor, 65_536):
            self.total += len(data)
            space = HEAD_BYTES - len(self.head)
            self.head += data[:space]
            self.tail += data[space:] if space < len(data) else b""
            del self.tail[:-TAIL_BYTES]
        os.close(self.descriptor)

    def text(self) -> tuple[str, bool]:
        """Return the output so far, and whether its middle was clipped."""
        head, tail, total = bytes(self.head), bytes(self.tail), self.total
        hidden = total - len(head) - len(tail)
        note = f"\n... [{hidden:,} bytes clipped] ...\n".encode() if hidden > 0 else b""
        return (head + note + tail).decode(errors="replace"), hidden > 0


def execute(command: str, seconds: float, given: bytes) -> dict[str, Any]:
    """Run one shell command in the workspace and return its exit code and output."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    try:
        readable, writable = os.pipe()
        capture = Capture(readable)
        capture.start()
        process = subprocess.Popen(
            [shell, "-c", command],
            stdin=subprocess.PIPE if given else subprocess.DEVNULL,
            stdout=writable,
            stderr=writable,
            start_new_session=True,
        )
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: no thread to be had
        with contextlib.suppress(OSError, NameError, UnboundLocalError):
            os.close(writable)
        return {"exit_code": 126, "output": f"cannot run this command: {error}", "clipped": False}
    os.close(writable)
    if given:
        threading.Thread(target=feed, args=(process, given), daemon=True).start()
    try:
        code = process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    capture.join(_DRAIN_SECONDS)
    output, clipped = capture.text()
    return {"exit_code": code, "output": output, "clipped": clipped}


def feed(process: subprocess.Popen[bytes], given: bytes) -> None:
    """Write a command's input, as far as it reads."""
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin as stream:
        stream.write(given)


def start_relay(port: int, path: str) -> None:
    """Carry connections to 127.0.0.1:port over to the Unix socket at `path`."""
    server = socket.create_server(("127.0.0.1", port), backlog=128)
    free = threading.Semaphore(_RELAYED_AT_ONCE)

    def accept() -> None:
        while True:
            free.acquire()
            try:
                client, _ = server.accept()
                threading.Thread(target=connect, args=(client,), daemon=True).start()
            except (OSError, RuntimeError):  # out of descriptors, memory or processes
                free.release()
                time.sleep(0.05)

    def connect(client: socket.socket) -> None:
        try:
            with client, socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as upstream:
                upstream.connect(path)
                # When the validator closes, so does the client, or an idle one would stay for ever.
                ends = (upstream, client, socket.SHUT_RDWR)
                back = threading.Thread(target=pump, args=ends, daemon=True)
                back.start()
                pump(client, upstream, socket.SHUT_WR)
                back.join()
        except (OSError, RuntimeError):
            pass
        finally:
            free.release()

    threading.Thread(target=accept, daemon=True).start()


def pump(source: socket.socket, sink: socket.socket, at_end: int) -> None:
    """Copy one direction until it ends, then shut the sink down; an error ends both."""
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(at_end)
    except OSError:
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    main()
