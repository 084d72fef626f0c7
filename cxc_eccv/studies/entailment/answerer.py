"""What answers whether an image and its captions entail a sentence, the kinds of it, and the question that they get."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.sources.download import answers_folder


class Answerer(ABC):
    """A model, an endpoint or code of yours that gives pairs of an image with captions and a sentence probabilities.

    A subclass sets ``name`` and ``fingerprint`` and defines :meth:`score_and_count`; ``ClassifierJudge`` adds the
    premises, the cache of answers and the provenance. The fingerprint must change whenever an answer could.

    Attributes:
        name: name in files and reports.
        fingerprint: text that identifies weights, prompt and settings; the cache of answers is named by it.
        threshold: the lowest probability that counts as entailed.
        has_visual: whether it looks at images.
        reads_captions: whether it reads the captions of the image.
        training_data: a record of what it was trained on, as ``train entailment-classifier`` writes it, or None.
        source: folder or Hub id that it was loaded from, where ``pairs_seen.parquet`` may lie; empty if none.
        commit: commit on the Hub.
        calibrated: facts of a calibration, or None.
        pairs_at_once: pairs that are asked together, after which their probabilities are saved.
    """

    name: str
    fingerprint: str
    threshold: float = 0.5
    has_visual: bool = False
    reads_captions: bool = True
    training_data: Mapping[str, Any] | None = None
    source: str = ""
    commit: str | None = None
    pairs_at_once: int = 2048
    calibrated: Mapping[str, Any] | None = None

    @property
    def answers_folder(self) -> Path:
        """Folder of its answers in the download cache."""
        name = re.sub(r"[^A-Za-z0-9._-]+", "-", self.name.rstrip("/").rpartition("/")[2])
        return answers_folder() / f"{name}-{self.fingerprint[:16]}"

    @abstractmethod
    def score_and_count(
        self,
        premises: Sequence[str],
        images: Sequence[Any] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> tuple[NDArray[np.float64], int]:
        """(P,) probabilities of pairs, and the number of pairs of which a part was cut off.

        Args:
            premises: the captions of each image, joined by spaces.
            images: files of the images; None unless ``has_visual``.
            hypotheses: the sentences.
            batch_size: pairs per batch.
            progress: show a bar.
        """

    def refuse_gaps(self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]) -> None:
        """Raise InvalidOption for a pair without a sentence, or without what is looked at; rows count from 0."""
        sides = {"the hypothesis is empty": [not text.strip() for text in hypotheses]}
        if self.reads_captions:
            sides["it has no captions, which the judge reads"] = [not text.strip() for text in premises]
        if self.has_visual:
            files = [None] * len(premises) if images is None else images
            sides["it has no image, which the judge looks at"] = [file is None for file in files]
        for reason, lacks in sides.items():
            if any(lacks):
                raise InvalidOption(f"{self.name}, pair {lacks.index(True)}: {reason}")

    def ask(
        self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str], batch_size: int
    ) -> tuple[NDArray[np.float64], int]:
        """As :meth:`score_and_count`; DataError for anything but a probability of each pair."""
        answers, cut = self.score_and_count(premises, images, hypotheses, batch_size=batch_size, progress=False)
        probabilities = np.asarray(answers)
        if probabilities.shape != (len(premises),) or not ((probabilities >= 0) & (probabilities <= 1)).all():
            raise DataError(f"{self.name} must give one probability between 0 and 1 for each of {len(premises)} pairs")
        return probabilities, cut

    def calibrate(self, probabilities: ArrayLike) -> NDArray[np.float64]:
        """The (P,) probabilities that answers stand for."""
        return np.asarray(probabilities)


@dataclass(frozen=True, slots=True)
class Announced:
    """What is known of an answerer before its weights are loaded; ``load`` loads it."""

    name: str
    load: Callable[[], Answerer]
    threshold: float = 0.5
    has_visual: bool = False
    training_data: Mapping[str, Any] | None = None
    source: str = ""
    commit: str | None = None


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of answerers, of those that ``answering`` tries in turn.

    Args:
        title: what it is, for messages.
        recognise: whether a name, with the ``config.json`` behind it (empty if there is none), is of this kind.
        announce: the answerer of that name; takes ``images``, whether there are images, ``device``, ``name`` and the
            options of ``takes``.
        takes: options of this kind.
    """

    title: str
    recognise: Callable[[str, Mapping[str, Any]], bool]
    announce: Callable[..., Announced]
    takes: tuple[str, ...] = ()


OF_IMAGE = 'Does this caption describe the image? Caption: "{caption}" Answer with yes or no.'

OF_CAPTIONS = (
    'People described an image so: "{captions}" Does this caption describe the same image? Caption: "{caption}" Answer '
    "with yes or no."
)

FIELD = re.compile(r"\{(\w*)\}")


def check_question(question: str) -> None:
    """Raise InvalidOption unless a question has the place of the caption, and no unknown place.

    Example:
        >>> check_question("Is it {caption}?")
        >>> check_question("Is it {text}?")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: question 'Is it {text}?': write {caption} once, and {captions} ...
    """
    fields = FIELD.findall(question)
    if fields.count("caption") != 1 or set(fields) - {"caption", "captions"}:
        raise InvalidOption(
            f"question {question!r:.200}: write {{caption}} once, and {{captions}} for the captions of the image if "
            "they may be seen"
        )


def fill(question: str, captions: str, caption: str) -> str:
    """The question about one pair; braces within captions stay as they are.

    Example:
        >>> fill("{captions} So: {caption}?", "a {caption}", "a dog")
        'a {caption} So: a dog?'
    """
    texts = {"caption": caption, "captions": captions}
    return FIELD.sub(lambda match: texts[match[1]], question)
