"""One self-contained HTML page from plain blocks: it opens from disk without network or script."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

from tidegauge import __version__
from tidegauge.io import atomic_write


@dataclass(frozen=True)
class Text:
    """A paragraph."""

    text: str
    kind: str = "text"


@dataclass(frozen=True)
class Remark:
    """A remark that stands out."""

    text: str
    kind: str = "warning"


@dataclass(frozen=True)
class Table:
    """A table of ready-made cells; the first column is text, the others numbers.

    `links` may give an anchor for each row's first cell.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    links: Sequence[str] = ()
    kind: str = "table"


@dataclass(frozen=True)
class Figure:
    """A chart as an SVG element, with the sentence that says what it shows."""

    svg: str
    caption: str
    kind: str = "figure"


@dataclass(frozen=True)
class Image:
    """A picture as PNG bytes."""

    png: bytes
    caption: str
    kind: str = "image"

    @property
    def address(self) -> str:
        """The picture as a data address, so that the page needs no second file."""
        return "data:image/png;base64," + base64.b64encode(self.png).decode()


@dataclass(frozen=True)
class Facts:
    """Pairs of label and value."""

    pairs: Sequence[tuple[str, str]]
    kind: str = "facts"


@dataclass(frozen=True)
class Card:
    """A titled group of blocks; cards of a grid stand side by side where there is room."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""


@dataclass(frozen=True)
class Grid:
    """Cards side by side."""

    cards: Sequence[Card]
    kind: str = "grid"


Block = Text | Remark | Table | Figure | Image | Facts | Grid


@dataclass(frozen=True)
class Section:
    """A titled part of the page."""

    title: str
    blocks: Sequence[Block]
    anchor: str = ""


@dataclass(frozen=True)
class Page:
    """A title, a sentence below it, and sections."""

    title: str
    subtitle: str
    sections: Sequence[Section] = field(default_factory=tuple)


def render_page(page: Page) -> str:
    """Return the page as HTML; every text is escaped, only charts are taken as they are."""
    import jinja2

    source = resources.files("tidegauge.report").joinpath("page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(source).render(page=page, version=__version__)


def write_page(page: Page, path: Path) -> None:
    """Write the page, whole or not at all."""
    with atomic_write(path) as handle:
        handle.write(render_page(page))
