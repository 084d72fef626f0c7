"""The instructions beside questions that people answer in a file: what each key or column takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from cxc_eccv.studies.asking.questionnaire import Handout
from cxc_eccv.studies.asking.schemes import Widget

HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file, and change nothing else in it. Empty cells are not answers. A sheet counts when all of its
questions are answered.

- `worker`: your name or number, with every answer."""

JSON = """\
- In JSON, yes and no are true and false in an object `answer`, such as `{"describes": true, "follows": false}`; ticks
  are lists in an object `details`, such as `{"shortcomings": ["grammar"]}`; names are in quotes."""

TABLE = "- In the table, separate several ticks by semicolons, and write numbers with a decimal point."

FOOT = """\
- `remark`: a remark in one line, or nothing.
- `seconds`: how long the answer took, or nothing."""


def write_instructions(handout: Handout, *, columns: bool = False) -> str:
    """The instructions in Markdown, for a table (``columns``) or JSON."""
    scheme = handout.scheme
    paragraphs = "\n\n".join([*handout.texts.consent, *scheme.instructions, *handout.texts.examples])
    head = HEAD.format(title=scheme.title, instructions=paragraphs, question=scheme.question)
    lines = chain(*map(_describe, scheme.widgets()))
    return "\n".join([head, *lines, TABLE if columns else JSON, FOOT]) + "\n"


def _describe(widget: Widget) -> Iterator[str]:
    choices = widget.get("choices", {})
    if widget["kind"] == "slider":
        kind = "number" if widget["step"] is None else "whole number"
        text = f"a {kind} from {widget['low']:g} to {widget['high']:g}."
        choices = {f"{widget['low'] + place:g}": text for place, text in enumerate(widget["marks"])}
    elif widget["kind"] == "ticks":
        asked_with = widget["after"] or " and ".join(widget["asked_with"] or ())
        text = f"{widget['label']} One or more{f', only with {asked_with}' if asked_with else ''}."
        text += f" {widget['alone']} excludes the others." if widget["alone"] else ""
    else:
        text = f"yes or no. {widget['label']}" if widget["kind"] == "yes_no" else "one of these."
    yield f"- `{widget['name']}`: {text}"
    yield from (f"  - `{name}`: {label}" for name, label in choices.items())
