"""What a person who fills in a file must know: what is asked, and what to write where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cxc_eccv.studies.asking.questionnaire import Handout
from cxc_eccv.studies.asking.schemes import Details, Scheme

HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file; change nothing else in it. What is left empty was not answered. A sheet counts when all of
its questions are answered.
"""


def describe_answers(handout: Handout, *, columns: bool = False) -> str:
    """A page in Markdown, for people who fill in cells of a table (``columns``) or JSON."""
    scheme = handout.scheme
    paragraphs = [*handout.texts.consent, *scheme.instructions, *handout.texts.examples]
    head = HEAD.format(title=scheme.title, instructions="\n\n".join(paragraphs), question=scheme.question)
    return "\n".join([head, *(_table_lines(scheme) if columns else _json_lines(scheme))]) + "\n"


def _describe_detail(scheme: Scheme, detail: Details) -> str:
    """When a group of further choices is asked for."""
    after = detail.after or " and ".join(own.name for own in scheme.answers if own.asks)
    alone = f" {detail.alone} alone or not at all." if detail.alone else ""
    return f"{detail.label} One or more{'' if detail.always else f', with {after} alone'}.{alone}"


def _list_answers(scheme: Scheme, quoted: str) -> Iterator[str]:
    if scheme.scale:
        low, high = scheme.scale
        kind = "whole number" if scheme.step else "number"
        yield f"- `answer`: a {kind} from {low:g} to {high:g}{quoted if scheme.step is None else ''}:"
        yield from _choices({f"{low + place:g}": text for place, text in enumerate(scheme.marks)})
    elif scheme.answers:
        yield f"- `answer`: one of these{', in quotes' if quoted == '' else ''}:"
        yield from _choices({own.name: own.label for own in scheme.answers})


def _json_lines(scheme: Scheme) -> Iterator[str]:
    yield '- `worker`: your name or number, as `"w1"`.'
    if scheme.criteria:
        yield f"- `answer`: an object with {' and '.join(f'`{name}`' for name in scheme.criteria)}, each true or false:"
        yield from _choices(scheme.criteria)
    yield from _list_answers(scheme, "")
    if scheme.details:
        first = scheme.details[0]
        example = f'{{"{first.name}": ["{next(iter(first.choices))}"]}}'
        yield f"- `details`: an object with a list for each group that is asked for, as `{example}`."
    for own in scheme.details:
        yield f"  - `{own.name}`: {_describe_detail(scheme, own)}"
        yield from (f"  {line}" for line in _choices(own.choices))
    yield "- `remark`: what you like, or nothing."
    yield "- `seconds`: how long the answer took, or null."


def _table_lines(scheme: Scheme) -> Iterator[str]:
    yield "- `worker`: your name or number, in every row that you answer."
    yield from _list_answers(scheme, ", with a point before its decimals")
    yield from (f"- `{name}`: yes or no. {label}" for name, label in (scheme.criteria or {}).items())
    for own in scheme.details:
        yield f"- `{own.name}`: {_describe_detail(scheme, own)} Between two stands a semicolon."
        yield from _choices(own.choices)
    yield "- `remark`: what you like in one line, or nothing."
    yield "- `seconds`: how long the answer took, or nothing."


def _choices(choices: Mapping[str, str]) -> Iterator[str]:
    return (f"  - `{name}`: {label}" for name, label in choices.items())
