"""Formats of questions and answers: one ``FORMAT`` per file, named after the file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.studies.asking.questionnaire import Handout, ShownQuestion
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.writing import write_texts

Record = dict[str, Any]
"""One answer: the unchanged keys of its question, and worker, answer, details, remark and seconds."""

ACCOUNT = "account of the tool"
"""Key of a record: the account that gave the answer, where the worker is the person whose questions they are."""

SEPARATORS = (",", ";", "\t")
"""Separators of cells: spreadsheets change them in languages with decimal commas."""


@dataclass(frozen=True, slots=True)
class Format:
    """A tool or a kind of file."""

    name: str
    exported: str  # what the files are, and how to use them
    ending: str  # suffix of the answered files
    render: Callable[[Sequence[ShownQuestion], Handout], Mapping[str, str]]
    read: Callable[[Path, Scheme], Iterator[tuple[str, Record]]]
    by_sheet: bool = True  # whether people get whole sheets; else every answer counts by itself

    def export(self, folder: str | Path, questions: Sequence[ShownQuestion], handout: Handout) -> list[Path]:
        """Write the questions, all files or none.

        Other files of the folder are kept, and so are exported ones that were changed: InvalidOption names them.
        """
        return write_texts(Path(folder), self.render(questions, handout), recorded=True)


def name_answers(scheme: Scheme) -> tuple[str, ...]:
    """Names of what is asked about every pair: criteria or an answer, details, and a remark."""
    return (*(scheme.criteria or ["answer"]), *(group.name for group in scheme.details), "remark")


def join_criteria(words: Mapping[str, object]) -> dict[str, object] | None:
    """One answer from a yes or no for each criterion; None if none was answered."""
    yes_no: dict[object, object] = {"yes": True, "no": False}
    return {name: yes_no.get(word, word) if isinstance(word, str) else word for name, word in words.items()} or None


@cache
def formats() -> Mapping[str, Format]:
    """All formats by name."""
    return find_declared(sys.modules[__name__], "FORMAT", Format)


def find_format(name: str | None, path: Path | None = None) -> Format:
    """The format of this name; without a name, the format of a file's suffix."""
    if name is not None and name not in formats():
        raise UnknownName("format", name, formats())
    of_ending = [form for form in formats().values() if path is not None and path.suffix.lower() == form.ending]
    if name is None:
        if not of_ending:
            raise InvalidOption(f"{path}: the suffix tells no format; give one with --format: {', '.join(formats())}")
        return of_ending[0]
    if of_ending and formats()[name] not in of_ending:
        others = " or ".join(form.name for form in of_ending)
        raise InvalidOption(
            f"{path}: the answers of {name} are files that end in {formats()[name].ending}; "
            f"if this is another format, give --format {others}"
        )
    return formats()[name]
