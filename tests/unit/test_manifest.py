"""A manifest holds the command that made a result, with the bytes it read."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

from tidegauge.manifest import RecordedCommand, input_sha256, manifest, recorded_command


def test_inputs_are_hashed_uncompressed_and_folders_by_all_their_files(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b"{}\n")
    with gzip.open(tmp_path / "a.jsonl.gz", "wb") as handle:
        handle.write(b"{}\n")
    out = tmp_path / "in" / "out"
    plain, zipped = (input_sha256(tmp_path / n, besides=out) for n in ("a.jsonl", "a.jsonl.gz"))
    assert plain == zipped == hashlib.sha256(b"{}\n").hexdigest()
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "x").write_text("1")
    before = input_sha256(folder, besides=out)
    (folder / "deep" / "x").rename(folder / "deep" / "y")
    renamed = input_sha256(folder, besides=out)
    (folder / "deep" / "y").write_text("2")
    changed = input_sha256(folder, besides=out)
    assert len({before, renamed, changed}) == 3
    out.mkdir()
    (out / "table.csv").write_text("a result that lies in its own input\n")
    assert input_sha256(folder, besides=out) == changed


def test_the_command_is_in_manifests_written_while_it_runs(tmp_path: Path) -> None:
    runs = tmp_path / "runs.jsonl"
    runs.write_text("{}\n")
    command = RecordedCommand(["horizon", "fit", "-"], ["-", str(runs)], "fit")
    with recorded_command(lambda: command):
        described = manifest(kind="k", inputs={"<stdin>": "abc"}, settings={})
    assert described["command"] == {
        "arguments": ["horizon", "fit", "-"],
        "inputs": {"-": "abc", str(runs): input_sha256(runs, besides=tmp_path)},
        "out": "fit",
    }
    assert "command" not in manifest(kind="k", inputs={}, settings={})
