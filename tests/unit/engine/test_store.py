"""A NetCDF file of somebody else can neither lead to other files nor ask for absurd memory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from tidegauge.engine.store import check_netcdf
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


@pytest.mark.parametrize("spoil", [external, link_out, virtual, absurd])
def test_files_that_lead_elsewhere_or_ask_too_much_are_refused(
    spoil: Callable[[h5py.File, Path], None], tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"keys")
    with h5py.File(tmp_path / "x.nc", "w") as file:
        spoil(file, secret)
    with pytest.raises(InputError, match=r"link|another file|asks for"):
        check_netcdf(tmp_path / "x.nc")


def test_an_ordinary_file_is_accepted_and_another_kind_is_not(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.nc", "w") as file:
        file.create_dataset("posterior/x", data=np.arange(5.0))
    check_netcdf(tmp_path / "x.nc")
    (tmp_path / "text").write_text("no netCDF")
    with pytest.raises(InputError, match="not a NetCDF"):
        check_netcdf(tmp_path / "text")
