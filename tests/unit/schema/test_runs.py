"""Run records: what is read, what is written back, and every fault by file, line and field."""

from __future__ import annotations

import gzip
import io
import json
import multiprocessing
import os
import sys
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import agent_row, human_row, write_rows
from tidegauge.errors import InputError, RunFileError
from tidegauge.schema.faults import has_control_character
from tidegauge.schema.runs import (
    RunReader,
    RunRecord,
    append_run,
    append_runs,
    encode_run,
    read_runs,
    write_runs,
)


def faults_of(path: Path) -> list[str]:
    with pytest.raises(RunFileError) as caught:
        list(read_runs(path))
    return caught.value.problems


@pytest.fixture
def spoiled(tmp_path: Path) -> Any:
    """Write a good row, then one with the given fields, and return the faults found."""

    def find(row: dict[str, Any]) -> list[str]:
        return faults_of(write_rows(tmp_path / "runs.jsonl", [agent_row(), row]))

    return find


class Stdin:
    """A stdin that gives the bytes it was made of."""

    def __init__(self, data: bytes) -> None:
        self.buffer = io.BufferedReader(io.BytesIO(data))  # type: ignore[type-var]


def test_plain_gzip_and_stdin_give_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = write_rows(tmp_path / "runs.jsonl", [agent_row(), human_row()])
    zipped = tmp_path / "runs.jsonl.gz"
    zipped.write_bytes(gzip.compress(plain.read_bytes()))
    expected = list(read_runs(plain))
    assert [record.alias for record in expected] == ["agent-a", "human"]
    assert list(read_runs(zipped)) == expected
    for stdin in (plain, zipped):
        monkeypatch.setattr(sys, "stdin", Stdin(stdin.read_bytes()))
        assert list(read_runs("-")) == expected


@pytest.mark.parametrize("zipped", [False, True])
def test_a_named_pipe_is_read_plain_or_gzip(tmp_path: Path, zipped: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    data = json.dumps(agent_row()).encode() + b"\n"
    writer = threading.Thread(
        target=pipe.write_bytes, args=(gzip.compress(data) if zipped else data,)
    )
    writer.start()
    assert [record.task_id for record in read_runs(pipe)] == ["words/count"]
    writer.join()


def test_a_closed_stdin_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="stdin is closed"):
        list(read_runs("-"))


def test_byte_order_mark_crlf_and_blank_lines_are_read_over(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    row = json.dumps(agent_row()).encode()
    path.write_bytes(b"\xef\xbb\xbf" + row + b"\r\n\r\n  \n" + row)
    reader = RunReader(path)
    assert [record.alias for record in reader] == ["agent-a", "agent-a"]
    assert reader.line == 4


def test_unknown_fields_survive_a_round_trip(tmp_path: Path) -> None:
    row = agent_row(run_id=7, reviewer={"name": "Zoë", "marks": [1, None]}, unknown={"deep": True})
    path = write_rows(tmp_path / "runs.jsonl", [{**row, "empty": None}])
    write_runs(tmp_path / "again.jsonl", read_runs(path))
    assert json.loads((tmp_path / "again.jsonl").read_text()) == {**row, "empty": None}


def test_unknown_fields_are_not_held_unless_asked_for(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(reviewer="Zoë")])
    assert next(iter(RunReader(path))).unknown == {}


def test_nan_in_an_optional_field_is_unknown_not_a_fault(tmp_path: Path) -> None:
    nan = float("nan")
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(generation_cost=nan, time_limit=nan)])
    (record,) = read_runs(path)
    assert record.generation_cost is None
    assert record.time_limit is None
    assert record.human_minutes == 8.0


def test_older_files_call_the_continuous_score_score(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(score_cont=None, score=0.25)])
    (record,) = read_runs(path)
    assert (record.score_cont, record.score) == (None, 0.25)


def test_run_id_is_a_number_or_a_text(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(run_id=12), agent_row(run_id="12")])
    assert [record.run_id for record in read_runs(path)] == [12, "12"]


def test_true_and_false_are_scores(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(score_binarized=True)])
    assert [record.score_binarized for record in read_runs(path)] == [1.0]


def test_duration_is_the_difference_of_the_times() -> None:
    began = 1_735_689_600_000
    swaa = human_row(started_at=began, completed_at=began + 90_000)
    assert RunRecord(**swaa).duration_minutes == 1.5
    assert RunRecord(**human_row(minutes=3)).duration_minutes == 3.0


