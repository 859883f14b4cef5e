"""A NetCDF file of somebody else can neither lead to other files nor ask for absurd memory."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tidegauge.engine.store import check_netcdf, read_npz
from tidegauge.errors import InputError


def external(file: h5py.File, secret: Path) -> None:
    file.create_dataset("posterior/x", (4,), "u1", external=[(str(secret), 0, 4)])


def link_out(file: h5py.File, secret: Path) -> None:
    file["posterior/x"] = h5py.ExternalLink(str(secret), "/")


def virtual(file: h5py.File, secret: Path) -> None:
    layout = h5py.VirtualLayout((4,), "u1")
    layout[:] = h5py.VirtualSource(str(secret), "x", (4,))
    file.create_virtual_dataset("posterior/x", layout)


def absurd(file: h5py.File, secret: Path) -> None:
    file.create_dataset("posterior/x", (2**40,), "f8", chunks=(1024,))


def filled_in(file: h5py.File, secret: Path) -> None:
    """Five gigabytes that take no room in the file."""
    file.create_dataset("posterior/x", (5 * 2**27,), "f8", chunks=(1024,), fillvalue=1.0)


def huge_chunk(file: h5py.File, secret: Path) -> None:
    """A chunk is read whole, however small the array."""
    file.create_dataset("posterior/x", (4,), "f8", chunks=(2**28,), maxshape=(None,))


@pytest.mark.parametrize("spoil", [external, link_out, virtual, absurd, filled_in, huge_chunk])
def test_files_that_lead_elsewhere_or_ask_too_much_are_refused(
    spoil: Callable[[h5py.File, Path], None], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"keys")
    with h5py.File(tmp_path / "x.nc", "w") as file:
        spoil(file, secret)
    with pytest.raises(InputError, match=r"link|another file|more bytes"):
        check_netcdf(tmp_path / "x.nc")


def test_an_ordinary_file_is_accepted_and_another_kind_is_not(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file.create_dataset("posterior/x", data=np.arange(5.0))
    check_netcdf(tmp_path / "x.nc")
    (tmp_path / "text").write_text("no netCDF")
    with pytest.raises(InputError, match="not a NetCDF"):
        check_netcdf(tmp_path / "text")


def test_an_archive_of_arrays_cannot_ask_for_absurd_memory(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.arange(5), mask=np.zeros((200, 500, 500), bool))
    found = read_npz(tmp_path / "x.npz", (tmp_path / "x.npz").read_bytes())
    assert found["x"].tolist() == [0, 1, 2, 3, 4]
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(9):
            with archive.open(f"{number}.npy", "w") as member:
                for _ in range(128):
                    member.write(bytes(2**20))
    with pytest.raises(InputError, match="asks for"):
        read_npz(tmp_path / "bomb.npz", (tmp_path / "bomb.npz").read_bytes())
    with pytest.raises(InputError, match="damaged"):
        read_npz(tmp_path / "x.npz", b"no archive")
