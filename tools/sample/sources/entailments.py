"""The sample's entailment pairs: an image with its captions, a hypothesis, and seven annotators' votes."""

from __future__ import annotations

import random
from typing import Any

from sample.collection import Caption, Picture, of_split, seeded
from sample.likeness import is_true
from sample.sources.karpathy import compact
from sample.sources.positives import verified_captions

__all__ = ["entailment_jsonl"]

PAIRS = 38
VOTES = 7
DISSENTERS = (0, 0, 0, 1, 1, 2)
"""How many of the annotators vote against the majority; drawn by chance."""


def entailment_jsonl(pictures: list[Picture], split: str) -> bytes:
    """One JSON object per line. In ``test`` one label contradicts a positive of ECCV Caption."""
    rng = seeded(f"entailment {split}")
    chosen = of_split(pictures, split)
    pairs = _sibling_captions(chosen, rng)
    labels = [int(is_true(caption.statement, picture.scene)) for picture, caption in pairs]
    if split == "test":
        verified = set(verified_captions(chosen))
        links = [(picture.image_id, caption.caption_id) for picture, caption in pairs]
        labels[next(place for place, link in enumerate(links) if link in verified)] = 0
    rows = [_row(*pair, label, rng) for pair, label in zip(pairs, labels, strict=True)]
    return b"".join(compact(row) + b"\n" for row in rows)


def _sibling_captions(chosen: list[Picture], rng: random.Random) -> list[tuple[Picture, Caption]]:
    """Captions of similar scenes, half of them true: as hard to tell apart as what a model retrieves."""
    kin = [(a, b) for a in chosen for b in chosen if a is not b and a.family == b.family]
    # One text is judged once per image, though two siblings may share it.
    pairs = list({(a.image_id, c.statement.text): (a, c) for a, b in kin for c in b.counted}.values())
    true = [pair for pair in pairs if is_true(pair[1].statement, pair[0].scene)]
    false = [pair for pair in pairs if not is_true(pair[1].statement, pair[0].scene)]
    drawn = rng.sample(true, PAIRS // 2) + rng.sample(false, PAIRS // 2)
    rng.shuffle(drawn)
    return drawn


def _row(picture: Picture, caption: Caption, label: int, rng: random.Random) -> dict[str, Any]:
    against = rng.choice(DISSENTERS)
    votes = [1 - label] * against + [label] * (VOTES - against)
    rng.shuffle(votes)
    return {
        "image": picture.file_name,
        "image_id": picture.image_id,
        "premise": [premise.statement.text for premise in picture.counted],
        "hypothesis": caption.statement.text,
        "caption_id": caption.caption_id,
        "label": label,
        "votes": votes,
    }
