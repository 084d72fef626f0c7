"""How every result is shown: tables and facts on a console, in a notebook, as Markdown, LaTeX, CSV, JSON and a page."""

from cxc_eccv.presentation.shown_result import Section, ShownResult, list_facts

__all__ = ["Section", "ShownResult", "list_facts"]
