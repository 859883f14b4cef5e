"""The workspace: what an agent sees, and what is read back of it.

Submissions are copied while the agent runs, checked and scored only after. Nothing here depends on
the answers before its processes have ended: neither the time it takes nor the space it needs can
tell the agent how good a submission is.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from dataclasses import dataclass
from pathlib import Path

from tidegauge.bench.competition_folder import Prepared
from tidegauge.bench.preparation import link_or_copy
from tidegauge.bench.run.isolation import walk
from tidegauge.bench.run.options import Limits
from tidegauge.errors import InputError
from tidegauge.io import make_folder

DEFAULT_URL = "http://127.0.0.1:5001"
SUBMISSION = Path("submission", "submission.csv")
MAX_COPIES = 32
MAX_COPIED_BYTES = 256 * 2**20
# Where MLE-bench's image has what a workspace holds.
MLEBENCH_PLACES = {
    "input": "/home/data",
    "submission": "/home/submission",
    "code": "/home/code",
    "logs": "/home/logs",
    "instructions.txt": "/home/instructions.txt",
    "validate_submission.sh": "/home/validate_submission.sh",
}

_INSTRUCTIONS = """\
{title}

WHAT TO PRODUCE
Write your predictions to submission/submission.csv in this folder. The task, the files, the
columns and the score are described in input/description.md; the data is in input/. Whatever is at
submission/submission.csv when the run ends is graded, once. Write a first valid file early and
improve it: an unfinished improvement must not cost you the whole.

CHECKING THE FORMAT
    ./validate_submission.sh submission/submission.csv
asks the validation service ({url}, or the one named by SERVER_URL) whether the file is well
formed, and lists what is wrong. It never tells a score. Use it as often as you like.

BUDGET
{budget}
The environment tells the rest: TIDEGAUGE_DEADLINE (end of the run, Unix seconds), TIDEGAUGE_STEPS
and SERVER_URL. Processes still running at the end are stopped, children too.

RULES
1. These rules win wherever the competition's own text says otherwise.
2. Predictions must come from code that you run here, on the data in input/. Do not label test rows
   by hand or by looking at them one by one.
3. Do not look for, copy or adapt other people's solutions to this competition.
4. Do not look for the test answers. They are not in this folder.
5. Leave the code that made the submission in this folder; it is compared with known solutions.
"""

_VALIDATE = """\
#!/bin/sh
# Ask the validation service whether a submission is well formed. It never tells a score.
# Usage: ./validate_submission.sh [FILE]; SERVER_URL names another service.
file=${{1:-submission/submission.csv}}
if [ ! -f "$file" ]; then
  echo "no file at $file" >&2
  exit 2
