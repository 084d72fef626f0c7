"""One page for any browser, which saves answers as JSON lines."""

from __future__ import annotations

from cxc_eccv.studies.asking.formats import Format
from cxc_eccv.studies.asking.formats.jsonl import read
from cxc_eccv.studies.asking.questionnaire import describe_page, render_page

FORMAT = Format(
    name="html",
    exported="one page, offline if its images are embedded: send it to people, who save their answers",
    ending=".jsonl",
    render=lambda questions, handout: {"questionnaire.html": render_page(describe_page(questions, handout), handout)},
    read=read,
)
