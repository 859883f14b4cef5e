"""Graders of a checkout run in their own interpreter, whatever they do."""

from __future__ import annotations

import os
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tidegauge.bench.mlebench.client import Worker, WorkerError
from tidegauge.bench.mlebench.competition import CheckoutPrepared
from tidegauge.errors import InputError

MadeGrader = Callable[..., CheckoutPrepared]
START = """
import os, sys, time
import pandas as pd
from mlebench.grade_helpers import InvalidSubmissionError

def grade(submission, answers):
"""


def body(text: str) -> str:
    return START + textwrap.indent(textwrap.dedent(text).strip(), "    ") + "\n"


def sample_of(prepared: CheckoutPrepared) -> bytes:
    return prepared.sample.read_bytes()


def test_what_a_grader_prints_changes_nothing(with_grader: MadeGrader) -> None:
    prepared = with_grader(
        body(
            """
            print('{"score": 1}' * 10_000)
            print("label", file=sys.stderr)
            os.write(1, b"more"); os.write(2, b"more")
            return 0.25
            """
        )
    )
    assert prepared.score(sample_of(prepared)) == 0.25


def test_a_grader_sees_no_argument_variable_or_file_of_ours(
    with_grader: MadeGrader, monkeypatch: pytest.MonkeyPatch, bubblewrap: None
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_OPERATOR", "s3cret")
    prepared = with_grader(
        body(
            f"""
            found = []
            for top, folders, files in os.walk("/"):
                if top == "/":
                    folders[:] = [f for f in folders if f not in ("proc", "sys", "usr")]
                for name in files:
                    path = os.path.join(top, name)
                    if name in ("test.csv", "source.txt", "profile.json") or "decoys-" in name:
                        found.append(path)
            found += [n for n, v in os.environ.items() if "s3cret" in v]
            found += [a for a in sys.argv if a]
            found += [p for p in ({str(Path.home())!r},) if os.path.exists(p)]
            raise InvalidSubmissionError(repr(found))
            """
        )
    )
    with prepared.worker(prepared.answers) as worker:
        fault = worker.grade(sample_of(prepared)).fault
    assert fault is not None
    assert fault.message == "[]"


def test_a_grader_has_no_network_and_leaves_no_file(
    with_grader: MadeGrader, tmp_path: Path, bubblewrap: None
) -> None:
    mark = tmp_path / "mark"
    prepared = with_grader(
        body(
            f"""
            import socket
            reached = []
            for place in ({str(mark)!r}, "/etc/mark", __file__ + ".mark", "/usr/mark"):
                try:
                    open(place, "w").write("x")
                    if not place.startswith({str(tmp_path)!r}):
                        reached.append(place)
                except OSError:
                    pass
            open("mark-in-place", "w").write("x")
            try:
                socket.create_connection(("192.0.2.1", 80), timeout=1)
                reached.append("network")
            except OSError as error:
                if "unreachable" not in str(error):
                    reached.append(str(error))
            raise InvalidSubmissionError(repr(reached))
            """
        )
    )
    with prepared.worker(prepared.answers) as worker:
        fault = worker.grade(sample_of(prepared)).fault
    assert fault is not None
    assert fault.message == "[]"
    assert not mark.exists()


def test_graders_get_fresh_copies_each_time(with_grader: MadeGrader) -> None:
    prepared = with_grader(
        body(
            """
            n = len(answers)
            answers.drop(answers.index, inplace=True)
            submission.drop(submission.index, inplace=True)
            return n
            """
        )
    )
    assert [prepared.score(sample_of(prepared)) for _ in range(3)] == [60, 60, 60]


def test_an_int_stays_an_int_and_a_numpy_number_becomes_plain(with_grader: MadeGrader) -> None:
    prepared = with_grader(body("import numpy as np\nreturn np.int64(7)"))
    grade = prepared.grade(prepared.sample)
    assert grade.score == 7
    assert isinstance(grade.score, int)


@pytest.mark.parametrize(
    "crash",
    [
        "os._exit(3)",
        "os.kill(os.getpid(), 9)",
        "import ctypes; ctypes.string_at(0)",
        "os.close(int(open('/proc/self/cmdline').read().split(chr(0))[4]))\nreturn 1",
    ],
)
def test_a_worker_that_dies_is_a_fault_and_the_next_call_starts_another(
    with_grader: MadeGrader, crash: str
) -> None:
    guard = "if submission.iloc[0, 1] != 20.0:\n" + "\n".join(
        f"    {line}" for line in crash.splitlines()
    )
    prepared = with_grader(body(f"{guard}\nreturn 0.5"))
    good = sample_of(prepared)
    bad = good.replace(b"20.0", b"21.0")
    assert prepared.score(good) == 0.5
    with prepared.worker(prepared.answers) as worker, pytest.raises(WorkerError):
        worker.grade(bad)
    grade = prepared.grade(bad)  # the sample still grades, so the submission is at fault
    assert not grade.valid
    assert "WorkerError" in grade.problems[-1]
    assert prepared.score(good) == 0.5


def test_a_grader_that_takes_for_ever_is_ended(with_grader: MadeGrader) -> None:
    prepared = with_grader(body("time.sleep(10_000)"))
    with prepared.worker(prepared.answers) as worker:
        worker.seconds = 3.0
        with pytest.raises(WorkerError, match="no answer after 3 seconds"):
            worker.grade(sample_of(prepared))


def test_processes_that_a_grader_leaves_behind_end_with_its_worker(
    with_grader: MadeGrader, bubblewrap: None
) -> None:
    prepared = with_grader(
        body(
            """
            for _ in range(3):
                if os.fork() == 0:
                    os.setsid()
                    os.execvp("sleep", ["sleep", "98765.4321"])
            return 0.5
            """
        )
    )
    with prepared.worker(prepared.answers) as worker:
        assert worker.grade(sample_of(prepared)).score == 0.5
        assert wait_for_processes(3)
    assert wait_for_processes(0)


def wait_for_processes(expected: int) -> bool:
    for _ in range(400):
        if count_processes("98765.4321") == expected:
            return True
        time.sleep(0.05)
    return False


def count_processes(word: str) -> int:
    found = 0
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            found += word.encode() in (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
    return found


def test_memory_is_limited(with_grader: MadeGrader) -> None:
    prepared = with_grader(body("big = bytearray(30 * 2**30)\nreturn 0.5"))
    competition = prepared.competition
    with Worker(
        competition.checkout, competition.config.grade_fn, prepared.answers, memory_bytes=2 * 2**30
    ) as worker:
        fault = worker.grade(sample_of(prepared)).fault
    assert fault is not None
    assert fault.type == "MemoryError"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("sys.exit(0)", "SystemExit"),
        ("return None", "TypeError"),
        ("return 'high'", "TypeError"),
        ("raise RecursionError('x' * 10**6)", "RecursionError"),
        ("class E(Exception):\n    __str__ = lambda self: 1 / 0\nraise E", "E"),
        ("raise InvalidSubmissionError('no\\nway')", "InvalidSubmissionError"),
    ],
)
def test_whatever_a_grader_raises_or_returns_is_named(
    with_grader: MadeGrader, text: str, kind: str
) -> None:
    prepared = with_grader(body(text))
    with prepared.worker(prepared.answers) as worker:
        fault = worker.grade(sample_of(prepared)).fault
        assert fault is not None
        assert fault.type == kind
        assert "\n" not in fault.sentence()
        assert len(fault.sentence()) < 400
        assert fault.invalid == (kind == "InvalidSubmissionError")


