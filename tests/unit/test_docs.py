"""Every command and every Python example in README and docs runs as printed."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from calls import Call

ROOT = Path(__file__).parents[2]
Run = Callable[..., subprocess.CompletedProcess[str]]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Guides with servers and background jobs are run whole by tests/unit/bench/test_docs.py.
ELSEWHERE = ("bench.md", "mlebench.md", "adding-a-competition.md")
# A machine's own folders and a registry's address, spelt so that this file holds none of them.
FORBIDDEN = [f"/{name}/" for name in ("work", "root", "farm")] + ["index-{}".format("url")]
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.M | re.S)


def blocks(page: Path) -> list[tuple[str, str]]:
    return BLOCK.findall(page.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if blocks(page) and page.name not in ELSEWHERE],
    ids=lambda page: page.name,
)
def test_examples_run_in_order(
    page: Path, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, which has loaded and compiled once what every command needs."""
    monkeypatch.chdir(tmp_path)
    for language, text in blocks(page):
        if language == "python":
            exec(compile(text, page.name, "exec"), {"__name__": "__main__"})
        else:
            for command in commands(text):
                said = call(*command)
                assert said.code == 0, (command, said.err[-2000:])


def commands(text: str) -> list[list[str]]:
    """Return the arguments of each command in a block of shell."""
    lines = re.sub(r"\\\n\s*", " ", text).splitlines()
    found = [shlex.split(line, comments=True) for line in lines]
    for words in filter(None, found):
        assert words[0] == "tidegauge", f"only tidegauge commands can be checked: {words}"
    return [words[1:] for words in found if words]


def test_the_first_example_runs_as_a_program(tidegauge: Run, tmp_path: Path) -> None:
    first = next(text for language, text in blocks(ROOT / "README.md") if language == "sh")
    done = tidegauge(*commands(first)[0], cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    assert any(tmp_path.iterdir())


def test_readme_begins_with_the_two_commands_and_they_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^make (\w+)|`make (\w+)`", readme, re.M)
    assert len(targets) >= 5
    for target in map("".join, targets):
        assert re.search(rf"^{target}:", makefile, re.M), target
    assert readme.index("make demo") < readme.index("make test") < readme.index("##")


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_project_speaks_of_itself_alone() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in listed.stdout.splitlines():
        if name.startswith(".ci/") or name == "tests/unit/test_docs.py":
            continue
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        for word in FORBIDDEN:
            assert word not in text, (name, word)
