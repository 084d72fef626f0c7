"""One page for any browser, without a server: keyboard only, offline unless images have addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cxc_eccv.studies.asking.exchange.format import Format
from cxc_eccv.studies.asking.exchange.jsonl import read
from cxc_eccv.studies.asking.questionnaire import Asked, Handout, render_questionnaire


def render(asked: Sequence[Asked], handout: Handout) -> Mapping[str, str]:
    """The page."""
    return {"questionnaire.html": render_questionnaire(asked, handout)}


FORMAT = Format(
    name="html",
    exported="one page, offline if its images are embedded: send it to people, who save their answers",
    ending=".jsonl",
    render=render,
    read=read,
)
