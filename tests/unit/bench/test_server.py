"""The endpoint under concurrency, size, slowness and misuse, over real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tidegauge.bench.competition_folder import Prepared, TablePrepared
from tidegauge.bench.server import ServerLimits, listen, make_app, make_server, validating
from tidegauge.errors import InputError


@contextlib.contextmanager
def serving(prepared: Prepared, limits: ServerLimits) -> Iterator[int]:
    """Serve from a thread of this process; yield the port."""
    bound = listen("127.0.0.1", 0)
    server = make_server(make_app(prepared.check, limits))
    thread = threading.Thread(target=lambda: asyncio.run(server.serve(sockets=[bound])))
    thread.start()
    try:
        yield bound.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(timeout=60)


@pytest.fixture(scope="module")
def port(osic: Prepared) -> Iterator[int]:
    with serving(osic, ServerLimits(8 * 2**20)) as number:
        yield number


def form(data: bytes, *, name: str = "file") -> bytes:
    head = f'--B\r\nContent-Disposition: form-data; name="{name}"; filename="s.csv"\r\n\r\n'
    return head.encode() + data + b"\r\n--B--\r\n"


def request(
    body: bytes, *, path: str = "/validate", method: str = "POST", length: int | None = None
) -> bytes:
    size = len(body) if length is None else length
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {size}\r\n\r\n"
    )
    return head.encode() + body


def ask(port: int, data: bytes, *, wait: float = 120.0) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", port), timeout=wait) as connection:
        connection.sendall(data)
        reply = b""
        while part := connection.recv(65_536):
            reply += part
    head, _, body = reply.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def test_valid_and_invalid_uploads_get_the_sentences_of_the_contract(
    osic: Prepared, port: int
) -> None:
    sample = (osic.public / "sample_submission.csv").read_bytes()
    assert ask(port, request(form(sample))) == (200, '{"result":"Submission is valid."}')
    status, body = ask(port, request(form(sample[:-20])))
    assert status == 200
    assert json.loads(body)["result"].startswith("Submission invalid! ")
    assert ask(port, request(form(gzip.compress(sample)))) == (
        200, '{"result":"Submission is valid."}',
    )  # fmt: skip
    assert ask(port, request(b"", path="/health", method="GET")) == (200, '{"status":"running"}')


def test_two_hundred_concurrent_uploads_are_not_mixed_up(osic: Prepared, port: int) -> None:
    """Each file of 2,000 rows is wrong in a row of its own, which the reply must name."""
    sample = (osic.public / "sample_submission.csv").read_text().splitlines()
    padding = [f"extra_{i},1,1" for i in range(2_001 - len(sample))]

    async def upload(number: int) -> tuple[int, str]:
        lines = [*sample, *padding]
        lines[number + 1] = lines[number + 1].rsplit(",", 1)[0] + f",bad{number}"
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        data = request(form("\n".join(lines).encode()))
        for start in range(0, len(data), 30_000):  # in pieces, so that they interleave
            writer.write(data[start : start + 30_000])
            await writer.drain()
            await asyncio.sleep(0.001)
        reply = await reader.read()
        writer.close()
        return number, reply.decode()

    async def main() -> list[tuple[int, str]]:
        return await asyncio.gather(*(upload(number) for number in range(200)))

    for number, reply in asyncio.run(main()):
        assert reply.startswith("HTTP/1.1 200")
        assert f"(line {number + 2}: 'bad{number}')" in reply
        assert re.findall(r"bad\d+", reply) == [f"bad{number}"]


def test_misuse_gets_a_plain_error(port: int) -> None:
    assert ask(port, request(b"", method="GET"))[0] == 405
    assert ask(port, request(b"", method="PUT"))[0] == 405
    assert ask(port, request(b"", path="/nowhere"))[0] == 404
    assert ask(port, request(form(b"x", name="other")))[0] == 400
    assert ask(port, request(b"no form at all"))[0] == 400
    assert ask(port, request(b"x").replace(b"; boundary=B", b""))[0] == 400
    text_field = form(b"x").replace(b'; filename="s.csv"', b"")
    assert ask(port, request(text_field))[0] == 400
    two_files = form(b"x")[:-7] + form(b"y")
    assert ask(port, request(two_files))[0] == 400
    assert ask(port, b"nonsense\r\n\r\n")[0] == 400
    plain = request(b"abc").replace(b"multipart/form-data; boundary=B", b"text/csv")
    assert ask(port, plain)[0] == 400


def test_declared_oversize_is_refused_before_the_body(port: int) -> None:
    status, body = ask(port, request(b"", length=10**9))  # nothing of it is ever sent
    assert status == 413
    assert "larger than" in body


def test_slow_client_blocks_nobody_and_is_cut_off(osic: Prepared) -> None:
    sample = (osic.public / "sample_submission.csv").read_bytes()
    with serving(osic, ServerLimits(8 * 2**20, 3.0)) as port, contextlib.ExitStack() as stack:
        address = ("127.0.0.1", port)
        slow = [
            stack.enter_context(socket.create_connection(address, timeout=120)) for _ in range(50)
        ]
        for connection in slow:
            connection.sendall(request(form(sample))[:500])  # and no more
        assert ask(port, request(form(sample)))[0] == 200
        assert slow[0].recv(65_536).startswith(b"HTTP/1.1 408")  # after its time is over


def test_no_score_rank_or_answer_can_be_asked_for(osic: Prepared, port: int) -> None:
    """The process that answers never opens the private folder; replies hold no decimal number."""
    answers = (osic.private / "test.csv").read_bytes()
    told = [ask(port, request(form(answers)))[1]]
    for path in ("/grade", "/score", "/private/test.csv", "/../private/test.csv", "/docs"):
        told.append(ask(port, request(b"", path=path, method="GET"))[1])
    for text in told:
        assert not re.search(r"score|rank|medal|leaderboard", text, re.I)
        assert not re.search(r"\d\.\d", text)


def test_validation_needs_no_private_folder(osic: Prepared, tmp_path: Path) -> None:
    blind = TablePrepared(osic.competition, osic.public, tmp_path / "nowhere", osic.expected_keys)
    assert blind.check(osic.public / "sample_submission.csv").valid


def test_busy_port_is_refused_with_the_remedy() -> None:
    bound = listen("127.0.0.1", 0)
    with pytest.raises(InputError, match="--port"):
        listen("127.0.0.1", bound.getsockname()[1])
    bound.close()
    with pytest.raises(InputError, match="not an address"):
        listen("no.such.host.invalid", 0)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_process_answers_on_both_ports_and_shuts_down_cleanly(
    number: signal.Signals, osic: Prepared, reserved_port: Callable[[], int]
) -> None:
    ports = [reserved_port(), reserved_port()]
    server = start_server(osic, *ports)
    try:
        sample = (osic.public / "sample_submission.csv").read_bytes()
        for port in ports:
            assert ask(port, request(form(sample)))[0] == 200
    finally:
        server.send_signal(number)
        _, errors = server.communicate(timeout=120)
    assert server.returncode == 0
    assert "Traceback" not in errors


def test_gigabyte_is_refused_with_flat_memory(
    osic: Prepared, reserved_port: Callable[[], int]
) -> None:
    """Chunked, so that no length is declared; the server stops reading at its limit."""
    port = reserved_port()
    server = start_server(osic, port, 0)
    try:
        process = psutil.Process(server.pid)
        before = process.memory_info().rss
        peak = [before]
        watching = threading.Event()

        def watch() -> None:
            while not watching.wait(0.005):
                peak.append(process.memory_info().rss)

        watcher = threading.Thread(target=watch)
        watcher.start()
        sent, reply = send_chunked_gigabyte(port)
        watching.set()
        watcher.join()
    finally:
        server.terminate()
        server.communicate(timeout=120)
    assert reply.startswith(b"HTTP/1.1 413")
    assert sent < 2**30  # refused early: it was never all taken
    assert max(peak) - before < 32 * 2**20  # the 64 MiB that were taken went to disk


def start_server(prepared: Prepared, port: int, also: int, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tidegauge", "bench", "serve", "osic", "--prepared",
               str(prepared.public.parent), "--port", str(port), "--also", str(also)]  # fmt: skip
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)
    while server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
            return server
        except ConnectionRefusedError:
            time.sleep(0.05)
    raise AssertionError(f"the server did not start: {server.communicate()[1]}")


def send_chunked_gigabyte(port: int) -> tuple[int, bytes]:
    """Send up to 1 GiB; stop at the first reply. Return what was sent, and the reply."""
    head = request(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    part = form(b"")[:-9]
    chunk = b"%x\r\n" % 2**20 + b"7" * 2**20 + b"\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(head + b"%x\r\n" % len(part) + part + b"\r\n")
        sent = 0
        connection.settimeout(60)
        try:
            while sent < 2**30:
                connection.sendall(chunk)
                sent += 2**20
                connection.setblocking(False)
                try:
                    if reply := connection.recv(65_536):
                        return sent, reply
                except BlockingIOError:
                    pass
                connection.settimeout(60)
        except OSError:
            connection.settimeout(60)
        return sent, connection.recv(65_536)


def idle_connections(port: int, count: int) -> list[socket.socket]:
    """Connections that have begun a request and do not go on."""
    held = []
    for _ in range(count):
        connection = socket.create_connection(("127.0.0.1", port), timeout=20)
        connection.sendall(b"POST /validate HTTP/1.1\r\nHost: x\r\n")
        held.append(connection)
    return held


def test_a_thousand_idle_connections_keep_nobody_out(
    osic: Prepared, reserved_port: Callable[[], int]
) -> None:
    """With the usual 1,024 descriptors; half-open requests are closed after five seconds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    port = reserved_port()
    server = start_server(osic, port, 0, preexec_fn=usual_descriptors)
    try:
        process = psutil.Process(server.pid)
        sample = (osic.public / "sample_submission.csv").read_bytes()
        assert ask(port, request(form(sample)))[0] == 200
        before = process.memory_info().rss
        idle = idle_connections(port, 1_100)
        for _ in range(5):
            assert ask(port, request(form(sample)))[0] == 200
        assert process.memory_info().rss - before < 64 * 2**20
        idle[0].settimeout(30)
        assert idle[0].recv(1) == b""  # closed: it never sent a whole head
    finally:
        for connection in idle:
            connection.close()
        server.terminate()
        _, errors = server.communicate(timeout=20)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(errors) < 10_000


