"""One self-contained HTML page from plain blocks: it opens from disk without network.

Everything is readable without script; only sorting a table and names on hovering need the few
lines that a page with a sortable table carries.
"""

from __future__ import annotations

import base64
import itertools
import math
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

    `links` may give an anchor for each row's first cell; `keys`, of the same shape as the rows,
    makes the table sortable by them (numbers as numbers, texts as texts); `sorted_by` says which
    column its rows come sorted by, the largest first.
    """

    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    links: Sequence[str] = ()
    keys: Sequence[Sequence[float | str]] = ()
    sorted_by: int | None = None
    kind: str = "table"

    @property
    def sort_keys(self) -> list[list[str]]:
        """The keys as script reads them; what is not a number comes below all numbers."""
        return [[_sort_key(key) for key in row] for row in self.keys]


def _sort_key(key: float | str) -> str:
    if isinstance(key, str) or math.isfinite(key):
        return str(key)
    return "Infinity" if key == math.inf else "-Infinity"


@dataclass(frozen=True)
class Figure:
    """A chart as an SVG element, with the sentence that says what it shows.

    `narrow_svg`, drawn for a telephone, takes its place where the page is narrow.
    """

    svg: str
    caption: str
    narrow_svg: str = ""
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
class Finding:
    """A check in words: `passed` is None where it only informs."""

    title: str
    passed: bool | None
    text: str

    @property
    def verdict(self) -> str:
        """The outcome as a word, so that colour is not all that tells."""
        return {True: "passed", False: "failed", None: "for information"}[self.passed]


@dataclass(frozen=True)
class Findings:
    """Checks in words, one below the other."""

    items: Sequence[Finding]
    kind: str = "findings"


@dataclass(frozen=True)
class Choice:
    """One question that a switch asks, and its answers; the first is chosen at first."""

    question: str
    answers: Sequence[str]


@dataclass(frozen=True)
class Switch:
    """Figures of which the reader's choices show one.

    `figures` has one entry for each combination of answers, the last question's changing fastest;
    `name` tells this switch from the others of the page.
    """

    name: str
    choices: Sequence[Choice]
    figures: Sequence[Figure]
    kind: str = "switch"

    @property
    def panels(self) -> list[tuple[str, Figure]]:
        """Each figure with the CSS selector that holds when its answers are chosen."""
        ranges = [range(len(choice.answers)) for choice in self.choices]
        combinations = itertools.product(*ranges)
        return [
            ("".join(f":has(#{self.name}-{q}-{a}:checked)" for q, a in enumerate(chosen)), figure)
            for chosen, figure in zip(combinations, self.figures, strict=True)
        ]


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


Block = Text | Remark | Table | Figure | Image | Facts | Findings | Switch | Grid


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

    @property
    def is_sortable(self) -> bool:
        """Whether a table of the page can be sorted, for which it needs script."""
        blocks = [block for section in self.sections for block in section.blocks]
        return any(isinstance(block, Table) and bool(block.keys) for block in blocks)


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
