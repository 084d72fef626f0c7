"""Scheme: what is asked about a pair, what may be answered, and what an answer says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cxc_eccv.errors import InvalidOption

__all__ = ["Answer", "Details", "Scheme"]


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
    marks: tuple[str, ...] = ()  # texts along the scale, from its lowest number on
    details: tuple[Details, ...] = ()  # what is asked where an answer asks for it
    # In the place of answers: questions answered with yes or no; all must be yes.
    criteria: dict[str, str] | None = None
    positive: float = 0.5  # gain from which on a pair counts as positive
    shows_captions: bool = False  # whether a person sees the image's own captions, too

    def __post_init__(self) -> None:
        if sum(map(bool, (self.answers, self.scale, self.criteria))) != 1:
            raise InvalidOption(f"scheme {self.name}: declare answers, a scale or criteria, one of the three")

    def gain_of(self, answer: object) -> float:
        """What an answer is worth, from 0 to 1: by its name, its number on the scale, or criterion to yes or no.

        Raises:
            InvalidOption: no such answer; a number outside the scale; a criterion without yes or no.

        Example:
            >>> from cxc_eccv.studies.asking.schemes.eccv import SCHEME
            >>> SCHEME.gain_of("partially_yes")
            0.5
        """
        if self.answers:
            found = {own.name: own.gain for own in self.answers}
            if not isinstance(answer, str) or answer not in found:
                raise InvalidOption(f"answer {answer!r:.60}: give one of {', '.join(found)}")
            return found[answer]
        if self.scale is not None:
            low, high = self.scale
            if isinstance(answer, bool) or not isinstance(answer, int | float) or not low <= answer <= high:
                raise InvalidOption(f"answer {answer!r:.60}: give a number from {low:g} to {high:g}")
            return (answer - low) / (high - low)
        criteria = self.criteria or {}
        if not isinstance(answer, dict) or answer.keys() != criteria.keys():
            raise InvalidOption(f"answer {answer!r:.60}: answer {' and '.join(criteria)}")
        if not all(isinstance(said, bool) for said in answer.values()):
            raise InvalidOption(f"answer {answer!r:.60}: {' and '.join(criteria)} take true or false")
        return float(all(answer.values()))

    def check_details(self, answer: object, details: object) -> dict[str, list[str]]:
        """The ticks of an answer, by group, in the order of the choices.

        Raises:
            InvalidOption: an unknown group or choice, ticks where the answer asks for none, or none where it does.
        """
        groups = details.values() if isinstance(details, dict) else [details]
        if not all(isinstance(ticks, list) and all(isinstance(tick, str) for tick in ticks) for ticks in groups):
            raise InvalidOption(f"details {details!r:.60}: give the ticks of each group as a list of texts")
        assert isinstance(details, dict)  # noqa: S101 - for mypy: a list of texts is no details
        ticked = {name: ticks for name, ticks in details.items() if ticks}
        wanted = self.wanted_details(answer, ticked)
        for name in ticked.keys() - {own.name for own in wanted}:
            raise InvalidOption(f"details {name!r:.60}: answer {answer!r:.60} asks for no such thing")
        for own in wanted:
            unknown = [tick for tick in ticked.get(own.name, []) if tick not in own.choices]
            if unknown or own.name not in ticked:
                found = f"{unknown[0]!r:.60}" if unknown else "none"
                raise InvalidOption(f"details {own.name}: {found}; tick one or more of {', '.join(own.choices)}")
        return {own.name: [tick for tick in own.choices if tick in ticked[own.name]] for own in wanted}

    def wanted_details(self, answer: object, ticked: Mapping[str, Sequence[object]]) -> list[Details]:
        """The groups that are asked for with an answer and what is ticked already."""
        asks = any(own.asks for own in self.answers if own.name == answer)
        every = [tick for ticks in ticked.values() for tick in ticks]
        return [own for own in self.details if asks and (not own.after or own.after in every)]

    def is_positive(self, gain: float) -> bool:
        """Whether a pair of this gain counts as positive."""
        return gain >= self.positive
