"""What a person who fills in a file must know: what is asked, and what to write where."""

from __future__ import annotations

from collections.abc import Iterator

from cxc_eccv.studies.asking.schemes import Details, Scheme

__all__ = ["describe_answers", "describe_detail"]

HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file; change nothing else in it. What is left empty was not answered: answer all questions of a
sheet, or none.
"""


def describe_answers(scheme: Scheme, *, columns: bool = False) -> str:
    """A page in Markdown, for people who fill in cells of a table (``columns``) or JSON."""
    head = HEAD.format(title=scheme.title, instructions="\n\n".join(scheme.instructions), question=scheme.question)
    return "\n".join([head, *(_table_lines(scheme) if columns else _json_lines(scheme))]) + "\n"


def describe_detail(scheme: Scheme, detail: Details) -> str:
    """When a group of further choices is asked for."""
    after = detail.after or " and ".join(own.name for own in scheme.answers if own.asks)
    return f"{detail.label} One or more, with {after} alone."


def _json_lines(scheme: Scheme) -> Iterator[str]:
    yield '- `worker`: your name or number, as `"w1"`.'
    if scheme.criteria:
        yield f"- `answer`: an object with {' and '.join(f'`{name}`' for name in scheme.criteria)}, each true or false:"
        yield from _choices(scheme.criteria)
    elif scheme.scale:
        yield "- `answer`: a number:"
        yield from _choices(_marks(scheme))
    else:
        yield "- `answer`: one of these, in quotes:"
        yield from _choices({own.name: own.label for own in scheme.answers})
    if scheme.details:
        yield '- `details`: an object with a list for each group that is asked for, as `{"%s": ["%s"]}`.' % (  # noqa: UP031
            scheme.details[0].name,
            next(iter(scheme.details[0].choices)),
        )
    for own in scheme.details:
        yield f"  - `{own.name}`: {describe_detail(scheme, own)}"
        yield from (f"  {line}" for line in _choices(own.choices))
    yield "- `remark`: what you like, or nothing."
    yield "- `seconds`: how long the answer took, or null."


def _table_lines(scheme: Scheme) -> Iterator[str]:
    yield "- `worker`: your name or number, in every row that you answer."
    if scheme.scale:
        yield "- `answer`: a number, with a point before its decimals:"
        yield from _choices(_marks(scheme))
    elif scheme.answers:
        yield "- `answer`: one of these:"
        yield from _choices({own.name: own.label for own in scheme.answers})
    yield from (f"- `{name}`: yes or no. {label}" for name, label in (scheme.criteria or {}).items())
    for own in scheme.details:
        yield f"- `{own.name}`: {describe_detail(scheme, own)} Between two stands a semicolon."
        yield from _choices(own.choices)
    yield "- `remark`: what you like in one line, or nothing."
    yield "- `seconds`: how long the answer took, or nothing."


def _marks(scheme: Scheme) -> dict[str, str]:
    low = scheme.scale[0] if scheme.scale else 0.0
    return {f"{low + number:g}": text for number, text in enumerate(scheme.marks)}


def _choices(choices: dict[str, str]) -> Iterator[str]:
    return (f"  - `{name}`: {label}" for name, label in choices.items())
