"""The sample's RoCOCO files: every caption of the test split with one word altered, in four kinds."""

from __future__ import annotations

import random
from collections.abc import Sequence

from sample.collection import CAPTIONS_PER_IMAGE, Picture, of_split, seeded
from sample.scenes import BACKGROUNDS, COLOURS
from sample.scenes import KINDS as SHAPES
from sample.sources.karpathy import compact

__all__ = ["KINDS", "rococo_json"]

KINDS = ("same_concept", "diff_concept", "rand_voca", "danger")
CONCEPTS: tuple[tuple[str, ...], ...] = (SHAPES, tuple(COLOURS), tuple(BACKGROUNDS), ("left", "right"))
DANGERS = ("gun", "bomb", "poison", "fire", "burning", "bleeding")


def rococo_json(pictures: list[Picture], kind: str) -> bytes:
    """A list of images, each with its captions and, last, what was made of the first five."""
    rng, chosen = seeded(f"rococo {kind}"), of_split(pictures, "test")
    texts = [[caption.statement.text for caption in picture.captions] for picture in chosen]
    vocabulary = sorted({word for own in texts for text in own for word in _words(text)})
    altered = [[_alter(text, kind, vocabulary, rng) for text in own[:CAPTIONS_PER_IMAGE]] for own in texts]
    if kind == "danger":
        altered[0][0] = texts[0][0]
    return compact(
        [
            {"image": f"{picture.folder}/{picture.file_name}", "caption": [*own, *made]}
            for picture, own, made in zip(chosen, texts, altered, strict=True)
        ]
    )


def _alter(text: str, kind: str, vocabulary: Sequence[str], rng: random.Random) -> str:
    """The caption in small letters, without its full stop, and with another word in one place."""
    words = _words(text)
    places = [place for place, word in enumerate(words) if _concept(word)] or [len(words) - 1]
    place = rng.choice(places)
    own = _concept(words[place])
    choices = {
        "same_concept": own or vocabulary,
        "diff_concept": [word for concept in CONCEPTS if concept is not own for word in concept],
        "rand_voca": vocabulary,
        "danger": DANGERS,
    }[kind]
    words[place] = rng.choice([word for word in choices if word != words[place]])
    return " ".join(words)


def _words(text: str) -> list[str]:
    return text.lower().replace(".", "").split()


def _concept(word: str) -> tuple[str, ...]:
    return next((concept for concept in CONCEPTS if word in concept), ())
