"""Every kind of bad submission is named; every harmless variation of a good one is accepted."""

from __future__ import annotations

import gzip
import io
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegauge.errors import InputError, SubmissionError
from tidegauge.schema.submission import (
    OSIC_FORM,
    SubmissionTable,
    Verdict,
    check_submission,
    read_keys,
    read_submission,
    write_submission,
)

KEYS = [f"P{patient}_{week}" for patient in range(3) for week in range(-2, 3)]
HEADER = "Patient_Week,FVC,Confidence"
ROWS = [f"{key},{2000 + i},{100 + i}" for i, key in enumerate(KEYS)]


def check(text: str | bytes) -> Verdict:
    data = text.encode() if isinstance(text, str) else text
    return check_submission(data, form=OSIC_FORM, expected_keys=KEYS)


def table(*rows: str, header: str = HEADER) -> str:
    return "\n".join([header, *rows]) + "\n"


def with_row(index: int, row: str) -> str:
    return table(*ROWS[:index], row, *ROWS[index + 1 :])


GOOD = {
    "plain": table(*ROWS),
    "another order": table(*reversed(ROWS)),
    "byte-order mark": "\ufeff" + table(*ROWS),
    "CRLF": table(*ROWS).replace("\n", "\r\n"),
    "CR alone": table(*ROWS).replace("\n", "\r"),
    "no newline at the end": table(*ROWS).rstrip("\n"),
    "a blank line before the header": "\n" + table(*ROWS),
    "blank lines with CRLF before the header": "\r\n\r\n" + table(*ROWS),
    "gzip in two parts": gzip.compress(table(*ROWS[:3]).encode())
    + gzip.compress("\n".join(ROWS[3:]).encode()),
    "blank lines": table(*ROWS).replace("\n", "\n\n"),
    "all quoted": table(*('"' + row.replace(",", '","') + '"' for row in ROWS)),
    "columns in another order": table(
        *(",".join(reversed(row.split(","))) for row in ROWS), header="Confidence,FVC,Patient_Week"
    ),
    "gzip": gzip.compress(table(*ROWS).encode()),
    "spaces around numbers": table(*(row.replace(",", ", ") for row in ROWS)),
    "exponents": with_row(0, f"{KEYS[0]},2e3,1.0E+2"),
}


@pytest.mark.parametrize("kind", GOOD)
def test_harmless_variation_is_valid_with_the_same_values(kind: str) -> None:
    verdict = check(GOOD[kind])
    assert verdict.problems == []
    assert verdict.sentence() == "Submission is valid."
    assert verdict.table is not None
    assert verdict.table.keys == KEYS
    np.testing.assert_array_equal(verdict.table.values["FVC"], 2000 + np.arange(len(KEYS)))


def test_extra_columns_are_accepted_and_said() -> None:
    rows = [f"{i},{row},x" for i, row in enumerate(ROWS)]
    verdict = check(table(*rows, header=f",{HEADER},note"))
    assert verdict.valid
    assert "extra columns ignored: , note" in verdict.sentence()


