"""Hostile tables: each fault with its place and its remedy, each oddity read as a person would."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from tidegauge.errors import InputError
from tidegauge.fvc.data.tables import read_cohort, read_questions

HEADER = "Patient,Weeks,FVC,Percent,Age,Sex,SmokingStatus"
GOOD = "A,0,2500,80.5,70,Male,Ex-smoker"


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_bytes((end.join(lines) + end).encode())
    return path


FAULTS = {
    "text in a number": (
        "A,0,abc,80,70,Male,Ex-smoker",
        "t.csv:3: FVC=abc: is not a number; fill in the millilitres or drop the row",
    ),
    "nothing in a number": (
        "A,0,2500,,70,Male,Ex-smoker",
        "t.csv:3: Percent=: is empty; fill in the percent of the expected FVC or drop the row",
    ),
    "zero FVC": (
        "A,0,0,80,70,Male,Ex-smoker",
        "t.csv:3: FVC=0: must be from 50 to 9900 millilitres; correct it or drop the row",
    ),
    "negative FVC": (
        "A,0,-2500,80,70,Male,Ex-smoker",
        "t.csv:3: FVC=-2500: must be from 50 to 9900 millilitres; correct it or drop the row",
    ),
    "litres": (
        "A,0,2.5,80,70,Male,Ex-smoker",
        "t.csv:3: FVC=2.5: must be from 50 to 9900 millilitres; correct it or drop the row",
    ),
    "not a number": (
        "A,0,nan,80,70,Male,Ex-smoker",
        "t.csv:3: FVC=nan: must be from 50 to 9900 millilitres; correct it or drop the row",
    ),
    "infinite": (
        "A,inf,2500,80,70,Male,Ex-smoker",
        "t.csv:3: Weeks=inf: must be from -2000 to 5000 weeks relative to the scan; "
        "correct it or drop the row",
    ),
    "half a week": (
        "A,1.5,2500,80,70,Male,Ex-smoker",
        "t.csv:3: Weeks=1.5: must be a whole number; round it",
    ),
    "impossible age": (
        "A,0,2500,80,700,Male,Ex-smoker",
        "t.csv:3: Age=700: must be from 1 to 120 years; correct it or drop the row",
    ),
    "no patient": (
        ",0,2500,80,70,Male,Ex-smoker",
        "t.csv:3: Patient is empty; every visit needs a patient id",
    ),
    "too few fields": (
        "A,0,2500",
        "t.csv:3: 3 fields where the header has 7; look for a missing or unquoted comma",
    ),
    "a decimal comma": (
        "A,0,2500,80,5,70,Male,Ex-smoker",
        "t.csv:3: 8 fields where the header has 7; look for a missing or unquoted comma",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_faulty_row_is_named_with_its_line_and_remedy(case: str, tmp_path: Path) -> None:
    row, message = FAULTS[case]
    path = write(tmp_path / "t.csv", HEADER, GOOD, row)
    with pytest.raises(InputError) as caught:
        read_cohort(path)
    assert str(caught.value) == f"{tmp_path}/{message}"


def test_all_faults_are_counted_and_twenty_shown(tmp_path: Path) -> None:
    rows = [f"P{i},0,-1,80,70,Male,Ex-smoker" for i in range(25)]
    with pytest.raises(InputError, match=r"5 more \(25 in all\)") as caught:
        read_cohort(write(tmp_path / "t.csv", HEADER, *rows))
    assert len(str(caught.value).splitlines()) == 21


HEADERS = {
    "missing columns": ("Patient,Weeks,FVC", ":1: no column Percent, Age, Sex, SmokingStatus; the"),
    "semicolons": (HEADER.replace(",", ";"), "separated by ';'? use commas"),
    "a column twice": (HEADER + ",FVC", ":1: column FVC appears twice; rename or remove one"),
    "nothing": ("", ": empty; a table needs the columns Patient, Weeks, FVC"),
}


@pytest.mark.parametrize("case", HEADERS)
def test_faulty_header_is_named(case: str, tmp_path: Path) -> None:
    header, message = HEADERS[case]
    with pytest.raises(InputError) as caught:
        read_cohort(write(tmp_path / "t.csv", header))
    assert message in str(caught.value)


def test_header_without_rows_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a header and no rows; give at least one visit"):
        read_cohort(write(tmp_path / "t.csv", HEADER))


def test_missing_file_and_binary_file_and_damaged_gzip_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        read_cohort(tmp_path / "none.csv")
    path = tmp_path / "t.csv"
    path.write_bytes(HEADER.encode() + b"\n\xff\xfe\x00")
    with pytest.raises(InputError, match=r"t\.csv:2: not UTF-8 text; save the table as UTF-8 CSV"):
        read_cohort(path)
    path.write_bytes(gzip.compress(b"x" * 1000)[:-10])
    with pytest.raises(InputError, match="damaged, copy it again"):
        read_cohort(path)


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_order_of_columns_extra_ones_marks_and_line_ends_do_not_matter(
    end: str, tmp_path: Path
) -> None:
    path = write(
        tmp_path / "t.csv",
        "\ufeffSmokingStatus,Sex,note, Age ,Percent,FVC,Weeks,Patient",
        'Never smoked,Female,"a, b",61,70,1800,-4,A',
        "",
        "Never smoked,Female,,61,69,1750,3.0,A",
        end=end,
    )
    path.write_bytes(gzip.compress(path.read_bytes()))
    cohort = read_cohort(path)
    assert cohort.gap_weeks.tolist() == [0, 7]
    assert cohort.baselines.week.tolist() == [-4]
    assert cohort.baselines.male.tolist() == [0]
    assert cohort.fvc_ml.tolist() == [1800, 1750]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ex smoker", "Ex-smoker"),
        ("EX-SMOKER", "Ex-smoker"),
        ("former smoker", "Ex-smoker"),
        ("never  smoked", "Never smoked"),
        ("Never", "Never smoked"),
        ("currently Smokes", "Currently smokes"),
        ("current", "Currently smokes"),
    ],
)
def test_near_misspelling_is_read_with_a_note(text: str, expected: str, tmp_path: Path) -> None:
    notes: list[str] = []
    path = write(tmp_path / "t.csv", HEADER, f"A,0,2500,80,70,male,{text}")
    cohort = read_cohort(path, note=notes.append)
    assert cohort.baselines.male[0] == 1
    assert cohort.baselines.ex_smoker[0] == (expected == "Ex-smoker")
    assert cohort.baselines.current_smoker[0] == (expected == "Currently smokes")
    assert notes == [
        f"{path}:2: Sex=male read as Male",
        f"{path}:2: SmokingStatus={text} read as {expected}",
    ]


def test_new_category_is_unknown_with_a_note(tmp_path: Path) -> None:
    notes: list[str] = []
    path = write(
        tmp_path / "t.csv", HEADER, "A,0,2500,80,70,Other,Vapes", "B,0,2500,80,70,Other,Vapes"
    )
    cohort = read_cohort(path, note=notes.append)
    assert 0 < cohort.baselines.male[0] < 1
    assert 0 < cohort.baselines.current_smoker[0] < 1
    assert notes[0] == f"{path}:2: Sex=Other is none of Male, Female: taken as unknown (2 rows)"
    assert "SmokingStatus=Vapes is none of Ex-smoker, Never smoked" in notes[1]


def test_repeated_weeks_are_two_measurements_and_the_first_row_is_the_baseline(
    tmp_path: Path,
) -> None:
    notes: list[str] = []
    path = write(
        tmp_path / "t.csv",
        HEADER,
        "A,9,2300,70,70,Male,Ex-smoker",
        "A,2,2500,80,70,Male,Ex-smoker",
        "A,2,2600,83,70,Male,Ex-smoker",
    )
    cohort = read_cohort(path, note=notes.append)
    assert cohort.baselines.fvc_ml.tolist() == [2500]
    assert cohort.gap_weeks.tolist() == [0, 0, 7]
    assert cohort.first.tolist() == [True, False, False]
    assert notes == [f"{path}: 1 repeated patient-weeks, each kept as a measurement"]


def test_later_percent_never_reaches_the_forecast(tmp_path: Path) -> None:
    rows = ["A,2,2500,80,70,Male,Ex-smoker", "A,9,2300,{},70,Male,Ex-smoker"]
    one, two = (
        read_cohort(write(tmp_path / "t.csv", HEADER, rows[0], rows[1].format(percent)))
        for percent in (73.6, 20)
    )
    assert one.baselines.percent.tolist() == two.baselines.percent.tolist() == [80]


def test_last_three_visits_after_the_first_score(tmp_path: Path) -> None:
    rows = [f"A,{w},2500,80,70,Male,Ex-smoker" for w in (8, 0, 4, 12, 16)]
    rows += [f"B,{w},2500,80,70,Male,Ex-smoker" for w in (0, 4)]
    rows += ["C,0,2500,80,70,Male,Ex-smoker"]
    cohort = read_cohort(write(tmp_path / "t.csv", HEADER, *rows))
    scored = cohort.scored()
    assert cohort.gap_weeks[scored].tolist() == [8, 12, 16, 4]
    assert cohort.patient[scored].tolist() == [0, 0, 0, 1]


def test_taking_patients_keeps_their_visits_in_the_order_asked(tmp_path: Path) -> None:
    visits = (("A", 0, 2000), ("A", 5, 2001), ("B", 0, 3000), ("C", 1, 4000), ("C", 3, 4001))
    rows = [f"{p},{w},{ml},80,70,Male,Ex-smoker" for p, w, ml in visits]
    taken = read_cohort(write(tmp_path / "t.csv", HEADER, *rows)).take(np.array([2, 0]))
    assert taken.baselines.patient.tolist() == ["C", "A"]
    assert taken.fvc_ml.tolist() == [4000, 4001, 2000, 2001]
    assert taken.patient.tolist() == [0, 0, 1, 1]


KEY_FAULTS = {
    "A-3": "s.csv:3: Patient_Week='A-3': must be a patient id, an underscore and a whole week",
    "Z_4": "s.csv:3: Patient_Week=Z_4: no visit of Z in t.csv; add it",
    "A_1": "s.csv:3: Patient_Week=A_1: repeats line 2; remove one",
}


@pytest.mark.parametrize("key", KEY_FAULTS)
def test_faulty_key_of_the_sample_is_named(key: str, tmp_path: Path) -> None:
    cohort = read_cohort(write(tmp_path / "t.csv", HEADER, GOOD))
    path = write(tmp_path / "s.csv", "Patient_Week,FVC,Confidence", "A_1,2000,100", f"{key},0,0")
    with pytest.raises(InputError) as caught:
        read_questions(path, cohort, Path("t.csv"))
    assert str(caught.value) == f"{tmp_path}/{KEY_FAULTS[key]}"


def test_weeks_before_the_first_visit_are_negative_gaps(tmp_path: Path) -> None:
    cohort = read_cohort(write(tmp_path / "t.csv", HEADER, "A_b,7,2500,80,70,Male,Ex-smoker"))
    path = write(tmp_path / "s.csv", "Confidence,Patient_Week", "1,A_b_-3", "1,A_b_10")
    asked = read_questions(path, cohort, Path("t.csv"))
    assert asked.keys == ["A_b_-3", "A_b_10"]
    assert asked.questions.gap_weeks.tolist() == [-10, 3]
