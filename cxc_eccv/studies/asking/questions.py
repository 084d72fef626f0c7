"""Questionnaires: candidates in sheets, each with a pair that is known to match and one that is known not to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.types import IntArray, check_whole, positions_of

__all__ = [
    "CANDIDATE",
    "NEGATIVE",
    "POSITIVE",
    "QUESTIONS",
    "Question",
    "build_sheets",
    "pair_id",
    "sheets_from_table",
    "sheets_to_table",
]

CANDIDATE, POSITIVE, NEGATIVE = "candidate", "known positive", "known negative"
"""What a question is there for; people are not told."""

CANDIDATES_A_SHEET = 18
DRAWS = 1_000
DRAWS_A_SHEET = 20

QUESTIONS = pa.schema(
    [
        ("sheet", pa.int32()),
        ("pair_id", pa.string()),
        ("image_id", pa.int64()),
        ("caption_id", pa.int64()),
        ("file_name", pa.string()),
        ("caption", pa.string()),
        ("role", pa.string()),
        ("captions", pa.list_(pa.string())),
    ]
)
"""A row per question, in the order in which they are asked."""

Pair = tuple[int, int]
"""An image id and a caption id."""

Pairs = tuple[IntArray, IntArray]
"""(P,) image ids and (P,) caption ids."""

IsNear = Callable[[IntArray, IntArray], NDArray[np.bool_]]
"""Whether a model has a pair near the top of a list, for (P,) image ids and caption ids."""


@dataclass(frozen=True, slots=True)
class Question:
    """One pair to judge."""

    pair_id: str  # stable over exports; another text or image has another
    image_id: int
    caption_id: int
    file_name: str
    caption: str  # the sentence, as it is shown
    role: str  # CANDIDATE, POSITIVE or NEGATIVE
    captions: tuple[str, ...]  # the image's own captions but one, for schemes that show them


def pair_id(image_id: int, caption_id: int, caption: str) -> str:
    """Sixteen hexadecimal digits of image, caption and the caption's words, after a letter.

    Without the letter spreadsheets would take ids such as 12e4567890123456 for numbers.

    Example:
        >>> pair_id(7, 70, "A dog runs.")
        'pa65566cb419468f4'
    """
    return "p" + blake2b(f"{image_id}\0{caption_id}\0{caption}".encode(), digest_size=8).hexdigest()


def build_sheets(
    candidates: pa.Table,
    content: KarpathySplit,
    *,
    positive: Pairs,
    is_near: IsNear,
    invalid: Pairs | None = None,
    size: int = CANDIDATES_A_SHEET,
    seed: int = 0,
) -> list[list[Question]]:
    """Sheets of candidates in a drawn order, each with a known positive and a known negative somewhere among them.

    The positive is an image with a caption of its own, the negative a random pair of the split that no source calls
    positive and no model has near the top of a list. Neither is a candidate, neither shares image or caption with
    another pair of its sheet, and no pair is asked about on two sheets.

    Args:
        candidates: columns ``image_id`` and ``caption_id``, each pair once.
        content: the split, with texts and file names.
        positive: (P,) image ids and (P,) caption ids of all pairs that match, or of which nobody is sure that they do
            not: what a source calls positive, and what people were asked about before.
        is_near: whether a model has each of some pairs near the top of a list.
        invalid: (I,) image ids and (C,) caption ids that no known pair may have: captions that describe nothing.
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
    random = np.random.default_rng(seed)
    order = random.permutation(len(asked)).tolist()
    starts, taken = range(0, len(order), size), set(asked)
    shuffled = random.permutation(content.caption_ids.size)
    own = (content.caption_image_ids[shuffled], content.caption_ids[shuffled])
    number = DRAWS + DRAWS_A_SHEET * len(starts)
    drawn = (random.choice(content.image_ids, number), random.choice(content.caption_ids, number))
    is_far = ~_is_among(drawn, _join(own, positive), content) & ~is_near(*drawn)
    golden = {
        POSITIVE: _pick(own, _is_valid(own, invalid)),
        NEGATIVE: _pick(drawn, _is_valid(drawn, invalid) & is_far),
    }
    sheets = []
    for start in starts:
        sheet = [texts.ask(asked[place], CANDIDATE) for place in order[start : start + size]]
        for role, pairs in golden.items():
            pair = _find_apart(pairs, sheet, taken, role)
            taken.add(pair)
            sheet.append(texts.ask(pair, role))
        sheets.append([sheet[place] for place in random.permutation(len(sheet)).tolist()])
    return sheets


def sheets_to_table(sheets: Sequence[Sequence[Question]]) -> pa.Table:
    """The sheets as a table of :data:`QUESTIONS`."""
    rows = [{"sheet": number, **asdict(question)} for number, sheet in enumerate(sheets) for question in sheet]
    return pa.Table.from_pylist(rows, schema=QUESTIONS)


