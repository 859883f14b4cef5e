"""From what Kaggle sent to a prepared competition, by the checkout's own preparer.

The preparer works on a farm of hard links, which it may change as it likes: the raw data stays as
it is, and is not copied. What it makes is visible only when whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tidegauge.bench.competition_folder import READY, SOURCE, finish_prepare
from tidegauge.bench.mlebench.checkout import DATA, data_folder, open_checkout, pip_name
from tidegauge.bench.mlebench.client import WorkerError, run_preparer
from tidegauge.bench.mlebench.competition import (
    CheckoutCompetition,
    CheckoutPrepared,
    checkout_competition,
    open_checkout_prepared,
)
from tidegauge.bench.preparation import link_or_copy, staging_folder, unpack
from tidegauge.bench.run.isolation import walk
from tidegauge.errors import InputError
from tidegauge.io import make_folder
from tidegauge.manifest import MANIFEST, manifest, write_json
from tidegauge.progress import SILENT, Progress
from tidegauge.system import folder_lock

PREPARE_SECONDS = 24 * 3600.0
_CHECKSUMMED = {".csv", ".json", ".jsonl", ".parquet", ".bson"}


def prepare_checkout(
    competition: CheckoutCompetition,
    raw: Path | str | None,
    out: Path | str | None = None,
    *,
    verify: bool = True,
    network: bool = False,
    progress: Progress = SILENT,
) -> CheckoutPrepared:
    """Prepare a competition of a checkout into out/prepared/public and out/prepared/private.

    Parameters
    ----------
    raw : Path, optional
        A folder or the .zip that Kaggle sent; by default OUT/<id>.zip or OUT/raw.
    out : Path, optional
        By default the competition's folder among MLE-bench's data.
    network : bool
        Let the preparer use the network: freesound-audio-tagging-2019 needs it.

    Raises
    ------
    InputError
        The raw data cannot be used, the preparer fails, or the checksums differ.
    """
    name = competition.competition_id
    folder = make_folder(Path(out) if out is not None else data_folder() / name)
    source = _find_raw(folder, name) if raw is None else Path(raw)
    root = make_folder(folder / "prepared")
    try:
        with folder_lock(root):
            finish_prepare(root)
            staging = staging_folder(root, source)
            _fill(competition, source, staging, network=network, progress=progress)
            if verify and (differ := differing_checksums(competition, staging)):
                shutil.rmtree(staging)
                raise InputError(
                    f"the prepared files of {name} have other MD5 checksums than MLE-bench's "
                    f"({'; '.join(differ)}); give the original data, or pass --no-verify"
                )
            settings = {"competition": competition.name, "verified": verify}
            settings["commit"] = competition.checkout.commit() or ""
            write_json(
                staging / MANIFEST, manifest(kind="bench/prepare", inputs={}, settings=settings)
            )
            (staging / READY).touch()
            finish_prepare(root)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{root}: cannot be prepared there ({reason}); make room") from error
    return open_checkout_prepared(competition, folder)


def prepare_split(
    split: str,
    *,
    jobs: int = 1,
    verify: bool = True,
    network: bool = False,
    progress: Progress = SILENT,
) -> dict[str, str | None]:
    """Prepare every competition of a checkout's split; return what went wrong with each, or None.

    The raw data of each is DATA/<id>/<id>.zip or DATA/<id>/raw. What is prepared already stays.
    """
    checkout = open_checkout()
    names = checkout.split(split)

    def prepare(name: str) -> str | None:
        try:
            competition = checkout_competition(checkout, name)
            try:
                open_checkout_prepared(competition)
            except InputError:
                prepare_checkout(competition, None, verify=verify, network=network)
        except InputError as error:
            return str(error)
        return None

    done: dict[str, str | None] = {}
    # Threads: the preparers are processes of their own.
    with progress.step("preparing", total=len(names)) as step, ThreadPoolExecutor(jobs) as pool:
        for name, fault in zip(names, pool.map(prepare, names), strict=True):
            done[name] = fault
            step.update(len(done), name)
    return done


def _find_raw(folder: Path, name: str) -> Path:
    """Return the raw data as MLE-bench keeps it: one .zip, or raw/."""
    archives = sorted(folder.glob("*.zip"))
    if len(archives) == 1:
        return archives[0]
    if (folder / "raw").is_dir():
        return folder / "raw"
    what = "several .zip files" if archives else "neither a .zip nor raw/"
    raise InputError(
        f"{folder}: holds {what}; put Kaggle's {name}.zip there, or name it by --raw "
        f"(the folder of all data is --data, or {DATA})"
    )


def _fill(
    competition: CheckoutCompetition,
    source: Path,
    staging: Path,
    *,
    network: bool,
    progress: Progress,
) -> None:
    for part in ("raw", "public", "private"):
        shutil.rmtree(staging / part, ignore_errors=True)  # of a preparation that was killed
    if not source.exists():
        raise InputError(f"{source}: no such folder or .zip; give the raw data")
    if not source.is_dir():
        if not zipfile.is_zipfile(source):
            raise InputError(f"{source}: neither a folder nor a .zip; give the raw data")
        original = unpack(source, make_folder(staging / "unpacked"), progress)
    else:
        original = source
    before = _snapshot(original)
    shutil.copytree(original, staging / "raw", copy_function=link_or_copy)
    public, private = make_folder(staging / "public"), make_folder(staging / "private")
    private.chmod(0o700)
    with progress.step(f"preparing {competition.competition_id}"):
        _run(competition, staging, network=network)
    if _snapshot(original) != before:
        raise InputError(
            f"{original}: the preparer of {competition.competition_id} wrote into files of the "
            "raw data, which are links; unpack the data again, and prepare from the .zip"
        )
    for made in (competition.config.answers, competition.config.sample):
        if not (staging / made).is_file():
            raise InputError(
                f"the preparer of {competition.competition_id} did not write {made}; "
                "compare the raw data with Kaggle's"
            )
    (public / "description.md").write_text(competition.description, encoding="utf-8")
    (private / SOURCE).write_text(str(source.resolve()), encoding="utf-8")
    _close_to_others(private)
    for part in ("raw", "unpacked"):
        shutil.rmtree(staging / part, ignore_errors=True)


def _run(competition: CheckoutCompetition, staging: Path, *, network: bool) -> None:
    try:
        reply = run_preparer(
            competition.checkout,
            staging,
            network=network,
            seconds=PREPARE_SECONDS,
            preparer=competition.config.preparer,
            raw=str(staging / "raw"),
            public=str(staging / "public"),
            private=str(staging / "private"),
            link=True,
        )
    except WorkerError as error:
        raise InputError(f"the preparer of {competition.competition_id}: {error}") from error
    if "error" in reply:
        kind, message = reply["error"]["type"], reply["error"]["message"]
        remedy = f"`tidegauge bench check {competition.name}` looks for the cause"
        if kind == "ModuleNotFoundError":
            module = message.rpartition(" ")[2].strip("'")
            python = competition.checkout.python
            remedy = f"{python} -m pip install {pip_name(module)}"
        raise InputError(
            f"the preparer of {competition.competition_id} failed ({kind}: {message}); {remedy}"
        )


def _snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file: links cannot hide that one was written to."""
    found = {}
    for name in walk(folder):
        status = os.lstat(name)
        if os.path.isfile(name):
            found[name] = (status.st_size, status.st_mtime_ns)
    return found


def _close_to_others(private: Path) -> None:
    """Make the answers their owner's alone; a link to raw data becomes a file of its own first."""
    for name in walk(private):
        if os.path.isdir(name):
            os.chmod(name, 0o700)
        else:
            if os.lstat(name).st_nlink > 1:
                shutil.copyfile(name, f"{name}.own")
                os.replace(f"{name}.own", name)
            os.chmod(name, 0o600)


def differing_checksums(competition: CheckoutCompetition, root: Path) -> list[str]:
    """Return how the files of public and private differ from checksums.yaml."""
    differ = []
    for part, expected in competition.checkout.checksums(competition.competition_id).items():
        found = {
            path.name: _md5(path)
            for path in sorted((root / part).iterdir())
            if path.suffix in _CHECKSUMMED and path.name != MANIFEST
        }
        for name in sorted(found.keys() | expected.keys()):
            if found.get(name) != expected.get(name):
                what = "missing" if name not in found else "unknown" if name not in expected else ""
                differ.append(f"{part}/{name} is {what or found[name]}")
    return differ


def _md5(path: Path) -> str:
    with open(path, "rb") as handle:
        return hashlib.file_digest(handle, "md5").hexdigest()
