"""Source: the declaration of a source of labels; Evidence: what a source says about pairs; the sources of papers.

MS-COCO links a caption to the image that it was written for. Annotators of Crisscrossed Captions rated pairs from 0 to
5. Models proposed the positives of ECCV Caption and people verified them, with separate queries per direction. A user's
file says which pairs of image and caption are entailed.

Whether an image and a caption match does not depend on which of them is the query. So a source says the same of a pair
in both directions, and lists the queries for which it searched matches where these are not all that it judges.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.discovery import find_declared
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import EntailmentPairs
from cxc_eccv.types import CROSS_MODAL, FloatArray, IntArray, find_positions, find_sides
from cxc_eccv.types.ids import find_distinct, number_within
from cxc_eccv.types.judgments import orient

RATING_KIND = {"i2t": "sits", "t2i": "sits", "t2t": "sts", "i2i": "sis"}  # Direction to the CxC ratings that judge it


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Lowest CxC rating that makes a pair positive; the defaults are the paper's."""

    sts: float = 3.0
    sis: float = 2.5
    sits: float = 3.0

    def __post_init__(self) -> None:
        for name in ("sts", "sis", "sits"):
            value = getattr(self, name)
            if not 0 < value <= 5:
                raise InvalidOption(
                    f"the threshold {name} is {value}; ratings run from 0 to 5, so choose one in (0, 5]"
                )

    def of_direction(self, direction: str) -> float:
        """The threshold of the ratings that judge a direction."""
        return float(getattr(self, RATING_KIND[direction]))


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """What one source says about ordered pairs; a pair that it is undecided about is not among them."""

    queries: IntArray  # (P,) ids
    items: IntArray
    positive: NDArray[np.bool_]  # False: judged negative
    ratings: FloatArray  # NaN where the source does not grade
    reverse: FloatArray  # rating of the pair in the other order (SIS), or NaN
    searched: IntArray  # ids of the queries for which it looked for matches
    left_out: Mapping[str, int]  # rule to the number of raw judgments that it left out
    rule: str = ""  # why pairs are positive; gather fills in the rule of the source if empty
    source: str = ""  # name of the source; gather fills it in

    @classmethod
    def of(
        cls,
        queries: IntArray,
        items: IntArray,
        positive: NDArray[np.bool_] | None = None,
        ratings: FloatArray | None = None,
        reverse: FloatArray | None = None,
        searched: IntArray | None = None,
        left_out: Mapping[str, int] | None = None,
    ) -> Evidence:
        """Build with defaults: all pairs positive, none rated, all of their queries searched, none left out."""
        none = np.full(queries.size, np.nan)
        return cls(
            queries,
            items,
            np.ones(queries.size, dtype=bool) if positive is None else positive,
            none if ratings is None else ratings,
            none if reverse is None else reverse,
            queries if searched is None else searched,
            left_out or {},
        )


EvidenceOf = Callable[[Split, str, Thresholds], Evidence | None]
RuleOf = Callable[[str, Thresholds], str]


@dataclass(frozen=True, slots=True)
class Source:
    """A source of labels. To add one, write a file in ``judgments/evidence`` that defines ``SOURCE``.

    Attributes:
        name: name in provenance; that of the file, unless it has several sources.
        title: name in tables.
        description: what it says, and for which queries, in its first sentence; then more.
        order: place among the sources, oldest and most general first; under ``override`` the last one decides.
        rule: maps direction and thresholds to the reason why pairs are positive, in words.
        evidence: maps split, direction and thresholds to the evidence, or to None if it judges nothing.
        groups: groups of raw files in the catalog that it reads, for licences and citations.
        lists_positives: whether it lists only positives, so that unlisted items of the queries that it searched do not
            match.
        official: whether people gave the labels. Labels of models count only on request, and are in no report.
        yes, no: text of an example for a positive and a negative pair, with a placeholder for CxC's ``{ratings}``.
    """

    name: str
    title: str
    description: str
    order: int
    rule: RuleOf
    evidence: EvidenceOf
    groups: tuple[str, ...]
    lists_positives: bool = False
    official: bool = True
    yes: str = ""
    no: str = ""


