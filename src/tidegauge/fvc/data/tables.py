"""CSV tables to a checked cohort: every fault as ``file:line: what; what to do``.

Rows of one patient-week that repeat are both kept: they are two measurements of one week. Of a
repeated first week, the row that comes first in the file is the baseline, as in the competition.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tidegauge.errors import InputError, ProblemsError
from tidegauge.fvc.data.cohort import Baselines, Cohort, Questions
from tidegauge.schema.osic import SEXES, SMOKING_STATUSES, VISIT_COLUMNS, split_patient_week

UNKNOWN = "unknown"
# Shares of published cohorts of pulmonary fibrosis: what an unknown category counts as.
MALE_SHARE, CURRENT_SMOKER_SHARE, EX_SMOKER_SHARE = 0.79, 0.05, 0.67

_SEX_SPELLINGS = {"m": "Male", "f": "Female", "man": "Male", "woman": "Female"}
_SMOKING_SPELLINGS = {
    "ex": "Ex-smoker",
    "former": "Ex-smoker",
    "formersmoker": "Ex-smoker",
    "exsmokers": "Ex-smoker",
    "never": "Never smoked",
    "neversmoker": "Never smoked",
    "nonsmoker": "Never smoked",
    "current": "Currently smokes",
    "currentsmoker": "Currently smokes",
    "smoker": "Currently smokes",
    "currentlysmoking": "Currently smokes",
}


@dataclass(frozen=True, slots=True)
class _Visit:
    patient: str
    weeks: int
    fvc_ml: float
    percent: float
    age: float
    sex: str
    smoking: str


@dataclass
class _Reading:
    """One table being read: its faults, and the remarks that are not faults."""

    path: Path
    problems: list[str] = field(default_factory=list)
    notes: dict[str, list[int]] = field(default_factory=dict)

    def fault(self, line: int, text: str) -> None:
        self.problems.append(f"{self.path}:{line}: {text}")

    def note(self, line: int, text: str) -> None:
        self.notes.setdefault(text, []).append(line)

    def remarks(self) -> list[str]:
        return [
            f"{self.path}:{lines[0]}: {text}"
            + (f" ({len(lines):,} rows)" if len(lines) > 1 else "")
            for text, lines in self.notes.items()
        ]


def read_cohort(path: Path, *, note: Callable[[str], None] = lambda text: None) -> Cohort:
    """Read a table of visits such as train.csv or test.csv.

    Parameters
    ----------
    path : Path
        CSV with the columns of `VISIT_COLUMNS` in any order; others are ignored. A byte-order
        mark, either line ending and gzip are all fine.
    note : callable
        Receives remarks: categories that were respelt or are unknown, repeated patient-weeks.

    Raises
    ------
    ProblemsError
        Rows that cannot be used, each as ``file:line: column=value: what; what to do``.
    InputError
        The file is missing, empty, not text, or lacks a column.
    """
    reading = _Reading(path)
    visits = [visit for line, row in _rows(reading) if (visit := _visit(reading, line, row))]
    if reading.problems:
        raise ProblemsError(reading.problems)
    if not visits:
        raise InputError(f"{path}: a header and no rows; give at least one visit")
    for remark in [*reading.remarks(), *_repeats(path, visits)]:
        note(remark)
    return _assemble(visits)


@dataclass(frozen=True, slots=True)
class FeatureTable:
    """Features of patients from a table: radiologists' scores, another program's measurements.

    Attributes
    ----------
    names : tuple of str
        Columns other than Patient.
    rows : dict
        Values by patient, NaN where a field is empty.
    """

    names: tuple[str, ...]
    rows: dict[str, list[float]]


def read_feature_table(path: Path) -> FeatureTable:
    """Read a CSV table with a column Patient and one number a column for each.

    Raises
    ------
    ProblemsError
        Fields that are no number, and patients that repeat.
    InputError
        The file is missing, empty, or has no column besides Patient.
    """
    reading = _Reading(path)
    rows: dict[str, list[float]] = {}
    names: tuple[str, ...] = ()
    for line, row in _rows(reading, ("Patient",)):
        patient = row.pop("Patient")
        names = tuple(row)
        if patient in rows or not patient:
            reading.fault(line, f"Patient={patient}: repeated or empty; keep one row a patient")
            continue
        rows[patient] = [_feature(reading, line, name, text) for name, text in row.items()]
    if reading.problems:
        raise ProblemsError(reading.problems)
    if not names:
        raise InputError(f"{path}: no features; give a column Patient and at least one of numbers")
    return FeatureTable(names, rows)


def _feature(reading: _Reading, line: int, name: str, text: str) -> float:
    if text.lower() in ("", "na", "nan"):
        return math.nan
    try:
        value = float(text)
    except ValueError:
        value = math.inf
    if not math.isfinite(value):
        reading.fault(line, f"{name}={text}: not a number; correct it or leave it empty")
    return value


@dataclass(frozen=True, slots=True)
class Asked:
    """The rows of a sample submission.

    Attributes
    ----------
    keys : list of str
        ``Patient_Week`` as written, in the file's order.
    questions : Questions
        The same, as patients of the test cohort and weeks since their first visit.
    """

    keys: list[str]
    questions: Questions


def read_questions(path: Path, test: Cohort, test_path: Path) -> Asked:
    """Read the keys of a sample submission and find each one's patient.

    Raises
    ------
    ProblemsError
        Keys that are malformed, repeated, or name a patient without a first visit.
    """
    reading = _Reading(path)
    number = {patient: i for i, patient in enumerate(test.baselines.patient)}
    seen: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    for line, row in _rows(reading, ("Patient_Week",)):
        key = row["Patient_Week"]
        try:
            patient, week = split_patient_week(key)
        except InputError as error:
            reading.fault(line, str(error))
            continue
        if patient not in number:
            reading.fault(line, f"Patient_Week={key}: no visit of {patient} in {test_path}; add it")
        elif key in seen:
            reading.fault(line, f"Patient_Week={key}: repeats line {seen[key]}; remove one")
        else:
            seen[key] = line
            found.append((number[patient], week))
    if reading.problems:
        raise ProblemsError(reading.problems)
    if not seen:
        raise InputError(f"{path}: a header and no rows; give the Patient_Week keys to predict")
    index, weeks = np.array(found).T
    return Asked(list(seen), Questions(index, weeks - test.baselines.week[index]))


def _rows(
    reading: _Reading, columns: tuple[str, ...] = VISIT_COLUMNS
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield line number and stripped fields of each row that has the header's width."""
    lines = csv.reader(io.StringIO(_text(reading.path), newline=""))
    try:
        header = [name.strip() for name in next(lines, [])]
        _check_header(reading.path, header, columns)
        for row in lines:
            if not any(value.strip() for value in row):
                continue
            if len(row) != len(header):
                reading.fault(
                    lines.line_num,
                    f"{len(row)} fields where the header has {len(header)}; "
                    "look for a missing or unquoted comma",
                )
                continue
            yield lines.line_num, {k: v.strip() for k, v in zip(header, row, strict=True)}
    except csv.Error as error:
        raise InputError(f"{reading.path}:{lines.line_num}: {error}; not a CSV table") from error


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path}: {error}; the file is damaged, copy it again") from error
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}; check the path") from error
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise InputError(f"{path}:{line}: not UTF-8 text; save the table as UTF-8 CSV") from error


