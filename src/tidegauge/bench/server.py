"""The validation endpoint: POST /validate, GET /health.

It is given the public sample submission's keys and nothing else, so no score, rank or answer can
be in a reply, a log or an error. Uploads are independent: each is parsed into its own buffer and
large ones are checked on a thread, so that slow or large uploads hold up nobody. A connection that
does not send a whole request head in time is closed, so that idle ones cannot keep others out.

For a run it is a process of its own, with limits: ``python -m tidegauge.bench.server``.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import itertools
import mmap
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from uvicorn.protocols.http.h11_impl import H11Protocol

from tidegauge.bench import gateway
from tidegauge.bench.competition_folder import BusyError, Prepared
from tidegauge.errors import InputError
from tidegauge.schema.submission import MAX_BYTES, Source, Verdict

_PR_SET_PDEATHSIG = 1
Check = Callable[[Source], Verdict]
_FORM_OVERHEAD_BYTES = 64 * 1024  # boundaries, headers and small fields beside the file
_BACKLOG = 1024
HEAD_SECONDS = 5.0
MAX_CONNECTIONS = 2_000  # beyond, those that have waited longest for a request are closed
_PROCESS_BYTES = 4 * 2**30  # address space of the validator of a run
# Checked at once, in a few milliseconds: a thread that computes makes the loop wait for the
# interpreter's lock, five milliseconds at each of its system calls.
_SMALL_BYTES = 256 * 1024
_CHECKING_THREADS = 4  # each may hold one whole table in memory


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """How large an upload may be, and how long it may take."""

    max_bytes: int = MAX_BYTES
    seconds_per_upload: float = 60.0


class _TooLargeError(Exception):
    pass


def make_app(
    check: Check,
    limits: ServerLimits | None = None,
    *,
    on_request: Callable[[], None] | None = None,
    is_slow: bool = False,
) -> Starlette:
    """Return the application; `check` is called with the uploaded file.

    Parameters
    ----------
    is_slow : bool
        Check small uploads on a thread too: each may take seconds.
    """
    limits = limits or ServerLimits()
    threads: list[anyio.CapacityLimiter] = []  # made inside the running loop

    async def validate(request: Request) -> Response:
        if not threads:
            threads.append(anyio.CapacityLimiter(_CHECKING_THREADS))
        if "origin" in request.headers:
            return _error(403, "a page of another site may not ask")
        if on_request is not None:
            on_request()
        try:
            async with asyncio.timeout(limits.seconds_per_upload):
                upload = await _receive(request, limits.max_bytes)
        except TimeoutError:
            return _error(408, f"the upload took over {limits.seconds_per_upload:g} seconds")
        except _TooLargeError:
            return _error(413, f"the upload is larger than {limits.max_bytes:,} bytes")
        except MultiPartException as error:
            return _error(400, f"not a multipart form ({error.message})")
        except ClientDisconnect:
            return _error(400, "the client left")
        if upload is None:
            return _error(400, "send the submission as the multipart field `file`")
        with upload.file as file:
            try:
                if (upload.size or 0) <= _SMALL_BYTES and not is_slow:
                    verdict = check(file)
                else:
                    verdict = await anyio.to_thread.run_sync(check, file, limiter=threads[0])
            except BusyError:
                return _error(503, "busy with other submissions; try again")
        return JSONResponse({"result": verdict.sentence()})

    async def health(request: Request) -> Response:
        return JSONResponse({"status": "running"})

    return Starlette(
        routes=[Route("/validate", validate, methods=["POST"]), Route("/health", health)]
    )


def _error(status: int, what: str) -> Response:
    return JSONResponse({"error": what}, status_code=status)


async def _receive(request: Request, max_bytes: int) -> UploadFile | None:
    """Parse the body as it arrives; a declared length is believed before a byte is read."""
    limit = max_bytes + _FORM_OVERHEAD_BYTES
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > limit:
        raise _TooLargeError
    if not request.headers.get("content-type", "").startswith("multipart/form-data"):
        return None
    parser = MultiPartParser(request.headers, _limited(request, limit), max_files=1, max_fields=16)
    form = await parser.parse()
    found = form.get("file")
    if isinstance(found, UploadFile):
        return found
    await form.close()
    return None


async def _limited(request: Request, limit: int) -> AsyncGenerator[bytes, None]:
    received = 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit:
            raise _TooLargeError
        yield chunk


class _Server(uvicorn.Server):
    """Uvicorn that leaves signals to us, and closes connections that only wait.

    It would re-raise signals and end with their code; and its own timeout of idle connections
    begins after the first reply, and ends with the first byte of the next request.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._since: dict[H11Protocol, float] = {}  # connections without a request, and since when

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def on_tick(self, counter: int) -> bool:
        """Look at all connections, ten times a second."""
        now = time.monotonic()
        connections = [
            found
            for found in self.server_state.connections
            if isinstance(found, H11Protocol) and _awaits_head(found)
        ]
        self._since = {found: self._since.get(found, now) for found in connections}
        surplus = len(self.server_state.connections) - MAX_CONNECTIONS
        for number, found in enumerate(sorted(connections, key=self._since.__getitem__)):
            if number < surplus or now - self._since[found] > HEAD_SECONDS:
                found.transport.abort()
        return await super().on_tick(counter)