fi
exec curl --silent --show-error --form "file=@$file" "${{SERVER_URL:-{url}}}/validate"
"""


def make_workspace(
    prepared: Prepared,
    out: Path | str,
    *,
    limits: Limits | None = None,
    counts_steps: bool = True,
    url: str = DEFAULT_URL,
    link: bool = False,
    layout: str = "tidegauge",
    without_leaks: bool = False,
) -> Path:
    """Write instructions.txt, input/, submission/ and validate_submission.sh to a new folder.

    Parameters
    ----------
    link : bool
        Link scans instead of copying them: only where the agent cannot write to its input, since
        it would write to the prepared data and to what that was made from.
    layout : str
        ``mlebench`` also makes code/ and logs/, where agents for MLE-bench's image write.
    without_leaks : bool
        Leave out the public files that are known to give answers away.

    Raises
    ------
    InputError
        `out` is there already and is not empty, or would hold the prepared data itself.
    """
    limits = limits or Limits()
    out = Path(out).resolve()
    if prepared.private.is_relative_to(out):
        raise InputError(f"{out}: holds the private answers; choose another folder")
    make_folder(out)
    if any(out.iterdir()):
        raise InputError(f"{out}: is not empty; choose a new folder for the workspace")
    _fill_input(prepared, out / "input", link=link, without_leaks=without_leaks)
    (out / "submission").mkdir()
    if layout == "mlebench":
        for name in ("code", "logs"):
            (out / name).mkdir()
    budget = limits.sentence(counts_steps=counts_steps)
    text = _INSTRUCTIONS.format(title=prepared.competition.title, url=url, budget=budget)
    (out / "instructions.txt").write_text(text, encoding="utf-8")
    script = out / "validate_submission.sh"
    script.write_text(_VALIDATE.format(url=url), encoding="utf-8")
    script.chmod(0o755)
    return out


def _fill_input(prepared: Prepared, target: Path, *, link: bool, without_leaks: bool) -> None:
    """Copy the files, which agents like to overwrite, or link them where they cannot."""
    public = prepared.public
    target.mkdir()

    def hidden(folder: str, names: list[str]) -> list[str]:
        below = Path(folder).relative_to(public)
        return [name for name in names if without_leaks and prepared.leaks(below / name)]

    place = _link_readable if link else shutil.copyfile
    for path in sorted(public.iterdir()):
        if path.is_dir():
            shutil.copytree(path, target / path.name, copy_function=place, ignore=hidden)
        elif not hidden(str(public), [path.name]):
            place(str(path), str(target / path.name))
    for name in walk(target):  # whoever the agent is, it may read them
        if os.path.isdir(name):
            os.chmod(name, 0o755)
        elif os.stat(name).st_nlink == 1:
            os.chmod(name, 0o644)


def _link_readable(source: str, target: str) -> str:
    """Link a file that everyone may read; copy another, whose permissions are not ours to widen."""
    if os.stat(source).st_mode & stat.S_IROTH:
        return link_or_copy(source, target)
    return str(shutil.copyfile(source, target))


def read_submission_file(workspace: Path, *, private: Path, max_bytes: int) -> bytes | None:
    """Return the bytes of the submission; see `read_agents_file`."""
    return read_agents_file(workspace, SUBMISSION, private=private, max_bytes=max_bytes)


def read_agents_file(workspace: Path, name: Path, *, private: Path, max_bytes: int) -> bytes | None:
    """Return the bytes of a file in the workspace, or None if there is none of the agent's own.

    No link is followed on the way, and no other name of a private file is read: the grader may
    read the answers, so it must not be led to them.
    """
    no_follow = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(workspace, no_follow | os.O_DIRECTORY))
        for part in name.parts[:-1]:
            opened.append(os.open(part, no_follow | os.O_DIRECTORY, dir_fd=opened[-1]))
        # Non-blocking: a FIFO without a writer would hold the grader for ever.
        opened.append(os.open(name.parts[-1], no_follow | os.O_NONBLOCK, dir_fd=opened[-1]))
        status = os.fstat(opened[-1])
        if not stat.S_ISREG(status.st_mode) or _is_answer(status, private):
            return None
        with os.fdopen(os.dup(opened[-1]), "rb") as handle:
            return handle.read(max_bytes + 1)
    except OSError:
        return None
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _is_answer(status: os.stat_result, private: Path) -> bool:
    answers = (path.stat() for path in private.rglob("*"))
    return any(os.path.samestat(status, answer) for answer in answers)


@dataclass(frozen=True, slots=True)
class Best:
    """The best of the copies: what the agent's last choice cost, for the operator.

    Attributes
    ----------
    score : float or None
        Of the best valid copy.
    data : bytes or None
        That copy.
    count : int
        Different valid submissions among the copies.
    """

    score: float | None = None
    data: bytes | None = None
    count: int = 0


class Submissions:
    """Copies of the submission as it changed, and the one to be graded.

    Where there are too many copies every second one is dropped: what stays is spread over the run.
    """

    def __init__(self, prepared: Prepared, workspace: Path, folder: Path) -> None:
        self._prepared, self._workspace, self._folder = prepared, workspace, folder
        self._stamp: tuple[int, int] | None = None
        self._last: bytes | None = None
        self._copies: list[Path] = []
        self._number = 0
        self._lock = threading.Lock()
        self._is_frozen = False
        self._final: bytes | None = None

    def look(self) -> None:
        """Copy the submission if it changed; no fault of the agent's files is raised."""
        with self._lock:
            if self._is_frozen:
                return
            with contextlib.suppress(OSError):
                status = os.lstat(self._workspace / SUBMISSION)
                stamp = (status.st_mtime_ns, status.st_size)
                if stamp != self._stamp and (data := self._read()) is not None:
                    self._stamp = stamp
                    self._keep(data)

    def freeze(self) -> bytes | None:
        """Return the submission as it is at the first call: the one that counts."""
        with self._lock:
            if not self._is_frozen:
                self._is_frozen = True
                self._final = self._read()
                if self._final is not None:
                    with contextlib.suppress(OSError):
                        self._keep(self._final)
            return self._final

    def best(self) -> Best:
        """Score the copies; only for when the agent's processes have ended."""
        found = Best()
        for path in self._copies:
            data = path.read_bytes()
            if (score := self._prepared.score(data)) is not None:
                better = found.score is None or self._prepared.competition.better(
                    score, found.score
                )
                kept = (score, data) if better else (found.score, found.data)
                found = Best(*kept, found.count + 1)
        return found

    def forget(self) -> None:
        """Remove the copies."""
        for path in self._copies:
            with contextlib.suppress(OSError):
                path.unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()
        self._copies = []

    def _read(self) -> bytes | None:
        return read_submission_file(
            self._workspace, private=self._prepared.private, max_bytes=self._prepared.max_bytes
        )

    def _keep(self, data: bytes) -> None:
        if data == self._last or len(data) > self._prepared.max_bytes:
            return
        self._last = data
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{self._number:06d}.csv"
        self._number += 1
        try:
            path.write_bytes(data)
        except OSError:
            path.unlink(missing_ok=True)
            raise
        self._copies.append(path)
        most = min(MAX_COPIES, max(2, MAX_COPIED_BYTES // self._prepared.max_bytes))
        if len(self._copies) > most:
            for path in self._copies[:-1:2]:
                path.unlink(missing_ok=True)
            self._copies = sorted({*self._copies} - {*self._copies[:-1:2]})
