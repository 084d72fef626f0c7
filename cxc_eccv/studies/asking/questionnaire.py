"""What a person sees of the sheets; and the questionnaire for those who have no annotation server, one page."""

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
"""One question as a person gets it, in whatever tool; never with its role."""

ADDRESSES = {"file_name": "image", "other": "other_image"}
"""Part with an image to the key of its address."""


@dataclass(frozen=True, slots=True)
class Handout:
    """What goes to people beside the questions."""

    scheme: Scheme  # in their language
    texts: Texts = field(default_factory=Texts)
    worker: str = ""  # whose sheets these are, where they are somebody's
    # Questions to practise on, and whether the pair of each matches; shown by the page alone.
    practice: Sequence[tuple[Asked, bool]] = ()


def list_files(questions: Sequence[Question], scheme: Scheme) -> set[str]:
    """Names of the image files that are shown with questions."""
    return {getattr(own, part.name) for own in questions for part in scheme.shows if part.kind == "image"}


def describe_questions(
    questionnaires: Sequence[Questionnaire], images: Mapping[str, str], only: Collection[int] | None = None
) -> list[Asked]:
    """Every question of some sheets in order, with all that a person may know of it."""
    sheets = {own.first + place: (own, sheet) for own in questionnaires for place, sheet in enumerate(own.sheets)}
    numbers = list(sheets) if only is None else sorted(only)
    if not numbers or not set(numbers) <= sheets.keys():
        raise InvalidOption(f"sheets {numbers}: give some of {min(sheets)} to {max(sheets)}")
    if len({tuple(own.name for own in sheets[number][0].scheme.details) for number in numbers}) > 1:
        raise InvalidOption("some of these sheets ask for reasons and some do not: export each kind by itself")
    files = {name for number in numbers for name in list_files(sheets[number][1], sheets[number][0].scheme)}
    lacking = sorted(files - images.keys())
    if lacking:
        raise DataError(f"no address for {len(lacking):,} images, {lacking[0]} among them")
    names = {own.first: own.id for own in questionnaires}
    return [
        {"questionnaire": names[sheets[number][0].first], "sheet": number}
        | describe_question(own, sheets[number][0].scheme, images)
        for number in numbers
        for own in sheets[number][1]
    ]


def describe_question(own: Question, scheme: Scheme, images: Mapping[str, str]) -> Asked:
    """One question, without saying of which sheet."""
    asked: Asked = {name: getattr(own, name) for name in ("pair_id", "image_id", "caption_id")}
    for part in scheme.shows:
        value = getattr(own, part.name)
        asked[part.name] = list(value) if part.kind == "texts" else value
        if part.kind == "image":
            asked[ADDRESSES[part.name]] = images[value]
    asked.setdefault("caption", own.caption)
    return asked


def render_questionnaire(asked: Sequence[Asked], handout: Handout) -> str:
    """The page. It keeps answers in the browser, and saves them as JSONL."""
    scheme, practice = handout.scheme, [question for question, _ in handout.practice]
    shown = [*asked, *practice]
    images = {own[part]: own[name] for own in shown for part, name in ADDRESSES.items() if name in own}
    names = sorted({question["questionnaire"] for question in asked})
    own_name = names[0] if len(names) == 1 else "q" + blake2b("".join(names).encode(), digest_size=6).hexdigest()
    data = {
        "questionnaire": own_name,
        "worker": handout.worker,
        "scheme": {name: value for name, value in asdict(scheme).items() if name != "older"},
        "widgets": scheme.widgets(),
        "shows": [asdict(part) for part in scheme.shows],
        "sheets": [
            {"number": number, "size": len(list(own))} for number, own in groupby(asked, lambda own: own["sheet"])
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
