"""The command line: helpful with bad input, never a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegauge.cli.fvc import fvc
from tidegauge.cli.main import main


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main(["fvc", *map(str, arguments)])
    said = capsys.readouterr()
    return int(caught.value.code or 0), said.out, said.err


@pytest.mark.parametrize("command", list(fvc.commands))
def test_help_has_an_example(command: str) -> None:
    shown = CliRunner().invoke(fvc, [command, "--help"])
    assert shown.exit_code == 0
    assert f"Example: tidegauge fvc {command}" in shown.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("solve", "--output", "s.csv"), "train.csv: not found; --input is the folder that holds"),
        (("crossval", "--out", "cv"), "train.csv: not found; --input is the folder that holds"),
        (("fit", "--model", "m"), "train.csv: not found; --input is the folder that holds"),
        (("predict", "--model", "m", "--output", "s.csv"), "m: no such model folder; make one"),
        (("report", "--out", "r"), "train.csv: not found; give it, or a saved --model"),
    ],
)
def test_empty_input_folder_is_a_message_and_exit_2(
    arguments: tuple[str, ...],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "input").mkdir()
    code, out, err = run(capsys, *arguments, "--input", "input", "-q")
    assert code == 2
    assert out == ""
    assert err.startswith("error: ")
    assert message in err
    assert not (tmp_path / "s.csv").exists()


def test_bad_table_is_named_by_line_and_nothing_is_written(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("train.csv", "test.csv", "sample_submission.csv"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    lines = (tmp_path / "train.csv").read_text().splitlines()
    lines[4] = lines[4].replace(",Male,", ",Male,,").replace(",Female,", ",Female,,")
    (tmp_path / "train.csv").write_text("\n".join(lines))
    code, _, err = run(capsys, "solve", "--input", tmp_path, "--output", tmp_path / "s.csv", "-q")
    assert code == 2
    assert f"{tmp_path}/train.csv:5: 8 fields where the header has 7" in err
    assert not (tmp_path / "s.csv").exists()


def test_first_visits_alone_are_nothing_to_learn_from(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.csv").write_bytes((folder / "test.csv").read_bytes())
    code, _, err = run(capsys, "crossval", "--input", tmp_path, "--out", tmp_path / "cv", "-q")
    assert code == 2
    assert "no patient has a second visit; there is nothing to learn from" in err


def test_simulated_cohort_is_written_and_not_over_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "simulate", "--out", tmp_path / "c", "--patients", 12, "-q")
    assert code == 0
    assert "12 patients" in out
    code, _, err = run(capsys, "simulate", "--out", tmp_path / "c", "--patients", 12, "-q")
    assert code == 2
    assert "give an empty folder" in err


def test_solve_prints_rows_and_forecaster(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(
        capsys,
        *("solve", "--input", folder, "--output", tmp_path / "s.csv"),
        *("--time-limit", "0.01s", "--workers", 1, "-q"),
    )
    assert code == 0
    assert "patients by direct, valid" in out


def test_unreachable_validation_server_exits_1_and_keeps_the_file(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = run(
        capsys,
        *("solve", "--input", folder, "--output", tmp_path / "s.csv", "--time-limit", "0.01s"),
        *("--workers", 1, "--validate-url", "http://127.0.0.1:9/validate", "-q"),
    )
    assert code == 1
    assert "no answer from a validation server" in err
    assert (tmp_path / "s.csv").exists()
