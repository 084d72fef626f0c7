"""The questionnaire as people see it: its questions, a project's own texts, and the page that needs no server."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import Any

from markupsafe import Markup

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.presentation.page import make_environment
from cxc_eccv.sources.reading import read_json, read_text, shown
from cxc_eccv.studies.asking.questions import Question, Questionnaire, find_questionnaires
from cxc_eccv.studies.asking.schemes import Details, Scheme

ShownQuestion = dict[str, Any]
"""One question as a person sees it, without its role: its ids and the parts that its scheme shows."""

Words = Mapping[str, Any]
"""What people read besides the pairs, as JSON: ``language``, ``instructions``, ``question`` and ``answers``."""

PageData = dict[str, Any]
"""The content of the page, as JSON."""

ADDRESSES = {"file_name": "image", "other": "other_image"}
"""Part that shows an image to the key of its address."""


TEXT_FILES = ("texts.json", "instructions.md", "examples.md", "consent.md")
"""Files of the folder; each is optional."""

TEXT_KEYS = ("language", "title", "question", "labels", "page")
"""Keys of texts.json: ``labels`` has texts for names of answers, criteria and ticks, ``page`` for the page's words."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of the page besides the scheme, by paragraph; ``page`` maps its English texts to translations."""

    language: str = "en"
    consent: tuple[str, ...] = ()  # shown before the first question; people must agree
    examples: tuple[str, ...] = ()
    page: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Handout:
    """Everything that people get besides the questions."""

    scheme: Scheme  # in their language
    texts: Texts = field(default_factory=Texts)
    worker: str = ""  # the person these sheets are assigned to, if any
    # Questions to practise on, and whether each pair matches; shown only by the page.
    practice: Sequence[tuple[ShownQuestion, bool]] = ()

    @property
    def words(self) -> Words:
        """The question, its answers and the instructions."""
        scheme = self.scheme
        answers = [*(each.label for each in scheme.answers), *scheme.marks, *(scheme.criteria or {}).values()]
        return {
            "language": self.texts.language,
            "instructions": [*scheme.instructions, *self.texts.examples],
            "question": scheme.question,
            "answers": answers,
        }


def list_files(questions: Sequence[Question], scheme: Scheme) -> set[str]:
    """Names of the image files that are shown with questions."""
    names: set[str] = set()
    for part in scheme.shows:
        if part.kind == "image":
            names |= {getattr(question, part.name) for question in questions}
    return names


def describe_questions(
    questionnaires: Sequence[Questionnaire], images: Mapping[str, str], only: Collection[int] | None = None
) -> list[ShownQuestion]:
    """Every question of some sheets, in order, as people see it."""
    asked_on = find_questionnaires(questionnaires)
    numbers = sorted(asked_on if only is None else only)
    if not numbers or not asked_on.keys() >= set(numbers):
        raise InvalidOption(f"sheets {numbers}: give numbers from {min(asked_on)} to {max(asked_on)}")
    details = {tuple(group.name for group in asked_on[number].scheme.details) for number in numbers}
    if len(details) > 1:
        raise InvalidOption("some of these sheets ask for reasons and some do not: export each kind separately")
    files = set()
    for number in numbers:
        files |= list_files(asked_on[number].sheet(number), asked_on[number].scheme)
    lacking = sorted(files - images.keys())
    if lacking:
        raise DataError(f"{len(lacking):,} images have no address, among them {lacking[0]}")
    shown_questions: list[ShownQuestion] = []
    for number in numbers:
        questionnaire = asked_on[number]
        head = {"questionnaire": questionnaire.id, "sheet": number}
        sheet = questionnaire.sheet(number)
        shown_questions += [head | describe_question(question, questionnaire.scheme, images) for question in sheet]
    return shown_questions


def describe_question(question: Question, scheme: Scheme, images: Mapping[str, str]) -> ShownQuestion:
    """One question as people see it, without its sheet."""
    shown_question: ShownQuestion = {name: getattr(question, name) for name in ("pair_id", "image_id", "caption_id")}
    for part in scheme.shows:
        value = getattr(question, part.name)
        shown_question[part.name] = list(value) if part.kind == "texts" else value
        if part.kind == "image":
            shown_question[ADDRESSES[part.name]] = images[value]
    shown_question.setdefault("caption", question.caption)
    return shown_question


def render_page(data: PageData, handout: Handout, variable: str = "") -> str:
    """The page with its data; ``variable`` stands for the data of a sheet that a HIT of Mechanical Turk fills in."""
    # Inside a script element only "<" could end it or begin a comment.
    text = Markup(json.dumps(data, ensure_ascii=False).replace("<", "\\u003c"))  # noqa: S704
    page = make_environment("cxc_eccv.studies.asking", trim_blocks=True).get_template("questionnaire.html.jinja")
    return page.render(scheme=handout.scheme, texts=handout.texts, data=text, variable=variable)


