"""The page of a fit, made once a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidegauge.report.horizon_page import write_horizon_report


@pytest.fixture(scope="session")
def page_folder(fit_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with page.html of the core fit, and its charts in charts/."""
    folder = tmp_path_factory.mktemp("page")
    write_horizon_report(fit_folder, folder / "page.html", charts=folder / "charts")
    return folder
