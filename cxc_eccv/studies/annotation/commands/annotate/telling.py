"""What several subcommands share: the project, the state of its answers, and the next command."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import DATA, open_library
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from cxc_eccv.studies.annotation.project import Project

Folder = Annotated[Path, typer.Argument(help="Folder of the project.")]

SHOWN = 8
"""Sheets or pairs that are named in a line, of however many there are."""


def open_project(folder: Path, labels: Sequence[str] = ()) -> Project:
    """The project of a folder, on the data that the options name."""
    from cxc_eccv.studies.annotation.project import Project

    return Project.open(folder, open_library(labels=labels))


def say_status(project: Project) -> None:
    """Print which sheets are answered, their verdicts, and the next command."""
    from cxc_eccv.studies.asking.quality import ACCEPTED, BY_HAND, REJECTED

    open_sheets, judged = project.open_sheets(), project.judge()
    for each in project.rounds:
        workers = count_nouns(len(set(each.answers["worker"].to_pylist())), "worker")
        still = [number for number in each.numbers if number in open_sheets]
        numbered = f" ({each.numbers.start} to {each.numbers.stop - 1})" if len(project.rounds) > 1 else ""
        answered = f"{len(each.sheets) - len(still):,} of {len(each.sheets):,} sheets{numbered} answered, by {workers}"
        say(f"round {each.number}: {answered}" + (f"; open: {name_some(still)}" if still else ""))
    counts = {verdict: sum(sheet.verdict == verdict for sheet in judged) for verdict in (ACCEPTED, BY_HAND, REJECTED)}
    say("answered sheets: " + ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items()))
    straight = [f"{sheet.sheet}:{sheet.worker}" for sheet in judged if sheet.straight and sheet.verdict == ACCEPTED]
    if straight:
        say(f"accepted, though all candidates got the same answer: {name_some(straight)}")
    doubtful = [f"{sheet.sheet}:{sheet.worker}" for sheet in judged if sheet.verdict == BY_HAND]
    if doubtful:
        say(f"to be checked by hand, as sheet:worker: {name_some(doubtful)}")
        say_next("report", project.folder, *_name_images(project), "--output", "report")
        say_next("check", project.folder, "--accept", doubtful[0])
        unsure = next((sheet.worker for sheet in judged if sheet.unsure and sheet.verdict == BY_HAND), None)
        if unsure is not None:
            say_next("check", project.folder, "--reject", unsure)
    if not judged:
        say_export(project)
    if counts[ACCEPTED]:
        say_next("merge", project.folder)


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


def read_numbers(option: str, text: str, known: range) -> list[int]:
    """Read a list of known numbers, as ``0-4,7``."""
    parts = [re.fullmatch(r"(\d{1,9})(?:-(\d{1,9}))?", part) for part in text.split(",")]
    ranges = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part is not None]
    numbers = [number for part in ranges if len(part) <= len(known) for number in part]
    if None in parts or not all(ranges) or not all(part.start in known and part[-1] in known for part in ranges):
        raise InvalidOption(f"{option} {text}: give numbers from {known.start} to {known.stop - 1}, as 0-4 or 0,7")
    return sorted(set(numbers))
