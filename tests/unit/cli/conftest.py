"""The command line in this process: fast, and an exception that escapes it fails the test."""

from __future__ import annotations

import pytest

from calls import Call, Said
from tidegauge.cli.main import main


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Call:
    """Run the command line in this process."""

    def run(*arguments: object) -> Said:
        with pytest.raises(SystemExit) as exit_:
            main([str(argument) for argument in arguments])
        code = exit_.value.code
        assert isinstance(code, int)
        return Said(code, *capsys.readouterr())

    return run
