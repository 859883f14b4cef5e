"""Copied code is found under new names; unrelated code is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tidegauge.bench.plagiarism import compare_code, mark_report
from tidegauge.errors import InputError

ORIGINAL = '''
def weighted_median(values, weights):
    """Return the weighted median."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    total, half = 0.0, sum(weights) / 2
    for index in order:
        total += weights[index]
        if total >= half:
            return values[index]
    raise ValueError("no weight")

def blend(predictions, scores, power=2.0):
    best = max(scores)
    weights = [(score / best) ** power for score in scores]
    return [weighted_median(row, weights) for row in zip(*predictions)]
'''
RENAMED = (
    ORIGINAL.replace("values", "xs").replace("weights", "ws").replace("order", "ranking")
    .replace("blend", "ensemble").replace('"""Return the weighted median."""', "# mine")
)  # fmt: skip
UNRELATED = """
import socket
class Listener:
    def __init__(self, port):
        self.server = socket.create_server(("", port))
    def __iter__(self):
        while True:
            client, address = self.server.accept()
            with client:
                yield client.recv(1024).decode().upper()
"""


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    code, known = tmp_path / "code", tmp_path / "known"
    (code / "deep").mkdir(parents=True)
    known.mkdir()
    (known / "winner.py").write_text(ORIGINAL)
    (known / "other.py").write_text(UNRELATED)
    (code / "deep" / "mine.py").write_text(RENAMED)
    (code / "data.csv").write_text("1,2\n")
    return code, known


def test_renamed_copy_ranks_first_and_unrelated_code_last(places: tuple[Path, Path]) -> None:
    matches = compare_code(*places)
    assert [Path(match.reference).name for match in matches] == ["winner.py", "other.py"]
    assert matches[0].similarity > 0.9
    assert matches[1].similarity < 0.2


def test_notebook_cells_are_compared_as_code(places: tuple[Path, Path], tmp_path: Path) -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# words"]},
        {"cell_type": "code", "source": RENAMED.splitlines(keepends=True)},
    ]
    notebook = tmp_path / "mine.ipynb"
    notebook.write_text(json.dumps({"cells": cells}))
    assert compare_code(notebook, places[1])[0].similarity > 0.9


def test_threshold_disqualifies_in_the_report(places: tuple[Path, Path], tmp_path: Path) -> None:
    matches = compare_code(*places)
    report = tmp_path / "report.json"
    report.write_text('{"competition_id": "x", "score": 1.0}')
    assert mark_report(report, matches, threshold=0.5) is True
    marked = json.loads(report.read_text())
    assert marked["disqualified"] is True
    assert marked["similarity"]["reference"].endswith("winner.py")
    assert marked["score"] == 1.0
    assert mark_report(report, matches, threshold=1.0) is (matches[0].similarity >= 1.0)


def test_places_without_code_are_refused(places: tuple[Path, Path], tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    for place in (empty, tmp_path / "nowhere"):
        with pytest.raises(InputError, match="give code to compare"):
            compare_code(place, places[1])
    (empty / "binary.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="no source file"):
        compare_code(empty, places[1])
    (empty / "x.json").write_text("[]")
    with pytest.raises(InputError, match="not a report"):
        mark_report(empty / "x.json", compare_code(*places), threshold=0.5)


def test_empty_source_file_matches_nothing(places: tuple[Path, Path]) -> None:
    (places[0] / "empty.py").write_text("")
    matches = [m for m in compare_code(*places) if m.code.endswith("empty.py")]
    assert [match.similarity for match in matches] == [0.0, 0.0]
