"""What a person who fills in a file must know: what is asked, and what to write where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cxc_eccv.studies.asking.questionnaire import Handout

HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file; change nothing else in it. What is left empty was not answered. A sheet counts when all of
its questions are answered.

- `worker`: your name or number, with every answer."""

JSON = """\
- In JSON, yes and no are true and false in an object `answer`, as `{"describes": true, "follows": false}`; what is
  ticked are lists in an object `details`, as `{"shortcomings": ["grammar"]}`; names are in quotes."""

TABLE = "- In the table several ticks are parted by semicolons, and numbers have a point before their decimals."

FOOT = """\
- `remark`: what you like in one line, or nothing.
- `seconds`: how long the answer took, or nothing."""


def describe_answers(handout: Handout, *, columns: bool = False) -> str:
    """A page in Markdown, for people who fill in cells of a table (``columns``) or JSON."""
    scheme = handout.scheme
    paragraphs = "\n\n".join([*handout.texts.consent, *scheme.instructions, *handout.texts.examples])
    head = HEAD.format(title=scheme.title, instructions=paragraphs, question=scheme.question)
    lines = [line for widget in scheme.widgets() for line in _describe(widget)]
    return "\n".join([head, *lines, TABLE if columns else JSON, FOOT]) + "\n"


def _describe(widget: Mapping[str, Any]) -> Iterator[str]:
    choices = widget.get("choices", {})
    if widget["kind"] == "slider":
        kind = "number" if widget["step"] is None else "whole number"
        told = f"a {kind} from {widget['low']:g} to {widget['high']:g}."
        choices = {f"{widget['low'] + place:g}": text for place, text in enumerate(widget["marks"])}
    elif widget["kind"] == "ticks":
        asked_with = widget["after"] or " and ".join(widget["asked_with"] or ())
        told = f"{widget['label']} One or more{f', with {asked_with} alone' if asked_with else ''}."
        told += f" {widget['alone']} alone or not at all." if widget["alone"] else ""
    else:
        told = f"yes or no. {widget['label']}" if widget["kind"] == "yes_no" else "one of these."
    yield f"- `{widget['name']}`: {told}"
    yield from (f"  - `{name}`: {label}" for name, label in choices.items())
