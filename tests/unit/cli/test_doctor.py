"""The doctor sees what is there, what is missing and what is broken, and survives all of it."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from calls import Call
from tidegauge.cli import doctor


def findings(call: Call, code: int) -> dict[str, dict[str, Any]]:
    done = call("doctor", "--json")
    assert done.code == code, done.err
    answer = json.loads(done.out)
    assert answer["ok"] == (code == 0)
    return {finding["name"]: finding for finding in answer["findings"]}


def test_a_sound_installation_is_called_so(call: Call) -> None:
    found = findings(call, code=0)
    for name in ("python", "cores", "numpy", "pymc", "scikit-learn", "pillow", "pyyaml"):
        assert found[name]["status"] == "ok", found[name]
    assert found["numpy"]["found"] == importlib.metadata.version("numpy")
    assert {"extra inspect", "extra dask", "extra dvc"} <= found.keys()
    assert "numpy" in call("doctor").out


def test_what_is_optional_is_missing_with_its_remedy(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    version = importlib.metadata.version

    def without(name: str) -> str:
        if name in ("inspect-ai", "dvc"):
            raise importlib.metadata.PackageNotFoundError(name)
        return version(name)

    monkeypatch.setattr(importlib.metadata, "version", without)
    monkeypatch.setattr(shutil, "which", lambda name, **_: None)
    found = findings(call, code=0)
    assert found["extra inspect"]["remedy"] == "pip install 'tidegauge[inspect]'"
    assert found["extra dvc"]["status"] == "missing"
    for name in ("C compiler", "bubblewrap", "chromium"):
        assert found[name]["status"] == "missing"
        assert found[name]["remedy"]


@pytest.mark.parametrize("fault", ["absent", "too old", "does not import"])
def test_a_broken_library_is_named_with_its_remedy(
    fault: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    version, import_module = importlib.metadata.version, importlib.import_module

    def other_version(name: str) -> str:
        if name == "altair" and fault == "absent":
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.1" if name == "altair" and fault == "too old" else version(name)

    def failing_import(name: str) -> Any:
        if name == "altair" and fault == "does not import":
            raise OSError("libfoo.so: cannot open shared object file")
        return import_module(name)

    monkeypatch.setattr(importlib.metadata, "version", other_version)
    monkeypatch.setattr(doctor.importlib, "import_module", failing_import)
    found = findings(call, code=1)["altair"]
    assert found["status"] == "broken"
    assert found["remedy"].startswith("pip install --force-reinstall 'altair")
    assert "broken: altair" in call("doctor").err


def test_it_answers_where_numpy_and_rich_do_not_import(tmp_path: Path) -> None:
    for name in ("numpy", "rich", "msgspec", "yaml"):
        (tmp_path / f"{name}.py").write_text("raise ImportError('damaged on purpose')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "sys.argv = ['tidegauge', 'doctor']\nfrom tidegauge.cli.main import main\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "broken: numpy" in done.stderr
    assert "damaged on purpose" in done.stderr


def test_a_source_tree_that_is_not_installed_is_said_to_be_one(
    call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_metadata(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", no_metadata)
    assert findings(call, code=0)["installation"]["status"] == "missing"


def test_a_terminal_gets_a_table_that_keeps_square_brackets(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "pip install 'tidegauge[x]'"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    doctor._print_table([doctor.Finding("extra x", doctor.MISSING, "none", "y", remedy)])
    assert remedy in capsys.readouterr().out
