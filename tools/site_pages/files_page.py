"""The generated part of the page about files: the entries of a report's provenance."""

from __future__ import annotations

import inspect
import re

from cxc_eccv.types.json_records import OTHERS_FIELD
from cxc_eccv.types.provenance import Provenance

ENTRY = re.compile(r"^    (\w[\w, ]*): (.*(?:\n {8}.*)*)", re.MULTILINE)


def provenance_table() -> str:
    """A row per entry of the provenance, as its docstring explains them."""
    entries = inspect.cleandoc(Provenance.__doc__ or "").partition("Attributes:\n")[2].partition("\nExample:")[0]
    rows = [
        f"| {', '.join(f'`{name}`' for name in names.split(', '))} | {' '.join(text.split()).replace('``', '`')} |"
        for names, text in ENTRY.findall(entries.replace(".\n", "\n"))
        if names != OTHERS_FIELD
    ]
    return "\n".join(["| entry | content |", "|---|---|", *rows])