def _awaits_head(connection: H11Protocol) -> bool:
    return connection.cycle is None or connection.cycle.response_complete


def make_server(app: Starlette) -> uvicorn.Server:
    """Return the server of an application, for a loop of the caller's."""
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        http=H11Protocol,
        server_header=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=3,
        backlog=_BACKLOG,
    )
    return _Server(config)


def listen(host: str, port: int) -> socket.socket:
    """Bind one TCP socket; port 0 takes a free one.

    Raises
    ------
    InputError
        The address is in use or not ours.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        # The protocol by name: asyncio switches off Nagle's algorithm, which would hold every
        # reply for 40 ms, only for sockets that say they are TCP.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    except OSError as error:
        raise InputError(f"{host}: not an address of this machine ({error})") from error
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
        bound.listen(_BACKLOG)  # only now is the port ours: two may bind it before either listens
    except OSError as error:
        bound.close()
        raise InputError(
            f"cannot listen on {host}:{port} ({error.strerror}); stop what uses it, or choose "
            "another with --port, --also (0 for none) or --host"
        ) from error
    return bound


def serve(app: Starlette, sockets: Sequence[socket.socket]) -> None:
    """Serve on all sockets from this process until SIGINT or SIGTERM, then finish what runs."""
    server = make_server(app)
    _allow_descriptors()

    gc.freeze()  # what is loaded now stays: uploads need not be searched for garbage among it

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, setattr, server, "should_exit", True)
        await server.serve(sockets=list(sockets))

    asyncio.run(main())


def _allow_descriptors() -> None:
    """Take as many descriptors as the system grants: each connection needs one."""
    import resource  # Unix only

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


@dataclass(frozen=True)
class Validator:
    """The validator of one run.

    Attributes
    ----------
    path : Path
        Its Unix socket; a sandbox can be given just that file.
    url : str or None
        Where it listens on TCP, if it does.
    """

    path: Path
    url: str | None
    _counter: mmap.mmap

    def count(self) -> int:
        """Return how many validations were asked for so far."""
        return int.from_bytes(self._counter[:8], "little")


@contextlib.contextmanager
def validating(
    prepared: Prepared, sockets: Sequence[socket.socket] = (), *, allowed: Sequence[str] = ()
) -> Iterator[Validator]:
    """Validate submissions in a process of its own while the block runs.

    With `allowed` hosts a gateway stands before it, which carries tunnels to these and no others.

    It holds the public keys only, and the runner shares neither memory nor descriptors with it.
    Who connects before it is ready waits.
    """
    prepared.make_ready()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="tidegauge-"))
        path = Path(folder) / "validator"
        unix = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        unix.bind(str(path))
        unix.listen(_BACKLOG)
        if allowed:
            stack.enter_context(_gateway(path, allowed))
        path.chmod(0o666)  # who sees the file may validate; the folder is for its owner
        url = f"http://127.0.0.1:{sockets[0].getsockname()[1]}" if sockets else None
        counter = os.memfd_create("validations")
        stack.callback(os.close, counter)
        os.ftruncate(counter, 8)
        place = [prepared.competition.name, str(prepared.public.parent)]
        passed = [counter, *(bound.fileno() for bound in (unix, *sockets))]
        process = subprocess.Popen(
            [sys.executable, "-m", __name__, *place, str(os.getpid()), *map(str, passed)],
            pass_fds=passed,
            env={**os.environ, **prepared.environment()},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stack.callback(process.wait)
        stack.callback(process.kill)
        for bound in (unix, *sockets):
            bound.close()  # if it dies, clients shall hear of it
        yield Validator(path, url, stack.enter_context(mmap.mmap(counter, 8)))


@contextlib.contextmanager
def _gateway(path: Path, allowed: Sequence[str]) -> Iterator[None]:
    """Take the place of a validator's socket, which moves aside."""
    inner = path.with_name("behind-gateway")
    os.rename(path, inner)
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    outer.bind(str(path))
    outer.listen(_BACKLOG)
    place = [str(os.getpid()), str(outer.fileno()), str(inner)]
    process = subprocess.Popen(
        [sys.executable, "-m", gateway.__name__, *place, *allowed],
        pass_fds=[outer.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    outer.close()
    try:
        yield
    finally:
        process.kill()
        process.wait()


def main(arguments: Sequence[str]) -> None:
    """Be the validator of a run: competition, prepared folder, runner, counter, sockets."""
    from tidegauge.bench.sources import open_competition

    name, folder, runner, *numbers = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(runner):
        return  # it was killed while this process started
    import resource  # Unix only

    resource.setrlimit(resource.RLIMIT_AS, (_PROCESS_BYTES, _PROCESS_BYTES))
    counter, *descriptors = map(int, numbers)
    sockets = [socket.socket(fileno=number) for number in descriptors]
    counts = itertools.count(1)

    def count() -> None:
        os.pwrite(counter, next(counts).to_bytes(8, "little"), 0)

    prepared = open_competition(name, folder)
    limits = ServerLimits(prepared.max_bytes)
    slow = prepared.checks_slowly
    serve(make_app(prepared.check, limits, on_request=count, is_slow=slow), sockets)


if __name__ == "__main__":
    main(sys.argv[1:])