def sheets_from_table(table: pa.Table) -> list[list[Question]]:
    """The sheets of a table of :func:`sheets_to_table`.

    Raises:
        DataError: another table, or one that was changed.
    """
    if table.schema != QUESTIONS:
        raise DataError(f"no table of questions: columns {', '.join(table.column_names)}")
    sheets: list[list[Question]] = []
    for row in table.to_pylist():
        number = row.pop("sheet")
        if (
            None in (number, *row.values())
            or None in row["captions"]
            or row["role"] not in (CANDIDATE, POSITIVE, NEGATIVE)
        ):
            raise DataError(f"question {row['pair_id']} lacks a value, or has another role; restore the table")
        if number == len(sheets):
            sheets.append([])
        if number != len(sheets) - 1:
            raise DataError(f"a question of sheet {number} after one of sheet {len(sheets) - 1}; keep their order")
        question = Question(**row | {"captions": tuple(row["captions"])})
        if question.pair_id != pair_id(question.image_id, question.caption_id, question.caption):
            raise DataError(f"question {question.pair_id} is not the one that its id was made of; restore the table")
        sheets[-1].append(question)
    return sheets


def _check(candidates: pa.Table) -> list[Pair]:
    asked = list(zip(candidates["image_id"].to_pylist(), candidates["caption_id"].to_pylist(), strict=True))
    if not asked:
        raise DataError("no candidate to ask about")
    for (image, caption), number in Counter(asked).items():
        if number > 1:
            raise DataError(f"image {image} with caption {caption} is a candidate twice; ask about every pair once")
    return asked


def _pick(pairs: Pairs, chosen: NDArray[np.bool_]) -> dict[Pair, None]:
    """Chosen pairs in their order; a dict, as used ones are removed anywhere in it."""
    images, captions = (ids[chosen].tolist() for ids in pairs)
    return dict.fromkeys(zip(images, captions, strict=True))


def _join(*pairs: Pairs) -> Pairs:
    images, captions = zip(*pairs, strict=True)
    return np.concatenate(images), np.concatenate(captions)


def _is_valid(pairs: Pairs, invalid: Pairs | None) -> NDArray[np.bool_]:
    images, captions = invalid or (np.empty(0, dtype=np.int64),) * 2
    return ~np.isin(pairs[0], images) & ~np.isin(pairs[1], captions)


def _is_among(pairs: Pairs, others: Pairs, content: KarpathySplit) -> NDArray[np.bool_]:
    """Whether each pair of the split is one of the others, some of which may be of other splits."""

    def encode(images: IntArray, captions: IntArray) -> IntArray:
        rows, is_row = positions_of(images, content.image_ids)
        columns, is_column = positions_of(captions, content.caption_ids)
        return (rows * content.caption_ids.size + columns)[is_row & is_column]

    return np.isin(encode(*pairs), encode(*others))


def _find_apart(pairs: dict[Pair, None], sheet: Sequence[Question], taken: set[Pair], role: str) -> Pair:
    """The first of the pairs that is asked about nowhere and shares nothing with the sheet; it is removed."""
    images, captions = {own.image_id for own in sheet}, {own.caption_id for own in sheet}
    for pair in pairs:
        if pair not in taken and pair[0] not in images and pair[1] not in captions:
            del pairs[pair]
            return pair
    raise DataError(
        f"no {role} is left that shares neither image nor caption with its sheet and is asked about nowhere else; ask "
        "about fewer candidates, or fewer of them a sheet"
    )


class _Texts:
    """What a person is shown of a pair."""

    def __init__(self, content: KarpathySplit) -> None:
        captions, owners = content.caption_ids.tolist(), content.caption_image_ids.tolist()
        self._captions = dict(zip(captions, map(_in_one_line, content.captions["text"].to_pylist()), strict=True))
        self._files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
        self._of_image: dict[int, list[int]] = {}
        for image, caption in zip(owners, captions, strict=True):
            self._of_image.setdefault(image, []).append(caption)

    def ask(self, pair: Pair, role: str) -> Question:
        """The question about a pair.

        A known positive would be recognised by its caption among the image's own, or by being one short. So one is left
        out always: the caption that is asked about where it is one of them, else one chosen by the pair's id.
        """
        image, caption = pair
        for kind, number, known in (("image", image, self._files), ("caption", caption, self._captions)):
            if number not in known:
                raise DataError(f"{kind} {number} is not of this split; ask about pairs of it alone")
        text = self._captions[caption]
        name = pair_id(image, caption, text)
        others = self._of_image[image]
        left_out = caption if caption in others else others[int(name[1:], 16) % len(others)]
        captions = tuple(self._captions[other] for other in others if other != left_out)
        return Question(name, image, caption, self._files[image], text, role, captions)


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
