"""The base of all results that are shown: each declares its tables and facts, and every form follows from them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from cxc_eccv.tables import (
    Table,
    rows_to_csv,
    tables_to_console,
    tables_to_latex,
    tables_to_markdown,
    tables_to_rows,
)
from cxc_eccv.terminal import markdown_text, print_shown, shown_html, shown_text, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a page: its tables below a heading. The navigation has ``name``, or the title."""

    anchor: str
    title: str
    tables: Sequence[Table] = ()
    lead: str = ""
    name: str = ""


def list_facts(facts: Mapping[str, object]) -> list[tuple[str, str]]:
    """Titles and texts of the facts that are known."""
    return [(title, str(value)) for title, value in facts.items() if value]


class ShownResult(ABC):
    """A result that shows itself; ``print`` shows its tables, and a notebook shows them as HTML.

    A result declares :meth:`tables`, and as far as it has them :meth:`all_tables`, :meth:`footnotes`, :meth:`facts`,
    :meth:`record` and :meth:`sections`. Its page is ``page_template``, a template of a package that extends
    ``page.html.jinja``, with :meth:`page_content`.

    Example:
        >>> class Scores(ShownResult):
        ...     title = "Scores of clip"
        ...     def tables(self):
        ...         return [Table([("",), ("R@1",)], [["COCO 5K", "41.7"]], "Scores")]
        ...     def facts(self):
        ...         return [("Seed", "0")]
        >>> print(Scores())
        Scores
        <BLANKLINE>
                     R@1
         ────────────────
          COCO 5K   41.7
        >>> print(Scores().to_csv())
        table,,R@1
        Scores,COCO 5K,41.7
        <BLANKLINE>
        >>> "<dt>Seed</dt><dd>0</dd>" in Scores().to_html()
        True
    """

    __slots__ = ()

    page_template: ClassVar[tuple[str, str]] = ("page.html.jinja", "cxc_eccv.presentation")

    @property
    def title(self) -> str:
        """What the page and the Markdown are called."""
        return ""

    @property
    def data(self) -> str:
        """The split and the edition of the data in words, as the tables name it."""
        return next((table.data for table in self.tables()), "")

    @abstractmethod
    def tables(self) -> Sequence[Table]:
        """The tables of a console and of a notebook."""

    def all_tables(self) -> Sequence[Table]:
        """The tables of files, which have room for more."""
        return self.tables()

    def footnotes(self) -> list[str]:
        """Lines about all tables."""
        return []

    def facts(self) -> list[tuple[str, str]]:
        """Titles and texts of what the numbers were computed from: data, versions, command."""
        return []

    def record(self) -> Mapping[str, object]:
        """All numbers and facts, for a file of JSON."""
        raise NotImplementedError(f"{type(self).__name__} has no form as JSON")

    def records(self) -> Sequence[Mapping[str, object]]:
        """The rows of the CSV: those of the tables, unless a result has unrounded values."""
        return tables_to_rows(self.all_tables())

    def sections(self) -> list[Section]:
        """The sections of the page before that of the facts."""
        return [Section("results", "Results", self.all_tables())]

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """What the result's own template shows beside sections and facts; ``images`` is a folder of photographs."""
        return {}

    def rendered(self) -> RenderableType:
        """The tables and the notes, for a console of rich."""
        from rich.console import Group
        from rich.text import Text

        return Group(tables_to_console(self.tables()), *(Text(visible(note)) for note in self.footnotes()))

    def show(self, console: Console | None = None) -> None:
        """Print what ``print`` does, with colours where the terminal has them."""
        print_shown(self.rendered(), console)

    def __str__(self) -> str:
        return shown_text(self.rendered())

    def _repr_html_(self) -> str:
        return shown_html(self.rendered())

    def to_markdown(self) -> str:
        """The title, the notes and all tables as Markdown."""
        heading = [f"# {markdown_text(self.title)}"] if self.title else []
        return "\n\n".join([*heading, *map(markdown_text, self.footnotes()), tables_to_markdown(self.all_tables())])

    def to_latex(self) -> str:
        """The tables of the console as LaTeX, for a paper."""
        return tables_to_latex(self.tables())

    def to_csv(self) -> str:
        """The rows of :meth:`records` as CSV."""
        return rows_to_csv(self.records())

    def to_json(self) -> str:
        """The content of :meth:`record` as JSON."""
        return json.dumps(self.record(), indent=2, allow_nan=False) + "\n"

    def to_html(self, images: str | Path | None = None) -> str:
        """The page: one self-contained file; everything from data is escaped.

        ``images`` is a folder with the photographs, at any depth, for pages that show some.
        """
        from cxc_eccv.presentation.page import render_page

        content: dict[str, object] = {
            "title": self.title,
            "data": self.data,
            "sections": self.sections(),
            "footnotes": self.footnotes(),
            "facts": self.facts(),
        }
        return render_page(*self.page_template, content | self.page_content(images))
