"""Scheme: what a person is shown and asked, what may be answered, and what an answer says."""

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
    gain: float  # what a pair with it is worth, from 0 to 1
    asks: bool = False  # whether the details are asked for


@dataclass(frozen=True, slots=True)
class Details:
    """Further choices, of which any number may be ticked."""

    name: str  # in files
    label: str  # the question
    choices: dict[str, str]  # name in files to what a person reads
    after: str = ""  # a choice of an earlier group that this one belongs to; empty where it is asked with the others
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

    name: str  # as its file
    title: str  # of the questionnaire
    question: str  # what is asked about every pair
    instructions: tuple[str, ...]  # paragraphs above the questions
    citation: str  # where it comes from
    answers: tuple[Answer, ...] = ()  # to choose one from, best first
    scale: tuple[float, float] | None = None  # lowest and highest number, where one is given
    step: float | None = None  # between the numbers of a scale; None for any number
    marks: tuple[str, ...] = ()  # texts along the scale, from its lowest number on
    details: tuple[Details, ...] = ()  # what is asked where an answer asks for it
    # In the place of answers: questions answered with yes or no; all must be yes.
    criteria: dict[str, str] | None = None
    positive: float = 0.5  # gain from which on a pair counts as positive
    rule: str = "majority"  # by which several people's answers become a label unless another is asked for
    shows: tuple[Part, ...] = (IMAGE, SENTENCE)
    sides: tuple[str, str] = ("image", "caption")  # what a pair is of
    rated_gold: tuple[float, float] | None = None  # known pairs: CxC's ratings from the first, and up to the second
    in_projects: bool = True  # whether rounds of labels can be asked by it
    # Columns of files of older versions, and what makes the keys of an answer of such a row.
    older: tuple[tuple[str, ...], Callable[[Mapping[str, Any]], dict[str, Any]]] | None = None

    def __post_init__(self) -> None:
        if sum(map(bool, (self.answers, self.scale, self.criteria))) != 1:
            raise InvalidOption(f"scheme {self.name}: declare answers, a scale or criteria, one of the three")

    def without_reasons(self) -> Scheme:
        """The same without asking why, as in ECCV Caption's second stage."""
        return replace(self, details=(), answers=tuple(replace(own, asks=False) for own in self.answers))

    def widgets(self) -> list[dict[str, Any]]:
        """What the page draws, in order; ``asked_with`` names the answers that ask for ticks, None for any."""
        if self.answers:
            choices = {own.name: own.label for own in self.answers}
            drawn: list[dict[str, Any]] = [
                {"name": "answer", "kind": "choice", "label": self.question, "choices": choices}
            ]
        elif self.scale:
            low, high = self.scale
            slider = {"low": low, "high": high, "step": self.step, "marks": list(self.marks)}
            drawn = [{"name": "answer", "kind": "slider", "label": self.question, **slider}]
        else:
            drawn = [{"name": name, "kind": "yes_no", "label": text} for name, text in (self.criteria or {}).items()]
        asking = [own.name for own in self.answers if own.asks]
        for own in self.details:
            ticks = {"choices": own.choices, "after": own.after, "alone": own.alone}
            asked_with = None if own.always else asking
            drawn.append({"name": own.name, "kind": "ticks", "label": own.label, "asked_with": asked_with, **ticks})
        return drawn

    def gain_of(self, answer: object) -> float:
        """What an answer is worth, from 0 to 1: by its name, its number on the scale, or criterion to yes or no.

        Example:
            >>> from cxc_eccv.studies.asking.schemes.eccv import SCHEME
            >>> SCHEME.gain_of("partially_yes")
            0.5
        """
        if self.answers:
            gains = {own.name: own.gain for own in self.answers}
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
        """The ticks of an answer, by group, in the order of the choices; InvalidOption where they are not as asked."""
        groups = details.values() if isinstance(details, dict) else [details]
        if not all(isinstance(ticks, list) and all(isinstance(tick, str) for tick in ticks) for ticks in groups):
            raise InvalidOption(f"details {details!r:.60}: give the ticks of each group as a list of texts")
        assert isinstance(details, dict)  # noqa: S101 - for mypy: a list of texts is no details
        ticked = {name: ticks for name, ticks in details.items() if ticks}
        wanted = self.wanted_details(answer, ticked)
        for name in ticked.keys() - {own.name for own in wanted}:
            raise InvalidOption(f"details {name!r:.60}: answer {answer!r:.60} asks for no such thing")
        for own in wanted:
            ticks = ticked.get(own.name, [])
            unknown = [tick for tick in ticks if tick not in own.choices]
            if unknown or not ticks:
                found = f"{unknown[0]!r:.60}" if unknown else "none"
                raise InvalidOption(f"details {own.name}: {found}; tick one or more of {', '.join(own.choices)}")
            if len(ticks) > 1 and own.alone in ticks:
                other = next(tick for tick in ticks if tick != own.alone)
                raise InvalidOption(f"details {own.name}: {own.alone} together with {other}; tick {own.alone} alone")
        return {own.name: [tick for tick in own.choices if tick in ticked[own.name]] for own in wanted}

    def wanted_details(self, answer: object, ticked: Mapping[str, Sequence[object]]) -> list[Details]:
        """The groups that are asked for with an answer and what is ticked already."""
        asks = any(own.asks for own in self.answers if own.name == answer)
        every = [tick for ticks in ticked.values() for tick in ticks]
        return [own for own in self.details if (asks or own.always) and (not own.after or own.after in every)]

    def is_positive(self, gain: float) -> bool:
        """Whether a pair of this gain counts as positive."""
        return gain >= self.positive
