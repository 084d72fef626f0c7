"""Custom texts of a project: a folder with instructions, examples, consent and a translation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.sources.reading import read_json, read_text, shown
from cxc_eccv.studies.asking.schemes import Scheme

FILES = ("texts.json", "instructions.md", "examples.md", "consent.md")
"""Files of the folder; each is optional."""

KEYS = ("language", "title", "question", "labels", "page")
"""Keys of texts.json: ``labels`` has texts for names of answers, criteria and ticks, ``page`` for the page's words."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of the page besides the scheme, by paragraph; ``page`` maps its English texts to translations."""

    language: str = "en"
    consent: tuple[str, ...] = ()  # shown before the first question; people must agree
    examples: tuple[str, ...] = ()
    page: Mapping[str, str] = field(default_factory=dict)


def read_texts(folder: str | Path, scheme: Scheme) -> tuple[Scheme, Texts]:
    """The scheme with the texts of a folder, and the other texts of the folder."""
    folder = Path(folder)
    if not any((folder / name).is_file() for name in FILES):
        raise InvalidOption(f"{folder} has no texts: put at least one of {', '.join(FILES)} there")
    path = folder / FILES[0]
    content = read_json(path) if path.is_file() else {}
    _check(path, content, scheme)
    instructions, examples, consent = (_read_paragraphs(folder / name) for name in FILES[1:])
    texts = Texts(content.get("language", "en"), consent, examples, content.get("page", {}))
    labels, low = content.get("labels", {}), (scheme.scale or (0,))[0]
    return (
        replace(
            scheme,
            title=content.get("title", scheme.title),
            question=content.get("question", scheme.question),
            instructions=instructions or scheme.instructions,
            answers=tuple(replace(answer, label=labels.get(answer.name, answer.label)) for answer in scheme.answers),
            marks=tuple(labels.get(f"{low + place:g}", text) for place, text in enumerate(scheme.marks)),
            details=tuple(
                replace(
                    group,
                    label=labels.get(group.name, group.label),
                    choices={name: labels.get(name, text) for name, text in group.choices.items()},
                )
                for group in scheme.details
            ),
            criteria=scheme.criteria and {name: labels.get(name, text) for name, text in scheme.criteria.items()},
            shows=tuple(replace(part, title=labels.get(part.name, part.title)) for part in scheme.shows),
        ),
        texts,
    )


@cache
def page_texts() -> tuple[str, ...]:
    """The texts of the page's template that a folder may translate, in the order of the page."""
    template = files("cxc_eccv.studies.asking") / "templates" / "questionnaire.html.jinja"
    return tuple(dict.fromkeys(re.findall(r'(?<!\w)t\("([^"]+)"', template.read_text(encoding="utf-8"))))


def _check(path: Path, content: Any, scheme: Scheme) -> None:  # noqa: ANN401 - JSON holds anything
    if not isinstance(content, dict) or content.keys() - {*KEYS}:
        raise MalformedSource(path, "", shown(content), f"an object with some of {', '.join(KEYS)}")
    for name, value in content.items():
        texts = value.items() if name in ("labels", "page") and isinstance(value, dict) else [("", value)]
        for key, text in texts:
            if not isinstance(text, str) or not text.strip():
                raise MalformedSource(path, ", ".join(filter(None, (name, key))), shown(text), "a text")
    low = (scheme.scale or (0,))[0]
    known = {widget["name"] for widget in scheme.widgets()} | {part.name for part in scheme.shows}
    known |= {choice for widget in scheme.widgets() for choice in widget.get("choices", ())}
    known |= {f"{low + place:g}" for place in range(len(scheme.marks))}
    for name in content.get("labels", {}).keys() - known:
        raise MalformedSource(path, "labels", shown(name), f"one of {', '.join(sorted(known))}")
    for text in content.get("page", {}):
        if text not in page_texts():
            raise MalformedSource(path, "page", shown(text), "an English text of the page, unchanged")


def _read_paragraphs(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    return tuple(" ".join(part.split()) for part in read_text(path).split("\n\n") if part.strip())
