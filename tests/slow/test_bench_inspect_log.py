"""A log that Inspect itself wrote, invalidation included, becomes run records."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tidegauge.horizon.data.importers import InspectOptions, TaskTime, import_inspect

TIMES = {"sums": TaskTime(12.0, "baseline")}


def test_log_written_by_inspect_itself_is_read(tmp_path: Path) -> None:
    """An evaluation run offline in a process of its own, with a scripted model."""
    pytest.importorskip("inspect_ai")
    script = """
import sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import invalidate_samples, write_eval_log, ProvenanceData
from inspect_ai.model import GenerateConfig, ModelAPI, ModelOutput, ModelUsage, modelapi
from inspect_ai.scorer import match
from inspect_ai.solver import generate

@modelapi(name="scripted")
class Scripted(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        output = ModelOutput.from_content(self.model_name, "4")
        output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
        return output
    async def count_tokens(self, input):
        return 10

samples = [Sample(input="2+2", target="4", id="four"), Sample(input="3+2", target="5", id="five")]
task = Task(dataset=samples, solver=generate(), scorer=match(), name="sums")
(log,) = eval(task, model="scripted/m", log_dir=sys.argv[1], display="none", epochs=2)
(first,) = [s.uuid for s in log.samples if (s.id, s.epoch) == ("four", 1)]
spoiled = invalidate_samples(log, [first], ProvenanceData(author="a"))
write_eval_log(spoiled, log.location)
"""
    subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], check=True, capture_output=True, cwd=tmp_path
    )
    found = import_inspect([tmp_path], TIMES, InspectOptions(aliases={"scripted/m": "M"}))
    assert found.skipped == {"invalidated": 1}
    assert sorted((r.task_id, r.score_binarized) for r in found.records) == [
        ("sums/five", 0), ("sums/five", 0), ("sums/four", 1),
    ]  # fmt: skip
    assert {record.alias for record in found.records} == {"M"}
    assert {record.tokens_count for record in found.records} == {15}
