"""What is kept beside a prepared competition: the grader's profile, and the decoys.

They hold what follows from the answers, so they are their owner's alone and hidden from agents.
Folders that MLE-bench prepared are left as they are: where they cannot be written to, the side
files go to the user's cache.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from random import SystemRandom

import msgspec

from tidegauge.bench.mlebench.client import Worker
from tidegauge.bench.mlebench.decoys import decoy_answers
from tidegauge.bench.mlebench.profile import (
    Probe,
    Profile,
    make_spoiler,
    measure,
    patience_seconds,
    probe_of,
)
from tidegauge.bench.mlebench.template import Template
from tidegauge.errors import InputError
from tidegauge.io import atomic_write_bytes, sha256_of
from tidegauge.system import folder_lock

_FILE = "profile.json"


class SideFiles(msgspec.Struct, frozen=True):
    """What was measured of a grader, and which decoys it takes like the true answers.

    Attributes
    ----------
    decoys : str or None
        Name of the file; None if none behaves like the true answers.
    decoy_kind : str or None
        How it was made.
    differing : list of str
        Without decoys: the copies that the last ones were judged otherwise on.
    """

    fingerprint: str
    profile: Profile
    decoys: str | None = None
    decoy_kind: str | None = None
    differing: list[str] = []


def side_folder(root: Path, competition_id: str) -> Path:
    """Return where the side files of a prepared folder go; it need not exist yet."""
    beside = root / "tidegauge"
    if beside.is_dir() or os.access(root, os.W_OK):
        return beside
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    name = f"{competition_id}-{hashlib.sha256(str(root).encode()).hexdigest()[:12]}"
    return Path(cache) / "tidegauge" / "mlebench" / name


def fingerprint(paths: list[Path]) -> str:
    """Return a hash of everything that the side files depend on."""
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.name} {sha256_of(path) if path.is_file() else ''}\n".encode())
    return total.hexdigest()


def read_side_files(folder: Path, expected: str) -> SideFiles | None:
    """Return the side files, None if there are none of these data."""
    try:
        found = msgspec.json.decode((folder / _FILE).read_bytes(), type=SideFiles)
    except (OSError, ValueError):  # msgspec's errors are ValueErrors
        return None
    is_whole = found.decoys is None or (folder / found.decoys).is_file()
    return found if found.fingerprint == expected and is_whole else None


def make_side_files(
    folder: Path,
    expected: str,
    *,
    template: Template,
    answers: Path,
    gold: Path,
    sample: Path,
    worker_for: Callable[[Path], Worker],
) -> SideFiles:
    """Measure the grader and make decoys; who comes second finds what the first made.

    Raises
    ------
    InputError
        They cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.chmod(0o700)
        with folder_lock(folder):
            if (found := read_side_files(folder, expected)) is not None:
                return found
            for old in folder.glob("decoys-*"):
                old.unlink()
            with worker_for(answers) as worker:
                profile = measure(worker, gold, sample, template)
            made = SideFiles(expected, profile)
            if profile.gold.accepts and profile.sample.error is None:
                made = _with_decoys(folder, made, template, answers, gold, sample, worker_for)
            with atomic_write_bytes(folder / _FILE) as handle:
                handle.write(msgspec.json.encode(made))
            (folder / _FILE).chmod(0o600)
            return made
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{folder}: cannot be written ({reason}); make room") from error


def _with_decoys(
    folder: Path,
    made: SideFiles,
    template: Template,
    answers: Path,
    gold: Path,
    sample: Path,
    worker_for: Callable[[Path], Worker],
) -> SideFiles:
    """Keep the first decoys on which every copy gets the verdict that the true answers give it."""
    differing: list[str] = []
    for kind, data in decoy_answers(answers, template, SystemRandom()):
        path = folder / f"decoys-{secrets.token_hex(4)}{answers.suffix}"
        path.touch(mode=0o600)
        path.write_bytes(data)
        with worker_for(path) as worker:
            differing = _differing(made.profile, worker, template, gold, sample)
        if not differing:
            return msgspec.structs.replace(made, decoys=path.name, decoy_kind=kind)
        path.unlink()
    return msgspec.structs.replace(made, differing=differing)


def _differing(
    profile: Profile, worker: Worker, template: Template, gold: Path, sample: Path
) -> list[str]:
    """Return the copies that these answers judge otherwise than the true ones."""
    worker.seconds = patience_seconds(profile.seconds)
    perfect = gold.read_bytes()
    cases: dict[str, tuple[Probe, bytes]] = {
        "gold": (profile.gold, perfect),
        "sample": (profile.sample, sample.read_bytes()),
    }
    copies = make_spoiler(perfect, template).copies()
    cases |= {name: (profile.probes[name], data) for name, data in copies}
    differing = []
    for name, (probe, data) in cases.items():
        found = probe_of(worker.try_grade(data))
        # A crash that depends on the labels is a verdict that depends on them; so is its type.
        if (found.accepts, found.error) != (probe.accepts, probe.error):
            differing.append(name)
    return differing
