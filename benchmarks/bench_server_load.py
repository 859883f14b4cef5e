"""The validation server under 1,000 idle connections and 200 uploads at once.

An honest client validates throughout, one upload after another. Prints, and writes into
docs/reliability.md, how it was served and how much memory the server took.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "benchmarks")]

from bench_server import COLUMNS, make_prepared, one_client, request_bytes, running  # noqa: E402
from fuzz_readers import write_table  # noqa: E402

IDLE, UPLOADS, ROUNDS = 1_000, 200, 5
HEAD = b"POST /validate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le"  # and no more


async def stay_idle(port: int, until: asyncio.Event, closed: list[int]) -> None:
    """Send half a request and wait; connect again when the server closes."""
    while not until.is_set():
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(HEAD)
            with contextlib.suppress(OSError):
                await asyncio.wait({asyncio.ensure_future(reader.read()),
                                    asyncio.ensure_future(until.wait())},
                                   return_when=asyncio.FIRST_COMPLETED)  # fmt: skip
            closed[0] += not until.is_set()
            writer.close()


async def upload(port: int, data: bytes) -> bool:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split()[0])
    body = await reader.readexactly(length)
    writer.close()
    return b"Submission is valid." in body


async def load(port: int, server: psutil.Process, data: bytes) -> list[tuple[str, object]]:
    quiet: list[float] = []
    busy: list[float] = []
    closed = [0]
    await one_client(port, data, time.perf_counter() + 3, quiet)
    before = server.memory_info().rss
    until = asyncio.Event()
    idle = [asyncio.ensure_future(stay_idle(port, until, closed)) for _ in range(IDLE)]
    await asyncio.sleep(1)
    served, after_rounds = 0, []
    for _ in range(ROUNDS):
        honest = one_client(port, data, time.perf_counter() + 3, busy)
        uploads = asyncio.gather(*(upload(port, data) for _ in range(UPLOADS)))
        found, _ = await asyncio.gather(uploads, honest)
        served += sum(found)
        after_rounds.append((server.memory_info().rss - before) / 2**20)
    until.set()
    await asyncio.gather(*idle, return_exceptions=True)
    quiet.sort()
    busy.sort()
    return [
        ("idle connections held open", IDLE),
        ("of these closed by the server and opened again", closed[0]),
        ("uploads at once, rounds", f"{UPLOADS}, {ROUNDS}"),
        ("of these answered", f"{served} of {UPLOADS * ROUNDS}"),
        ("honest client alone: median and slowest s", f"{_middle(quiet)}, {quiet[-1]:.3f}"),
        ("under load: requests answered", len(busy)),
        ("under load: median and slowest s", f"{_middle(busy)}, {busy[-1]:.3f}"),
        ("memory beyond that before, MiB after each round", _listed(after_rounds)),
    ]


def _middle(seconds: list[float]) -> str:
    return f"{seconds[len(seconds) // 2]:.3f}"


def _listed(values: list[float]) -> str:
    return ", ".join(f"{value:.1f}" for value in values)


def main() -> None:
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8_192), most))
    with tempfile.TemporaryDirectory() as name:
        rows = make_prepared(Path(name)).read_text().splitlines()[1:]
        data = request_bytes("\n".join([",".join(COLUMNS), *rows]).encode())
        serve = ["bench", "serve", "osic", "--prepared", name, "--also", "0", "-q", "--port"]
        with running([sys.executable, "-m", "tidegauge", *serve]) as (port, server):
            found = asyncio.run(load(port, server, data))
    for line in found:
        print(*line, sep=": ")
    write_table("load", ("what", "found"), found)


if __name__ == "__main__":
    main()
