"""What a person sees of the sheets; and the questionnaire for those who have no annotation server, one offline page."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import blake2b
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import Scheme

__all__ = ["Asked", "describe_questions", "questionnaire_id", "render_questionnaire"]

Asked = dict[str, Any]
"""One question as a person gets it, in whatever tool; never with its role."""


def questionnaire_id(sheets: Sequence[Sequence[Question]], scheme: Scheme) -> str:
    """Of the questions in their order and of how they are asked: another questionnaire has another."""
    content = [scheme.name, [[own.pair_id for own in sheet] for sheet in sheets]]
    return "q" + blake2b(json.dumps(content).encode(), digest_size=6).hexdigest()


def describe_questions(
    sheets: Sequence[Sequence[Question]],
    scheme: Scheme,
    images: Mapping[str, str],
    only: Collection[int] | None = None,
) -> list[Asked]:
    """Every question of some sheets in order, with all that a person may know of it."""
    numbers = range(len(sheets)) if only is None else sorted(only)
    if not set(numbers) <= set(range(len(sheets))) or not numbers:
        raise InvalidOption(f"sheets {list(numbers)}: give some of 0 to {len(sheets) - 1}")
    lacking = sorted({own.file_name for number in numbers for own in sheets[number]} - images.keys())
    if lacking:
        raise DataError(f"no address for {len(lacking):,} images, {lacking[0]} among them")
    name = questionnaire_id(sheets, scheme)
    return [
        {
            "questionnaire": name,
            "sheet": number,
            "pair_id": own.pair_id,
            "image_id": own.image_id,
            "caption_id": own.caption_id,
            "file_name": own.file_name,
            "image": images[own.file_name],
            "caption": own.caption,
            **({"captions": list(own.captions)} if scheme.shows_captions else {}),
        }
        for number in numbers
        for own in sheets[number]
    ]


def render_questionnaire(asked: Sequence[Asked], scheme: Scheme) -> str:
    """The page. It keeps answers in the browser, and saves them as JSONL.

    Addresses of images are ``https:``, ``data:`` or relative to the page.
    """
    data = {
        "questionnaire": asked[0]["questionnaire"],
        "scheme": asdict(scheme),
        "images": {question["file_name"]: question["image"] for question in asked},  # once, as they may be embedded
        "asked": [{name: value for name, value in question.items() if name != "image"} for question in asked],
    }
    # Inside a script element only "<" could end it or begin a comment.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return _template().render(scheme=scheme, data=Markup(text))  # noqa: S704 - JSON, see above


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("cxc_eccv.studies.asking"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("questionnaire.html.jinja")
