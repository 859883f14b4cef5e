"""The process that stands between the runner and the agent, inside the sandbox.

It starts the agent, executes the shell commands that the runner passes on, and carries loopback
connections to the validator's Unix socket. It holds no budget and no secret: the runner outside
does. Standard library only, because it runs as a lone file (``python -I inside.py FD``) under
whatever user and mounts the agent has.
"""

from __future__ import annotations

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
PR_SET_CHILD_SUBREAPER = 36
HEAD_BYTES = TAIL_BYTES = 8_000  # of a command's output; the middle is clipped
_DRAIN_SECONDS = 0.2


def main() -> None:
    """Serve the runner over the socket whose descriptor is the only argument."""
    control = socket.socket(fileno=int(sys.argv[1]))
    reader = control.makefile("rb")
    set_process_options()
    if not (first := reader.readline()):
        return
    config = json.loads(first)
    if config.get("relay"):
        for port in config["relay"]["ports"]:
            start_relay(port, config["relay"]["socket"])
    try:
        agent = subprocess.Popen(config["command"], start_new_session=True)
    except OSError as error:
        send(control, {"failed": f"{config['command'][0]}: {error.strerror}"})
        return
    threading.Thread(target=wait_for_agent, args=(agent, control), daemon=True).start()
    for line in reader:
        request = json.loads(line)
        send(control, execute(request["run"], request["seconds"]))
    end_tree()  # the runner is gone


def set_process_options() -> None:
    """Adopt orphans, so that no child escapes the tree; stop when the runner dies."""
    libc = ctypes.CDLL(None)
    if os.getppid() != 1:  # in a PID namespace its first process adopts them, and reaps them too
        libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: end_tree())


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
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as handle:
                    # The command name may hold spaces and brackets: fields count from its end.
                    fields = handle.read().rpartition(b")")[2].split()
            except OSError:
                continue
            if fields[0] not in (b"Z", b"X"):
                children.setdefault(int(fields[1]), []).append(int(name))
    found: list[int] = []
    queue = [root]
    while queue:
        queue = [child for pid in queue for child in children.get(pid, [])]
        found += queue
    return found


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


def execute(command: str, seconds: float) -> dict[str, Any]:
    """Run one shell command in the workspace and return its exit code and output."""
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    readable, writable = os.pipe()
    capture = Capture(readable)
    capture.start()
    try:
        process = subprocess.Popen(
            [shell, "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=writable,
            stderr=writable,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        os.close(writable)
        return {"exit_code": 126, "output": f"cannot run this command: {error}", "clipped": False}
    os.close(writable)
    try:
        code = process.wait(max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        code = process.wait()
    capture.join(_DRAIN_SECONDS)
    output, clipped = capture.text()
    return {"exit_code": code, "output": output, "clipped": clipped}


def start_relay(port: int, path: str) -> None:
    """Carry connections to 127.0.0.1:port over to the Unix socket at `path`."""
    server = socket.create_server(("127.0.0.1", port), backlog=128)

    def accept() -> None:
        while True:
            client, _ = server.accept()
            threading.Thread(target=connect, args=(client,), daemon=True).start()

    def connect(client: socket.socket) -> None:
        upstream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with client, upstream:
            try:
                upstream.connect(path)
            except OSError:
                return
            back = threading.Thread(target=pump, args=(upstream, client), daemon=True)
            back.start()
            pump(client, upstream)
            back.join()

    threading.Thread(target=accept, daemon=True).start()


def pump(source: socket.socket, sink: socket.socket) -> None:
    """Copy one direction until it ends, then pass the end on."""
    try:
        while data := source.recv(65_536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        pass


if __name__ == "__main__":
    main()
