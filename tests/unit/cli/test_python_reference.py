"""The Python reference is what the docstrings are now."""

from __future__ import annotations

from pathlib import Path

import tidegauge
import tidegauge.horizon as th
from tidegauge.cli.python_reference import call_text, page_text, to_markdown

PAGE = Path(__file__).parents[3] / "docs" / "python-api.md"


def test_the_page_is_what_make_docs_would_write() -> None:
    assert PAGE.read_text(encoding="utf-8") == page_text(), "run `make docs`"


def test_every_public_name_has_a_section() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names = [*th.__all__, *tidegauge.bench.__all__, *tidegauge.fvc.__all__]
    assert [name for name in names if f"\n### {name}\n" not in text] == []
    assert "\n#### Runs.from_frame\n" in text
    assert " at 0x" not in text


def test_a_signature_and_the_sections_of_a_docstring() -> None:
    def grow(level: float, *, rate: float = 0.5, log: object = th.half_normal(1)) -> str:
        """Raise a level.

        Parameters
        ----------
        level : float
            In ``mm``
            above datum.

        Returns
        -------
        str

        Examples
        --------
        >>> 1 + 1
        2
        """
        return f"{level}{rate}{log}"

    assert (
        call_text(grow, "grow")
        == "grow(level: float, *, rate: float = 0.5, log: object = ...) -> str"
    )
    assert "".join(to_markdown((grow.__doc__ or "").replace("\n        ", "\n"))) == (
        "Raise a level.\n**Parameters**\n- `level` (float): In `mm` above datum.\n"
        "**Returns**\n- `str`\n**Examples**\n```pycon\n>>> 1 + 1\n2\n```\n"
    )
