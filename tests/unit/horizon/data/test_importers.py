"""Other tools' logs become the records they describe; what is left out is counted."""

from __future__ import annotations

import contextlib
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tidegauge.cli.horizon.imports import import_group
from tidegauge.errors import InputError, ProblemsError, RunFileError
from tidegauge.horizon.data.importers import (
    InspectOptions,
    TaskTime,
    import_inspect,
    import_mlebench,
    read_task_times,
)
from tidegauge.schema.runs import append_runs, read_runs

TIMES = {"sums": TaskTime(12.0, "baseline")}


def sample(name: str, value: Any = "C", **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "epoch": 1,
        "input": "?",
        "scores": {"match": {"value": value}},
        "model_usage": {"m": {"total_tokens": 30}, "judge": {"total_tokens": 5}},
        "started_at": "2026-01-02T03:04:05.500000+00:00",
        "completed_at": "2026-01-02T03:04:07+00:00",
        "uuid": f"u-{name}",
        "events": [{"large": "and ignored"}],
        **more,
    }


def write_log(path: Path, samples: list[dict[str, Any]], *, crashed: bool = False) -> Path:
    spec = {"version": 2, "eval": {"task": "pkg/sums", "model": "openai/gpt-x", "run_id": "r"}}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps(spec))
        if crashed:
            archive.writestr("_journal/summaries/1.json", json.dumps(samples))
            return path
        for item in samples:
            name = f"samples/{item['id']}_epoch_{item['epoch']}.json"
            archive.writestr(name, json.dumps(item))
        archive.writestr("summaries.json", json.dumps(samples))
        archive.writestr("header.json", json.dumps({**spec, "status": "success"}))
    return path