@pytest.mark.parametrize("content", [b"", b"\n \n\r\n", b"\xef\xbb\xbf"])
def test_a_file_without_records_is_one_fault(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "empty.jsonl"
    path.write_bytes(content)
    assert faults_of(path) == [
        f"{path}:1: no run record in this file; one JSON object a line is expected"
    ]


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"hello world\n", 1, "not JSON"),
        (b"hello world", 1, "not JSON"),
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", 1, "not UTF-8"),
        (b"\x7fELF\x02\x01\x01\x00\x00 and so on", 1, "binary data"),
        ('{"task_id": "é"}\n'.encode("latin-1"), 1, "not UTF-8"),
        ('{"task_id": "x"}\n'.encode("utf-16"), 1, "binary data"),
        (b'[{"task_id": "x"}]', 1, "a JSON array"),
        (b'  [\n{"task_id": "x"}\n]\n', 1, "a JSON array"),
        (b'{"task_id": "words/co', 1, "truncated"),
        (b'{"task_id": "caf\xc3', 1, "truncated"),
        (b'"text"\n', 1, "not a JSON object"),
        (b"null\n", 1, "not a JSON object"),
        (b"12\n", 1, "not a JSON object"),
        (b'{"a":' + b"[" * 100_000 + b"\n", 1, "not JSON"),
    ],
)
def test_what_is_no_json_line_is_named(
    tmp_path: Path, content: bytes, where: int, what: str
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_bytes(content)
    first = faults_of(path)[0]
    assert first.startswith(f"{path}:{where}: ")
    assert what in first
    assert ";" in first or ":" in first.split(what)[1]  # the remedy


def test_a_truncated_last_line_is_named_after_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    row = json.dumps(agent_row())
    path.write_text(f"{row}\n{row}\n{row[:40]}")
    assert faults_of(path) == [
        f"{path}:3: truncated: the last line ends before its JSON does; copy it again"
    ]


@pytest.mark.parametrize("field", ["task_id", "task_family", "alias", "human_source"])
@pytest.mark.parametrize("value", ["missing", "", None, 7, ["x"]])
def test_required_texts_must_be_there(spoiled: Any, field: str, value: object) -> None:
    row = agent_row()
    if value == "missing":
        del row[field]
    else:
        row[field] = value
    (fault,) = spoiled(row)
    assert ":2: " in fault
    assert field in fault
    assert "must be a non-empty text; fill it in or drop the row" in fault


@pytest.mark.parametrize(
    "value", [0, -5, 0.0, float("inf"), float("-inf"), float("nan"), "8", True, [8], 1e300, 10**400]
)
def test_human_minutes_must_be_a_positive_number(spoiled: Any, value: object) -> None:
    (fault,) = spoiled(agent_row(human_minutes=value))
    assert ":2: human_minutes=" in fault
    assert "must be a positive, finite number of minutes; correct it or drop the task" in fault


@pytest.mark.parametrize("value", ["missing", None])
def test_human_minutes_must_be_there(spoiled: Any, value: object) -> None:
    row = agent_row()
    row.pop("human_minutes")
    (fault,) = spoiled(row if value == "missing" else {**row, "human_minutes": None})
    assert "human_minutes" in fault


@pytest.mark.parametrize("value", [0.5, 2, -1, float("nan"), "1", None, [1]])
def test_score_binarized_must_be_zero_or_one(spoiled: Any, value: object) -> None:
    (fault,) = spoiled({**agent_row(), "score_binarized": value})
    assert ":2: score_binarized=" in fault
    assert "must be 0 or 1; threshold the score first" in fault


@pytest.mark.parametrize("field", ["score", "score_cont"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), "high", 1e300])
def test_a_continuous_score_must_be_a_finite_number(
    spoiled: Any, field: str, value: object
) -> None:
    (fault,) = spoiled(agent_row(**{field: value}))
    assert f":2: {field}=" in fault
    assert "must be a finite number" in fault


def test_a_human_run_must_end_after_it_began(spoiled: Any) -> None:
    (fault,) = spoiled(human_row(started_at=2000, completed_at=1000))
    assert ":2: completed_at=1000: before started_at=2000; swap them or drop the row" in fault


