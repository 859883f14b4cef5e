"""The other end of a worker: starts it in a sandbox, asks it, and outlives it."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tidegauge.bench.competition_folder import BusyError
from tidegauge.bench.mlebench import worker as inside
from tidegauge.bench.mlebench.checkout import Checkout
from tidegauge.bench.run.isolation import (
    bubblewrap_command,
    bubblewrap_works,
    in_memory,
    make_isolation,
)
from tidegauge.errors import InputError
from tidegauge.system import require_linux

GRADE_SECONDS = 3_600.0  # the slowest known grader needs 25 s
MEMORY_BYTES = 16 * 2**30
_START_SECONDS = 60.0
Reply = dict[str, Any]


class WorkerError(Exception):
    """The worker ended, or did not answer in time: a fault of the grader, or of its environment."""


@dataclass(frozen=True)
class Fault:
    """What a grader raised.

    Attributes
    ----------
    invalid : bool
        It is the grader's own way to reject a submission, not a crash.
    stage : str
        ``read`` where pandas could not read the file, else ``grade``.
    """

    type: str
    message: str
    invalid: bool
    stage: str

    def sentence(self) -> str:
        """Return what a participant is told: one line, of a crash the beginning only."""
        text = " ".join(self.message.split())[:300]
        if self.invalid:
            return text or self.type
        what = (
            "pandas cannot read the file" if self.stage == "read" else "the grader cannot read it"
        )
        return f"{what} ({self.type}: {text})" if text else f"{what} ({self.type})"


@dataclass(frozen=True)
class Graded:
    """What a grader said of a submission.

    Attributes
    ----------
    score : float or None
        As the grader returned it: int stays int, and it may be NaN or infinite.
    """

    score: float | None
    fault: Fault | None
    seconds: float

    @property
    def fault_type(self) -> str | None:
        """The type of what the grader raised, if it did."""
        return None if self.fault is None else self.fault.type


class Worker:
    """One worker of a checkout; threads may share it.

    Parameters
    ----------
    answers : Path
        The answers that submissions are graded against, true or not.
    hidden : sequence of Path
        What its file system must not hold, wherever it lies.
    """

    def __init__(
        self,
        checkout: Checkout,
        grade_fn: str,
        answers: Path,
        *,
        hidden: Sequence[Path] = (),
        seconds: float = GRADE_SECONDS,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        self._checkout, self._grade_fn, self._answers = checkout, grade_fn, answers
        self._hidden, self.seconds, self._memory_bytes = hidden, seconds, memory_bytes
        self._lock = threading.Lock()
        self._started: list[_Running] = []  # one at most
        weakref.finalize(self, _close_all, self._started)

    def grade(self, submission: Path | bytes, *, patience_seconds: float = -1.0) -> Graded:
        """Grade a submission.

        Parameters
        ----------
        patience_seconds : float
            How long to wait for other threads; for ever by default.

        Raises
        ------
        WorkerError
            The worker died or took too long; the next call starts another.
        BusyError
            Others were served for all of the patience.
        """
        reply = self._ask(submission, patience_seconds, do="grade", grade_fn=self._grade_fn)
        fault = Fault(**reply["error"]) if "error" in reply else None
        score = reply.get("score")
        return Graded(float(score) if isinstance(score, str) else score, fault, reply["seconds"])

    def try_grade(self, submission: Path | bytes, *, patience_seconds: float = -1.0) -> Graded:
        """Grade a submission; a worker that dies over it is a fault like any other."""
        try:
            return self.grade(submission, patience_seconds=patience_seconds)
        except WorkerError as error:
            fault = Fault("WorkerError", str(error), invalid=False, stage="grade")
            return Graded(None, fault, 0.0)

    def halves(self, submission: Path | bytes, **options: Any) -> Reply:
        """Score random halves of a submission; see `worker.halves`."""
        return self._ask(submission, -1.0, do="halves", grade_fn=self._grade_fn, **options)

    def _ask(self, submission: Path | bytes, patience_seconds: float, **request: Any) -> Reply:
        if not self._lock.acquire(timeout=patience_seconds):
            raise BusyError
        try:
            if not self._started:
                self._started.append(_start(self._checkout, self._hidden, self._memory_bytes))
                with opened(self._answers) as file:
                    kind = self._answers.suffix
                    loaded = self._started[0].ask([file], self.seconds, do="answers", kind=kind)
                if "error" in loaded:
                    raise WorkerError(f"cannot read the answers: {loaded['error']['message']}")
            with opened(submission) as file:
                return self._started[0].ask([file], self.seconds, **request)
        except WorkerError:
            _close_all(self._started)
            raise
        finally:
            self._lock.release()

    def close(self) -> None:
        """End the process, if there is one; a later call starts another."""
        with self._lock:
            _close_all(self._started)

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _close_all(started: list[_Running]) -> None:
    while started:
        started.pop().close()


@contextlib.contextmanager
def opened(source: Path | bytes) -> Iterator[int]:
    """Yield a descriptor of a file, or of bytes.

    Raises
    ------
    InputError
        The file cannot be read.
    """
    try:
        if isinstance(source, bytes):
            descriptor = in_memory(source)
        else:
            descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise InputError(f"{source!s}: {error.strerror}; give a file that can be read") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class _Running:
    """A process that was started, and the folder it works in."""

    def __init__(
        self, process: subprocess.Popen[bytes], channel: socket.socket, stack: contextlib.ExitStack
    ) -> None:
        self._process, self._channel, self._stack = process, channel, stack

    def ask(self, descriptors: Sequence[int], limit_seconds: float, **request: Any) -> Reply:
        try:
            socket.send_fds(self._channel, [json.dumps(request).encode()], list(descriptors))
        except OSError as error:
            raise WorkerError(f"the worker is gone ({self._ending()})") from error
        deadline = time.monotonic() + limit_seconds
        while not select.select([self._channel], [], [], max(0, deadline - time.monotonic()))[0]:
            if time.monotonic() >= deadline:
                raise WorkerError(f"no answer after {limit_seconds:,.0f} seconds")
        data = self._channel.recv(inside.MAX_PACKET_BYTES)
        if not data:
            raise WorkerError(f"the worker ended ({self._ending()})")
        return _checked(data)

    def _ending(self) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self._process.wait(5)
            number = -code if code < 0 else code - 128
            if number in {signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS}:
                return f"{signal.Signals(number).name}: killed, or out of memory"
            return f"exit code {code}"
        return "it no longer answers"

    def close(self) -> None:
        self._channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # a sandbox ends with its first process
        self._process.wait()
        self._stack.close()


def _checked(data: bytes) -> Reply:
    """Parse a reply: the graders could have written it, so it is not believed blindly."""
    try:
        reply = json.loads(data)
        assert isinstance(reply, dict)
        assert isinstance(reply["seconds"], float | int)
        if "error" in reply:
            Fault(**reply["error"])
        score = reply.get("score")
        assert score is None or isinstance(float(score), float)
    except (ValueError, KeyError, TypeError, AssertionError, RecursionError) as error:
        raise WorkerError(f"the worker's answer makes no sense ({error!r})") from None
    return reply


def _start(checkout: Checkout, hidden: Sequence[Path], memory_bytes: int) -> _Running:
    """Start a worker in a sandbox without network, or as a plain process where there is none."""
    require_linux("graders of MLE-bench")
    with contextlib.ExitStack() as stack:
        place = Path(tempfile.mkdtemp(prefix="tidegauge-grader-"))
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        (place / "input").mkdir()  # where a sandbox shows an agent its data
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(ours.close)
        with theirs:
            script = [inside.__file__, str(theirs.fileno()), str(checkout.root), str(memory_bytes)]
            program = [str(checkout.python), "-I", "-B", *script]
            command, descriptors = program, list[int]()
            if bubblewrap_works():
                mounts = (checkout.root, *python_folders(checkout.python))
                isolation = make_isolation("bwrap", mounts=mounts, hidden=hidden)
                if isolation.user is not None:
                    os.chown(place, isolation.user, isolation.user)
                command, descriptors = stack.enter_context(
                    bubblewrap_command(program, isolation, workspace=place, validator=None)
                )
            process = _popen(command, [theirs.fileno(), *descriptors], place)
        return _Running(process, ours, stack.pop_all())


def _popen(command: list[str], passed: Sequence[int], folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        command,
        cwd=folder,
        env=_environment(),
        pass_fds=passed,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _environment() -> dict[str, str]:
    """Return a small environment: graders have no business with the operator's."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    places = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "TMPDIR": "/tmp"}
    return {**places, **threads, "LANG": "C.UTF-8"}