def _check_header(path: Path, header: list[str], columns: tuple[str, ...]) -> None:
    missing = [name for name in columns if name not in header]
    if not any(header):
        raise InputError(f"{path}: empty; a table needs the columns {', '.join(columns)}")
    if missing:
        hint = " (separated by ';'? use commas)" if len(header) == 1 and ";" in header[0] else ""
        raise InputError(
            f"{path}:1: no column {', '.join(missing)}; the header has {', '.join(header)}{hint}"
        )
    for name in filter(None, header):
        if header.count(name) > 1:
            raise InputError(f"{path}:1: column {name} appears twice; rename or remove one")


def _visit(reading: _Reading, line: int, row: dict[str, str]) -> _Visit | None:
    """Check one row; faults go to the reading and the row is dropped."""
    before = len(reading.problems)
    if not row["Patient"]:
        reading.fault(line, "Patient is empty; every visit needs a patient id")
    weeks = _number(reading, line, row, "Weeks", -2000, 5000, "weeks relative to the scan")
    if math.isfinite(weeks) and weeks != round(weeks):
        reading.fault(line, f"Weeks={row['Weeks']}: must be a whole number; round it")
    fvc = _number(reading, line, row, "FVC", 50, 9_900, "millilitres")
    percent = _number(reading, line, row, "Percent", 1, 400, "percent of the expected FVC")
    age = _number(reading, line, row, "Age", 1, 120, "years")
    sex = _category(reading, line, row, "Sex", SEXES, _SEX_SPELLINGS)
    smoking = _category(reading, line, row, "SmokingStatus", SMOKING_STATUSES, _SMOKING_SPELLINGS)
    if len(reading.problems) > before:
        return None
    return _Visit(row["Patient"], int(weeks), fvc, percent, age, sex, smoking)