def test_sample_becomes_the_run_it_describes(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.eval", [sample("add")])
    (record,) = import_inspect([log], TIMES, InspectOptions()).records
    assert (record.task_family, record.task_id) == ("sums", "sums/add")
    assert (record.alias, record.model, record.run_id) == ("openai/gpt-x", "openai/gpt-x", "u-add")
    assert (record.score_binarized, record.score_cont) == (1, 1.0)
    assert record.completed_at - record.started_at == 1500
    assert record.tokens_count == 35
    assert (record.human_minutes, record.human_source) == (12.0, "baseline")


def test_crashed_log_gives_what_its_journal_holds(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.eval", [sample("x"), sample("y", "I")], crashed=True)
    records = import_inspect([log], TIMES, InspectOptions()).records
    assert [(r.task_id, r.score_binarized) for r in records] == [("sums/x", 1), ("sums/y", 0)]


@pytest.mark.parametrize(
    ("value", "threshold", "success"),
    [("C", 0.5, 1), ("I", 0.5, 0), ("P", 0.5, 1), ("P", 0.6, 0), ("N", 0.5, 0), (True, 0.5, 1),
     (0.49, 0.5, 0), (3, 5, 0), ("0.8", 0.5, 1), ("yes", 0.5, 1), ("No", 0.5, 0)],
)  # fmt: skip
def test_scores_of_every_kind_are_thresholded(
    value: Any, threshold: float, success: int, tmp_path: Path
) -> None:
    log = write_log(tmp_path / "a.eval", [sample("x", value)])
    (record,) = import_inspect([log], TIMES, InspectOptions(threshold=threshold)).records
    assert record.score_binarized == success


def test_scorer_and_key_are_chosen(tmp_path: Path) -> None:
    scores = {"match": {"value": "I"}, "rubric": {"value": {"style": 0.2, "truth": 0.9}}}
    log = write_log(tmp_path / "a.eval", [sample("x", scores=scores)])
    for scorer, success in (("match", 0), ("rubric.truth", 1), ("rubric.style", 0)):
        (record,) = import_inspect([log], TIMES, InspectOptions(scorer=scorer)).records
        assert record.score_binarized == success
    for scorer, reason in (
        (None, "several scorers"),
        ("other", "no scorer"),
        ("rubric", "rubric.style"),
    ):
        with pytest.raises(InputError, match=reason):
            import_inspect([log], TIMES, InspectOptions(scorer=scorer))


def test_errors_limits_and_invalidated_samples_are_honoured(tmp_path: Path) -> None:
    samples = [
        sample("fine"),
        sample("broken", scores={}, error={"message": "boom"}),
        sample("long", "I", limit={"type": "time", "limit": 60}),
        sample("void", invalidation={"author": "me"}),
        sample("unscored", scores={}),
    ]
    log = write_log(tmp_path / "a.eval", samples)
    kept = import_inspect([log], TIMES, InspectOptions())
    found = {r.task_id: (r.score_binarized, r.fatal_error_from) for r in kept.records}
    assert found == {
        "sums/fine": (1, None), "sums/broken": (0, "error"), "sums/long": (0, "usageLimits"),
    }  # fmt: skip
    assert kept.skipped == {"invalidated": 1, "without a score": 1}
    skipped = import_inspect([log], TIMES, InspectOptions(errors="skip"))
    assert len(skipped.records) == 2
    assert skipped.skipped["ended in an error"] == 1


def test_tasks_without_a_human_time_are_all_named(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.eval", [sample("x"), sample("y"), sample("z")])
    with pytest.raises(ProblemsError, match="sums/x: no human time") as caught:
        import_inspect([log], {"sums/z": TaskTime(1)}, InspectOptions())
    assert caught.value.n_problems == 2
    own = write_log(tmp_path / "b.eval", [sample("x", metadata={"human_minutes": 7})])
    (record,) = import_inspect([own], {}, InspectOptions()).records
    assert record.human_minutes == 7


def test_damaged_logs_are_named(tmp_path: Path) -> None:
    path = tmp_path / "a.eval"
    path.write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"a\.eval"):
        import_inspect([path], TIMES, InspectOptions())
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("other.txt", "x")
    with pytest.raises(InputError, match=r"a\.eval"):
        import_inspect([path], TIMES, InspectOptions())


REPORT = {
    "competition_id": "osic-pulmonary-fibrosis-progression", "score": -6.9, "any_medal": False,
    "above_median": True, "gold_medal": False, "valid_submission": True,
    "created_at": "2026-01-02T03:04:05",
}  # fmt: skip


def test_mlebench_reports_single_and_aggregate(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_text(json.dumps(REPORT))
    many = {
        "total_runs": 2,
        "competition_reports": [REPORT, {**REPORT, "any_medal": True, "score": None}],
    }
    (tmp_path / "many.json").write_text(json.dumps(many))
    times = {"osic-pulmonary-fibrosis-progression": TaskTime(1440)}
    files = [tmp_path / "one.json", tmp_path / "many.json"]
    records = import_mlebench(files, times, alias="aide").records
    assert [record.score_binarized for record in records] == [0, 0, 1]
    assert [record.score_cont for record in records] == [-6.9, -6.9, None]
    assert {record.task_id for record in records} == {
        "mlebench/osic-pulmonary-fibrosis-progression"
    }
    assert len({record.run_id for record in records}) == 3
    above = import_mlebench(files[:1], times, alias="aide", success="above_median").records
    assert above[0].score_binarized == 1
    for bad, reason in (({}, "competition_id"), ({**REPORT, "competition_id": "x"}, "human time")):
        (tmp_path / "bad.json").write_text(json.dumps(bad))
        with pytest.raises(ProblemsError, match=reason):
            import_mlebench([tmp_path / "bad.json"], times, alias="aide")
    with pytest.raises(ProblemsError, match="--alias"):
        import_mlebench(files[:1], times)
    (tmp_path / "bad.json").write_text("[1")
    with pytest.raises(InputError, match="not a grading report"):
        import_mlebench([tmp_path / "bad.json"], times)


def test_task_table_names_its_faulty_lines(tmp_path: Path) -> None:
    table = tmp_path / "tasks.csv"
    table.write_text("task_id,human_minutes,human_source\na,5,baseline\nb,\nc,-1\n")
    with pytest.raises(ProblemsError, match=r"tasks\.csv:3") as caught:
        read_task_times(table)
    assert caught.value.n_problems == 2
    table.write_text("task_id,human_minutes\na,5\n")
    assert read_task_times(table) == {"a": TaskTime(5.0, "estimate")}
    lines = tmp_path / "tasks.jsonl"
    lines.write_text('{"task_id": "a", "human_minutes": 5, "human_source": "qa"}\n')
    assert read_task_times(lines) == {"a": TaskTime(5.0, "qa")}
    with pytest.raises(InputError, match="cannot be read"):
        read_task_times(tmp_path / "none.csv")


def test_commands_append_records_that_read_back(tmp_path: Path) -> None:
    log = write_log(tmp_path / "a.eval", [sample("x"), sample("void", invalidation={})])
    (tmp_path / "tasks.csv").write_text("task_id,human_minutes\nsums,3\nc,60\n")
    out = tmp_path / "runs.jsonl"
    common = ["--tasks", str(tmp_path / "tasks.csv"), "--out", str(out)]
    run = CliRunner().invoke
    done = run(import_group, ["inspect", str(log), *common, "--alias", "openai/gpt-x=G"])
    assert done.exit_code == 0, done.output
    assert "1 run invalidated: left out" in done.stderr
    (tmp_path / "r.json").write_text(json.dumps({**REPORT, "competition_id": "c"}))
    done = run(import_group, ["mlebench", str(tmp_path / "r.json"), *common, "--alias", "H"])
    assert done.exit_code == 0, done.output
    first, second = read_runs(out)
    assert [first.alias, second.alias] == ["G", "H"]
    # Weights are of a whole file: appended beside others, those of one import would be wrong.
    assert first.equal_task_weight == 1
    assert second.equal_task_weight is None
    printed = run(import_group, ["inspect", str(log), *common[:2], "-q"])
    assert json.loads(printed.stdout)["task_id"] == "sums/x"


HOSTILE_SAMPLES = {
    "tokens as text": {"model_usage": {"m": {"total_tokens": "many"}}},
    "an integer of 400 digits": {"scores": {"s": {"value": 10**400}}},
    "minutes of 400 digits": {"metadata": {"human_minutes": 10**400}},
    "nested": {"metadata": {"x": "[" * 10}},
}


@pytest.mark.parametrize("name", HOSTILE_SAMPLES)
def test_a_hostile_sample_is_read_or_refused_in_one_line(name: str, tmp_path: Path) -> None:
    usual = {"id": 1, "scores": {"s": {"value": 1}}, "metadata": {"human_minutes": 5}}
    log = tmp_path / "x.eval"
    with zipfile.ZipFile(log, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        archive.writestr("samples/1.json", json.dumps(usual | HOSTILE_SAMPLES[name]))
    with contextlib.suppress(InputError):
        (record,) = import_inspect([log], {}, InspectOptions()).records
        assert record.tokens_count is None


def test_a_member_too_large_for_a_log_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    log = tmp_path / "x.eval"
    with zipfile.ZipFile(log, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"eval": {"task": "t", "model": "m"}}))
        with archive.open("samples/1.json", "w", force_zip64=True) as member:
            for _ in range(260):
                member.write(b" " * 2**20)
    with pytest.raises(InputError, match="larger than"):
        import_inspect([log], {}, InspectOptions())


def imported(folder: Path, **field: object) -> int:
    """Import a report of MLE-bench into a file of records."""
    report = {"competition_id": "c", "any_medal": True, "alias": "a", **field}
    (folder / "r.json").write_text(json.dumps(report))
    found = import_mlebench([folder / "r.json"], {"c": TaskTime(60.0)})
    return append_runs(folder / "runs.jsonl", found.records)


def test_odd_reports_are_imported_or_refused(tmp_path: Path) -> None:
    assert imported(tmp_path, created_at=3) == 1
    assert imported(tmp_path, created_at="0001-01-01") == 1
    assert imported(tmp_path, run_id=2**70) == 1
    with pytest.raises(RunFileError, match="cannot be written"):
        imported(tmp_path, alias="\ud800")
    assert len(list(read_runs(tmp_path / "runs.jsonl"))) == 3
