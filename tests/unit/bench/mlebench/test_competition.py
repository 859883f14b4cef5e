"""Grades are MLE-bench's own; verdicts on decoys are the same, and tell nothing."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import mlebench_checkout as made
from calls import Call
from mlebench_matrix import FASHION, check_scores, check_verdicts, expected_of, some_files
from tidegauge.bench.mlebench.competition import CheckoutPrepared
from tidegauge.bench.mlebench.profile import Spoiler, rows_of, to_csv
from tidegauge.bench.run.options import Limits, RunOptions
from tidegauge.bench.run.runner import run_agent
from tidegauge.bench.server import listen, validating

Open = Callable[..., CheckoutPrepared]
NAMES = sorted(made.MADE)
# Rows in another order, missing and repeated; cells that are none; no file at all.
KINDS = ("shuffled", "last_row_missing", "id_twice", "empty_cell", "infinite", "no_bytes")


@pytest.mark.parametrize("name", NAMES)
def test_scores_and_validity_are_the_graders_own(
    name: str, opened: Open, reference: made.Reference, tmp_path: Path
) -> None:
    prepared = opened(name, se_seconds=0)
    files = some_files(prepared, KINDS)
    assert len(files) == 2 + len(KINDS)
    check_scores(prepared, reference, files, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_verdicts_on_decoys_are_those_on_the_true_answers(
    name: str, opened: Open, reference: made.Reference, tmp_path: Path
) -> None:
    prepared = opened(name)
    files = some_files(prepared, KINDS)
    assert len(files) == 2 + len(KINDS)
    check_verdicts(prepared, reference, files, tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_combined_faults_get_the_graders_verdict_too(
    name: str, opened: Open, reference: made.Reference, tmp_path: Path
) -> None:
    """Faults in other rows than those that were measured, and two at once."""
    prepared = opened(name)
    header, rows = rows_of(prepared.gold.read_bytes())
    middle = len(rows) // 2
    first = Spoiler(header, rows, prepared.template.key, prepared.template.targets)
    cases = {
        "shuffled": to_csv(header, rows[middle:] + rows[:middle]),
        "crlf": to_csv(header, rows).replace(b"\n", b"\r\n"),
        "bom": b"\xef\xbb\xbf" + to_csv(header, rows),
        "twenty missing": to_csv(header, rows[20:]),
        "three twice": to_csv(header, [*rows, *rows[10:13]]),
        "blank lines": to_csv(header, rows).replace(b"\n", b"\n\n"),
        "missing and twice": to_csv(header, [*rows[5:], *rows[30:35]]),
        "all unknown": dict(first.copies())["ids_replaced"],
    }
    for kind, data in cases.items():
        (path := tmp_path / "submission.csv").write_bytes(data)
        score, _ = reference.grade(name, path)
        verdict = prepared.check(data)
        if name == FASHION and expected_of(score) is not None and not verdict.valid:
            continue  # who is scored is not told
        assert verdict.valid == (expected_of(score) is not None), (kind, verdict)


def test_decoys_hold_the_true_ids_and_no_row_its_own_labels(opened: Open) -> None:
    for name in ("aerial-cactus-identification", "harbour-depths", "spaceship-titanic"):
        prepared = opened(name)
        side = prepared.side_files
        header, true = rows_of(prepared.answers.read_bytes())
        _, dealt = rows_of((prepared.side_folder / (side.decoys or "")).read_bytes())
        place = header.index(prepared.template.key[0])
        assert [row[place] for row in dealt] == [row[place] for row in true]
        assert sorted(map(str, true)) != sorted(map(str, dealt))
        labels = [n for n in range(len(header)) if n != place]
        assert sorted(r[n] for r in true for n in labels) == sorted(
            r[n] for r in dealt for n in labels
        )
    # With labels that are all different, dealing is seen to leave none in place.
    prepared = opened("harbour-depths")
    _, true = rows_of(prepared.answers.read_bytes())
    path = prepared.side_folder / (prepared.side_files.decoys or "")
    _, dealt = rows_of(path.read_bytes())
    assert len({row[1] for row in true}) > 50
    same = [a for a, b in zip(true, dealt, strict=True) if a[1] == b[1]]
    assert len(same) <= len(true) - len({row[1] for row in true})
    assert path.stat().st_mode & 0o077 == 0


def test_an_order_leaking_grader_tells_nothing_of_the_order(opened: Open) -> None:
    """Cells left out are named in the order of the answers; those of decoys are another order."""
    prepared = opened("AI4Code")
    header, rows = rows_of(prepared.sample.read_bytes())
    _, true = rows_of(prepared.answers.read_bytes())
    orders = {row[0]: row[1].split() for row in true}
    told = recovered = 0
    for number in range(len(rows)):
        notebook, cells = rows[number][0], rows[number][1].split()
        alone = [[n, c if n != notebook else cells[0]] for n, c in rows]
        verdict = prepared.check(to_csv(header, alone))
        assert not verdict.valid
        first = next(cell for cell in orders[notebook] if cell != cells[0])
        named = [cell for cell in cells[1:] if cell in verdict.sentence()]
        told += bool(named)
        recovered += first in verdict.sentence()
    assert told == len(rows)  # the grader's text is passed on: it is of the decoys
    # By chance one of 3 to 7 cells is the right one; 60 notebooks, so 0.2 on average.
    assert recovered / len(rows) < 0.45


def test_validation_does_not_tell_who_is_scored(opened: Open) -> None:
    prepared = opened(FASHION)
    header, rows = rows_of(prepared.sample.read_bytes())
    verdicts = {
        prepared.check(to_csv(header, rows[:n] + rows[n + 1 :])).valid for n in range(len(rows))
    }
    assert verdicts == {False}


def test_validator_never_opens_the_answers(opened: Open, tmp_path: Path) -> None:
    """With profile and decoys made, the private folder may as well not be there."""
    whole = opened("harbour-depths")
    whole.make_ready()
    copy = tmp_path / "harbour-depths"
    shutil.copytree(whole.root, copy)
    from tidegauge.bench.mlebench.competition import open_checkout_prepared

    blind = open_checkout_prepared(whole.competition, copy)
    blind.make_ready()
    blind.answers.write_text("number,metres\n")  # what the checks would read, were it read
    assert blind.check(whole.gold).valid
    assert not blind.check(to_csv(["number", "metres"], [["1", "2"]])).valid


@pytest.mark.parametrize("name", ["vinbigdata-chest-xray-abnormalities-detection", "AI4Code"])
def test_endpoint_answers_valid_and_never_a_score(name: str, opened: Open, tmp_path: Path) -> None:
    prepared = opened(name)
    (bad := tmp_path / "bad.csv").write_bytes(prepared.sample.read_bytes().replace(b",", b";"))
    with validating(prepared, [listen("127.0.0.1", 0)]) as validator:
        good = post(f"{validator.url}/validate", prepared.gold)
        assert good.startswith("Submission is valid.")
        assert "1.0" not in good
        assert post(f"{validator.url}/validate", bad).startswith("Submission invalid!")
        assert validator.count() == 2


def post(url: str, path: Path) -> str:
    command = ["curl", "--silent", "--show-error", "--retry-connrefused", "--retry", "20"]
    done = subprocess.run([*command, "--form", f"file=@{path}", url], capture_output=True)
    return str(json.loads(done.stdout)["result"])


def test_strict_makes_problems_of_what_the_sample_forbids(opened: Open, tmp_path: Path) -> None:
    name = "uw-madison-gi-tract-image-segmentation"
    header, rows = rows_of(opened(name).gold.read_bytes())
    (path := tmp_path / "submission.csv").write_bytes(to_csv(header, rows[:-3]))
    lax = opened(name, se_seconds=0).grade(path)
    assert lax.valid
    assert any("3 rows of the sample are missing" in note for note in lax.notes)
    strict = opened(name, strict=True).grade(path)
    report = strict.report(opened(name).competition)
    assert not strict.valid
    assert "3 rows of the sample are missing" in strict.problems[0]
    assert report["mlebench"]["valid_submission"] is True
    assert report["mlebench"]["score"] == round(lax.score or 0, 5)


def test_other_orders_are_noted_where_they_are_scored(opened: Open, tmp_path: Path) -> None:
    for name, is_noted in (("nomad2018-predict-transparent-conductors", True),
                           ("harbour-depths", False)):  # fmt: skip
        prepared = opened(name, se_seconds=0)
        header, rows = rows_of(prepared.gold.read_bytes())
        (path := tmp_path / "submission.csv").write_bytes(to_csv(header, rows[::-1]))
        assert any("another order" in note for note in prepared.grade(path).notes) == is_noted
        assert any("another order" in note for note in prepared.check(path).notes) == is_noted


@pytest.mark.parametrize(
    "content",
    [
        gzip.compress(b"number,metres\n1,2\n"),
        b"\xff\xfe\x00n",
        b'number,metres\n1,"2\n3,4\n',
        b"number,metres\n1,2,3\n4\n5,6,7,8\n",
        b"\x00" * 100,
        b"{}",
        b"number,metres\n" + b"1,2\n" * 100_000,
    ],
    ids=["gzip", "utf-16", "open quote", "ragged", "nul", "json", "long"],
)
def test_a_file_that_pandas_cannot_read_is_an_invalid_submission(
    content: bytes, opened: Open, tmp_path: Path
) -> None:
    prepared = opened("harbour-depths")
    (path := tmp_path / "submission.csv").write_bytes(content)
    grade = prepared.grade(path)
    assert not grade.valid
    assert grade.submission_exists
    assert grade.problems
    assert not prepared.check(path).valid


def test_only_csv_files_exist_for_mlebench(opened: Open, tmp_path: Path) -> None:
    prepared = opened("harbour-depths", se_seconds=0)
    for name, exists in (("a.csv", True), ("a.CSV", True), ("a.txt", False), ("a", False)):
        shutil.copy(prepared.gold, tmp_path / name)
        assert prepared.grade(tmp_path / name).submission_exists == exists
    (tmp_path / "folder.csv").mkdir()
    assert not prepared.grade(tmp_path / "folder.csv").submission_exists


def test_keys_are_compared_as_pandas_reads_them(opened: Open) -> None:
    prepared = opened("harbour-depths")
    header, rows = rows_of(prepared.gold.read_bytes())
    assert rows[0][0].startswith("000")
    for form in (str, lambda n: f"{n}.0", lambda n: f" {n}"):
        other = to_csv(header, [[form(int(row[0])), row[1]] for row in rows])
        assert prepared.template.compare(other).row_faults == ""
        assert prepared.check(other).valid


def test_standard_errors_and_units(opened: Open) -> None:
    units = {
        "smartphone-decimeter-2022": 20,  # trips
        "hms-harmful-brain-activity-classification": 24,  # patients
        "text-normalization-challenge-english-language": 24,  # sentences
        "tensorflow2-question-answering": 60,  # examples of two rows
        FASHION: 40,  # those who are scored
        "harbour-depths": 60,
    }
    for name, expected in units.items():
        prepared = opened(name, se_draws=60)
        report = prepared.grade(prepared.sample).report(prepared.competition)
        private, public = prepared.template.sample, prepared.n_rows
        assert report["se_units"] == expected, (name, len(private), public)
        assert (report["se_draws"], report["se_failed"], report["se_method"]) == (60, 0, "halves")
        again = prepared.grade(prepared.sample).report(prepared.competition)
        assert again["score_se"] == report["score_se"]


def test_a_mean_of_rows_has_the_usual_standard_error(opened: Open) -> None:
    """Accuracy over 60 rows: p (1 − p) / n, within the error of 2,000 draws."""
    prepared = opened("spaceship-titanic", se_draws=2000)
    report = prepared.grade(prepared.sample).report(prepared.competition)
    p = report["score_exact"]
    exact = math.sqrt(p * (1 - p) / 59)
    assert report["score_se"] == pytest.approx(exact, rel=4 / math.sqrt(2 * 2000))


def test_no_error_without_time_or_units(opened: Open, tmp_path: Path) -> None:
    prepared = opened("harbour-depths", se_seconds=1e-9)
    report = prepared.grade(prepared.sample).report(prepared.competition)
    assert report["score_se"] is None
    assert report["p_gold"] is None
    assert "only 2 halves" in report["se_reason"]


def test_jsonl_of_mixed_competitions_has_mlebenchs_totals(
    environment: None, opened: Open, reference: made.Reference, tmp_path: Path, call: Call
) -> None:
    lines = ["# a comment", "// another", ""]
    names = ["harbour-depths", "spaceship-titanic", "AI4Code"]
    for name in names:
        gold = str(reference.gold(name)) if name != "spaceship-titanic" else None
        line = {"competition_id": name, "submission_path": gold, "logs_path": "x", "code_path": "y"}
        lines.append(json.dumps(line))
    (path := tmp_path / "submissions.jsonl").write_text("\n".join(lines))
    said = call("bench", "grade", path, "--se-seconds", 0, "--report", tmp_path / "report.json")
    assert said.code == 1  # one has no submission
    result = json.loads((tmp_path / "report.json").read_text())
    assert [row["competition_id"] for row in result["competition_reports"]] == names
    totals = {name: value for name, value in result.items() if name.startswith("total_")}
    assert totals == {
        "total_runs": 3, "total_runs_with_submissions": 2, "total_valid_submissions": 2,
        "total_medals": 2, "total_gold_medals": 2, "total_silver_medals": 0,
        "total_bronze_medals": 0, "total_above_median": 2, "total_failed": 0,
    }  # fmt: skip
    assert result["competition_reports"][1]["submission_path"] is None


@pytest.mark.usefixtures("some_isolation")
@pytest.mark.parametrize("name", ["AI4Code", "text-normalization-challenge-english-language"])
def test_an_agent_runs_on_a_checkouts_competition(
    name: str, opened: Open, reference: made.Reference, tmp_path: Path
) -> None:
    """Text normalization has its sample inside an archive only."""
    prepared = opened(name)
    probe = (
        "python -m tidegauge.bench.agents.sample; "
        "./validate_submission.sh > said.txt; "
        f"ls {prepared.private} {prepared.side_folder} > seen.txt 2>&1; true"
    )
    options = RunOptions(command=probe, alias="prober", limits=Limits(0.05, 10))
    report = run_agent(prepared, tmp_path / "runs", tmp_path / "runs.jsonl", options)
    assert report["score"] == reference.sample_score(name)
    assert report["validations"] == 1
    (run,) = (tmp_path / "runs").glob("prober-*")
    assert "Submission is valid." in (run / "workspace" / "said.txt").read_text()
    seen = (run / "workspace" / "seen.txt").read_text()
    assert prepared.answers.name not in seen
    assert "decoys" not in seen
    (record,) = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert record["task_id"] == f"mlebench/{name}"
    assert record["split"] == "medium"
    assert record["human_minutes"] == 270


def test_rows_are_read_and_written_unchanged() -> None:
    data = b'a,b\n1,"x, ""y"""\n2,\n'
    assert to_csv(*rows_of(data)) == data
    assert list(csv.reader(io.StringIO(data.decode()))) == [["a", "b"], ["1", 'x, "y"'], ["2", ""]]


