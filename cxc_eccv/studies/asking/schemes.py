"""Scheme: what a person sees and is asked, the possible answers, and their gains; and the schemes of the papers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from cxc_eccv.errors import InvalidOption

Widget = Mapping[str, Any]
"""What a page needs to show a way to answer: ``name``, ``kind``, ``label``, and more by its kind."""


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
class Exhibit:
    """Something that a person sees of a question: an ``image``, a ``text``, or ``texts``."""

    kind: str
    name: str  # field of the question
    title: str


IMAGE = Exhibit("image", "file_name", "The image")
SENTENCE = Exhibit("text", "caption", "The sentence")
CAPTIONS = Exhibit("texts", "captions", "Captions of the image")


@dataclass(frozen=True, slots=True)
class Scheme:
    """How people are asked."""

    name: str
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
    shows: tuple[Exhibit, ...] = (IMAGE, SENTENCE)
    sides: tuple[str, str] = ("image", "caption")  # kinds of the two items of a pair
    rated_gold: tuple[float, float] | None = None  # CxC ratings of known positives (at least) and negatives (at most)
    in_projects: bool = True  # whether annotation projects can use it

    def __post_init__(self) -> None:
        if sum(map(bool, (self.answers, self.scale, self.criteria))) != 1:
            raise InvalidOption(f"scheme {self.name}: declare exactly one of answers, a scale and criteria")

    def without_reasons(self) -> Scheme:
        """The same scheme without asking for reasons, as in ECCV Caption's second stage."""
        return replace(self, details=(), answers=tuple(replace(answer, asks=False) for answer in self.answers))

    def widgets(self) -> list[Widget]:
        """The widgets of the page, in order; ``asked_with`` names the answers that ask for ticks, None for any."""
        if self.answers:
            choices = {answer.name: answer.label for answer in self.answers}
            drawn: list[Widget] = [{"name": "answer", "kind": "choice", "label": self.question, "choices": choices}]
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

    def compute_gain(self, answer: object) -> float:
        """The gain of an answer, from 0 to 1; an answer is a name, a number on the scale, or criteria to true or false.

        Example:
            >>> ECCV.compute_gain("partially_yes")
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
        if not isinstance(details, dict) or not all(map(_are_texts, details.values())):
            raise InvalidOption(f"details {details!r:.60}: give the ticks of each group as a list of texts")
        ticked = {name: ticks for name, ticks in details.items() if ticks}
        groups = self.find_details(answer, ticked)
        for name in ticked.keys() - {group.name for group in groups}:
            raise InvalidOption(f"details {name!r:.60}: answer {answer!r:.60} does not ask for them; remove them")
        for group in groups:
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
        checked = {}
        for group in groups:
            checked[group.name] = [tick for tick in group.choices if tick in ticked[group.name]]
        return checked

    def find_details(self, answer: object, ticked: Mapping[str, Sequence[object]]) -> list[Details]:
        """The groups that an answer, with these ticks, asks for."""
        asks = any(choice.asks for choice in self.answers if choice.name == answer)
        every = list(chain(*ticked.values()))
        return [group for group in self.details if (asks or group.always) and (not group.after or group.after in every)]

    def is_positive(self, gain: float) -> bool:
        """Whether a pair of this gain counts as positive."""
        return gain >= self.positive


def _are_texts(ticks: object) -> bool:
    return isinstance(ticks, list) and all(isinstance(tick, str) for tick in ticks)


ECCV = Scheme(
    name="eccv",
    title="Does the sentence describe the image?",
    question="Is the image correctly described by the sentence?",
    instructions=(
        "Look at the image first, then read the sentence. Judge what the sentence says, not what it leaves out.",
    ),
    answers=(
        Answer("yes", "100% YES", 1.0),
        Answer("partially_yes", "Partially YES, but", 0.5, asks=True),
        Answer("mostly_no", "Mostly NO, because", 0.0, asks=True),
        Answer("no", "100% NO", 0.0),
    ),
    details=(
        Details(
            "shortcomings",
            "What falls short?",
            {
                "not_in_image": "the description describes concepts that do not appear in the image",
                "not_in_caption": "the description does not describe the main concepts in the image",
                "wrong_description": "the description describes the main concepts in a wrong way",
                "grammar": "the description is grammatically incorrect",
            },
        ),
        Details(
            "errors",
            "What is wrong about the main concepts?",
            {
                "quantity": "quantity",
                "color": "colour",
                "species": "species",
                "gender": "gender",
                "age": "age",
                "action": "action",
                "emotion": "emotion",
                "location": "location",
                "orientation": "orientation",
                "others": "something else",
            },
            after="wrong_description",
        ),
    ),
    citation="Chun et al., ECCV 2022, arXiv:2204.03359, appendix B.1",
)
"""ECCV Caption's: four answers, and reasons for the two in between."""


