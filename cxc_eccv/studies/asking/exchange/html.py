"""One page for any browser: no server, no network but for images by address, by keyboard alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cxc_eccv.studies.asking.exchange.format import Format
from cxc_eccv.studies.asking.exchange.jsonl import read
from cxc_eccv.studies.asking.questionnaire import Asked, render_questionnaire
from cxc_eccv.studies.asking.schemes import Scheme


def render(asked: Sequence[Asked], scheme: Scheme) -> Mapping[str, str]:
    """The page."""
    return {"questionnaire.html": render_questionnaire(asked, scheme)}


FORMAT = Format(
    name="html",
    title="HTML page",
    exported="one page that works offline: send it to people, who save their answers to a file",
    answered="the JSONL file that the page saves",
    endings=(".jsonl",),
    render=render,
    read=read,
    timed=True,
)
