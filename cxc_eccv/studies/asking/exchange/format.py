"""Format: how questions leave for a tool or a file, and how the answers come back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxc_eccv.studies.asking.questionnaire import Asked, describe_questions
from cxc_eccv.studies.asking.questions import Question
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.writing import replaced_folder

__all__ = ["Format", "Record", "join_criteria", "name_answers"]

Record = dict[str, Any]
"""One answer: the keys of a question that a person must not change, and worker, answer, details, remark and seconds."""


@dataclass(frozen=True, slots=True)
class Format:
    """A tool or a kind of file."""

    name: str  # as its file
    title: str  # what people call it
    exported: str  # what is written, and what to do with it
    answered: str  # what is read back
    endings: tuple[str, ...]  # of the files that are read back
    render: Callable[[Sequence[Asked], Scheme], Mapping[str, str]]
    read: Callable[[Path, Scheme], Iterator[tuple[str, Record]]]
    timed: bool = False

    def export(
        self,
        sheets: Sequence[Sequence[Question]],
        scheme: Scheme,
        images: Mapping[str, str],
        folder: str | Path,
        only: Collection[int] | None = None,
    ) -> list[Path]:
        """Write the questions, all files or none; nothing in them tells which pairs are known.

        Args:
            sheets: of :func:`cxc_eccv.studies.asking.questions.build_sheets`.
            scheme: how to ask.
            images: file name to address, of :func:`cxc_eccv.studies.asking.exchange.find_images`.
            folder: where to write; other files in it stay.
            only: numbers of the sheets to ask, such as those of one person; None for all.

        Returns:
            The files.

        Raises:
            DataError: no address for an image.
            InvalidOption: no sheet of such a number.
            WriteFailed: the folder cannot be written.
        """
        target = Path(folder)
        files = self.render(describe_questions(sheets, scheme, images, only), scheme)
        with replaced_folder(target, files) as part:
            for name, content in files.items():
                (part / name).write_text(content, encoding="utf-8", newline="\n")
        return [target / name for name in files]


def name_answers(scheme: Scheme) -> tuple[str, ...]:
    """What is asked for about every pair: criteria or an answer, details, and a remark."""
    return (*(scheme.criteria or ["answer"]), *(own.name for own in scheme.details), "remark")


def join_criteria(said: Mapping[str, object]) -> dict[str, object] | None:
    """One answer out of a yes or no for each criterion; None where none was answered."""
    yes_no: dict[object, object] = {"yes": True, "no": False}
    return {name: yes_no.get(word, word) if isinstance(word, str) else word for name, word in said.items()} or None
