"""Export the questions of an annotation project to people, and keep the words in which they were asked."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.project_files import SheetKey, add_words, hold
from cxc_eccv.studies.annotation.proposing import ProposalOptions
from cxc_eccv.studies.asking.answer_files import identify_worker
from cxc_eccv.studies.asking.formats import find_format
from cxc_eccv.studies.asking.image_addresses import find_images
from cxc_eccv.studies.asking.questionnaire import (
    Handout,
    Texts,
    Words,
    describe_question,
    describe_questions,
    list_files,
    read_texts,
)
from cxc_eccv.studies.asking.questions import POSITIVE, build_practice, find_questionnaires


@dataclass(frozen=True, slots=True)
class Export:
    """Which questions are written, and how.

    Attributes:
        form: a name of :func:`cxc_eccv.studies.asking.formats.formats`.
        images: as for :func:`cxc_eccv.studies.asking.image_addresses.find_images`.
        texts: folder for :func:`cxc_eccv.studies.asking.questionnaire.read_texts`.
        practice: number of questions to practise on, which come first and are not saved.
        sheets: numbers of the sheets; None for all of the last round.
        worker: name of the person, filled in.
    """

    form: str = "html"
    images: str | Path = "coco"
    texts: str | Path | None = None
    practice: int = 0
    sheets: Collection[int] | None = None
    worker: str = ""


def export_questions(project: Project, folder: str | Path, export: Export) -> list[Path]:
    """Write questions as a page or for a tool, without the known pairs; other files of the folder are kept."""
    exchange_format = find_format(export.form)
    if not (exchange_format.by_sheet or export.worker):
        raise InvalidOption(
            f"--format {export.form} needs --people, because each person gets a project: a shared one would divide a "
            "sheet among them"
        )
    project = project.refresh()
    numbers = project.rounds[-1].numbers if export.sheets is None else export.sheets
    rounds = [each for each in project.rounds if set(each.numbers) & set(numbers)] or [project.rounds[-1]]
    questionnaires = [each.questionnaire for each in rounds]
    scheme = questionnaires[0].scheme
    shown_scheme, texts = (scheme, Texts()) if export.texts is None else read_texts(export.texts, scheme)
    practice = []
    if export.practice:
        known_pairs = project.find_known(ProposalOptions(sides=project.scheme.sides))
        avoid = {(each.image_id, each.caption_id) for each in chain(*project.questions)}
        practice = build_practice(known_pairs, export.practice, avoid, project.facts.seed)
    sheets = [sheet for number, sheet in enumerate(project.questions) if number in numbers]
    asked = chain(*sheets)
    addresses = find_images(export.images, list_files([*asked, *practice], scheme), project.split)
    practised = [(describe_question(each, scheme, addresses), each.role == POSITIVE) for each in practice]
    handout = Handout(shown_scheme, texts, export.worker, practised)
    written = exchange_format.export(folder, describe_questions(questionnaires, addresses, numbers), handout)
    worker = identify_worker(export.worker)
    before = find_words(project, ((number, worker) for number in numbers))
    new = [number for number, words in zip(numbers, before, strict=True) if words != handout.words]
    if new:
        with hold(project.folder):
            add_words(project.folder, new, worker, handout.words)
    return written


def find_words(project: Project, sheets: Iterable[SheetKey]) -> list[Words]:
    """The words in which each sheet was given to a person."""
    words = project.decisions.words
    asked_on = find_questionnaires(each.questionnaire for each in project.rounds)
    return [
        words.get((sheet, worker)) or words.get((sheet, "")) or Handout(asked_on[sheet].scheme).words
        for sheet, worker in sheets
    ]
