"""An agent's only way out of its sandbox: the validator, and the hosts that it was allowed.

``python -m tidegauge.bench.gateway FD SOCKET HOST:PORT...`` takes connections on a Unix socket. One
that begins with CONNECT is a tunnel to an allowed host, and no other; everything else goes to the
validator's socket.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Sequence

from tidegauge.errors import InputError

HTTPS_PORT = 443
_PR_SET_PDEATHSIG = 1
_HEAD_SECONDS = 5.0
_CONNECT_SECONDS = 30.0
_MAX_HEAD_BYTES = 16 * 1024
_AT_ONCE = 256
_CONNECT = b"CONNECT "
Address = tuple[str, int]


def parse_host(text: str) -> Address:
    """Read ``HOST`` or ``HOST:PORT``; the port is that of HTTPS by default.

    Raises
    ------
    InputError
        It is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon:
        host, port = text, str(HTTPS_PORT)
    is_host = host and all(c.isascii() and (c.isalnum() or c in ".-") for c in host)
    if not is_host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"--allow-net {text}: give a host name, or HOST:PORT")
    return host.lower(), int(port)


async def serve(listening: socket.socket, validator: str, allowed: frozenset[Address]) -> None:
    """Serve until the process ends."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with free:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, TimeoutError):
                await _carry(reader, writer, validator, allowed)
            writer.close()

    server = await asyncio.start_unix_server(handle, sock=listening, limit=_MAX_HEAD_BYTES)
    await server.serve_forever()


async def _carry(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    validator: str,
    allowed: frozenset[Address],
) -> None:
    async with asyncio.timeout(_HEAD_SECONDS):
        begun = await reader.readexactly(len(_CONNECT))
        if begun == _CONNECT:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.LimitOverrunError:
                return
    if begun != _CONNECT:
        inner, outer = await asyncio.open_unix_connection(validator)
        outer.write(begun)
    else:
        address = _requested(head)
        if address not in allowed:
            writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                inner, outer = await asyncio.open_connection(*address)
        except (OSError, TimeoutError):
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
    try:
        await asyncio.gather(_pump(reader, outer), _pump(inner, writer))
    finally:
        outer.close()


def _requested(head: bytes) -> Address | None:
    """Return the host that a CONNECT asks for."""
    words = head.split(b"\r\n", 1)[0].split()
    try:
        return parse_host(words[0].decode("ascii"))
    except (IndexError, UnicodeDecodeError, InputError):
        return None


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copy one direction until it ends, then say so to the other side."""
    while data := await source.read(65_536):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


def main(arguments: Sequence[str]) -> None:
    """Be the gateway of a run: runner, socket, the validator's socket, allowed hosts."""
    runner, descriptor, validator, *hosts = arguments
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(runner):
        return  # it was killed while this process started
    allowed = frozenset(map(parse_host, hosts))
    asyncio.run(serve(socket.socket(fileno=int(descriptor)), validator, allowed))


if __name__ == "__main__":
    main(sys.argv[1:])