def _number(
    reading: _Reading,
    line: int,
    row: dict[str, str],
    column: str,
    least: float,
    most: float,
    meaning: str,
) -> float:
    text = row[column]
    try:
        value = float(text)
    except ValueError:
        what = "is empty" if not text else "is not a number"
        reading.fault(line, f"{column}={text}: {what}; fill in the {meaning} or drop the row")
        return math.nan
    if not least <= value <= most:
        reading.fault(
            line,
            f"{column}={text}: must be from {least:g} to {most:g} {meaning}; "
            "correct it or drop the row",
        )
        return math.nan
    return value


def _category(
    reading: _Reading,
    line: int,
    row: dict[str, str],
    column: str,
    names: tuple[str, ...],
    spellings: dict[str, str],
) -> str:
    text = row[column]
    if text in names:
        return text
    letters = "".join(c for c in text.casefold() if c.isalpha())
    exact = {"".join(c for c in name.casefold() if c.isalpha()): name for name in names}
    found = exact.get(letters) or spellings.get(letters)
    if found:
        reading.note(line, f"{column}={text} read as {found}")
        return found
    choices = ", ".join(names)
    reading.note(line, f"{column}={text or '(empty)'} is none of {choices}: taken as unknown")
    return UNKNOWN


def _repeats(path: Path, visits: list[_Visit]) -> list[str]:
    keys = [(visit.patient, visit.weeks) for visit in visits]
    n = len(keys) - len(set(keys))
    return [f"{path}: {n} repeated patient-weeks, each kept as a measurement"] if n else []


def _assemble(visits: list[_Visit]) -> Cohort:
    patients = list(dict.fromkeys(visit.patient for visit in visits))
    number = {patient: i for i, patient in enumerate(patients)}
    ordered = sorted(visits, key=lambda visit: (number[visit.patient], visit.weeks))
    index = np.array([number[visit.patient] for visit in ordered])
    first = np.r_[True, index[1:] != index[:-1]]
    base = [visit for visit, is_first in zip(ordered, first, strict=True) if is_first]
    week = np.array([float(visit.weeks) for visit in base])
    return Cohort(
        baselines=Baselines(
            patient=np.array(patients),
            week=week,
            fvc_ml=np.array([visit.fvc_ml for visit in base]),
            percent=np.array([visit.percent for visit in base]),
            age=np.array([visit.age for visit in base]),
            male=_indicator([visit.sex for visit in base], "Male", MALE_SHARE),
            current_smoker=_indicator(
                [visit.smoking for visit in base], "Currently smokes", CURRENT_SMOKER_SHARE
            ),
            ex_smoker=_indicator([visit.smoking for visit in base], "Ex-smoker", EX_SMOKER_SHARE),
            features=np.empty((len(base), 0)),
        ),
        patient=index,
        gap_weeks=np.array([float(visit.weeks) for visit in ordered]) - week[index],
        fvc_ml=np.array([visit.fvc_ml for visit in ordered]),
        first=first,
    )


def _indicator(values: list[str], name: str, share: float) -> np.ndarray:
    return np.array([share if v == UNKNOWN else float(v == name) for v in values])
