"""Scheme: what a person sees and is asked, the possible answers, and their gains."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cxc_eccv.errors import InvalidOption


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer."""

    name: str  # in files
    label: str  # what a person reads
    gain: float  # gain of a pair with this answer, from 0 to 1
    asks: bool = False  # whether the details are asked for


@dataclass(frozen=True, slots=True)
class Details:
    """A group of further choices, of which any number may be ticked."""

    name: str  # in files
    label: str  # the question
    choices: dict[str, str]  # name in files to what a person reads
    after: str = ""  # the choice of an earlier group that this group belongs to; empty for none
    always: bool = False  # asked for with every answer
    alone: str = ""  # a choice that excludes the others


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a person sees of a question: an ``image``, a ``text``, or ``texts``."""

    kind: str
    name: str  # field of the question
    title: str


IMAGE = Part("image", "file_name", "The image")
SENTENCE = Part("text", "caption", "The sentence")
CAPTIONS = Part("texts", "captions", "Captions of the image")


@dataclass(frozen=True, slots=True)
class Scheme:
    """How people are asked."""

    name: str  # the name of its file
    title: str  # of the questionnaire
    question: str  # asked about every pair
    instructions: tuple[str, ...]  # paragraphs above the questions
    citation: str  # the source of the scheme
    answers: tuple[Answer, ...] = ()  # to choose one from, best first
    scale: tuple[float, float] | None = None  # lowest and highest number of a scale
    step: float | None = None  # between the numbers of a scale; None for any number
    marks: tuple[str, ...] = ()  # texts along the scale, from its lowest number on
    details: tuple[Details, ...] = ()  # asked if an answer asks for them
    # In place of answers: questions answered with yes or no; all must be yes.
    criteria: dict[str, str] | None = None
    positive: float = 0.5  # lowest gain of a positive pair
    rule: str = "majority"  # default rule that turns several answers into a label
    shows: tuple[Part, ...] = (IMAGE, SENTENCE)
    sides: tuple[str, str] = ("image", "caption")  # kinds of the two items of a pair
    rated_gold: tuple[float, float] | None = None  # CxC ratings of known positives (at least) and negatives (at most)
    in_projects: bool = True  # whether annotation projects can use it
    # Columns of files of older versions, and a function that turns such a row into the keys of an answer.
    older: tuple[tuple[str, ...], Callable[[Mapping[str, Any]], dict[str, Any]]] | None = None

    def __post_init__(self) -> None:
        if sum(map(bool, (self.answers, self.scale, self.criteria))) != 1:
            raise InvalidOption(f"scheme {self.name}: declare exactly one of answers, a scale and criteria")

    def without_reasons(self) -> Scheme:
        """The same scheme without asking for reasons, as in ECCV Caption's second stage."""
        return replace(self, details=(), answers=tuple(replace(answer, asks=False) for answer in self.answers))

    def widgets(self) -> list[dict[str, Any]]:
        """The widgets of the page, in order; ``asked_with`` names the answers that ask for ticks, None for any."""
        if self.answers:
            choices = {answer.name: answer.label for answer in self.answers}
            drawn: list[dict[str, Any]] = [
                {"name": "answer", "kind": "choice", "label": self.question, "choices": choices}
            ]
        elif self.scale:
            low, high = self.scale
            slider = {"low": low, "high": high, "step": self.step, "marks": list(self.marks)}
            drawn = [{"name": "answer", "kind": "slider", "label": self.question, **slider}]
        else:
            drawn = [{"name": name, "kind": "yes_no", "label": text} for name, text in (self.criteria or {}).items()]
        asking = [answer.name for answer in self.answers if answer.asks]
        for group in self.details:
            ticks = {"choices": group.choices, "after": group.after, "alone": group.alone}
            asked_with = None if group.always else asking
            drawn.append({"name": group.name, "kind": "ticks", "label": group.label, "asked_with": asked_with, **ticks})
        return drawn

    def gain_of(self, answer: object) -> float:
        """The gain of an answer, from 0 to 1; an answer is a name, a number on the scale, or criteria to true or false.

        Example:
            >>> from cxc_eccv.studies.asking.schemes.eccv import SCHEME
            >>> SCHEME.gain_of("partially_yes")
            0.5
        """
        if self.answers:
            gains = {choice.name: choice.gain for choice in self.answers}
            if not isinstance(answer, str) or answer not in gains:
                raise InvalidOption(f"answer {answer!r:.60}: give one of {', '.join(gains)}")
            return gains[answer]
        if self.scale is not None:
            low, high = self.scale
            kind = "number" if self.step is None else "whole number"
            if (
                isinstance(answer, bool)
                or not isinstance(answer, int | float)
                or not low <= answer <= high
                or (self.step is not None and (answer - low) % self.step)
            ):
                raise InvalidOption(f"answer {answer!r:.60}: give a {kind} from {low:g} to {high:g}")
            return (answer - low) / (high - low)
        criteria = self.criteria or {}
        if not isinstance(answer, dict) or answer.keys() != criteria.keys():
            raise InvalidOption(f"answer {answer!r:.60}: answer {' and '.join(criteria)}")
        if not all(isinstance(value, bool) for value in answer.values()):
            raise InvalidOption(f"answer {answer!r:.60}: {' and '.join(criteria)} take true or false")
        return float(all(answer.values()))

    def check_details(self, answer: object, details: object) -> dict[str, list[str]]:
        """The ticks of an answer by group, in the order of the choices; InvalidOption if they do not fit the answer."""
        if not isinstance(details, dict) or not all(
            isinstance(ticks, list) and all(isinstance(tick, str) for tick in ticks) for ticks in details.values()
        ):
            raise InvalidOption(f"details {details!r:.60}: give the ticks of each group as a list of texts")
        ticked = {name: ticks for name, ticks in details.items() if ticks}
        wanted = self.wanted_details(answer, ticked)
        for name in ticked.keys() - {group.name for group in wanted}:
            raise InvalidOption(f"details {name!r:.60}: answer {answer!r:.60} does not ask for them; remove them")
        for group in wanted:
            ticks = ticked.get(group.name, [])
            unknown = [tick for tick in ticks if tick not in group.choices]
            if unknown or not ticks:
                wrong = f"{unknown[0]!r:.60}" if unknown else "none"
                raise InvalidOption(f"details {group.name}: {wrong}; tick one or more of {', '.join(group.choices)}")
            if len(ticks) > 1 and group.alone in ticks:
                other = next(tick for tick in ticks if tick != group.alone)
                raise InvalidOption(
                    f"details {group.name}: {group.alone} together with {other}; tick {group.alone} alone"
                )
        return {group.name: [tick for tick in group.choices if tick in ticked[group.name]] for group in wanted}

    def wanted_details(self, answer: object, ticked: Mapping[str, Sequence[object]]) -> list[Details]:
        """The groups that an answer, with these ticks, asks for."""
        asks = any(choice.asks for choice in self.answers if choice.name == answer)
        every = [tick for ticks in ticked.values() for tick in ticks]
        return [group for group in self.details if (asks or group.always) and (not group.after or group.after in every)]

    def is_positive(self, gain: float) -> bool:
        """Whether a pair of this gain counts as positive."""
        return gain >= self.positive