TIPS = (
    "Move the slider to where the pair belongs between the descriptions along it. A place between two of them is "
    "as good as one at them.",
    "Use all of the scale. Be quick: where you waver between two places, take one between them.",
)

CXC = Scheme(
    name="cxc",
    title="How well does the sentence describe the image?",
    question="How similar is what the image shows to what the sentence says?",
    instructions=TIPS,
    scale=(0.0, 5.0),
    marks=(
        "The image and sentence are completely unmatched.",
        "The image and sentence are not matched, but are loosely thematically related.",
        "The image and sentence are not matched, but share some details in one or more of the types of participants, "
        "actions, objects or background.",
        "The image and sentence are roughly matched, but some important details are different or missing.",
        "The image and sentence are mostly matched, but some unimportant details differ.",
        "The image and sentence are perfectly matched. The sentence is an almost perfect description of the image.",
    ),
    positive=0.6,
    rule="mean",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020, section 2 and appendix, Table 2",
)
"""Crisscrossed Captions' SITS: how well an image and a sentence match, on a scale without visible numbers."""


CXC_CAPTIONS = replace(
    CXC,
    name="cxc_captions",
    title="How similar are the two sentences?",
    question="How similar are the two sentences in meaning?",
    instructions=(*TIPS, "Judge the meaning, not the words. Ignore mistakes of grammar that do not hide it."),
    marks=(
        "The texts are on different topics.",
        "The texts are not equivalent but are on the same topic.",
        "The texts are not equivalent but share some details.",
        "The texts are roughly equivalent but some important information differs or is missing.",
        "The texts are mostly equivalent but some unimportant details differ.",
        "The texts are completely equivalent as they mean the same thing.",
    ),
    shows=(Exhibit("text", "caption", "One sentence"), Exhibit("text", "other", "The other sentence")),
    sides=("caption", "caption"),
    rated_gold=(4.5, 0.5),
)
"""Crisscrossed Captions' STS: how similar two sentences are in meaning."""


CXC_IMAGES = replace(
    CXC,
    name="cxc_images",
    title="How similar are the two images?",
    question="How similar are the scenes that the two images show?",
    marks=(
        "The two scenes are completely dissimilar.",
        "The two scenes are not equivalent, but are loosely thematically related.",
        "The two scenes are not equivalent, but share some details in terms of the types of participants, actions, "
        "objects or background.",
        "The two scenes are roughly equivalent, but some important details are different or missing.",
        "The two scenes are mostly equivalent, but some unimportant details differ.",
        "The scenes are near duplicates, possibly being viewed from a different perspective.",
    ),
    positive=0.5,
    shows=(Exhibit("image", "file_name", "One image"), Exhibit("image", "other", "The other image")),
    sides=("image", "image"),
    rated_gold=(4.0, 0.0),
)
"""Crisscrossed Captions' SIS: how similar two images are."""


ENTAILMENT = Scheme(
    name="entailment",
    title="Does the image with its captions entail the sentence?",
    question="Do both of these hold?",
    instructions=("You see an image with the captions that were written for it, and a further sentence.",),
    criteria={
        "describes": "The sentence clearly describes the content of the image, without ambiguity.",
        "follows": "The sentence can be inferred from the captions, and does not contradict them all.",
    },
    positive=1.0,
    shows=(IMAGE, CAPTIONS, SENTENCE),
    rated_gold=(5.0, 0.0),
    citation="Yan et al., Findings of ACL 2023, section 5",
)
"""The multi-modal entailment paper's: two criteria, both of which must hold."""


ALTERNATIVES = "alternatives"
CLASSES = (ALTERNATIVES, "object class", "colour", "enumeration", "size", "action", "detail")


FAILURES = Scheme(
    name="failures",
    title="What does the retrieved image get wrong?",
    question="How well does the retrieved image serve in the place of the right one, from 1 to 10?",
    instructions=(
        "You see a sentence that somebody searched with, the image it was written for, and the one that was found.",
        "Mark what the retrieved image gets wrong of the sentence, or that it is an alternative, where it serves as "
        "well.",
    ),
    scale=(1.0, 10.0),
    step=1.0,
    details=(
        Details(
            "classes",
            "What does the retrieved image get wrong of the sentence?",
            {name: "nothing, it serves as well" if name == ALTERNATIVES else name for name in CLASSES},
            always=True,
            alone=ALTERNATIVES,
        ),
    ),
    shows=(
        Exhibit("text", "caption", "The sentence"),
        Exhibit("image", "other", "The right image"),
        Exhibit("image", "file_name", "The retrieved image"),
    ),
    in_projects=False,
    citation="Lymperaiou et al., 2022, sections 4.2 and 6.3",
)
"""Explainable evaluation's: what a retrieved image gets wrong, and how well it replaces the right one."""


def schemes() -> Mapping[str, Scheme]:
    """All schemes by name."""
    return {each.name: each for each in (CXC, CXC_CAPTIONS, CXC_IMAGES, ECCV, ENTAILMENT, FAILURES)}