def item_ids(split: Split, direction: str) -> tuple[IntArray, IntArray]:
    """Query ids and gallery ids of a direction, in Karpathy order."""
    query_side, gallery_side = find_sides(direction)
    return split.ids(query_side), split.ids(gallery_side)


def number_pairs(queries: IntArray, items: IntArray, query_ids: IntArray, gallery_ids: IntArray) -> IntArray:
    """(P,) index of each pair of ids in the flattened matrix of all queries by all items."""
    return find_positions(queries, query_ids)[0] * gallery_ids.size + find_positions(items, gallery_ids)[0]


@cache
def label_sources() -> Mapping[str, Source]:
    """Every declared source of labels by name, from the oldest and most general to the latest and most specific."""
    declared = find_declared(importlib.import_module(__package__), "SOURCE", Source)
    return MappingProxyType(dict(sorted(declared.items(), key=lambda entry: entry[1].order)))


def official_sources() -> Mapping[str, Source]:
    """The sources whose labels people gave, in the same order; reports show these."""
    return {name: source for name, source in label_sources().items() if source.official}


LABEL_FILE_ORDER = 45  # Order of label files: after the declared sources of people, before those of models


def list_sources(library: Library) -> Mapping[str, Source]:
    """The declared sources of labels and the label files of a library, in their order."""
    taken = [name for name in library.label_names if name in label_sources()]
    if taken:
        raise DataError(
            f"the labels are named {taken[0]!r}, which is the name of a declared source. Rename the table, or merge "
            f"them again, under a name other than {', '.join(label_sources())}"
        )
    files = {name: label_file_source(name) for name in library.label_names}
    return dict(sorted({**label_sources(), **files}.items(), key=lambda entry: entry[1].order))


MERGED = ("coco", "cxc", "eccv", "entailment", "mined")
"""The sources that datasets and new labels merge unless sources are named, beside the library's own labels.

They are part of what the version of the data in the catalog stands for: with another tuple, raise the version.
"""


def merged_sources(library: Library) -> list[str]:
    """Names of the sources that are merged where none are named, in their order."""
    return [name for name in list_sources(library) if name in (*MERGED, *library.label_names)]


def merged_official(library: Library) -> list[str]:
    """Those of them whose labels people gave, the library's own among them."""
    return [name for name in merged_sources(library) if list_sources(library)[name].official]


def judging_sources(split: Split) -> list[str]:
    """The official sources that judge pairs of images and captions of a split: what new labels are merged with."""
    names = [name for name in merged_official(split.library) if name not in split.library.label_names]
    return [name for name in names if gather(split, "i2t", name, Thresholds()) is not None]


def label_file_source(name: str) -> Source:
    """The source of labels for the label files of one name."""
    return Source(
        name=name,
        title=name,
        description="What a user's file says of its pairs, for the images and captions in them.",
        order=LABEL_FILE_ORDER,
        rule=lambda _direction, _thresholds: "as its file says",
        evidence=partial(_read_label_file, name=name),
        groups=(),
        yes=f"{name}: match",
        no=f"{name}: no match",
    )


def _read_label_file(split: Split, direction: str, _thresholds: Thresholds, *, name: str) -> Evidence | None:
    """The pairs of a label file, judged in both directions, whichever one they were proposed in."""
    file = split.labels(name) if direction in CROSS_MODAL else None
    if file is None:
        return None
    images, captions, positive = (np.asarray(file.table[column]) for column in ("image_id", "caption_id", "positive"))
    return replace(Evidence.of(*orient(images, captions, direction), positive), rule=file.rule)


def gather(split: Split, direction: str, source: str, thresholds: Thresholds) -> Evidence | None:
    """The evidence of ``source`` in this direction, or None if it judges nothing of the split."""
    declared = list_sources(split.library)[source]
    evidence = declared.evidence(split, direction, thresholds)
    if evidence is None:
        return None
    return replace(evidence, source=source, rule=evidence.rule or declared.rule(direction, thresholds))


