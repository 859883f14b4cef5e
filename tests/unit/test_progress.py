"""Progress speaks on stderr only: bars on a terminal, lines elsewhere, nothing when quiet."""

from __future__ import annotations

import io
import sys

import pytest

import tidegauge.progress
from tidegauge.progress import (
    SILENT,
    BarProgress,
    LineProgress,
    Progress,
    SilentProgress,
    make_progress,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Monotonic seconds that a test sets."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    fake = Clock()
    monkeypatch.setattr(tidegauge.progress, "time", fake)
    return fake


def work(progress: Progress) -> None:
    with progress.step("sampling", total=10) as step:
        step.update(5, "2 divergences")
    with progress.step("reading") as step:
        step.update(1)
    progress.note("[bold]3 rows[/bold] were counted once")


def test_silence_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    work(SILENT)
    assert capsys.readouterr() == ("", "")


def test_lines_name_each_step_and_note_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    work(LineProgress())
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.splitlines() == [
        "sampling ...",
        "reading ...",
        "note: [bold]3 rows[/bold] were counted once",
    ]


def test_lines_come_every_few_seconds_with_the_time_left(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with LineProgress().step("sampling", total=4000) as step:
        for now, done in ((1.0, 500), (6.0, 1000), (7.0, 1200), (12.0, 3000)):
            clock.now = now
            step.update(done, "0 divergences")
    assert capsys.readouterr().err.splitlines() == [
        "sampling ...",
        "sampling: 1,000/4,000, 18 s left, 0 divergences",
        "sampling: 3,000/4,000, 4 s left, 0 divergences",
    ]


def test_no_time_left_is_claimed_before_anything_is_done(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with LineProgress().step("sampling", total=4000) as step:
        clock.now = 6.0
        step.update(0)
    with LineProgress().step("reading") as step:
        clock.now = 12.0
        step.update(50_000)
    assert capsys.readouterr().err.splitlines()[1::2] == ["sampling: 0", "reading: 50,000"]


def test_bars_show_label_count_and_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    work(BarProgress())
    shown = terminal.getvalue()
    assert "sampling" in shown
    assert "10/10" in shown  # a finished step is full
    assert "2 divergences" in shown
    assert "note: [bold]3 rows[/bold] were counted once" in shown  # no markup is read into it


def test_an_exception_passes_through_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", Terminal())
    for progress in (SILENT, LineProgress(), BarProgress()):
        with pytest.raises(KeyError), progress.step("work", total=2):
            raise KeyError


class Closed(io.StringIO):
    """A stderr whose reader has left."""

    tried = 0

    def write(self, text: str) -> int:
        self.tried += 1
        raise BrokenPipeError


def test_work_goes_on_when_nobody_reads_of_it(
    monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    stderr = Closed()
    monkeypatch.setattr(sys, "stderr", stderr)
    progress = LineProgress()
    with progress.step("work", total=2) as step:
        clock.now = 6.0
        step.update(1)
    progress.note("done")
    assert stderr.tried == 3  # the step, its update and the note: none ended the work


@pytest.mark.parametrize(
    ("stderr", "quiet", "kind"),
    [
        (Terminal(), False, BarProgress),
        (io.StringIO(), False, LineProgress),
        (Terminal(), True, SilentProgress),
        (None, False, SilentProgress),  # closed by the caller: print would go to stdout
    ],
)
def test_the_kind_follows_stderr(
    monkeypatch: pytest.MonkeyPatch, stderr: object, quiet: bool, kind: type
) -> None:
    monkeypatch.setattr(sys, "stderr", stderr)
    assert type(make_progress(quiet=quiet)) is kind
