"""Questionnaires: sheets of candidates, each with a known positive and a known negative."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from hashlib import blake2b
from itertools import chain, islice
from operator import itemgetter

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.asking.schemes import Scheme
from cxc_eccv.types import IntArray, check_whole, find_positions

CANDIDATE = "candidate"
POSITIVE = "known positive"
NEGATIVE = "known negative"
"""The role of a question, which people do not see."""

ROLES = (POSITIVE, NEGATIVE)
"""The roles of known pairs."""

IMAGE_AND_CAPTION = ("image", "caption")
"""Kinds of the two items of a pair, unless the scheme has two images or two captions."""

CANDIDATES_A_SHEET = 18
DRAWS = 1_000
DRAWS_A_SHEET = 20

PAIR = ["image_id", "caption_id"]
"""Columns of the ids of a pair's first and second item."""

Pair = tuple[int, int]
PairWithRole = tuple[Pair, str]
"""The ids of a pair, and its role on a sheet."""

Pairs = tuple[IntArray, IntArray]
"""(P,) ids of the first and of the second items: images and captions, unless the scheme has other sides."""

NO_PAIRS: Pairs = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

IsNear = Callable[[IntArray, IntArray], NDArray[np.bool_]]
"""A function of (P,) image ids and caption ids: whether a model ranks the pair near the top of a list."""


@dataclass(frozen=True, slots=True)
class Question:
    """One pair to judge; for two images or two captions, the ids are those of the first and of the second."""

    pair_id: str  # the same in all exports; depends on ids and text
    image_id: int
    caption_id: int
    file_name: str
    caption: str  # the sentence, as shown
    role: str  # CANDIDATE, POSITIVE or NEGATIVE
    captions: tuple[str, ...]  # the image's own captions except one, for schemes that show them
    other: str = ""  # file name of a second image, or a second sentence


@dataclass(frozen=True, eq=False)
class Questionnaire:
    """Sheets of questions and their scheme."""

    scheme: Scheme
    sheets: Sequence[Sequence[Question]]
    first: int = 0  # number of the first sheet; numbers continue across the rounds of a project
    portable: bool = False  # whether an answer counts for its pair on any sheet

    @property
    def numbers(self) -> range:
        """The numbers of the sheets."""
        return range(self.first, self.first + len(self.sheets))

    def sheet(self, number: int) -> Sequence[Question]:
        """The questions of a sheet."""
        return self.sheets[number - self.first]

    @cached_property
    def id(self) -> str:
        """A hash of the scheme's name and the questions in order."""
        if self.portable:
            return f"q_{self.scheme.name}"
        content = [self.scheme.name, list(map(_list_ids, self.sheets))]
        return "q" + blake2b(json.dumps(content).encode(), digest_size=6).hexdigest()


def _list_ids(sheet: Sequence[Question]) -> list[str]:
    return [question.pair_id for question in sheet]


def find_questionnaires(questionnaires: Iterable[Questionnaire]) -> dict[int, Questionnaire]:
    """Number of each sheet to its questionnaire."""
    by_number: dict[int, Questionnaire] = {}
    for questionnaire in questionnaires:
        by_number |= dict.fromkeys(questionnaire.numbers, questionnaire)
    return by_number


