"""Format: writes questions for a tool or a file, and reads the answers; and what several formats share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cxc_eccv.studies.asking.questionnaire import Asked, Handout, describe_questions
from cxc_eccv.studies.asking.questions import Questionnaire
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.writing import replaced_folder

Record = dict[str, Any]
"""One answer: the unchanged keys of its question, and worker, answer, details, remark and seconds."""


HEAD = """\
# {title}

{instructions}

{question}

Fill in a copy of the file, and change nothing else in it. Empty cells are not answers. A sheet counts when all of its
questions are answered.

- `worker`: your name or number, with every answer."""

JSON = """\
- In JSON, yes and no are true and false in an object `answer`, such as `{"describes": true, "follows": false}`; ticks
  are lists in an object `details`, such as `{"shortcomings": ["grammar"]}`; names are in quotes."""

TABLE = "- In the table, separate several ticks by semicolons, and write numbers with a decimal point."

FOOT = """\
- `remark`: a remark in one line, or nothing.
- `seconds`: how long the answer took, or nothing."""


@dataclass(frozen=True, slots=True)
class Format:
    """A tool or a kind of file."""

    name: str  # the name of its module
    exported: str  # what the files are, and how to use them
    ending: str  # suffix of the answered files
    render: Callable[[Sequence[Asked], Handout], Mapping[str, str]]
    read: Callable[[Path, Scheme], Iterator[tuple[str, Record]]]

    def export(
        self,
        questionnaires: Sequence[Questionnaire],
        images: Mapping[str, str],
        folder: str | Path,
        only: Collection[int] | None = None,
        handout: Handout | None = None,
    ) -> list[Path]:
        """Write the questions, all files or none; they do not reveal which pairs are known.

        ``images`` are addresses by file name, of :func:`cxc_eccv.studies.asking.exchange.find_images`; ``only`` are
        numbers of sheets, such as those of one person. Other files of the folder are kept.
        """
        target = Path(folder)
        handout = handout or Handout(questionnaires[0].scheme)
        files = self.render(describe_questions(questionnaires, images, only), handout)
        with replaced_folder(target, files) as part:
            for name, content in files.items():
                (part / name).write_text(content, encoding="utf-8", newline="\n")
        return [target / name for name in files]


def name_answers(scheme: Scheme) -> tuple[str, ...]:
    """Names of what is asked about every pair: criteria or an answer, details, and a remark."""
    return (*(scheme.criteria or ["answer"]), *(group.name for group in scheme.details), "remark")


def join_criteria(given: Mapping[str, object]) -> dict[str, object] | None:
    """One answer from a yes or no for each criterion; None if none was answered."""
    yes_no: dict[object, object] = {"yes": True, "no": False}
    return {name: yes_no.get(word, word) if isinstance(word, str) else word for name, word in given.items()} or None


def adapt_older(row: Record, scheme: Scheme) -> Record:
    """A row of an older layout with today's keys, None for missing ones; other rows unchanged."""
    if scheme.older is None or "questionnaire" in row or not row.keys() >= set(scheme.older[0]):
        return row
    unsaid = dict.fromkeys(("questionnaire", "sheet", "image_id", "caption_id", "seconds"))
    return {**unsaid, "pair_id": row["pair_id"], **scheme.older[1](row)}


def describe_answers(handout: Handout, *, columns: bool = False) -> str:
    """The instructions in Markdown, for a table (``columns``) or JSON."""
    scheme = handout.scheme
    paragraphs = "\n\n".join([*handout.texts.consent, *scheme.instructions, *handout.texts.examples])
    head = HEAD.format(title=scheme.title, instructions=paragraphs, question=scheme.question)
    lines = [line for widget in scheme.widgets() for line in _describe(widget)]
    return "\n".join([head, *lines, TABLE if columns else JSON, FOOT]) + "\n"


def _describe(widget: Mapping[str, Any]) -> Iterator[str]:
    choices = widget.get("choices", {})
    if widget["kind"] == "slider":
        kind = "number" if widget["step"] is None else "whole number"
        text = f"a {kind} from {widget['low']:g} to {widget['high']:g}."
        choices = {f"{widget['low'] + place:g}": text for place, text in enumerate(widget["marks"])}
    elif widget["kind"] == "ticks":
        asked_with = widget["after"] or " and ".join(widget["asked_with"] or ())
        text = f"{widget['label']} One or more{f', only with {asked_with}' if asked_with else ''}."
        text += f" {widget['alone']} excludes the others." if widget["alone"] else ""
    else:
        text = f"yes or no. {widget['label']}" if widget["kind"] == "yes_no" else "one of these."
    yield f"- `{widget['name']}`: {text}"
    yield from (f"  - `{name}`: {label}" for name, label in choices.items())