@pytest.mark.parametrize("field", ["started_at", "completed_at"])
@pytest.mark.parametrize("value", [None, "noon", True, float("nan"), float("inf"), 10**400])
def test_a_human_run_needs_both_times(spoiled: Any, field: str, value: object) -> None:
    (fault,) = spoiled({**human_row(), field: value})
    assert field in fault
    assert "a human run needs its time in milliseconds; fill it in" in fault


def test_an_agent_run_needs_no_times(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(started_at="noon", completed_at=-1)])
    assert len(list(read_runs(path))) == 1


@pytest.mark.parametrize("field", ["alias", "reviewer"])
def test_half_a_surrogate_pair_is_a_fault_before_it_breaks_an_output(
    tmp_path: Path, field: str
) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(agent_row(**{field: "\ud83e"})) + "\n")
    (fault,) = faults_of(path)
    assert ":1: half of a surrogate pair" in fault


@pytest.mark.parametrize("field", ["task_id", "task_family", "alias", "human_source"])
def test_a_nul_in_a_name_is_a_fault_before_it_breaks_an_output(spoiled: Any, field: str) -> None:
    (fault,) = spoiled({**agent_row(), field: "a\0b"})
    assert f":2: {field}=a\\x00b: holds a control character" in fault


def test_a_nul_elsewhere_is_kept(tmp_path: Path) -> None:
    row = agent_row(scaffold="a\0b", reviewer="\0")
    (record,) = read_runs(write_rows(tmp_path / "runs.jsonl", [row]))
    assert json.loads(encode_run(record)) == row


def test_every_fault_of_a_line_is_named_on_a_line_of_its_own(spoiled: Any) -> None:
    row = human_row(human_source="", started_at="", score_binarized="line\nbreak\x1b[2J" * 20)
    del row["task_id"]
    faults = spoiled(row)
    assert [fault.split(": ")[1].split("=")[0] for fault in faults] == [
        "task_id is missing",
        "human_source",
        "score_binarized",
        "started_at",
    ]
    assert all(fault.isprintable() for fault in faults)
    assert all(len(fault) < 300 for fault in faults)


def test_all_faults_are_counted_and_twenty_are_shown(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "runs.jsonl", [agent_row(score_binarized=3)] * 1234)
    with pytest.raises(RunFileError) as caught:
        list(read_runs(path))
    assert caught.value.n_problems == 1234
    lines = str(caught.value).splitlines()
    assert [line.split(":")[1] for line in lines[:20]] == [str(i) for i in range(1, 21)]
    assert lines[20:] == ["... and 1,214 more (1,234 in all)"]


