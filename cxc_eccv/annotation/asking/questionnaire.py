"""The questionnaire for those who have no annotation server: one HTML file that works offline, by keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache
from hashlib import blake2b

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from cxc_eccv.annotation.asking.questions import Question
from cxc_eccv.annotation.asking.schemes import Scheme
from cxc_eccv.errors import DataError

__all__ = ["questionnaire_id", "render_questionnaire"]


def questionnaire_id(sheets: Sequence[Sequence[Question]], scheme: Scheme) -> str:
    """Of the questions in their order and of how they are asked: another questionnaire has another."""
    content = [scheme.name, [[own.pair_id for own in sheet] for sheet in sheets]]
    return blake2b(json.dumps(content).encode(), digest_size=6).hexdigest()


def render_questionnaire(sheets: Sequence[Sequence[Question]], scheme: Scheme, images: Mapping[str, str]) -> str:
    """The page. It tells nobody which pairs are known, keeps answers in the browser, and saves them as JSONL.

    Args:
        sheets: of :func:`cxc_eccv.annotation.asking.questions.build_sheets`.
        scheme: how to ask.
        images: file name to the address that the page shows: ``https:``, ``data:`` or relative to the page.

    Raises:
        DataError: no address for an image.
    """
    lacking = sorted({own.file_name for sheet in sheets for own in sheet} - images.keys())
    if lacking:
        raise DataError(f"no address for {len(lacking):,} images, {lacking[0]} among them")
    shown = ("pair_id", "image_id", "caption_id", "file_name", "caption", "captions")
    data = {
        "questionnaire": questionnaire_id(sheets, scheme),
        "scheme": asdict(scheme),
        "sheets": [
            [{name: getattr(own, name) for name in shown} | {"image": images[own.file_name]} for own in sheet]
            for sheet in sheets
        ],
    }
    # Inside a script element only "<" could end it or begin a comment.
    text = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    return _template().render(scheme=scheme, data=Markup(text))  # noqa: S704 - JSON, see above


@cache
def _template() -> Template:
    environment = Environment(
        loader=PackageLoader("cxc_eccv.annotation.asking"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template("questionnaire.html.jinja")
