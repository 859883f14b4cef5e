"""The agent that thinks, driven by a scripted endpoint; and the only way out of its sandbox."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from calls import Call
from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.gateway import parse_host
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.runner import run_agent
from tidegauge.errors import InputError


@dataclass
class Endpoint:
    """An endpoint that answers by a script, and keeps what it was asked."""

    script: list[Any]
    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[str] = field(default_factory=list)


def tool(name: str, **arguments: str) -> dict[str, Any]:
    call = {"id": "c1", "type": "function"}
    call["function"] = {"name": name, "arguments": json.dumps(arguments)}  # type: ignore[assignment]
    return {"role": "assistant", "content": "I expect it to work.", "tool_calls": [call]}


@contextmanager
def scripted(script: list[Any]) -> Iterator[Endpoint]:
    endpoint = Endpoint(script)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            endpoint.asked.append(json.loads(body))
            endpoint.headers.append(str(self.headers["Authorization"]))
            message = endpoint.script[min(len(endpoint.asked), len(endpoint.script)) - 1]
            status = message if isinstance(message, int) else 200
            reply = {"choices": [{"message": message}], "usage": {"total_tokens": 10}}
            data = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint.url = f"http://127.0.0.1:{server.server_port}/v1"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_scripted_model_makes_a_valid_graded_osic_submission(
    osic: Prepared, tmp_path: Path, call: Call, bubblewrap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k3y")
    script = [
        503,  # busy: asked again
        tool("shell", command="cat input/description.md | head -5"),
        tool("shell", command="python -m tidegauge.bench.agents.naive"),
        tool("validate"),
        {"role": "assistant", "content": "Let me think."},  # no call of a tool
        tool("dance"),
        tool("shell", command="echo spoilt > submission/submission.csv"),
        tool("finish"),
    ]
    with scripted(script) as endpoint:
        said = call(
            "bench", "run", "osic", "--prepared", osic.public.parent, "--out", tmp_path / "runs",
            "--agent", "react", "--model", "scripted", "--model-url", endpoint.url,
            "--hours", 0.1, "--steps", 20,
        )  # fmt: skip
    assert said.code == 0, said.err
    report = json.loads(said.out)
    assert report["valid_submission"] is True  # the last valid one was put back
    assert report["exit_cause"] == "finished"
    assert report["protocol"] == "steps"
    assert report["tokens_count"] == 70
    host = endpoint.url.removeprefix("http://").removesuffix("/v1")
    assert report["network"] == f"none but the validator, {host}"
    assert endpoint.headers[0] == "Bearer k3y"
    last = endpoint.asked[-1]["messages"]
    assert "Submission is valid." in str(last)
    assert "steps left]" in str(last[1])
    assert "there is no tool dance" in str(last)
    (record,) = (tmp_path / "runs" / "runs.jsonl").read_text().splitlines()
    assert json.loads(record)["alias"] == "react"


def test_steps_that_run_out_end_the_run_and_what_is_there_is_graded(
    surge: Prepared, tmp_path: Path, call: Call, bubblewrap: None
) -> None:
    script = [tool("shell", command="python -m tidegauge.bench.agents.sample")]
    with scripted(script) as endpoint:
        said = call(
            "bench", "run", "surge", "--prepared", surge.public.parent, "--out", tmp_path / "runs",
            "--agent", "react", "--model", "m", "--model-url", endpoint.url,
            "--hours", 0.1, "--steps", 4,
        )  # fmt: skip
    report = json.loads(said.out)
    assert (report["exit_cause"], report["valid_submission"]) == ("steps", True)


def test_a_model_that_refuses_is_a_failure_of_the_agent(
    surge: Prepared, tmp_path: Path, call: Call, bubblewrap: None
) -> None:
    with scripted([401]) as endpoint:
        said = call(
            "bench", "run", "surge", "--prepared", surge.public.parent, "--out", tmp_path / "runs",
            "--agent", "react", "--model", "m", "--model-url", endpoint.url, "--hours", 0.1,
        )  # fmt: skip
    assert said.code == 1
    assert json.loads(said.out)["exit_code"] == 1
    assert call("bench", "run", "surge", "--agent", "react", "--out", tmp_path).code == 2


PROBE = """
import http.client, os, sys, urllib.parse
proxy = urllib.parse.urlsplit(os.environ["HTTPS_PROXY"])
for host, port in (("127.0.0.1", {allowed}), ("127.0.0.1", {other}), ("192.0.2.1", 443)):
    try:
        connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=10)
        connection.set_tunnel(host, port)
        connection.request("POST", "/v1", b"{{}}", {{"Content-Length": "2"}})
        print(host, port, connection.getresponse().status)
    except OSError as error:
        print(host, port, error)
for port in ({allowed}, {other}):
    try:
        http.client.HTTPConnection("127.0.0.1", port, timeout=5).connect()
        print("direct", port)
    except OSError:
        pass
"""


def test_only_allowed_hosts_are_reached_and_the_validator_still_answers(
    surge: Prepared, tmp_path: Path, bubblewrap: None
) -> None:
    with scripted([tool("finish")]) as first, scripted([tool("finish")]) as second:
        ports = [int(e.url.rpartition(":")[2].removesuffix("/v1")) for e in (first, second)]
        (probe := tmp_path / "probe.py").write_text(PROBE.format(allowed=ports[0], other=ports[1]))
        command = (
            f"python {probe} ; python -m tidegauge.bench.agents.sample; "
            "./validate_submission.sh; curl -s $SERVER_URL/health"
        )
        options = RunOptions(
            command=command,
            alias="prober",
            limits=Limits(0.05, 10),
            allow_net=(f"127.0.0.1:{ports[0]}",),
        )
        report = run_agent(surge, tmp_path / "runs", tmp_path / "runs.jsonl", options)
        assert len(first.asked) == 1
        assert second.asked == []
    (run,) = (tmp_path / "runs").glob("prober-*")
    said = (run / "agent.stdout.txt").read_text()
    assert f"127.0.0.1 {ports[0]} 200" in said
    assert f"127.0.0.1 {ports[1]} Tunnel connection failed: 403" in said
    assert "192.0.2.1 443 Tunnel connection failed: 403" in said
    assert "direct" not in said
    assert "Submission is valid." in said
    assert "running" in said
    assert report["validations"] == 1


@pytest.mark.parametrize("text", ["", ":443", "a b", "host:", "host:0", "host:99999", "h/x", "é"])
def test_hosts_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="allow-net"):
        parse_host(text)
    assert parse_host("API.example.org") == ("api.example.org", 443)


def test_without_a_network_of_its_own_nothing_can_be_allowed(
    surge: Prepared, tmp_path: Path
) -> None:
    options = RunOptions(command="true", alias="a", isolation="none", allow_net=("a.org",))
    with pytest.raises(InputError, match="install bubblewrap"):
        run_agent(surge, tmp_path / "runs", tmp_path / "runs.jsonl", options)