BAD = {
    "empty": ("", "empty"),
    "only spaces": (" \n\n ", "empty"),
    "header alone": (HEADER + "\n", "no row"),
    "missing column": (table(*ROWS).replace("Confidence", "Sigma"), "missing column Confidence"),
    "wrong case": (table(*ROWS).replace("FVC", "fvc"), "missing column FVC"),
    "no header": ("\n".join(ROWS), "missing columns"),
    "repeated column": (table(*(r + ",1" for r in ROWS), header=HEADER + ",FVC"), "more than once"),
    "semicolons": (table(*ROWS).replace(",", ";"), "separated by semicolons"),
    "tabs": (table(*ROWS).replace(",", "\t"), "separated by tabs"),
    "missing row": (table(*ROWS[1:]), "1 row missing by Patient_Week ('P0_-2')"),
    "unknown row": (table(*ROWS, "P9_0,1,1"), "unknown Patient_Week (line 17: 'P9_0')"),
    "duplicate row": (table(*ROWS, ROWS[0]), "duplicate Patient_Week (line 17 repeats 'P0_-2'"),
    "NaN": (with_row(2, f"{KEYS[2]},nan,100"), "FVC is missing (NaN) in 1 row (line 4"),
    "empty cell": (with_row(2, f"{KEYS[2]},,100"), "FVC is missing (NaN)"),
    "infinite": (with_row(2, f"{KEYS[2]},2000,inf"), "Confidence is infinite"),
    "overflow": (with_row(2, f"{KEYS[2]},2000,1e400"), "Confidence is infinite"),
    "text": (with_row(2, f"{KEYS[2]},two thousand,100"), "FVC is not a number"),
    "thousands separator": (with_row(2, f'{KEYS[2]},"2,000",100'), "FVC is not a number"),
    "underscore digits": (with_row(2, f"{KEYS[2]},2_000,100"), "FVC is not a number"),
    "other digits": (with_row(2, f"{KEYS[2]},٢٠٠٠,100"), "FVC is not a number"),
    "zero Confidence": (with_row(2, f"{KEYS[2]},2000,0"), "Confidence is not above 0"),
    "negative Confidence": (with_row(2, f"{KEYS[2]},2000,-70"), "Confidence is not above 0"),
    "negative FVC": (with_row(2, f"{KEYS[2]},-5,100"), "FVC is not above 0"),
    "absurd FVC": (with_row(2, f"{KEYS[2]},2000000,100"), "FVC is not above 0 and at most 10,000"),
    "short row": (with_row(2, f"{KEYS[2]},2000"), "without exactly 3 fields (line 4 has 2)"),
    "long row": (with_row(2, f"{KEYS[2]},1,1,1"), "without exactly 3 fields (line 4 has 4)"),
    "open quote": (with_row(2, f'"{KEYS[2]},1,1'), "not CSV"),
    "spreadsheet": (b"PK\x03\x04rest", "spreadsheet"),
    "image": (b"\x89PNG\r\n", "PNG"),
    "JSON": ('[{"Patient_Week": "P0_0"}]', "JSON"),
    "UTF-16": (table(*ROWS).encode("utf-16"), "UTF-16"),
    "Latin-1": (table(*ROWS, "\xe9,1,1").encode("latin-1"), "not UTF-8"),
    "NUL bytes": (table(*ROWS) + "\0", "NUL"),
    "damaged gzip": (gzip.compress(table(*ROWS).encode())[:-9], "gzip file is damaged"),
    "not really gzip": (b"\x1f\x8bnonsense", "gzip file is damaged"),
    "huge field": (with_row(2, f'{KEYS[2]},"{"9" * 200_000}",1'), "not CSV"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_bad_submission_is_invalid_and_says_why(kind: str) -> None:
    text, reason = BAD[kind]
    verdict = check(text)
    assert not verdict.valid
    assert verdict.table is None
    assert reason in verdict.sentence()
    assert verdict.sentence().startswith("Submission invalid! ")


def test_all_problems_are_named_at_once() -> None:
    rows = [*ROWS[3:], "P9_9,nan,-1", ROWS[5], f"{KEYS[0]},inf,abc"]
    said = check(table(*rows)).sentence()
    for part in (
        "missing by",
        "unknown",
        "duplicate",
        "(NaN)",
        "infinite",
        "not a number",
        "above 0",
    ):
        assert part in said


def test_many_faults_of_a_kind_are_counted_and_three_are_shown() -> None:
    said = check(table(*(f"{key},nan,1" for key in KEYS))).sentence()
    assert (
        "FVC is missing (NaN) in 15 rows (line 2: 'nan', line 3: 'nan', line 4: 'nan', ...)" in said
    )


def test_gzip_bomb_is_refused_without_being_unpacked() -> None:
    bomb = gzip.compress(b"0" * 30_000_000)
    verdict = check_submission(bomb, form=OSIC_FORM, expected_keys=KEYS, max_bytes=1_000_000)
    assert "larger than" in verdict.sentence()


def test_endless_rows_are_not_all_read() -> None:
    rows = [f"x{i},1,1" for i in range(20_000)]
    assert "the rest was not read" in check(table(*rows)).sentence()


def test_millions_of_lines_take_little_memory() -> None:
    """The file is 20 MB; splitting it whole would hold ten million strings."""
    data = f"{HEADER}\n".encode() + b"ab\n" * 7_000_000
    tracemalloc.start()
    verdict = check_submission(data, form=OSIC_FORM, expected_keys=KEYS, max_bytes=len(data))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "the rest was not read" in verdict.sentence()
    assert peak < 6 * len(data)


def test_line_numbers_count_quoted_newlines_and_blank_lines() -> None:
    text = f'{HEADER},note\n\n{KEYS[0]},1,1,"two\nlines"\n{KEYS[1]},nan,1,x\n'
    assert "FVC is missing (NaN) in 1 row (line 5" in check(text).sentence()


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_get_a_verdict_and_never_an_exception(data: bytes) -> None:
    for prefix in (b"", HEADER.encode() + b"\n", b"\x1f\x8b"):
        assert not check(prefix + data).valid


@settings(max_examples=50, deadline=None)
@given(st.permutations(range(len(KEYS))), st.integers(0, 2**32 - 1))
def test_written_table_reads_back_bit_for_bit_in_any_row_order(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    fvc, sigma = rng.uniform(1, 9000, len(KEYS)), rng.uniform(1e-9, 1e9, len(KEYS))
    rows = [
        f"{KEYS[i]},{fvc[i]!r},{sigma[i]!r}".replace("np.float64(", "").replace(")", "")
        for i in order
    ]
    found = check(table(*rows)).table
    assert found is not None
    np.testing.assert_array_equal(found.values["FVC"], fvc)
    np.testing.assert_array_equal(found.values["Confidence"], sigma)


def test_file_round_trip(tmp_path: Path) -> None:
    values = {"FVC": np.linspace(1, 3000, len(KEYS)), "Confidence": np.full(len(KEYS), 0.1 + 0.2)}
    path = tmp_path / "submission.csv"
    write_submission(path, SubmissionTable(KEYS, values), form=OSIC_FORM)
    assert read_keys(path, "Patient_Week") == KEYS
    back = read_submission(path, form=OSIC_FORM, expected_keys=KEYS)
    np.testing.assert_array_equal(back.values["FVC"], values["FVC"])


def test_errors_carry_their_type(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match="empty"):
        read_submission(b"", form=OSIC_FORM, expected_keys=KEYS)
    for path in (tmp_path / "none.csv", tmp_path):
        with pytest.raises(InputError, match="give a submission file"):
            read_submission(path, form=OSIC_FORM, expected_keys=KEYS)
    with pytest.raises(InputError, match="prepare"):
        read_keys(tmp_path / "none.csv", "Patient_Week")


def test_stream_of_any_kind_is_read() -> None:
    assert check_submission(
        io.BytesIO(table(*ROWS).encode()), form=OSIC_FORM, expected_keys=KEYS
    ).valid


def test_gzip_of_countless_empty_members_is_refused_at_once() -> None:
    bomb = gzip.compress(b"") * 50_000
    verdict = check(bomb)
    assert "more than 8 members" in verdict.problems[0]


def test_gzip_cut_short_is_damaged_not_valid() -> None:
    whole = gzip.compress(table(*ROWS).encode())
    for length in (5, 15, len(whole) // 2, len(whole) - 1):
        assert "damaged" in check(whole[:length]).problems[0]


def test_the_size_of_a_table_is_limited_by_its_expected_rows() -> None:
    verdict = check(table(*ROWS) + "x" * 3 * 2**20)
    assert "the table is larger than" in verdict.problems[0]


def test_a_header_of_countless_columns_is_refused_before_its_rows_are_split() -> None:
    wide = HEADER + "," * 200_000
    (problem,) = check(wide + "\n" + "," * 200_000).problems
    assert "200,003 columns" in problem


def test_a_number_too_large_to_be_scored_is_a_problem() -> None:
    (problem,) = check(with_row(0, f"{KEYS[0]},2000,1.7e308")).problems
    assert "Confidence is not above 0 and at most 1,000,000,000 ml" in problem