PHONES = "smartphone-decimeter-2022"


def test_an_agent_written_for_mlebenchs_image_runs_unchanged(
    opened: Open, reference: made.Reference, tmp_path: Path, bubblewrap: None
) -> None:
    prepared = opened(PHONES)
    script = (
        "cd / && cp /home/data/sample_submission.csv /home/submission/submission.csv && "
        "cat /home/data/description.md /home/instructions.txt > /home/logs/agent.log && "
        "echo 'print(1)' > /home/code/train.py && "
        "bash /home/validate_submission.sh /home/submission/submission.csv && "
        "curl -s http://localhost:5000/health && "
        "echo $COMPETITION_ID $TIME_LIMIT_SECS $STEP_LIMIT && "
        "! touch /home/data/x && ls /home"
    )
    options = RunOptions(command=script, alias="theirs", layout="mlebench", limits=Limits(0.05, 7))
    report = run_agent(prepared, tmp_path / "runs", tmp_path / "runs.jsonl", options)
    (run,) = (tmp_path / "runs").glob("theirs-*")
    said = (run / "agent.stdout.txt").read_text()
    assert report["exit_code"] == 0, said
    assert report["score"] == reference.sample_score(PHONES)
    assert "Submission is valid." in said
    assert f"{PHONES} 1" in said
    assert (run / "workspace" / "code" / "train.py").is_file()
    assert (run / "workspace" / "logs" / "agent.log").stat().st_size > 100


def test_files_that_leak_are_left_out_on_request_and_the_record_says_so(
    opened: Open, tmp_path: Path, bubblewrap: None
) -> None:
    prepared = opened(PHONES)
    for without, expected in ((False, 20), (True, 0)):
        options = RunOptions(
            command="find input -name span_log.nmea | wc -l; find input -name device.csv | wc -l",
            alias="finder",
            limits=Limits(0.05, 7),
            without_leaks=without,
        )
        report = run_agent(prepared, tmp_path / str(without), tmp_path / "runs.jsonl", options)
        (run,) = (tmp_path / str(without)).glob("finder-*")
        assert (run / "agent.stdout.txt").read_text().split() == [str(expected), "20"]
        assert report["leaks_removed"] is without
    records = [json.loads(line) for line in (tmp_path / "runs.jsonl").read_text().splitlines()]
    assert [record["leaks_removed"] for record in records] == [False, True]
