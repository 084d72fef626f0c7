"""``cxc-eccv annotate export``, ``import``, ``undo`` and ``check``: questions go out, answers come in."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.shared_options import DATA, names, open_library
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.asking.options import AnswerForm, AnswerWorkers, QuestionForm, QuestionImages
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from pandas import DataFrame

    from cxc_eccv.studies.annotation.exporting import Export
    from cxc_eccv.studies.annotation.project import Project
    from cxc_eccv.studies.asking.answer_files import Response

Folder = Annotated[Path, typer.Argument(help="Folder of the project.")]

SHOWN = 8
"""Sheets or pairs that are named in a line, of however many there are."""


def open_project(folder: Path, labels: Sequence[str] = ()) -> Project:
    """The project of a folder, on the data that the options name."""
    from cxc_eccv.studies.annotation.project import Project

    return Project.open(folder, open_library(labels=labels))


def say_status(project: Project) -> None:
    """Print which sheets are answered, their verdicts, and the next command."""
    from cxc_eccv.studies.asking.sheet_quality import ACCEPTED, BY_HAND, REJECTED, count_known

    open_sheets = project.open_sheets()
    judged = project.verdicts
    for each in project.rounds:
        people = {response.worker for response in project.responses if response.sheet in each.numbers}
        workers = count_nouns(len(people), "worker")
        still = [number for number in each.numbers if number in open_sheets]
        numbered = f" ({each.numbers.start} to {each.numbers.stop - 1})" if len(project.rounds) > 1 else ""
        answered = f"{len(each.sheets) - len(still):,} of {len(each.sheets):,} sheets{numbered} answered, by {workers}"
        say(f"round {each.number}: {answered}" + (f"; open: {name_some(still)}" if still else ""))
    counts = {verdict: int((judged["verdict"] == verdict).sum()) for verdict in (ACCEPTED, BY_HAND, REJECTED)}
    say("answered sheets: " + ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items()))
    if len(judged):
        say(project.decisions.checks.rule)
    straight = _name_sheets(judged[judged["straight"] & (judged["verdict"] == ACCEPTED)])
    if straight:
        say(f"accepted, though all candidates got the same answer: {name_some(straight)}")
    doubtful = _name_sheets(judged[judged["verdict"] == BY_HAND])
    if doubtful:
        say(f"to be checked by hand, as sheet:worker: {name_some(doubtful)}")
        say_next("report", project.folder, *_name_images(project), "--output", "report")
        say_next("check", project.folder, "--accept", doubtful[0])
    counting = set(judged.loc[judged["verdict"] != REJECTED, "worker"])
    for worker, known in count_known(project.answers).items():
        if worker in counting and known.may_be_chance:
            say(f"{worker} answered {known} of the known pairs correctly, no better than chance")
            say_next("check", project.folder, "--reject", worker)
    if judged.empty:
        say_export(project)
    if counts[ACCEPTED]:
        say_next("merge", project.folder)


def _name_sheets(judged: DataFrame) -> list[str]:
    """Sheets as the options of annotate check name them."""
    return [f"{sheet}:{worker}" for sheet, worker in zip(judged["sheet"], judged["worker"], strict=True)]


def say_next(step: str, *arguments: object) -> None:
    """Print the command that comes next, to copy."""
    say(f"next: {shlex.join(['cxc-eccv', 'annotate', step, *map(str, arguments), *DATA.get().to_arguments()])}")


def _name_images(project: Project) -> list[str]:
    """The option --images for this edition."""
    return {"official": [], "sample": ["--images", "sample"]}.get(project.library.edition, ["--images", "FOLDER"])


def say_export(project: Project) -> None:
    """Print the command that exports the questions."""
    say_next("export", project.folder, *_name_images(project), "--output", "questions")


def count_nouns(number: int, noun: str) -> str:
    """A number with its noun, as ``2 pairs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def name_some(names: Iterable[object]) -> str:
    """The first few of many names."""
    every = list(map(str, names))
    return ", ".join([*every[:SHOWN], *(["..."] if len(every) > SHOWN else [])])


def read_numbers(option: str, text: str, every: range) -> list[int]:
    """Read a list of numbers, as ``0-4,7``."""
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    numbers = list(chain(*(part for part in ranges if len(part) <= len(every))))
    if None in parts or not all(ranges) or not all(part.start in every and part[-1] in every for part in ranges):
        raise InvalidOption(f"{option} {text}: give numbers from {every.start} to {every.stop - 1}, as 0-4 or 0,7")
    return sorted(set(numbers))


