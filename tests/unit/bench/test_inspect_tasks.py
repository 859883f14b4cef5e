"""The competitions under Inspect, offline, with a scripted model in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tidegauge.bench.competition_folder import Prepared
from tidegauge.horizon.data.importers import InspectOptions, import_inspect

pytest.importorskip("inspect_ai")

SCRIPT = """
import json, sys
from inspect_ai import eval
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi
from tidegauge.bench.inspect_tasks import surge

calls = json.loads(sys.argv[3])

@modelapi(name="scripted")
class Scripted(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        turn = sum(message.role == "assistant" for message in input)
        name, arguments = calls[min(turn, len(calls) - 1)]
        output = ModelOutput.for_tool_call(self.model_name, name, arguments)
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output
    async def count_tokens(self, input):
        return 10

task = surge(prepared=sys.argv[1], steps=int(sys.argv[4]), isolation=sys.argv[5])
(log,) = eval(task, model="scripted/m", log_dir=sys.argv[2], display="none")
sample = log.samples[0]
score = sample.scores["competition_grade"] if sample.scores else None
print(json.dumps({
    "status": log.status,
    "error": str(log.error or sample.error),
    "tools": [message.text for message in sample.messages if message.role == "tool"],
    "value": score.value if score else None,
    "report": score.metadata if score else None,
}))
"""


def evaluate(
    prepared: Prepared, logs: Path, calls: list[Any], *, steps: int = 20, isolation: str = "none"
) -> dict[str, Any]:
    folder = str(prepared.public.parent)
    arguments = [folder, str(logs), json.dumps(calls), str(steps), isolation]
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, *arguments], capture_output=True, text=True, cwd=logs
    )
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


SUBMIT_SAMPLE = "cp input/sample_submission.csv submission/submission.csv"


def test_scripted_model_solves_is_told_what_is_left_and_is_graded(
    surge: Prepared, tmp_path: Path, bubblewrap: None
) -> None:
    calls = [
        ["shell", {"command": "ls; cat " + str(surge.private / "test.csv")}],
        ["validate_submission", {}],
        ["shell", {"command": SUBMIT_SAMPLE + "; ./validate_submission.sh"}],
        ["validate_submission", {}],
        ["submit", {"answer": "done"}],
    ]
    result = evaluate(surge, tmp_path, calls, isolation="bwrap")
    assert result["status"] == "success", result["error"]
    first, absent, copied, valid = result["tools"][:4]
    assert "instructions.txt" in first
    assert "No such file" in first  # the answers
    assert "no file at submission" in absent
    assert '{"result":"Submission is valid."}' in copied
    assert valid.startswith("Submission is valid.")
    for text, left in zip((first, absent, copied, valid), (19, 18, 17, 16), strict=True):
        assert f"steps_left: {left}]" in text
        assert "seconds_left: 3" in text  # of an hour
    assert result["value"] == 0.0
    assert result["report"]["valid_submission"] is True
    assert result["report"]["competition_id"] == "tidegauge-storm-surge"


def test_endless_model_is_stopped_at_its_steps_still_graded_and_imported(
    surge: Prepared, tmp_path: Path
) -> None:
    result = evaluate(surge, tmp_path, [["shell", {"command": SUBMIT_SAMPLE}]], steps=3)
    assert "steps_left: 0] stopped: steps" in result["tools"][2]
    assert len(result["tools"]) == 3
    assert result["report"]["steps_used"] == 3
    assert result["report"]["valid_submission"] is True
    (record,) = import_inspect([tmp_path], {}, InspectOptions()).records
    assert record.task_id == "surge/tidegauge-storm-surge"
    assert record.human_minutes == surge.competition.human_minutes
    assert record.tokens_count == 3 * 15
