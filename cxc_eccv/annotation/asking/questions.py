"""Questionnaires: candidates in sheets, each with a pair that is known to match and one that is known not to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from cxc_eccv.errors import DataError
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.types import check_whole

__all__ = ["CANDIDATE", "NEGATIVE", "POSITIVE", "Question", "build_sheets", "pair_id"]

CANDIDATE, POSITIVE, NEGATIVE = "candidate", "known positive", "known negative"
"""What a question is there for; people are not told."""

CANDIDATES_A_SHEET = 18
TRIES = 1_000

Pair = tuple[int, int]
"""An image id and a caption id."""


@dataclass(frozen=True, slots=True)
class Question:
    """One pair to judge.

    Attributes:
        pair_id: stable over exports; another text or image has another.
        image_id: COCO id.
        caption_id: COCO id.
        file_name: of the image.
        caption: the sentence, as it is shown.
        role: :data:`CANDIDATE`, :data:`POSITIVE` or :data:`NEGATIVE`.
        captions: the image's own captions, for schemes that show them.
    """

    pair_id: str
    image_id: int
    caption_id: int
    file_name: str
    caption: str
    role: str
    captions: tuple[str, ...]


def pair_id(image_id: int, caption_id: int, caption: str) -> str:
    """Sixteen hexadecimal digits of image, caption and the caption's words.

    Example:
        >>> pair_id(7, 70, "A dog runs.")
        'a65566cb419468f4'
    """
    return blake2b(f"{image_id}\0{caption_id}\0{caption}".encode(), digest_size=8).hexdigest()


def build_sheets(
    candidates: Sequence[Pair],
    content: KarpathySplit,
    *,
    positive: Iterable[Pair],
    near: Iterable[Pair],
    size: int = CANDIDATES_A_SHEET,
    seed: int = 0,
) -> list[list[Question]]:
    """Sheets of candidates in a drawn order, each with a known positive and a known negative somewhere among them.

    The positive is an image with a caption of its own, the negative a random pair of the split that no source calls
    positive and no model has near the top of a list; neither shares image or caption with another pair of its sheet.

    Args:
        candidates: (P,) pairs of image id and caption id, each once.
        content: the split, with texts and file names.
        positive: all pairs that a source calls positive.
        near: all pairs that a model has near the top of a list.
        size: candidates of a sheet; the last may have fewer.
        seed: of order and draws.

    Raises:
        InvalidOption: a size below 1.
        DataError: no candidate, one of them twice or not of the split; or too small a split to draw from.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2.
    """
    check_whole("size", size)
    asked, texts = _check(candidates), _Texts(content)
    known, close = set(positive), set(near)
    random = np.random.default_rng(seed)
    order, sheets = random.permutation(len(asked)).tolist(), []
    for start in range(0, len(order), size):
        sheet = [texts.ask(asked[place], CANDIDATE) for place in order[start : start + size]]
        sheet.append(_draw_positive(texts, sheet, random))
        sheet.append(_draw_negative(texts, sheet, known | close, random))
        sheets.append([sheet[place] for place in random.permutation(len(sheet)).tolist()])
    return sheets


def _check(candidates: Sequence[Pair]) -> list[Pair]:
    asked = [(int(image), int(caption)) for image, caption in candidates]
    if not asked:
        raise DataError("no candidate to ask about")
    if len(set(asked)) < len(asked):
        twice = next(pair for pair in asked if asked.count(pair) > 1)
        raise DataError(f"image {twice[0]} with caption {twice[1]} is a candidate twice; ask about every pair once")
    return asked


def _draw_positive(texts: _Texts, sheet: Sequence[Question], random: np.random.Generator) -> Question:
    def draw() -> Pair:
        caption = int(random.choice(texts.caption_ids))
        return texts.owners[caption], caption

    return texts.ask(_draw_apart(draw, sheet, lambda pair: True, POSITIVE), POSITIVE)


def _draw_negative(
    texts: _Texts, sheet: Sequence[Question], excluded: set[Pair], random: np.random.Generator
) -> Question:
    def draw() -> Pair:
        return int(random.choice(texts.image_ids)), int(random.choice(texts.caption_ids))

    def is_far(pair: Pair) -> bool:
        return pair not in excluded and texts.owners[pair[1]] != pair[0]

    return texts.ask(_draw_apart(draw, sheet, is_far, NEGATIVE), NEGATIVE)


def _draw_apart(draw: Callable[[], Pair], sheet: Sequence[Question], fits: Callable[[Pair], bool], role: str) -> Pair:
    """A drawn pair that fits and shares nothing with the sheet."""
    images, captions = {own.image_id for own in sheet}, {own.caption_id for own in sheet}
    for _ in range(TRIES):
        pair = draw()
        if pair[0] not in images and pair[1] not in captions and fits(pair):
            return pair
    raise DataError(
        f"no {role} found in {TRIES:,} draws that shares neither image nor caption with its sheet; ask about fewer "
        "candidates a sheet"
    )


class _Texts:
    """What a person is shown of a pair."""

    def __init__(self, content: KarpathySplit) -> None:
        self.image_ids, self.caption_ids = content.image_ids, content.caption_ids
        captions = content.captions["text"].to_pylist()
        self._captions = dict(zip(self.caption_ids.tolist(), map(_in_one_line, captions), strict=True))
        self._files = dict(zip(self.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
        self.owners = dict(zip(self.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
        self._own: dict[int, list[str]] = {}
        for caption, image in self.owners.items():
            self._own.setdefault(image, []).append(self._captions[caption])

    def ask(self, pair: Pair, role: str) -> Question:
        """The question about a pair."""
        image, caption = pair
        for name, own, known in (("image", image, self._files), ("caption", caption, self._captions)):
            if own not in known:
                raise DataError(f"{name} {own} is not of this split; ask about pairs of it alone")
        text = self._captions[caption]
        return Question(
            pair_id(image, caption, text), image, caption, self._files[image], text, role, tuple(self._own[image])
        )


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
