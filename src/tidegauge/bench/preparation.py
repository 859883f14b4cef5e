"""From raw data to a prepared competition: resumable, and visible only when whole."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

from tidegauge.bench.competition_folder import (
    READY,
    SOURCE,
    STAGING,
    Prepared,
    finish_prepare,
    open_prepared,
)
from tidegauge.bench.competitions.base import Competition
from tidegauge.bench.competitions.registry import get_competition
from tidegauge.errors import InputError
from tidegauge.io import make_folder
from tidegauge.manifest import MANIFEST, manifest, write_json
from tidegauge.progress import SILENT, Progress
from tidegauge.system import folder_lock

SALT = "salt.txt"  # in private/: what the simulated data was made with, beside the seed
_REPEATABLE = """
## About this copy

The data was simulated with a salt that its maker chose, so that it can be made again. Who knows the
salt can compute the answers: a score on this copy proves nothing.
"""


def prepare_competition(
    competition: Competition | str,
    raw: Path | str,
    out: Path | str,
    *,
    verify: bool = True,
    copy: bool = False,
    seed: int | None = None,
    progress: Progress = SILENT,
) -> Prepared:
    """Split raw data into out/public and out/private.

    Parameters
    ----------
    raw : Path
        A folder with the competition's files, or a .zip of it.
    verify : bool
        Compare the tables with the checksums of those made from the original data.
    copy : bool
        Copy scans even where they could be linked.
    seed : int, optional
        Of simulated raw data, for the manifest.

    Raises
    ------
    InputError
        The raw data cannot be used, or the checksums differ.

    Examples
    --------
    >>> prepare_competition("osic", "kaggle/osic.zip", "prepared")  # doctest: +SKIP
    """
    if isinstance(competition, str):
        competition = get_competition(competition)
    raw, out = Path(raw), make_folder(Path(out))
    try:
        with folder_lock(out):
            finish_prepare(out)
            staging = staging_folder(out, raw)
            try:
                _fill(competition, raw, staging, verify=verify, copy=copy, progress=progress)
            except InputError:
                shutil.rmtree(staging)  # of unusable data nothing is worth keeping
                raise
            settings = {"competition": competition.name, "verified": verify, "seed": seed}
            described = manifest(kind="bench/prepare", inputs={}, settings=settings)
            write_json(staging / MANIFEST, described)
            (staging / READY).touch()
            finish_prepare(out)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"{out}: cannot be prepared there ({reason}); make room") from error
    return open_prepared(competition, out)


def staging_folder(out: Path, raw: Path) -> Path:
    """Return the staging folder; what a killed preparation of the same data left is kept."""
    staging = out / STAGING
    try:
        source = f"{raw.resolve()} {raw.stat().st_mtime_ns}"
    except OSError:
        source = ""
    marker = staging / "source"
    if staging.exists() and not (marker.is_file() and marker.read_text() == source):
        shutil.rmtree(staging)
    staging.mkdir(mode=0o700, exist_ok=True)  # it holds answers, unpacked and split
    marker.write_text(source)
    return staging


def _fill(
    competition: Competition,
    raw: Path,
    staging: Path,
    *,
    verify: bool,
    copy: bool,
    progress: Progress,
) -> None:
    private = make_folder(staging / "private")
    private.chmod(0o700)
    public = make_folder(staging / "public")
    folder = _raw_folder(raw, staging, progress)
    competition.prepare(folder, public, private)
    (public / "description.md").write_text(competition.description, encoding="utf-8")
    if not raw.resolve().is_relative_to(staging.parent.resolve()):  # as simulated data is, for now
        (private / SOURCE).write_text(str(raw.resolve()), encoding="utf-8")
    for answer in private.iterdir():
        answer.chmod(0o600)
    if verify:
        _verify(competition, staging)
    if competition.scans is not None:
        _place_scans(competition.scans(folder, public), copy=copy, progress=progress)
    shutil.rmtree(staging / "raw", ignore_errors=True)


def simulate_and_prepare(
    competition: Competition | str,
    out: Path | str,
    *,
    seed: int = 1,
    scans: bool = False,
    salt: str | None = None,
    progress: Progress = SILENT,
) -> Prepared:
    """Prepare a competition from simulated raw data of the same shape.

    Parameters
    ----------
    salt : str, optional
        Mixed into the seed. By default 128 random bits, kept in private/: who has the simulator,
        as every agent has, cannot compute the answers. With a salt of one's own the same data can
        be made again, by agents too, and the description says so.

    Examples
    --------
    >>> prepared = simulate_and_prepare("surge", "prepared", seed=1)  # doctest: +SKIP
    """
    if isinstance(competition, str):
        competition = get_competition(competition)
    out = make_folder(Path(out))
    secret = salt if salt is not None else secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix=".simulated-", dir=out) as name:
        raw = Path(name) / "raw"
        competition.simulate(raw, _salted(seed, secret), scans, progress)
        described = competition
        if salt is not None:
            described = replace(competition, description=competition.description + _REPEATABLE)
        prepare_competition(described, raw, out, verify=False, seed=seed, progress=progress)
    prepared = open_prepared(competition, out)
    (prepared.private / SALT).write_text(secret + "\n", encoding="utf-8")
    (prepared.private / SALT).chmod(0o600)
    return prepared


def _salted(seed: int, salt: str) -> int:
    """Return a seed of 128 bits that nobody without the salt can guess."""
    return int.from_bytes(hashlib.sha256(f"{seed}\0{salt}".encode()).digest()[:16], "big")


def _verify(competition: Competition, staging: Path) -> None:
    differ = []
    for name, expected in competition.checksums.items():
        with open(staging / name, "rb") as handle:
            found = hashlib.file_digest(handle, "md5").hexdigest()
        if found != expected:
            differ.append(f"{name} is {found}, expected {expected}")
    if differ:
        raise InputError(
            f"the raw data is not the original of {competition.competition_id}: its tables have "
            f"other MD5 checksums ({'; '.join(differ)}); give the original files, "
            "or pass --no-verify to use these"
        )


def _place_scans(moves: list[tuple[Path, Path]], *, copy: bool, progress: Progress) -> None:
    with progress.step("placing scans", total=len(moves)) as step:
        for done, (source, target) in enumerate(moves):
            step.update(done, target.name)
            if target.is_dir():
                continue  # whole: it was renamed into place
            part = target.with_name(f".{target.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            make_folder(target.parent)
            shutil.copytree(source, part, copy_function=shutil.copy2 if copy else link_or_copy)
            os.rename(part, target)


def link_or_copy(source: str, target: str) -> str:
    """Hard-link a file, or copy it where the two places share no file system."""
    with contextlib.suppress(OSError):
        os.link(source, target, follow_symlinks=True)
        return target
    return str(shutil.copy2(source, target))


def _raw_folder(raw: Path, staging: Path, progress: Progress) -> Path:
    """Return the folder that holds the tables, unpacking a .zip first."""
    if not raw.exists():
        raise InputError(f"{raw}: no such folder or .zip; give the raw data, or pass --simulate")
    if raw.is_dir():
        archives = sorted(raw.glob("*.zip"))
        if any(raw.glob("*.csv")) or len(archives) != 1:
            return raw
        raw = archives[0]
    if not zipfile.is_zipfile(raw):
        raise InputError(f"{raw}: neither a folder nor a .zip; give the raw data")
    folder = unpack(raw, make_folder(staging / "raw"), progress)
    inner = [path for path in folder.iterdir() if path.is_dir()]
    if not any(folder.glob("*.csv")) and len(inner) == 1:
        return inner[0]  # an archive of a folder rather than of its contents
    return folder


def unpack(archive: Path, folder: Path, progress: Progress) -> Path:
    """Unpack what is not yet there; a member can leave `folder` neither by name nor by link."""
    try:
        with zipfile.ZipFile(archive) as zipped:
            members = [m for m in zipped.infolist() if not m.is_dir()]
            _refuse_too_large(archive, members, folder)
            with progress.step(f"unpacking {archive.name}", total=len(members)) as step:
                for done, member in enumerate(members):
                    step.update(done)
                    _unpack_member(zipped, member, _safe_target(archive, member, folder))
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{archive}: cannot be unpacked ({error}); download it again") from error
    return folder


def _refuse_too_large(archive: Path, members: list[zipfile.ZipInfo], folder: Path) -> None:
    needed, free = sum(m.file_size for m in members), shutil.disk_usage(folder).free
    if needed > free:
        raise InputError(
            f"{archive}: holds {needed:,} bytes, but {folder} has room for {free:,}; make room"
        )


def _safe_target(archive: Path, member: zipfile.ZipInfo, folder: Path) -> Path:
    name = Path(member.filename.replace("\\", "/"))
    is_link = (member.external_attr >> 16) & 0o170000 == 0o120000
    if name.is_absolute() or ".." in name.parts or is_link:
        raise InputError(
            f"{archive}: member {member.filename!r} leads out of the archive; refuse such a file"
        )
    return folder / name


def _unpack_member(zipped: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    if target.is_file() and zlib.crc32(target.read_bytes()) == member.CRC:
        return  # unpacked before the preparation was interrupted
    make_folder(target.parent)
    part = target.with_name(target.name + ".part")
    with zipped.open(member) as source, open(part, "wb") as sink:
        shutil.copyfileobj(source, sink)
    os.replace(part, target)
