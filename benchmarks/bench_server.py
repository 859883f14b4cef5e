"""The validation server beside a Flask development server that makes the same checks with pandas.

Both answer the same uploads of 2,000 rows from the same client, one after the other on an otherwise
idle machine. Writes benchmarks/results/server.json and docs/performance-bench.md.

Flask is not a dependency: without it the script says so and measures nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[1]
ROWS = 2_000
COLUMNS = ["Patient_Week", "FVC", "Confidence"]


def flask_server(sample: Path, port: int) -> None:
    import logging

    import numpy as np
    import pandas as pd
    from flask import Flask, jsonify, request

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    app = Flask(__name__)
    expected = pd.read_csv(sample)["Patient_Week"]

    def problems_of(data: bytes) -> list[str]:
        table = pd.read_csv(io.BytesIO(data))
        missing = [name for name in COLUMNS if name not in table.columns]
        if missing:
            return [f"missing columns {missing}"]
        problems = []
        if (absent := expected[~expected.isin(table["Patient_Week"])]).size:
            problems.append(f"{absent.size} rows missing ({absent.head(3).tolist()})")
        if (unknown := table[~table["Patient_Week"].isin(expected)]).size:
            problems.append(f"{len(unknown)} unknown rows ({unknown.index[:3].tolist()})")
        if (twice := table[table["Patient_Week"].duplicated()]).size:
            problems.append(f"{len(twice)} duplicates ({twice.index[:3].tolist()})")
        for name, most in (("FVC", 10_000), ("Confidence", np.inf)):
            values = pd.to_numeric(table[name], errors="coerce")
            if (bad := table.index[~np.isfinite(values)]).size:
                problems.append(f"{name}: {bad.size} missing, infinite or not numbers ({bad[:3]})")
            if (bad := table.index[(values <= 0) | (values > most)]).size:
                problems.append(f"{name}: {bad.size} out of range ({bad[:3]})")
        return problems

    @app.post("/validate")
    def validate():  # type: ignore[no-untyped-def]
        problems = problems_of(request.files["file"].read())
        if problems:
            return jsonify(result="Submission invalid! " + "; ".join(problems))
        return jsonify(result="Submission is valid.")

    app.run(host="127.0.0.1", port=port)


def request_bytes(data: bytes) -> bytes:
    body = (
        b'--B\r\nContent-Disposition: form-data; name="file"; filename="s.csv"\r\n'
        b"Content-Type: text/csv\r\n\r\n" + data + b"\r\n--B--\r\n"
    )
    head = (
        "POST /validate HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Content-Type: multipart/form-data; boundary=B\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def one_client(port: int, data: bytes, deadline: float, seconds: list[float]) -> None:
    """Send uploads one after another; keep the connection where the server does."""
    reader: asyncio.StreamReader | None = None
    writer: asyncio.StreamWriter | None = None
    while time.perf_counter() < deadline:
        began = time.perf_counter()
        if reader is None or writer is None:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split()[0])
        body = await reader.readexactly(length)
        assert b"Submission is valid." in body, body
        seconds.append(time.perf_counter() - began)
        if head.startswith(b"HTTP/1.0") or b"connection: close" in head.lower():
            writer.close()
            reader = writer = None


def measure(
    port: int, server: psutil.Process, data: bytes, *, clients: int, seconds: float
) -> dict[str, float]:
    async def main() -> dict[str, float]:
        taken: list[float] = []
        await one_client(port, data, time.perf_counter() + 0.5, [])  # warm up
        used, began = sum(server.cpu_times()[:2]), time.perf_counter()
        deadline = began + seconds
        await asyncio.gather(*(one_client(port, data, deadline, taken) for _ in range(clients)))
        elapsed = time.perf_counter() - began
        taken.sort()
        return {
            "requests": len(taken),
            "requests_per_second": round(len(taken) / elapsed, 1),
            "cpu_ms": round(1000 * (sum(server.cpu_times()[:2]) - used) / len(taken), 2),
            "median_ms": round(1000 * taken[len(taken) // 2], 2),
            "p99_ms": round(1000 * taken[int(len(taken) * 0.99)], 2),
        }

    return asyncio.run(main())


@contextlib.contextmanager
def running(command: list[str]) -> Iterator[tuple[int, psutil.Process]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    process = subprocess.Popen(
        [*command, str(port)], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        for _ in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            time.sleep(0.05)
        yield port, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait()


def make_prepared(folder: Path) -> Path:
    """A prepared folder with exactly 2,000 rows to predict."""
    public = folder / "public"
    public.mkdir()
    (folder / "private").mkdir()
    rows = [
        f"ID{100_000_000_000_000_000_000_00 + i // 100}_{i % 100 - 10},2000,100"
        for i in range(ROWS)
    ]
    sample = public / "sample_submission.csv"
    sample.write_text("\n".join([",".join(COLUMNS), *rows]) + "\n")
    return sample


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--flask", nargs=2, metavar=("SAMPLE", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.flask:
        flask_server(Path(options.flask[0]), int(options.flask[1]))
        return
    try:
        import flask  # noqa: F401
    except ImportError:
        print("flask is not installed, so there is nothing to compare with: pip install flask")
        return
    with tempfile.TemporaryDirectory() as name:
        sample = make_prepared(Path(name))
        rng_rows = sample.read_text().splitlines()[1:]
        rows = [
            f"{row.split(',')[0]},{2000 + i * 0.37:.2f},{150 + i % 90}.5"
            for i, row in enumerate(rng_rows)
        ]
        data = request_bytes("\n".join([",".join(COLUMNS), *rows]).encode())
        ours = [
            sys.executable,
            "-m",
            "tidegauge",
            "bench",
            "serve",
            "osic",
            "--prepared",
            name,
            "--also",
            "0",
            "-q",
            "--port",
        ]
        theirs = [sys.executable, __file__, "--flask", str(sample)]
        results: dict[str, dict[str, dict[str, float]]] = {}
        for clients in (1, 16):
            best: dict[str, dict[str, float]] = {}
            for _ in range(options.repeats):  # alternating, so that both meet the same disturbances
                for label, command in (("tidegauge", ours), ("flask", theirs)):
                    with running(command) as (port, server):
                        found = measure(
                            port, server, data, clients=clients, seconds=options.seconds
                        )
                    if (
                        label not in best
                        or found["requests_per_second"] > best[label]["requests_per_second"]
                    ):
                        best[label] = found
            results[str(clients)] = best
    write(results)


def write(results: dict[str, dict[str, dict[str, float]]]) -> None:
    lines = [
        "# Validation server",
        "",
        f"`python benchmarks/bench_server.py`: uploads of {ROWS:,} rows, best of several",
        f"alternating turns; server and client share {os.cpu_count()} cores, Python",
        f"{platform.python_version()}.",
        "",
        "| clients | server | requests/s | CPU ms a request | median ms | 99 % ms | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for clients, best in results.items():
        base = best["flask"]["requests_per_second"]
        for label, name in (
            ("tidegauge", "`bench serve`"),
            ("flask", "Flask development server, pandas"),
        ):
            r = best[label]
            ratio = r["requests_per_second"] / base
            lines.append(
                f"| {clients} | {name} | {r['requests_per_second']:,.0f} | {r['cpu_ms']:.2f} "
                f"| {r['median_ms']:.1f} | {r['p99_ms']:.1f} | {ratio:.1f} |"
            )
    text = "\n".join(lines) + "\n"
    print(text)
    (ROOT / "benchmarks" / "results").mkdir(exist_ok=True)
    (ROOT / "benchmarks" / "results" / "server.json").write_text(json.dumps(results, indent=2))
    (ROOT / "docs").mkdir(exist_ok=True)
    (ROOT / "docs" / "performance-bench.md").write_text(text)


if __name__ == "__main__":
    main()