def usual_descriptors() -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, hard))


def test_a_slow_second_head_on_one_connection_is_closed_too(osic: Prepared, port: int) -> None:
    sample = (osic.public / "sample_submission.csv").read_bytes()
    whole = request(form(sample)).replace(b"Connection: close\r\n", b"")
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(whole)
        assert connection.recv(65_536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"POST /validate HTTP/1.1\r\nHost:")
        while received := connection.recv(65_536):
            assert b"HTTP/1.1" not in received


def test_a_page_of_another_site_may_not_ask(osic: Prepared, port: int) -> None:
    sample = (osic.public / "sample_submission.csv").read_bytes()
    foreign = request(form(sample)).replace(b"Host: x", b"Host: x\r\nOrigin: http://evil.example")
    assert ask(port, foreign)[0] == 403


def test_the_validator_of_a_run_is_a_process_of_its_own(osic: Prepared) -> None:
    """It counts what it was asked, and idle connections take none of the runner's descriptors."""
    sample = (osic.public / "sample_submission.csv").read_bytes()
    bound = listen("127.0.0.1", 0)
    port = bound.getsockname()[1]
    with validating(osic, [bound]) as validator:
        assert validator.url == f"http://127.0.0.1:{port}"
        assert ask(port, request(form(sample)))[0] == 200
        before = len(os.listdir("/proc/self/fd"))
        idle = idle_connections(port, 200)
        assert len(os.listdir("/proc/self/fd")) == before + 200  # ours, as clients
        assert ask(port, request(form(sample)))[0] == 200
        with socket.socket(socket.AF_UNIX) as unix:
            unix.connect(str(validator.path))
            unix.sendall(request(b"", path="/health", method="GET"))
            assert b"running" in unix.makefile("rb").read()
        assert validator.count() == 2
        for connection in idle:
            connection.close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)


def test_validator_and_gateway_end_with_a_runner_that_is_killed_at_once(surge: Prepared) -> None:
    """Killed before they could ask to be told of it."""
    script = (
        "import os, signal, sys\n"
        "from tidegauge.bench.competition_folder import open_prepared\n"
        "from tidegauge.bench.server import validating\n"
        "with validating(open_prepared('surge', sys.argv[1]), allowed=sys.argv[2:]):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    folder, host = surge.public.parent, f"{os.getpid()}.invalid:443"
    command = [sys.executable, "-c", script, folder, host]
    assert subprocess.run(command, check=False).returncode == -9
    server, gateway = f"tidegauge.bench.server surge {folder}", f"tidegauge.bench.gateway.* {host}"
    find = ["pgrep", "-f", f"{server}|{gateway}"]
    gives_up_at = time.monotonic() + 60
    while subprocess.run(find, capture_output=True, check=False).stdout:
        assert time.monotonic() < gives_up_at, "it goes on without its runner"
        time.sleep(0.1)