def test_faulty_lines_do_not_hide_the_good_ones(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text("nonsense\n" + json.dumps(agent_row()) + "\n")
    reader = RunReader(path)
    assert len(list(reader)) == 1
    with pytest.raises(RunFileError, match="not JSON"):
        reader.raise_problems()


@pytest.mark.parametrize("final_newline", [True, False])
def test_a_huge_line_is_refused_without_holding_it(tmp_path: Path, final_newline: bool) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    def pour() -> None:
        block = b"x" * (1 << 20)
        with open(pipe, "wb") as handle:
            handle.write(json.dumps(agent_row()).encode() + b"\n" + b'{"task_id": "')
            for _ in range(200):
                handle.write(block)
            handle.write(b'"}\n' + json.dumps(agent_row()).encode() if final_newline else b"")

    writer = threading.Thread(target=pour)
    writer.start()
    tracemalloc.start()
    try:
        reader = RunReader(pipe)
        records = list(reader)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        writer.join()
    assert len(records) == (2 if final_newline else 1)
    assert peak_bytes < 10 << 20  # the line has 200 MiB
    with pytest.raises(RunFileError, match=r":2: line of more than 1,024 KiB: not a run record"):
        reader.raise_problems()


def test_damaged_and_truncated_gzip_are_faults(tmp_path: Path) -> None:
    rows = b"".join(json.dumps(agent_row(run_id=i)).encode() + b"\n" for i in range(5000))
    whole = gzip.compress(rows)
    damages = {
        "cut": whole[: len(whole) // 2],
        "no_trailer": whole[:-6],
        "flipped": whole[:500] + bytes(255 - b for b in whole[500:600]) + whole[600:],
        "wrong_sum": whole[:-8] + b"\0\0\0\0" + whole[-4:],
        "header_only": whole[:5],
        "garbage_after": whole + b"garbage",
    }
    for name, data in damages.items():
        path = tmp_path / f"{name}.jsonl.gz"
        path.write_bytes(data)
        faults = faults_of(path)
        assert any("cannot be read further" in fault for fault in faults), name
        assert all(fault.startswith(f"{path}:") for fault in faults), name


def test_gzip_of_nothing_is_a_file_without_records(tmp_path: Path) -> None:
    path = tmp_path / "empty.jsonl.gz"
    path.write_bytes(gzip.compress(b""))
    assert "no run record in this file" in faults_of(path)[0]


@pytest.mark.parametrize("name", [".", "missing.jsonl", "missing/runs.jsonl"])
def test_a_folder_or_a_missing_file_is_said(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with pytest.raises(InputError, match="check the path and its permissions") as caught:
        list(read_runs(path))
    assert str(path) in str(caught.value)


def records(count: int) -> Iterator[RunRecord]:
    for i in range(count):
        yield RunRecord(**agent_row(run_id=i))


def test_write_runs_zips_by_name_and_always_to_the_same_bytes(tmp_path: Path) -> None:
    assert write_runs(tmp_path / "runs.jsonl", records(50)) == 50
    for name in ("one.jsonl.gz", "two.jsonl.gz"):
        assert write_runs(tmp_path / name, records(50)) == 50
    assert (tmp_path / "one.jsonl.gz").read_bytes() == (tmp_path / "two.jsonl.gz").read_bytes()
    plain = gzip.decompress((tmp_path / "one.jsonl.gz").read_bytes())
    assert plain == (tmp_path / "runs.jsonl").read_bytes()


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    def failing() -> Iterator[RunRecord]:
        yield from records(3)
        raise RuntimeError("the source broke")

    for name in ("runs.jsonl", "runs.jsonl.gz"):
        write_runs(tmp_path / name, records(2))
        with pytest.raises(RuntimeError, match="the source broke"):
            write_runs(tmp_path / name, failing())
        assert len(list(read_runs(tmp_path / name))) == 2
    assert sorted(os.listdir(tmp_path)) == ["runs.jsonl", "runs.jsonl.gz"]


def test_append_run_refuses_what_could_not_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    for fields in ({"score_binarized": 0.5}, {"human_minutes": float("nan")}, {"alias": ""}):
        with pytest.raises(RunFileError):
            append_run(path, RunRecord(**agent_row(**fields)))
    with pytest.raises(InputError, match="cannot be appended to gzip"):
        append_run(tmp_path / "runs.jsonl.gz", RunRecord(**agent_row()))
    assert os.listdir(tmp_path) == []


def append_many(path: Path, writer: int) -> None:
    for i in range(40):
        append_run(path, RunRecord(**agent_row(run_id=f"{writer}-{i}", scaffold="s" * 5000)))


def test_concurrent_writers_never_mix_their_lines(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=append_many, args=(path, w)) for w in range(4)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * 4
    found = {record.run_id for record in read_runs(path)}
    assert found == {f"{w}-{i}" for w in range(4) for i in range(40)}


def test_append_run_closes_a_half_line_first(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    append_run(path, RunRecord(**agent_row(run_id="whole")))
    with open(path, "ab") as handle:
        handle.write(b'{"task_id": "words/cou')  # a writer was killed here
    append_run(path, RunRecord(**agent_row(run_id="next")))
    reader = RunReader(path)
    assert [record.run_id for record in reader] == ["whole", "next"]
    with pytest.raises(RunFileError, match=r":2: not JSON"):
        reader.raise_problems()


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
NAMES = TEXTS.filter(lambda text: text and not has_control_character(text))
NUMBERS = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
ROWS = st.builds(
    lambda required, optional, unknown: {**unknown, **optional, **required},
    st.fixed_dictionaries(
        {
            "task_id": NAMES,
            "task_family": NAMES,
            "alias": NAMES.filter(lambda alias: alias != "human"),
            "human_source": NAMES,
            "score_binarized": st.sampled_from([0, 1]),
            "human_minutes": st.floats(1e-3, 1e9),
        }
    ),
    st.fixed_dictionaries(
        {},
        optional={
            "run_id": st.integers(0, 2**53) | TEXTS,
            "score_cont": st.floats(-1e9, 1e9),
            "task_source": TEXTS,
            "started_at": NUMBERS,
            "tokens_count": st.integers(0, 2**40),
        },
    ),
    st.dictionaries(TEXTS.map("x_".__add__), VALUES, max_size=3),
)


@given(row=ROWS)
def test_any_row_comes_back_as_it_went_in(
    tmp_path_factory: pytest.TempPathFactory, row: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("rows") / "runs.jsonl"
    path.write_text(json.dumps(row) + "\n")
    (record,) = read_runs(path)
    assert json.loads(encode_run(record)) == row


ODD_VALUES = st.sampled_from(
    [
        *(None, True, False, 0, 1, 1.0, 0.5, -1, 5, 1e199, 1e201, -1e250, 10**400, 2**70),
        *("", "x", "human", "a\0b", "8", [], {}, [1], float("nan"), float("inf")),
    ]
)
SPOILED_FIELDS = (
    *("task_id", "task_family", "alias", "score_binarized", "human_minutes", "human_source"),
    *("started_at", "completed_at", "task_source", "score_cont", "score", "run_id", "unknown"),
)


@given(
    base=st.sampled_from([agent_row(), human_row()]),
    fields=st.dictionaries(st.sampled_from(SPOILED_FIELDS), ODD_VALUES, max_size=3),
)
def test_the_fast_and_the_explaining_reader_agree(
    tmp_path_factory: pytest.TempPathFactory, base: dict[str, Any], fields: dict[str, Any]
) -> None:
    """NaN in an optional field sends a row down the explaining path and changes nothing else."""
    folder = tmp_path_factory.mktemp("rows")
    found = []
    for name, extra in (("fast", {}), ("slow", {"cloned": float("nan")})):
        path = write_rows(folder / f"{name}.jsonl", [{**base, **fields, **extra}])
        reader = RunReader(path, keep_unknown=True)
        records = list(reader)
        found.append(records)
        if records:
            reader.raise_problems()
            assert records[0].alias != "human" or records[0].duration_minutes >= 0
        else:
            with pytest.raises(RunFileError):
                reader.raise_problems()
    assert repr(found[0]) == repr(found[1])


@given(data=st.binary(max_size=200))
def test_any_bytes_are_read_or_refused_by_name(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("bytes") / "runs.jsonl"
    path.write_bytes(data)
    faults = faults_of(path)
    assert all(fault.startswith(f"{path}:") for fault in faults)
    assert all(fault.isprintable() for fault in faults)


@pytest.mark.parametrize("character", ["\x1b", "\x07", "\x9b", "\ufffe", "\uffff"])
@pytest.mark.parametrize("escaped", [True, False])
def test_names_that_charts_cannot_hold_and_terminals_obey_are_refused(
    tmp_path: Path, character: str, escaped: bool
) -> None:
    if not escaped and character < " ":
        pytest.skip("JSON allows it as an escape only")
    row = agent_row(alias=f"agent{character}[2J")
    path = tmp_path / "runs.jsonl"
    path.write_text(json.dumps(row, ensure_ascii=escaped) + "\n", encoding="utf-8")
    with pytest.raises(RunFileError, match="control character") as raised:
        list(read_runs(path))
    assert character not in str(raised.value)


def test_records_are_appended_all_or_none_and_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first, second = (RunRecord(**agent_row(run_id=name)) for name in "ab")
    bad = RunRecord(**agent_row(run_id="c", alias="x\x1b"))
    with pytest.raises(RunFileError, match="control character"):
        append_runs(path, [first, bad])
    assert not path.exists()
    assert append_runs(path, [first]) == 1
    assert append_runs(path, [first, second]) == 1
    assert not append_run(path, second)
    assert [row.run_id for row in read_runs(path)] == ["a", "b"]
    unnamed = RunRecord(**agent_row())
    assert append_runs(path, [unnamed, unnamed]) == 2  # without an id none is known to be the same


def test_a_hostile_line_keeps_nobody_from_appending(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    hostile = ["[" * 100_000, '{"run_id": [1]}', '{"run_id": ' + "9" * 400 + "}", "\ud800", "{"]
    path.write_text("\n".join(hostile) + "\n", errors="surrogatepass")
    assert append_runs(path, [RunRecord(**agent_row(run_id="a"))]) == 1