def export(
    folder: Folder,
    output: Annotated[Path, typer.Option(help="Folder to write to. It keeps its other files.")],
    form: QuestionForm = "html",
    images: QuestionImages = "coco",
    sheets: Annotated[
        str | None,
        typer.Option(
            help="Numbers of sheets, as 0-4 or 0,7; or open: those that too few people have answered. Default: all of "
            "the last round."
        ),
    ] = None,
    people: Annotated[
        list[str] | None,
        typer.Option(help="Names, comma-separated, to divide the sheets among: one folder for each."),
    ] = None,
    each: Annotated[
        int | None,
        typer.Option(
            help="With --people: number of people who answer each sheet. Default: 3, or all if there are fewer."
        ),
    ] = None,
    texts: Annotated[
        Path | None,
        typer.Option(help="Folder with your own texts: instructions.md, examples.md, consent.md, texts.json."),
    ] = None,
    practice: Annotated[
        int, typer.Option(help="Number of practice questions on a page, html or mturk, before it begins.")
    ] = 0,
) -> None:
    """Write questions as a page, or for an annotation tool. They do not show which pairs are known.

    Examples:
    ```sh
    cxc-eccv annotate export doubts --images val2014 --output questions
    cxc-eccv annotate export doubts --people ann,ben,cleo --output questions
    cxc-eccv annotate export doubts --format mturk --output hits
    ```

    The format html is one page for any browser, which needs only the keyboard. People save their answers to a file that
    annotate import reads.
    """
    from cxc_eccv.studies.annotation.exporting import Export, export_questions
    from cxc_eccv.studies.asking.answer_files import identify_worker
    from cxc_eccv.studies.asking.formats import find_format
    from cxc_eccv.studies.asking.questions import assign_sheets

    exchange_format = find_format(form)
    project = open_project(folder)
    workers = names(people)
    each = min(3, len(workers or [])) if each is None else each
    if sheets == "open":
        numbers = project.open_sheets(1 if workers is None else each)
        if not numbers:
            raise InvalidOption("--sheets open: enough people have answered every sheet")
    elif sheets is None:
        numbers = list(project.rounds[-1].numbers)
    else:
        numbers = read_numbers("--sheets", sheets, range(len(project.questions)))
    request = Export(form=form, images=images, texts=texts, practice=practice, sheets=numbers)
    if workers is None:
        say_written(export_questions(project, output, request))
    else:
        people_by_name = assign_sheets(numbers, list(map(identify_worker, workers)), each, project.finished_sheets())
        _export_to_people(project, output, request, people_by_name)
    rounds = [str(round_.number) for round_ in project.rounds if set(round_.numbers) & set(numbers)]
    say(f"round {', '.join(rounds)}, {count_nouns(len(numbers), 'sheet')}: {exchange_format.exported}")
    ambiguous = find_format(None, Path(f"a{exchange_format.ending}")).read is not exchange_format.read
    say_next("import", folder, "ANSWERS", *(["--format", form] if ambiguous else []))


def _export_to_people(project: Project, output: Path, export: Export, people: Mapping[str, list[int]]) -> None:
    """Write a folder for each person with their sheets."""
    from cxc_eccv.studies.annotation.exporting import export_questions

    folders = {worker: output / re.sub(r"[^\w-]+", "-", worker) for worker in people}
    if len(set(folders.values())) < len(folders):
        raise InvalidOption(f"--people {','.join(people)}: two names give the same folder; change one of them")
    for worker, numbers in people.items():
        if numbers:
            say_written(export_questions(project, folders[worker], replace(export, sheets=numbers, worker=worker)))
            say(f"{worker}: {count_nouns(len(numbers), 'sheet')}, {name_some(numbers)}")


def import_answers(
    folder: Folder,
    files: Annotated[list[Path], typer.Argument(help="Answered files.")],
    form: AnswerForm = None,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace earlier answers of the same people by these.")
    ] = False,
    worker: AnswerWorkers = None,
) -> None:
    """Import complete sheets of answers; if any line is invalid, nothing is imported.

    Examples:
    ```sh
    cxc-eccv annotate import doubts ann.jsonl ben.jsonl
    cxc-eccv annotate import doubts project-3.json --worker ann
    cxc-eccv annotate import doubts ann.jsonl --replace
    ```

    The files state the round that they answer. Unfinished sheets are listed; import the file again when more of it is
    done. Answers that were imported before are skipped. A different answer by the same person is refused, unless
    --replace lets it count instead of the first one.
    """
    from cxc_eccv.sources.reading import shown

    project = open_project(folder)
    done = project.add_answers(files, form, replace=replace, workers=names(worker))
    if done.added or done.changed:
        changed = f", {count_nouns(len(done.changed), 'answer')} changed" if done.changed else ""
        say(f"{done.added:,} answers are new{changed}")
    elif not done.unfinished:
        say("no new answers: all of them were imported before")
    for before, after in done.changed:
        place = f"sheet {after.sheet} of {shown(after.worker)}, {after.pair_id}"
        say(f"{place}: {_show_answer(before)} becomes {_show_answer(after)}")
    for sheet in done.unfinished:
        say(f"not imported yet: sheet {sheet.sheet} of {sheet.worker}, {sheet.answered} of {sheet.questions} answered")
    say_status(done.project)