@cache
def python_folders(python: Path) -> tuple[Path, ...]:
    """Return the folders that an interpreter and its packages live in.

    Raises
    ------
    InputError
        It cannot be run.
    """
    code = "import sys, json; print(json.dumps([sys.prefix, sys.base_prefix, sys.exec_prefix]))"
    try:
        said = subprocess.run(
            [str(python), "-I", "-c", code], capture_output=True, timeout=60, check=True
        )
        prefixes = json.loads(said.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise InputError(
            f"{python}: cannot be run ({error}); give the checkout's Python"
        ) from error
    folders = [*map(Path, prefixes), python.parent, python.resolve().parent]
    return tuple(dict.fromkeys(folder for folder in folders if folder != Path("/")))


def ask_once(checkout: Checkout, **request: Any) -> Reply:
    """Ask a worker that is needed for nothing else.

    Raises
    ------
    WorkerError
        It does not answer.
    """
    running = _start(checkout, (), MEMORY_BYTES)
    try:
        return running.ask([], _START_SECONDS, **request)
    finally:
        running.close()


def run_preparer(
    checkout: Checkout, staging: Path, *, network: bool, seconds: float, **request: Any
) -> Reply:
    """Run a preparer with the operator's rights: the staging folder is all that it may change.

    It reads what Kaggle sent and the operator's own checkout; no agent's file is near. Without
    bubblewrap it runs as a plain process.

    Raises
    ------
    WorkerError
        It ended, or took too long.
    """
    with contextlib.ExitStack() as stack:
        place = staging / "worker"
        place.mkdir(exist_ok=True)
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        stack.callback(ours.close)
        with theirs:
            script = [inside.__file__, str(theirs.fileno()), str(checkout.root), str(2**62)]
            command = [str(checkout.python), "-I", "-B", *script]
            if bubblewrap_works():
                wall = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"]
                rest = ["--bind", str(staging), str(staging), "--chdir", str(place)]
                alone = ["--unshare-pid", "--die-with-parent"]
                net = [] if network else ["--unshare-net"]
                command = ["bwrap", *wall, *rest, *alone, *net, "--", *command]
            environment = {**_environment(), "TMPDIR": str(place), "HOME": str(place)}
            process = subprocess.Popen(
                command,
                cwd=place,
                env=environment,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        running = _Running(process, ours, stack.pop_all())
        try:
            return running.ask([], seconds, do="prepare", **request)
        finally:
            running.close()


def own_python_is_new(checkout: Checkout) -> bool:
    """Whether graders would run in tidegauge's own interpreter, with a pandas too new for some."""
    from importlib.metadata import version

    return checkout.python == Path(sys.executable) and version("pandas").split(".")[0] >= "3"
