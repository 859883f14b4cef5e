"""The agent that submits the sample submission as it is: the floor of every comparison."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path


def copy_sample(source: Path, target: Path, name: str) -> None:
    """Copy the sample submission, which some competitions have inside an archive only."""
    if (source / name).is_file():
        shutil.copyfile(source / name, target)
        return
    for archive in sorted(source.rglob("*.zip")):
        with zipfile.ZipFile(archive) as zipped:
            for member in zipped.namelist():
                if Path(member).name == name:
                    target.write_bytes(zipped.read(member))
                    return
    raise SystemExit(f"there is no {name} in {source}, nor in a .zip there")


if __name__ == "__main__":
    copy_sample(
        Path("input"),
        Path("submission/submission.csv"),
        os.environ.get("TIDEGAUGE_SAMPLE", "sample_submission.csv"),
    )
