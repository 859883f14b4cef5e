"""The agent that thinks: a language model that reasons, acts by shell commands and looks again.

It speaks the step protocol on stdin and stdout, and asks any endpoint that has OpenAI's form of
chat completions with tools. The environment names it: TIDEGAUGE_MODEL, TIDEGAUGE_MODEL_URL (its
base, such as https://api.openai.com/v1) and OPENAI_API_KEY. A sandbox lets it reach that host
alone, through HTTPS_PROXY.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
import urllib.parse
from typing import Any

SYSTEM = """\
You are a machine-learning engineer at work on a competition, alone, in a Linux shell. Read
instructions.txt and input/description.md first. Write a first valid submission/submission.csv
early, then improve it. Think before you act: say in a sentence what you expect, run one command,
look at what came of it. Check the format with the tool `validate`; nothing tells you a score, so
judge by cross-validation on the training data. Each command counts as one step; after every one you
are told the time and the steps left. Call `finish` when you cannot improve it any more."""

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string"} for key in keys},
                "required": keys,
            },
        },
    }
    for name, description, keys in (
        ("shell", "Run a command with bash in the workspace.", ["command"]),
        ("validate", "Check whether submission/submission.csv is well formed.", []),
        ("finish", "End the work; submission/submission.csv is graded.", []),
    )
]
VALIDATE = "./validate_submission.sh submission/submission.csv"
KEEP = "cp submission/submission.csv .valid_submission.csv"
RESTORE = "cp .valid_submission.csv submission/submission.csv"
MAX_CHARACTERS = 240_000  # of the conversation; older outputs are dropped first
ATTEMPTS = 6


class StoppedError(Exception):
    """The runner has ended the run."""


class Runner:
    """The other end of the step protocol."""

    def __init__(self) -> None:
        self.tokens = 0
        self.left = ""
        self.steps_left = 1

    def run(self, command: str) -> tuple[int | None, str]:
        """Have a command executed; return its exit code and what it printed."""
        print(json.dumps({"run": command, "tokens": self.tokens}), flush=True)
        line = sys.stdin.readline()
        answer: dict[str, Any] = json.loads(line) if line else {"stopped": "time"}
        if "stopped" in answer:
            raise StoppedError
        self.steps_left = answer["steps_left"]
        self.left = f"[{answer['seconds_left']:.0f} seconds and {self.steps_left} steps left]"
        return answer["exit_code"], answer["output"]

    def finish(self) -> None:
        """Say that the work is done."""
        print(json.dumps({"finish": True, "tokens": self.tokens}), flush=True)


class Model:
    """A chat endpoint."""

    def __init__(self) -> None:
        self.name = os.environ["TIDEGAUGE_MODEL"]
        url = os.environ.get("TIDEGAUGE_MODEL_URL", "https://api.openai.com/v1")
        self.url = urllib.parse.urlsplit(url.rstrip("/") + "/chat/completions")
        self.key = os.environ.get("OPENAI_API_KEY", "")

    def ask(self, messages: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the reply; busy and failing servers are asked again, ever later."""
        body = json.dumps({"model": self.name, "messages": messages, "tools": TOOLS}).encode()
        for attempt in range(ATTEMPTS):
            try:
                status, data = self._post(body)
                if status == 200:
                    return dict(json.loads(data))
                reason = f"{status} {data[:300].decode(errors='replace')}"
                if status not in (408, 409, 429) and status < 500:
                    raise SystemExit(f"the model refuses: {reason}")
            except (OSError, http.client.HTTPException, ValueError) as error:
                reason = repr(error)
            print(f"attempt {attempt + 1}: {reason}", file=sys.stderr)
            time.sleep(min(60.0, 0.5 * 4**attempt))
        raise SystemExit(f"the model does not answer: {reason}")

    def _post(self, body: bytes) -> tuple[int, bytes]:
        secure = self.url.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        host, port = self.url.hostname or "", self.url.port or (443 if secure else 80)
        proxy = urllib.parse.urlsplit(os.environ.get("HTTPS_PROXY", ""))
        if proxy.hostname:
            connection = kind(proxy.hostname, proxy.port or 80, timeout=600)
            connection.set_tunnel(host, port)
        else:
            connection = kind(host, port, timeout=600)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.key}"}
        try:
            connection.request("POST", self.url.path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()


def act(runner: Runner, name: str, arguments: str) -> str:
    """Carry out one call of a tool; return what the model is told."""
    if name not in ("shell", "validate"):
        return f"there is no tool {name}; use shell, validate or finish"
    try:
        given = json.loads(arguments or "{}")
        command = VALIDATE if name == "validate" else str(given["command"])
    except (ValueError, KeyError, TypeError):
        return 'the arguments must be a JSON object, such as {"command": "ls input"}'
    code, output = runner.run(command)
    if name == "validate" and "Submission is valid." in output and runner.steps_left > 1:
        runner.run(KEEP)
    return f"exit code {code}\n{output}\n{runner.left}"


def shorten(messages: list[dict[str, Any]]) -> None:
    """Drop the oldest outputs while the conversation is too long to be read."""
    total = sum(len(str(message.get("content") or "")) for message in messages)
    for message in messages[2:-4]:
        if total <= MAX_CHARACTERS:
            return
        content = str(message.get("content") or "")
        if message["role"] == "tool" and len(content) > 200:
            message["content"] = "[dropped: the conversation is too long]"
            total -= len(content)


def work(runner: Runner, model: Model) -> None:
    """Think and act until the model is done or nothing is left."""
    _, instructions = runner.run("cat instructions.txt; ls -la input")
    task = f"{instructions}\n{runner.left}"
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": task},
    ]
    while True:
        shorten(messages)
        reply = model.ask(messages)
        runner.tokens += int((reply.get("usage") or {}).get("total_tokens") or 0)
        message = reply["choices"][0]["message"]
        calls = message.get("tool_calls") or []
        said = {"role": "assistant", "content": message.get("content") or ""}
        messages.append({**said, "tool_calls": calls} if calls else said)
        if any(call["function"]["name"] == "finish" for call in calls):
            return
        for call in calls:
            function = call["function"]
            result = act(runner, function["name"], function.get("arguments", ""))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
        if not calls:
            messages.append({"role": "user", "content": "Go on: call a tool, or finish."})


def main() -> None:
    """Work; at the end the last valid submission counts, if the present one is not."""
    runner, model = Runner(), Model()
    try:
        work(runner, model)
        _, said = runner.run(VALIDATE)
        if "Submission is valid." not in said:
            runner.run(RESTORE)
        runner.finish()
    except StoppedError:
        pass


if __name__ == "__main__":
    main()