def test_a_grader_that_cannot_be_imported_is_our_fault_not_the_submissions(
    with_grader: MadeGrader,
) -> None:
    prepared = with_grader("import no_such_package\n")
    with pytest.raises(InputError, match="no_such_package"):
        prepared.grade(prepared.gold)


def test_a_grader_that_forges_replies_is_not_believed(with_grader: MadeGrader) -> None:
    prepared = with_grader(
        body(
            """
            import socket
            number = next(n for n in range(3, 1024) if os.path.exists(f"/proc/self/fd/{n}")
                          and "socket" in os.readlink(f"/proc/self/fd/{n}"))
            socket.socket(fileno=os.dup(number)).send(b'{"seconds": "long"}')
            return 0.5
            """
        )
    )
    with prepared.worker(prepared.answers) as worker, pytest.raises(WorkerError, match="no sense"):
        worker.grade(sample_of(prepared))


def test_the_worker_is_not_root(with_grader: MadeGrader, bubblewrap: None) -> None:
    prepared = with_grader(
        body(
            """
            try:
                open("/proc/sys/kernel/core_pattern", "r+")
                raise InvalidSubmissionError("writable")
            except OSError:
                raise InvalidSubmissionError(str(os.getuid()))
            """
        )
    )
    with prepared.worker(prepared.answers) as worker:
        fault = worker.grade(sample_of(prepared)).fault
    assert fault is not None
    assert fault.message == "65534"
    assert os.getpid()  # ours lives
