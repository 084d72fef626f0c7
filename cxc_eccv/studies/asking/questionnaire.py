"""The questions as people see them, and the questionnaire page for people without an annotation server."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from hashlib import blake2b
from itertools import groupby
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.studies.asking.questions import Question, Questionnaire
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.studies.asking.texts import Texts

Asked = dict[str, Any]
"""One question as a person sees it, without its role."""

ADDRESSES = {"file_name": "image", "other": "other_image"}
"""Part that shows an image to the key of its address."""


@dataclass(frozen=True, slots=True)
class Handout:
    """Everything that people get besides the questions."""

    scheme: Scheme  # in their language
    texts: Texts = field(default_factory=Texts)
    worker: str = ""  # the person these sheets are assigned to, if any
    # Questions to practise on, and whether each pair matches; shown only by the page.
    practice: Sequence[tuple[Asked, bool]] = ()


def list_files(questions: Sequence[Question], scheme: Scheme) -> set[str]:
    """Names of the image files that are shown with questions."""
    return {getattr(question, part.name) for question in questions for part in scheme.shows if part.kind == "image"}


def describe_questions(
    questionnaires: Sequence[Questionnaire], images: Mapping[str, str], only: Collection[int] | None = None
) -> list[Asked]:
    """Every question of some sheets, in order, as people see it."""
    sheets = {each.first + place: (each, sheet) for each in questionnaires for place, sheet in enumerate(each.sheets)}
    numbers = list(sheets) if only is None else sorted(only)
    if not numbers or not set(numbers) <= sheets.keys():
        raise InvalidOption(f"sheets {numbers}: give numbers from {min(sheets)} to {max(sheets)}")
    if len({tuple(group.name for group in sheets[number][0].scheme.details) for number in numbers}) > 1:
        raise InvalidOption("some of these sheets ask for reasons and some do not: export each kind separately")
    files = {name for number in numbers for name in list_files(sheets[number][1], sheets[number][0].scheme)}
    lacking = sorted(files - images.keys())
    if lacking:
        raise DataError(f"{len(lacking):,} images have no address, among them {lacking[0]}")
    names = {each.first: each.id for each in questionnaires}
    return [
        {"questionnaire": names[sheets[number][0].first], "sheet": number}
        | describe_question(question, sheets[number][0].scheme, images)
        for number in numbers
        for question in sheets[number][1]
    ]


def describe_question(question: Question, scheme: Scheme, images: Mapping[str, str]) -> Asked:
    """One question as people see it, without its sheet."""
    asked: Asked = {name: getattr(question, name) for name in ("pair_id", "image_id", "caption_id")}
    for part in scheme.shows:
        value = getattr(question, part.name)
        asked[part.name] = list(value) if part.kind == "texts" else value
        if part.kind == "image":
            asked[ADDRESSES[part.name]] = images[value]
    asked.setdefault("caption", question.caption)
    return asked


def render_questionnaire(asked: Sequence[Asked], handout: Handout) -> str:
    """The page, which keeps answers in the browser and saves them as JSONL."""
    scheme, practice = handout.scheme, [question for question, _ in handout.practice]
    shown = [*asked, *practice]
    images = {each[part]: each[name] for each in shown for part, name in ADDRESSES.items() if name in each}
    names = sorted({question["questionnaire"] for question in asked})
    name_of_all = names[0] if len(names) == 1 else "q" + blake2b("".join(names).encode(), digest_size=6).hexdigest()
    data = {
        "questionnaire": name_of_all,
        "worker": handout.worker,
        "scheme": {name: value for name, value in asdict(scheme).items() if name != "older"},
        "widgets": scheme.widgets(),
        "shows": [asdict(part) for part in scheme.shows],
        "sheets": [
            {"number": number, "size": len(list(sheet))} for number, sheet in groupby(asked, lambda each: each["sheet"])
        ],
        "images": images,  # once, as they may be embedded
        "asked": [_without_addresses(question) for question in asked],
        "practice": [_without_addresses(question) | {"expected": match} for question, match in handout.practice],
        "texts": asdict(handout.texts),
    }
    # Inside a script element only "<" could end it or begin a comment.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return _template().render(scheme=scheme, texts=handout.texts, data=Markup(text))  # noqa: S704 - JSON, see above


def _without_addresses(question: Asked) -> Asked:
    return {name: value for name, value in question.items() if name not in ADDRESSES.values()}


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("cxc_eccv.studies.asking"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("questionnaire.html.jinja")