def _show_answer(response: Response) -> str:
    ticks = list(chain(*json.loads(response.details).values()))
    return " ".join([response.answer, *([f"({', '.join(ticks)})"] if ticks else [])])


def check(
    folder: Folder,
    accept: Annotated[
        list[str] | None,
        typer.Option(
            help="A sheet whose answers are good, as 3:ann, or a person all of whose doubtful sheets are good. Repeat "
            "for more."
        ),
    ] = None,
    reject: Annotated[
        list[str] | None,
        typer.Option(help="A sheet whose answers are not good, as 4:ben, or a person none of whose answers count."),
    ] = None,
    least_seconds: Annotated[
        float | None, typer.Option(help="Time below which a sheet was answered too fast; 0 for no limit.")
    ] = None,
    least_accuracy: Annotated[
        float | None,
        typer.Option(
            help="Share of known pairs that a person must answer correctly: the 95% interval must lie above it. Chance "
            "gives 0.5. Default: 0, no limit."
        ),
    ] = None,
    straight: Annotated[
        bool | None,
        typer.Option("--straight/--no-straight", help="Hold back sheets with the same answer to all candidates."),
    ] = None,
) -> None:
    r"""Decide which sheets count, after you looked at their answers; without options, list those to look at.

    Examples:
    ```sh
    cxc-eccv annotate check doubts
    cxc-eccv annotate check doubts --accept 3:ann --accept 4:ann \
      --reject 4:ben
    cxc-eccv annotate check doubts --least-seconds 60
    ```

    As in ECCV Caption, a sheet is accepted unless one of its known pairs was answered wrongly; then it needs a look.
    Options make this stricter. annotate report --output shows the answers. Your decisions are stored in decisions.jsonl
    in the folder; a later decision replaces an earlier one.
    """
    from cxc_eccv.studies.annotation.annotation_tables import tabulate_doubts
    from cxc_eccv.studies.annotation.project_files import DECISIONS, Decision
    from cxc_eccv.studies.asking.sheet_quality import BY_HAND
    from cxc_eccv.tables import tables_to_console

    verdicts = [(_read_sheet("--accept", text), True) for text in accept or ()]
    verdicts += [(_read_sheet("--reject", text), False) for text in reject or ()]
    if len(dict(verdicts)) < len(verdicts):
        raise InvalidOption("a sheet or a person is named twice; name each once")
    project = open_project(folder)
    sheets = {about: good for about, good in verdicts if isinstance(about, tuple)}
    workers = {about: good for about, good in verdicts if isinstance(about, str)}
    decision = Decision(sheets, workers, least_seconds, least_accuracy, straight)
    if decision != Decision():
        before = project.verdicts
        project = project.decide(decision)
        _say_decided(project, before)
        say_written([folder / DECISIONS])
    if BY_HAND in set(project.verdicts["verdict"]):
        print_shown(tables_to_console([tabulate_doubts(project.verdicts)]))
    say_status(project)


def _say_decided(project: Project, before: DataFrame) -> None:
    """Print the sheets whose verdict differs from that before the decision."""
    from cxc_eccv.studies.asking.sheet_quality import SHEET

    both = project.verdicts.merge(before, on=SHEET, suffixes=("", "_before"), validate="one_to_one")
    changed = both[(both["verdict"] != both["verdict_before"]) | (both["checked"] != both["checked_before"])]
    groups = changed.groupby(["worker", "verdict", "verdict_before"], sort=False)["sheet"]
    for (worker, verdict, earlier), sheets in groups:
        first = sheets.iloc[0]
        asked = next(asked for asked in project.rounds if first in asked.numbers)
        if len(sheets) > 1:
            say(f"{len(sheets)} sheets of {worker}: {verdict}, were {earlier}")
        else:
            say(f"sheet {first} of {worker} (round {asked.number}): {verdict}, was {earlier}")
    if changed.empty:
        say("no sheet has changed")


def _read_sheet(option: str, text: str) -> tuple[int, str] | str:
    """The number of a sheet and its worker, whose name may contain colons; or only a worker."""
    from cxc_eccv.studies.asking.answer_files import identify_worker

    sheet, colon, worker = text.partition(":")
    if not (colon and sheet.isdecimal()):
        return identify_worker(text)
    if not (sheet.isascii() and len(sheet) < 19 and worker.strip()):
        raise InvalidOption(f"{option} {text}: name a sheet and its worker, as 3:ann, or a worker")
    return int(sheet), identify_worker(worker)
