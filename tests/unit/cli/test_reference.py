"""The reference page is what the commands say now."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegauge.cli.main import cli
from tidegauge.cli.reference import walk_commands

PAGE = Path(__file__).parents[3] / "docs" / "cli-reference.md"


def test_the_page_is_what_make_docs_would_write() -> None:
    # In a process of its own: click keeps the help option of a command's first caller.
    command = [sys.executable, "-m", "tidegauge.cli.reference"]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert PAGE.read_text(encoding="utf-8") == written, "run `make docs`"


def test_every_command_has_a_section_and_an_example() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for context, command in walk_commands(cli):
        assert f"# {context.command_path}\n" in text
        if not hasattr(command, "commands"):
            assert f"Example: {context.command_path}" in (command.help or ""), context.command_path