def pair_id(image_id: int, caption_id: int, caption: str) -> str:
    """A letter and a hash of image, caption and text in sixteen hexadecimal digits.

    Without the letter, spreadsheets would read ids such as 12e4567890123456 as numbers.

    Example:
        >>> pair_id(7, 70, "A dog runs.")
        'pa65566cb419468f4'
    """
    return "p" + blake2b(f"{image_id}\0{caption_id}\0{caption}".encode(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True, eq=False)
class KnownPairs:
    """What the known pairs of sheets are drawn from.

    A known positive is an image with one of its own captions, a known negative a random pair of the split that no
    source calls positive and no model ranks near the top. ``rated`` pairs are used first, and for two images or two
    captions they are the only ones.
    """

    content: Split
    sides: tuple[str, str] = IMAGE_AND_CAPTION
    positive: Pairs = NO_PAIRS  # all pairs that match or may match
    is_near: IsNear = lambda ids, _: np.zeros(ids.size, dtype=bool)
    invalid: Pairs = NO_PAIRS  # image ids and caption ids that no known pair may have
    rated: tuple[Pairs, Pairs] = (NO_PAIRS, NO_PAIRS)  # known positives and known negatives

    def draw(self, number: int, random: np.random.Generator) -> dict[str, dict[Pair, None]]:
        """Role to its pairs in random order, the rated ones first; a negative is among ``number`` drawn pairs.

        The pairs are the keys of a dict, so that used ones can be removed quickly.
        """
        drawn = {role: _shuffle(pairs, random) for role, pairs in zip(ROLES, self.rated, strict=True)}
        if self.sides == IMAGE_AND_CAPTION:
            for role, pairs in self._draw_cross_modal(number, random).items():
                drawn[role] |= {pair: None for pair in pairs if pair not in drawn[role]}
        return drawn

    def _draw_cross_modal(self, number: int, random: np.random.Generator) -> dict[str, dict[Pair, None]]:
        content = self.content
        order = random.permutation(content.caption_ids.size)
        linked = content.caption_image_ids[order], content.caption_ids[order]
        drawn = random.choice(content.image_ids, number), random.choice(content.caption_ids, number)
        images, captions = (np.concatenate(ids) for ids in zip(linked, self.positive, strict=True))
        is_far = ~_is_among(drawn, (images, captions), content) & ~self.is_near(*drawn)
        pairs_of_roles = {}
        for role, pairs, usable in ((POSITIVE, linked, True), (NEGATIVE, drawn, is_far)):
            valid = ~np.isin(pairs[0], self.invalid[0]) & ~np.isin(pairs[1], self.invalid[1]) & usable
            pairs_of_roles[role] = dict.fromkeys(zip(pairs[0][valid].tolist(), pairs[1][valid].tolist(), strict=True))
        return pairs_of_roles


def build_sheets(
    candidates: pa.Table, known_pairs: KnownPairs, *, size: int = CANDIDATES_A_SHEET, seed: int = 0
) -> list[list[Question]]:
    """Sheets of candidates in random order, each with a known positive and a known negative at random places.

    Neither is a candidate or shares an item with another pair of its sheet, and no pair is on two sheets.

    References:
        Chun et al., ECCV Caption, ECCV 2022, section 3.2.
    """
    check_whole("size", size)
    pairs = list(zip(candidates["image_id"].to_pylist(), candidates["caption_id"].to_pylist(), strict=True))
    sides = known_pairs.sides
    random = np.random.default_rng(seed)
    order = random.permutation(len(pairs)).tolist()
    starts = range(0, len(order), size)
    used = set(pairs)
    drawn = known_pairs.draw(DRAWS + DRAWS_A_SHEET * len(starts), random)
    sheets: list[list[PairWithRole]] = []
    for start in starts:
        sheet = [(pairs[index], CANDIDATE) for index in order[start : start + size]]
        for role, pairs_of_role in drawn.items():
            pair = _find_apart(pairs_of_role, [pair for pair, _ in sheet], used, sides)
            if pair is not None:
                used.add(pair)
                sheet.append((pair, role))
            elif sides == IMAGE_AND_CAPTION:
                raise DataError(
                    f"no {role} is left for sheet {len(sheets)} that shares no image or caption with it and is on no "
                    "other sheet; ask about fewer candidates, or put fewer on a sheet"
                )
        sheets.append([sheet[index] for index in random.permutation(len(sheet)).tolist()])
    questions = iter(ask(known_pairs.content, _tabulate(chain(*sheets)), sides))
    return [list(islice(questions, len(sheet))) for sheet in sheets]


def build_practice(known_pairs: KnownPairs, number: int, avoid: set[Pair], seed: int = 0) -> list[Question]:
    """Questions to practise on, in turn a known positive and a known negative as long as there are both.

    ``avoid`` are the pairs on sheets.
    """
    random = np.random.default_rng([seed, number])
    drawn = known_pairs.draw(DRAWS + number, random)
    ranked: list[tuple[int, Pair, str]] = []
    for role, pairs in drawn.items():
        left = [pair for pair in pairs if pair not in avoid]
        ranked += [(rank, pair, role) for rank, pair in enumerate(left)]
    if len(ranked) < number:
        raise DataError(f"{len(ranked):,} known pairs are left to practise on, not {number:,}: ask for fewer")
    first = sorted(ranked, key=itemgetter(0))[:number]
    return ask(known_pairs.content, _tabulate((pair, role) for _, pair, role in first), known_pairs.sides)


def _tabulate(pairs: Iterable[PairWithRole]) -> pd.DataFrame:
    rows = [(*pair, role) for pair, role in pairs]
    return pd.DataFrame(rows, columns=[*PAIR, "role"]).astype(dict.fromkeys(PAIR, np.int64))


def assign_sheets(
    sheets: Sequence[int], people: Sequence[str], each: int, done: Collection[tuple[int, str]] = ()
) -> dict[str, list[int]]:
    """Person to sheets, so that ``each`` people answer every sheet and all get similar numbers of new sheets."""
    if not 1 <= each <= len(people) or len(set(people)) < len(people):
        raise InvalidOption(f"{each} people a sheet, but only {', '.join(people)}: give enough different names")
    assigned: dict[str, list[int]] = {person: [] for person in people}
    for sheet in sheets:
        answered = {worker for number, worker in done if number == sheet}
        left = [person for person in people if person not in answered]
        left.sort(key=lambda person: len(assigned[person]))
        for person in left[: max(0, each - len(answered))]:
            assigned[person].append(sheet)
    return assigned


def _shuffle(pairs: Pairs, random: np.random.Generator) -> dict[Pair, None]:
    order = random.permutation(pairs[0].size)
    return dict.fromkeys(zip(pairs[0][order].tolist(), pairs[1][order].tolist(), strict=True))


def _is_among(pairs: Pairs, others: Pairs, content: Split) -> NDArray[np.bool_]:
    """Whether each pair of the split is one of the others, some of which may be of other splits."""

    def encode(images: IntArray, captions: IntArray) -> IntArray:
        rows, is_row = find_positions(images, content.image_ids)
        columns, is_column = find_positions(captions, content.caption_ids)
        return (rows * content.caption_ids.size + columns)[is_row & is_column]

    return np.isin(encode(*pairs), encode(*others))


def _find_apart(pairs: dict[Pair, None], sheet: Sequence[Pair], used: set[Pair], sides: tuple[str, str]) -> Pair | None:
    """Remove and return the first of the pairs that is not used and shares no item with the sheet."""
    items = set(chain.from_iterable(zip(sides, pair, strict=True) for pair in sheet))
    for pair in pairs:
        if pair not in used and items.isdisjoint(zip(sides, pair, strict=True)):
            del pairs[pair]
            return pair
    return None


def ask(
    split: Split,
    pairs: pd.DataFrame,
    sides: tuple[str, str] = IMAGE_AND_CAPTION,
    *,
    all_captions: bool = False,
) -> list[Question]:
    """A question about each pair of a split, with the texts and file names that people see of it.

    Args:
        split: where the ids are looked up.
        pairs: ``image_id``, ``caption_id`` and ``role``; perhaps ``pair_id``, in place of the hash of :func:`pair_id`,
            and ``other_id``, a second image in place of the first one's captions.
        sides: kinds of the two items of a pair.
        all_captions: show all captions of the image, the one asked about too, in place of all but one.

    Raises:
        DataError: an id is not in the split.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> split = Library("sample").split("test")
        >>> pair = {"image_id": split.image_ids[:1], "caption_id": split.caption_ids[7:8], "role": CANDIDATE}
        >>> ask(split, pd.DataFrame(pair))[0].file_name
        'COCO_val2014_000000764118.jpg'
    """
    asked = pairs.assign(file_name="", caption="", other="")
    if sides == IMAGE_AND_CAPTION:
        asked["file_name"] = _look_up(split, "image", asked["image_id"])
        asked["caption"] = _look_up(split, "caption", asked["caption_id"])
        if "other_id" in asked:
            asked["other"] = _look_up(split, "image", asked["other_id"])
    else:
        side = sides[0]
        asked["file_name" if side == "image" else "caption"] = _look_up(split, side, asked["image_id"])
        asked["other"] = _look_up(split, side, asked["caption_id"])
    unknown = asked[asked[["file_name", "caption", "other"]].isna().any(axis=1)]
    if len(unknown):
        image, caption = unknown[PAIR].iloc[0]
        raise DataError(
            f"image {image}, caption {caption} or what is shown beside them is not in the {split.name} split of this "
            "data. Point --data-dir at the data that the questions are about"
        )
    if "pair_id" not in asked:
        texts = asked["caption"] + asked["other"]
        asked["pair_id"] = list(map(pair_id, asked["image_id"], asked["caption_id"], texts))
    asked["captions"] = [()] * len(asked)
    if sides == IMAGE_AND_CAPTION and "other_id" not in asked:
        asked["captions"] = _choose_captions(split, asked, all_captions=all_captions)
    names = [field.name for field in fields(Question)]
    return [Question(**question) for question in asked[names].to_dict("records")]


def _look_up(split: Split, side: str, ids: pd.Series) -> list[str | None]:
    """File names of images, or texts of captions in one line; None for ids outside the split."""
    look_up = split.files_of if side == "image" else split.texts_of
    words: list[str | None] = look_up(ids.to_numpy()).to_pylist()
    if side == "caption":
        words = [None if text is None else _in_one_line(text) for text in words]
    return words


def _choose_captions(split: Split, asked: pd.DataFrame, *, all_captions: bool) -> list[tuple[str, ...]]:
    """The captions of each image, all or without one: the one asked about, or any if that is another image's.

    So an image has the same number of captions beside it, whether its pair is known to match or not.
    """
    texts = dict(zip(split.caption_ids.tolist(), map(_in_one_line, split.captions["text"].to_pylist()), strict=True))
    written_for = defaultdict(list)
    for image, caption in zip(split.caption_image_ids.tolist(), texts, strict=True):
        written_for[image].append(caption)
    chosen = []
    for row in asked.itertuples():
        captions = written_for[row.image_id]
        if not all_captions:
            is_own = row.caption_id in captions
            left_out = row.caption_id if is_own else captions[int(row.pair_id[1:], 16) % len(captions)]
            captions = [caption for caption in captions if caption != left_out]
        chosen.append(tuple(texts[caption] for caption in captions))
    return chosen


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