def _coco_evidence(split: Split, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The original links; for t2t, captions of the same image."""
    captions = split.caption_ids
    images = split.caption_image_ids
    if direction in CROSS_MODAL:
        return Evidence.of(*orient(images, captions, direction))
    if direction == "t2t":
        left, right = co_captions(images)
        return Evidence.of(captions[left], captions[right])
    return None


def co_captions(groups: IntArray) -> tuple[IntArray, IntArray]:
    """Positions of all ordered pairs of different members of the same group."""
    order = np.argsort(groups, kind="stable")
    _, starts, sizes = np.unique(groups[order], return_index=True, return_counts=True)
    per_member = np.repeat(sizes, sizes)
    left = np.repeat(np.arange(groups.size), per_member)
    right = np.repeat(np.repeat(starts, sizes), per_member) + number_within(per_member)
    keep = left != right
    return order[left[keep]], order[right[keep]]


COCO_SOURCE = Source(
    name="coco",
    title="COCO",
    description="The captions written for an image, for all images and captions. Captions of one image also "
    "match each other.",
    order=10,
    rule=lambda direction, _thresholds: "captions of one image" if direction == "t2t" else "original link",
    evidence=_coco_evidence,
    groups=("karpathy",),
    lists_positives=True,
    yes="COCO link",
)


def _cxc_evidence(split: Split, direction: str, thresholds: Thresholds) -> Evidence | None:
    """All rated pairs of the direction; positive if the rating reaches the threshold."""
    if split.name not in ("validation", "test"):
        return None
    table = split.ratings(RATING_KIND[direction])
    left, right, ratings = (np.asarray(table[name]) for name in ("left_id", "right_id", "rating"))
    threshold = thresholds.of_direction(direction)
    if direction in CROSS_MODAL:  # SITS rows are (caption, image)
        return Evidence.of(*orient(right, left, direction), ratings >= threshold, ratings)
    return _both_orders(left, right, ratings, threshold)


def _both_orders(left: IntArray, right: IntArray, ratings: FloatArray, threshold: float) -> Evidence:
    """Both orders of every pair; positive if either rating reaches the threshold."""
    ids = find_distinct(np.concatenate([left, right]))
    first = find_positions(left, ids)[0]
    second = find_positions(right, ids)[0]
    both = np.concatenate([first * ids.size + second, second * ids.size + first])
    keys, occurrence = np.unique(both, return_inverse=True)
    forward = np.full(keys.size, np.nan)
    reverse = np.full(keys.size, np.nan)
    forward[occurrence[: left.size]] = ratings
    reverse[occurrence[left.size :]] = ratings
    positive = np.fmax(forward, reverse) >= threshold
    return Evidence.of(ids[keys // ids.size], ids[keys % ids.size], positive, forward, reverse)


CXC_SOURCE = Source(
    name="cxc",
    title="CxC",
    description="People's ratings from 0 to 5, for the queries of rated pairs. A pair matches from 3 on, two "
    "images from 2.5 on. Ratings are of val and test.",
    order=20,
    rule=lambda direction, thresholds: f"{RATING_KIND[direction]} >= {thresholds.of_direction(direction):g}",
    evidence=_cxc_evidence,
    groups=("cxc",),
    yes="CxC {ratings}",
    no="CxC {ratings}",
)


def _eccv_evidence(split: Split, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The verified pairs of the split, from the lists of images and of captions; this direction's lists are whole."""
    if split.name != "test" or direction not in CROSS_MODAL:
        return None
    of_images, of_captions = (split.eccv("eccv", way) for way in CROSS_MODAL)
    images = np.concatenate([of_images["query_id"], of_captions["item_id"]])
    captions = np.concatenate([of_images["item_id"], of_captions["query_id"]])
    inside = np.isin(captions, split.caption_ids)  # no image is outside
    left_out = {}
    if not inside.all():
        left_out["ECCV Caption positives outside the split's captions"] = int((~inside).sum())
    numbers = number_pairs(images[inside], captions[inside], split.image_ids, split.caption_ids)
    rows, columns = np.divmod(find_distinct(numbers), split.caption_ids.size)
    queries, items = orient(split.image_ids[rows], split.caption_ids[columns], direction)
    searched = np.asarray(split.eccv("eccv", direction)["query_id"])
    return Evidence.of(queries, items, searched=searched, left_out=left_out)


ECCV_SOURCE = Source(
    name="eccv",
    title="ECCV",
    description="Matches that people confirmed, for ECCV Caption's queries. Models proposed the pairs of images "
    "and captions, all of the test split.",
    order=30,
    rule=lambda _direction, _thresholds: "verified positive",
    evidence=_eccv_evidence,
    groups=("eccv_caption",),
    lists_positives=True,
    yes="ECCV positive",
)


def _entailment_evidence(split: Split, direction: str, _thresholds: Thresholds) -> Evidence | None:
    """The labels of the user's file, or None without a file."""
    pairs = split.entailment() if direction in CROSS_MODAL else None
    if pairs is None:
        return None
    images, captions, labels, left_out = labels_of_file(split, pairs)
    return Evidence.of(*orient(images, captions, direction), labels, left_out=left_out)


def labels_of_file(
    split: Split, pairs: EntailmentPairs | None
) -> tuple[IntArray, IntArray, NDArray[np.bool_], dict[str, int]]:
    """Image ids, caption ids and labels of the labelled pairs in a split, and the number of pairs left out by rule."""
    if pairs is None:
        none = np.empty(0, dtype=np.int64)
        return none, none, none.astype(bool), {}
    rows, left_out = match_hypotheses(split, pairs)
    images, captions = np.array(list(rows), dtype=np.int64).reshape(-1, 2).T
    return images, captions, np.asarray(pairs.table["label"])[list(rows.values())] == 1, left_out


UNKNOWN_PAIRS = "entailment pairs whose image or hypothesis is not in the split"
REPEATED_PAIRS = "entailment labels of an (image, caption) pair that an earlier row labelled"


def match_hypotheses(split: Split, pairs: EntailmentPairs) -> tuple[dict[tuple[int, int], int], dict[str, int]]:
    """Pair of image and caption ids to the row that labels it, and the number of labels left out by rule."""
    image_ids = split.image_ids.tolist()
    by_name = dict(zip(split.images["file_name"].to_pylist(), image_ids, strict=True))
    by_text: dict[str, list[int]] = {}
    for caption_id, text in zip(split.caption_ids.tolist(), split.captions["text"].to_pylist(), strict=True):
        by_text.setdefault(text.strip(), []).append(caption_id)
    images = set(image_ids)
    captions = set(split.caption_ids.tolist())
    left_out = Counter(pairs.left_out)
    rows: dict[tuple[int, int], int] = {}
    for row, pair in enumerate(pairs.table.to_pylist()):
        image = by_name.get(Path(pair["image"]).name, -1) if pair["image_id"] is None else pair["image_id"]
        hypothesis = pair["caption_id"]
        named = by_text.get(pair["hypothesis"].strip(), []) if hypothesis is None else [hypothesis]
        matches = [caption for caption in named if caption in captions and image in images]
        left_out[UNKNOWN_PAIRS] += not matches
        for caption in matches:
            left_out[REPEATED_PAIRS] += rows.setdefault((image, caption), row) != row
    return rows, {rule: number for rule, number in left_out.items() if number}


ENTAILMENT_SOURCE = Source(
    name="entailment",
    title="entailment",
    description="Labels 1 and 0 of a file of yours, for the queries of its pairs. The pairs are of an image and "
    "a caption of val or test.",
    order=40,
    rule=lambda _direction, _thresholds: "label 1",
    evidence=_entailment_evidence,
    groups=("entailment",),
    yes="entailed",
    no="not entailed",
)

SOURCES = (COCO_SOURCE, CXC_SOURCE, ECCV_SOURCE, ENTAILMENT_SOURCE)