def describe_page(questions: Sequence[ShownQuestion], handout: Handout) -> PageData:
    """The data of the page."""
    scheme = handout.scheme
    practice = [question for question, _ in handout.practice]
    images: dict[str, str] = {}
    for part, name in ADDRESSES.items():
        images |= {each[part]: each[name] for each in [*questions, *practice] if name in each}
    names = sorted({question["questionnaire"] for question in questions})
    name_of_all = names[0] if len(names) == 1 else "q" + blake2b("".join(names).encode(), digest_size=6).hexdigest()
    return {
        "questionnaire": name_of_all,
        "worker": handout.worker,
        "scheme": asdict(scheme),
        "widgets": scheme.widgets(),
        "shows": [asdict(part) for part in scheme.shows],
        "sheets": [
            {"number": number, "size": len(list(sheet))}
            for number, sheet in groupby(questions, lambda each: each["sheet"])
        ],
        "images": images,  # once, as they may be embedded
        "asked": [_without_addresses(question) for question in questions],
        "practice": [_without_addresses(question) | {"expected": match} for question, match in handout.practice],
        "texts": asdict(handout.texts),
    }


def _without_addresses(question: ShownQuestion) -> ShownQuestion:
    return {name: value for name, value in question.items() if name not in ADDRESSES.values()}


def read_texts(folder: str | Path, scheme: Scheme) -> tuple[Scheme, Texts]:
    """The scheme with the texts of a folder, and the other texts of the folder."""
    folder = Path(folder)
    if not any((folder / name).is_file() for name in TEXT_FILES):
        raise InvalidOption(f"{folder} has no texts: put at least one of {', '.join(TEXT_FILES)} there")
    path = folder / TEXT_FILES[0]
    content = read_json(path) if path.is_file() else {}
    _check_texts(path, content, scheme)
    instructions, examples, consent = (_read_paragraphs(folder / name) for name in TEXT_FILES[1:])
    texts = Texts(content.get("language", "en"), consent, examples, content.get("page", {}))
    labels = content.get("labels", {})
    low = (scheme.scale or (0,))[0]
    return (
        replace(
            scheme,
            title=content.get("title", scheme.title),
            question=content.get("question", scheme.question),
            instructions=instructions or scheme.instructions,
            answers=tuple(replace(answer, label=labels.get(answer.name, answer.label)) for answer in scheme.answers),
            marks=tuple(labels.get(f"{low + place:g}", text) for place, text in enumerate(scheme.marks)),
            details=tuple(_label_choices(group, labels) for group in scheme.details),
            criteria=scheme.criteria and {name: labels.get(name, text) for name, text in scheme.criteria.items()},
            shows=tuple(replace(part, title=labels.get(part.name, part.title)) for part in scheme.shows),
        ),
        texts,
    )


def _label_choices(group: Details, labels: Mapping[str, str]) -> Details:
    """A group of choices with other labels."""
    choices = {name: labels.get(name, text) for name, text in group.choices.items()}
    return replace(group, label=labels.get(group.name, group.label), choices=choices)


@cache
def page_texts() -> tuple[str, ...]:
    """The texts of the page's template that a folder may translate, in the order of the page."""
    template = files("cxc_eccv.studies.asking") / "templates" / "questionnaire.html.jinja"
    return tuple(dict.fromkeys(re.findall(r'(?<!\w)t\("([^"]+)"', template.read_text(encoding="utf-8"))))


def _check_texts(path: Path, content: Any, scheme: Scheme) -> None:  # noqa: ANN401 - JSON holds anything
    if not isinstance(content, dict) or content.keys() - {*TEXT_KEYS}:
        raise MalformedSource(path, "", shown(content), f"an object with some of {', '.join(TEXT_KEYS)}")
    for name, value in content.items():
        texts = value.items() if name in ("labels", "page") and isinstance(value, dict) else [("", value)]
        for key, text in texts:
            if not isinstance(text, str) or not text.strip():
                raise MalformedSource(path, ", ".join(filter(None, (name, key))), shown(text), "a text")
    low = (scheme.scale or (0,))[0]
    names = {widget["name"] for widget in scheme.widgets()} | {part.name for part in scheme.shows}
    names.update(*(widget.get("choices", ()) for widget in scheme.widgets()))
    names |= {f"{low + place:g}" for place in range(len(scheme.marks))}
    for name in content.get("labels", {}).keys() - names:
        raise MalformedSource(path, "labels", shown(name), f"one of {', '.join(sorted(names))}")
    for text in content.get("page", {}):
        if text not in page_texts():
            raise MalformedSource(path, "page", shown(text), "an English text of the page, unchanged")


def _read_paragraphs(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    return tuple(" ".join(part.split()) for part in read_text(path).split("\n\n") if part.strip())
