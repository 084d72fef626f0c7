"""The page of failures: their tables, and what each query asked for and got instead, side by side.

Verdicts and their order follow from the numbers of a failure alone, and are those of concepts that somebody annotated.
"""

from __future__ import annotations

import base64
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from cxc_eccv.builders.lookup import caption_texts, file_names
from cxc_eccv.comparison.labels import list_names
from cxc_eccv.report.cards import thumbnails
from cxc_eccv.report.charts import Segment, segments
from cxc_eccv.report.pages import page_style, template
from cxc_eccv.report.wording import count, direction_name
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.studies.explain.attributes import Difference, Place, find_differences
from cxc_eccv.studies.explain.concepts import Box, ImageConcepts
from cxc_eccv.studies.explain.explanation import MEASURED, MEASURES, Explained, Explanation
from cxc_eccv.studies.explain.global_table import TITLES, make_tables
from cxc_eccv.studies.explain.measures import OF_TRUTH
from cxc_eccv.studies.explain.mentions import locate_mentions
from cxc_eccv.studies.explain.paired_failures import Paired
from cxc_eccv.studies.explain.reranking import Reranking
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.seen import Concepts

__all__ = ["SHOWN", "FailureCard", "FailureGroup", "judge_failures", "render_explained", "show_failures"]

STUDY = "cxc_eccv.studies.explain"

SHOWN = 12
"""Failures of each kind and direction on the page, and of those drawn at random."""

PER_CONCEPT, LISTED = 5, 500
"""Failures that the list for the search has of each missing concept, and in all, of one direction."""

SIDE = 384
"""Pixels of an image's longer side."""

COLOURS = 8
"""Of boxes; a card with more concepts takes them again, and the numbers tell those apart."""

KINDS = {
    "far": ("Far off", "nothing of what counts is in the retrieved image"),
    "partly": (
        "Partly right",
        "some of what counts, or all and less than half of all concepts, is in the retrieved image",
    ),
    "near": ("Near miss", "all that counts, and at least half of all concepts, is in the retrieved image"),
}
"""What a failure was, the worst first."""

HALF = 0.5
"""Of all concepts: where the query mentions a person alone, most images would be near misses."""

INFORMED = "_informed"

SHOWN_AS = dict(zip(MEASURED, ("{:.1%}", "{:.3f}", "{:g}", "{:.1%}", "{:.1%}"), strict=True))
"""As in the table of all failures, with fewer digits."""


@dataclass(frozen=True, slots=True)
class ShownConcept:
    """A concept as one image shows it.

    Attributes:
        number: on its boxes; concepts that belong together have the same in both images.
        name: in words.
        synset: in WordNet.
        instances: how many, or None where nobody counted.
        mentioned: whether the query mentions it.
    """

    number: int
    name: str
    synset: str
    instances: int | None
    mentioned: bool


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the table of concepts: one of the right image, one of the retrieved image, and what joins them.

    The kind is ``common``, ``joined`` (matched for NCS, with their path similarity) or ``alone``.
    """

    kind: str
    truth: ShownConcept | None
    retrieved: ShownConcept | None
    similarity: str = ""


@dataclass(frozen=True, slots=True)
class DrawnBox:
    """A box in percent of the image; the number stands on the largest one of its concept."""

    number: int
    name: str
    style: str
    numbered: bool
    kind: str


@dataclass(frozen=True, slots=True)
class ShownImage:
    """One of the two images of a failure."""

    file: str
    alt: str
    boxes: tuple[DrawnBox, ...]


@dataclass(frozen=True, slots=True)
class NamedConcepts:
    """What the search looks through: names of the concepts in both images of a failure, and in one alone."""

    both: tuple[str, ...]
    truth: tuple[str, ...]
    retrieved: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FailureCard:
    """One failure.

    Attributes:
        query_id: an image or a caption.
        kind: of ``KINDS``.
        verdict: a sentence.
        query: the words of a caption that is the query, each part with whether it mentions a concept; empty for an
            image.
        chosen: the caption at the top, or an empty text where the top item is an image.
        truth_rank: where the right item stands, or None where no ranking holds it.
        truth, retrieved: the images.
        rows: concepts of both.
        named: their names.
        numbers: title of each measure, its value, and that of what the query mentions.
    """

    query_id: int
    kind: str
    verdict: str
    query: tuple[tuple[str, bool], ...]
    chosen: str
    truth_rank: int | None
    truth: ShownImage
    retrieved: ShownImage
    rows: tuple[Row, ...]
    named: NamedConcepts
    numbers: tuple[tuple[str, str, str], ...]


@dataclass(frozen=True, slots=True)
class ListedFailure:
    """A line of the list that the search looks through: a failure without images and numbers."""

    query_id: int
    kind: str
    query: str
    chosen: str
    truth_rank: int | None
    named: NamedConcepts


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """The failures of one kind: how many there are, and some of them."""

    kind: str
    title: str
    meaning: str
    total: int
    cards: tuple[FailureCard, ...]


@dataclass(frozen=True, slots=True)
class DirectionPage:
    """One direction of one model.

    Attributes:
        anchor: of the section.
        model, direction: whose failures, and in which direction.
        queries, failures: how many there are.
        unexplained: failures without a number.
        drawn: failures of all kinds, drawn at random.
        groups: failures by kind, the most wrong ones first.
        listed: further ones for the search.
    """

    anchor: str
    model: str
    direction: str
    queries: int
    failures: int
    unexplained: int
    drawn: FailureGroup
    groups: tuple[FailureGroup, ...]
    listed: tuple[ListedFailure, ...]

    @property
    def concept_names(self) -> set[str]:
        """Names of the concepts of all failures here."""
        named = [card.named for group in (self.drawn, *self.groups) for card in group.cards]
        named += [one.named for one in self.listed]
        return {name for one in named for name in (*one.both, *one.truth, *one.retrieved)}

    @property
    def bar(self) -> list[Segment]:
        """Shares of the kinds."""
        counts = [group.total for group in self.groups] + [self.unexplained]
        titles = [*(group.title.lower() for group in self.groups), "without a verdict"]
        return segments(counts, [*(group.kind for group in self.groups), "wrong"], titles)


def judge_failures(explained: Explained) -> tuple[FloatArray, IntArray]:
    """What each failure was, and the most wrong one first.

    What counts is the concepts of the right image that the query mentions, or, where it mentions none, all of them. A
    near miss is a retrieved image that shows them all, and at least half of all concepts; one that shows none of what
    counts is far off.

    The most wrong failure shows the smallest share of what counts, then of all concepts; after them the least similar
    concepts in the place of those it lacks (none at all comes last, as it tells nothing), the most instances more or
    fewer, and the largest share of other sizes: the paper's stages, from more influential concepts to details.

    Args:
        explained: F failures with their numbers.

    Returns:
        (F,) shares of what counts, NaN where the failure has no number; and (E,) rows of those that have one.

    References:
        Lymperaiou et al., 2022, section 4.1.
    """
    columns = {
        name: explained.table[name].to_numpy().astype(np.float64)
        for name in (*MEASURES, f"{MEASURES[0]}{INFORMED}", "query_id")
    }
    agreement, similarity, enumeration, size = (columns[name] for name in MEASURES)
    informed = columns[f"{MEASURES[0]}{INFORMED}"]
    shares = np.where(np.isnan(informed), agreement, informed)
    # Nothing to match: all is there, or nobody annotated anything that could be unlike.
    stand_ins = np.where(np.isnan(similarity), 1.0, similarity)
    keys = (columns["query_id"], -np.nan_to_num(size), -np.nan_to_num(enumeration), stand_ins, agreement, shares)
    order = np.lexsort(keys)
    return shares, order[~np.isnan(shares[order])]


def show_failures(
    explanations: Sequence[Explanation], library: Library, shown: int = SHOWN, seed: int = 0
) -> list[DirectionPage]:
    """The failures of every model and direction as cards: some at random, and the most wrong ones of each kind.

    Args:
        explanations: one of each model.
        library: has captions and file names.
        shown: cards of each kind and direction, and of those at random.
        seed: of the draws.
    """
    return [
        _show_direction(f"m{number}-{direction}", explanation, explained, library, shown, seed)
        for number, explanation in enumerate(explanations, start=1)
        for direction, explained in explanation.directions.items()
    ]


def _show_direction(
    anchor: str, explanation: Explanation, explained: Explained, library: Library, shown: int, seed: int
) -> DirectionPage:
    failures = explained.failures
    shares, order = judge_failures(explained)
    agreement = explained.table[MEASURES[0]].to_numpy().astype(np.float64)
    near = (shares == 1) & (agreement >= HALF)
    kinds = np.where(near, "near", np.where(shares == 0, "far", "partly"))
    of_kind = {kind: order[kinds[order] == kind] for kind in KINDS}
    draws = np.random.default_rng(seed).permutation(np.sort(order))
    rows = np.unique(np.concatenate([draws[:shown], *(own[:shown] for own in of_kind.values())]))
    cards = dict(zip(rows.tolist(), _make_cards(explanation, explained, library, rows, kinds[rows]), strict=True))

    def group(kind: str, title: str, meaning: str, own: IntArray) -> FailureGroup:
        return FailureGroup(kind, title, meaning, own.size, tuple(cards[row] for row in own[:shown].tolist()))

    drawn = group("drawn", "Drawn at random", f"with a verdict, seed {seed}", draws)
    groups = tuple(group(kind, *words, of_kind[kind]) for kind, words in KINDS.items())
    listed = _list_failures(explanation, explained, library, _cover_concepts(explanation, explained, draws), kinds)
    counts = failures.n_queries, len(failures), len(failures) - order.size
    return DirectionPage(anchor, explanation.model, failures.direction, *counts, drawn, groups, listed)


def _cover_concepts(explanation: Explanation, explained: Explained, rows: IntArray) -> IntArray:
    """The first of the rows that have each concept which retrieved images lack ``PER_CONCEPT`` times, if they do."""
    chosen, counts, images = [], Counter[str](), explanation.concepts.images
    truths, retrieved = explained.failures.truth_ids, explained.failures.retrieved_ids
    for row in rows.tolist():
        missing = images[int(truths[row])].keys() - images[int(retrieved[row])].keys()
        if any(counts[name] < PER_CONCEPT for name in missing):
            counts.update(missing)
            chosen.append(row)
    return np.array(chosen[:LISTED], dtype=np.int64)


def _list_failures(
    explanation: Explanation, explained: Explained, library: Library, rows: IntArray, kinds: NDArray[np.str_]
) -> tuple[ListedFailure, ...]:
    """One line for each of these failures."""
    failures, images = explained.failures, explanation.concepts.images
    texts, chosen = _texts_of(explanation, explained, library, rows)
    listed = []
    for row, text, caption in zip(rows.tolist(), texts, chosen, strict=True):
        both = (images[int(ids[row])].keys() for ids in (failures.truth_ids, failures.retrieved_ids))
        rank = failures.truth_ranks[row].as_py()
        listed.append(ListedFailure(int(failures.query_ids[row]), str(kinds[row]), text, caption, rank, _name(*both)))
    return tuple(listed)


def _name(truth: AbstractSet[str], retrieved: AbstractSet[str]) -> NamedConcepts:
    parts = truth & retrieved, truth - retrieved, retrieved - truth
    return NamedConcepts(*(tuple(sorted({_word(name) for name in part})) for part in parts))


def _texts_of(
    explanation: Explanation, explained: Explained, library: Library, rows: IntArray
) -> tuple[list[str], list[str]]:
    """The words of queries, and of the captions at their top; empty where these are images."""
    failures, split = explained.failures, explanation.split
    texts, chosen = [""] * rows.size, [""] * rows.size
    if failures.direction != "i2t":
        texts = [text.strip() for text in caption_texts(library, split, failures.query_ids[rows]).to_pylist()]
    if failures.direction != "t2i":
        chosen = [text.strip() for text in caption_texts(library, split, failures.item_ids[rows]).to_pylist()]
    return texts, chosen


def _make_cards(
    explanation: Explanation, explained: Explained, library: Library, rows: IntArray, kinds: Sequence[str]
) -> list[FailureCard]:
    """One card for each of these failures."""
    failures, split = explained.failures, explanation.split
    texts, chosen = _texts_of(explanation, explained, library, rows)
    files = (file_names(library, split, ids[rows]).to_pylist() for ids in (failures.truth_ids, failures.retrieved_ids))
    vocabulary = _vocabulary_of(explanation, explained)
    places = locate_mentions(texts, vocabulary)
    if failures.direction == "i2t":
        said = _compare_attributes(explanation, library, vocabulary, chosen, failures.truth_ids[rows])
        why = [_differences_in_words("retrieved caption", "right image", own) for own in said]
    else:
        said = _compare_attributes(explanation, library, vocabulary, texts, failures.retrieved_ids[rows])
        why = [_differences_in_words("query", "retrieved image", own) for own in said]
    columns = zip(explained.table.take(rows).to_pylist(), kinds, texts, places, chosen, why, *files, strict=True)
    return [_make_card(explanation.concepts, *column) for column in columns]


def _compare_attributes(
    explanation: Explanation, library: Library, vocabulary: Sequence[str], texts: Sequence[str], images: IntArray
) -> list[list[Difference]]:
    """Colours and sizes of each text that no caption of its image has, of concepts that the image shows."""
    captions = library.captions(explanation.split)
    captions = captions.filter(pa.array(np.isin(np.asarray(captions["image_id"]), images)))
    sentences = captions["text"].to_pylist()
    told: dict[int, list[tuple[str, Sequence[Place]]]] = {}
    for image, text, places in zip(
        captions["image_id"].to_pylist(), sentences, locate_mentions(sentences, vocabulary), strict=True
    ):
        told.setdefault(image, []).append((text, places))
    found = []
    for text, places, image in zip(texts, locate_mentions(texts, vocabulary), images.tolist(), strict=True):
        shown = explanation.concepts.images[image].keys()
        found.append(find_differences(text, [place for place in places if place[2] & shown], told[image]))
    return found


def _differences_in_words(asking: str, asked: str, differences: Sequence[Difference]) -> list[str]:
    """Why an image is not what a text says, although it shows the concepts."""
    return [
        f"the {asking} says “{one.asked}”, "
        + (f"captions of the {asked} say {list_names(f'“{words}”' for words in one.told)}" if one.told else "")
        + ("" if one.told else f"which no caption of the {asked} says")
        for one in differences
    ]


def _vocabulary_of(explanation: Explanation, explained: Explained) -> list[str]:
    """What the images of all failures with numbers show, which decides what a word means here as it did there."""
    rows = np.flatnonzero(np.asarray(explained.table[MEASURES[0]].is_valid()))
    failures, images = explained.failures, explanation.concepts.images
    own = {*failures.truth_ids[rows].tolist(), *failures.retrieved_ids[rows].tolist()}
    return sorted({name for image in own for name in images[image]})


def _make_card(
    concepts: ImageConcepts,
    values: Mapping[str, Any],
    kind: str,
    text: str,
    places: Sequence[Place],
    chosen: str,
    why: Sequence[str],
    truth_file: str,
    retrieved_file: str,
) -> FailureCard:
    images = values["truth_id"], values["retrieved_id"]
    truth, retrieved = concepts.of(images)
    places = [place for place in places if place[2] & (truth.keys() | retrieved.keys())]
    mentioned = {name for _, _, names in places for name in names}
    rows = _join_concepts(truth, retrieved, mentioned, counted=concepts.counted)

    def show(title: str, file: str, image: int, own: Sequence[tuple[str, ShownConcept]]) -> ShownImage:
        return ShownImage(file, _describe(title, own), _draw_boxes(concepts.boxes.get(image, ()), own))

    return FailureCard(
        query_id=values["query_id"],
        kind=kind,
        verdict=_judge_in_words(kind, rows, values, why),
        query=_mark(text, places),
        chosen=chosen,
        truth_rank=values["truth_rank"],
        truth=show("Right image", truth_file, images[0], [(row.kind, row.truth) for row in rows if row.truth]),
        retrieved=show(
            "Retrieved image",
            retrieved_file,
            images[1],
            [(row.kind, row.retrieved) for row in rows if row.retrieved],
        ),
        rows=rows,
        named=_name(truth.keys(), retrieved.keys()),
        numbers=tuple(_number(name, values) for name in MEASURED),
    )


def _join_concepts(
    truth: Concepts, retrieved: Concepts, mentioned: AbstractSet[str], *, counted: bool
) -> tuple[Row, ...]:
    """Concepts that both images show, those that NCS matches, and the others; what the query mentions first."""

    def shown(number: int, concept: str, image: Concepts) -> ShownConcept:
        instances = image[concept].size if counted else None
        return ShownConcept(number, _word(concept), concept, instances, concept in mentioned)

    def by_weight(names: Iterable[str], *images: Concepts) -> list[str]:
        areas = {name: sum(float(np.nansum(image[name])) for image in images) for name in names}
        return sorted(areas, key=lambda name: (name not in mentioned, -areas[name], name))

    common = by_weight(truth.keys() & retrieved.keys(), truth, retrieved)
    rows = [
        Row("common", shown(number, name, truth), shown(number, name, retrieved))
        for number, name in enumerate(common, start=1)
    ]
    alone = sorted(truth.keys() - retrieved.keys()), sorted(retrieved.keys() - truth.keys())
    matched = _match(*alone)
    for one, other, similarity in sorted(matched, key=lambda match: (match[0] not in mentioned, -match[2], match[0])):
        number = len(rows) + 1
        rows.append(Row("joined", shown(number, one, truth), shown(number, other, retrieved), f"{similarity:.3f}"))
    taken = {name for match in matched for name in match[:2]}
    for name in by_weight(set(alone[0]) - taken, truth):
        rows.append(Row("alone", shown(len(rows) + 1, name, truth), None))
    for name in by_weight(set(alone[1]) - taken, retrieved):
        rows.append(Row("alone", None, shown(len(rows) + 1, name, retrieved)))
    return tuple(rows)


def _match(truth: Sequence[str], retrieved: Sequence[str]) -> list[tuple[str, str, float]]:
    """The matching behind NCS, with its similarities."""
    if not truth or not retrieved:
        return []
    table = similarity_matrix([*truth, *retrieved])[: len(truth), len(truth) :]
    rows, columns = linear_sum_assignment(table, maximize=True)
    return [
        (truth[row], retrieved[column], float(table[row, column])) for row, column in zip(rows, columns, strict=True)
    ]


def _word(concept: str) -> str:
    return concept.partition(".")[0].replace("_", " ")


def _describe(title: str, concepts: Sequence[tuple[str, ShownConcept]]) -> str:
    """The alternative text of an image."""
    words = [f"{one.instances} {one.name}" if one.instances else one.name for _, one in concepts]
    return f"{title}: {list_names(words)}" if words else f"{title}: no annotated concept"


def _draw_boxes(boxes: Sequence[Box], concepts: Sequence[tuple[str, ShownConcept]]) -> tuple[DrawnBox, ...]:
    """Boxes with the numbers of their concepts, large ones below small ones."""
    kinds = {one.synset: (kind, one) for kind, one in concepts}
    drawn, numbered = [], set[str]()
    for box in sorted(boxes, key=lambda box: -box.width * box.height):
        kind, one = kinds[box.concept]
        place = zip(("left", "top", "width", "height"), (box.x, box.y, box.width, box.height), strict=True)
        style = ";".join(f"{name}:{100 * share:.2f}%" for name, share in place)
        drawn.append(DrawnBox(one.number, one.name, style, box.concept not in numbered, kind))
        numbered.add(box.concept)
    return tuple(drawn)


def _mark(text: str, places: Sequence[Place]) -> tuple[tuple[str, bool], ...]:
    """The text in parts, and whether each mentions a concept."""
    parts, done = [], 0
    for start, end, _ in places:
        parts += [(text[done:start], False), (text[start:end], True)]
        done = end
    return tuple((part, marked) for part, marked in [*parts, (text[done:], False)] if part)


def _number(name: str, values: Mapping[str, Any]) -> tuple[str, str, str]:
    """Title of a measure, its value, and that of what the query mentions."""

    def show(value: float | None) -> str:
        return "" if value is None else SHOWN_AS[name].format(value)

    return TITLES[name], show(values[name]), show(values[f"{name}{INFORMED}"])


def _judge_in_words(kind: str, rows: Sequence[Row], values: Mapping[str, Any], why: Sequence[str]) -> str:
    """One sentence that says whether it was a near miss, and why."""
    own = [(row.truth, row.kind == "common") for row in rows if row.truth is not None]
    found, missed = ([one.name for one, both in own if one.mentioned and both is there] for there in (True, False))
    n_common = sum(both for _, both in own)
    share = (
        f"{n_common} of {count(len(own), 'concept')} of the right image" if n_common else "nothing of the right image"
    )
    if not any(row.retrieved for row in rows):
        told = ["the retrieved image shows no annotated concept"]
    elif not (found or missed):
        told = [f"it shows {share}"]
    elif not found:
        told = [f"it shows nothing that the query mentions ({list_names(missed)})"]
    elif missed:
        told = [f"of what the query mentions it shows {list_names(found)}, but not {list_names(missed)}"]
    else:
        told = [f"it shows all that the query mentions ({list_names(found)})"]
    if n_common and 0 < len(found) + len(missed) < len(own):
        told.append(f"in all {share}")
    told += [
        f"in the place of {row.truth.name} stands {row.retrieved.name}"
        for row in rows
        if row.kind == "joined" and row.truth and row.retrieved
    ][:1]
    told += why
    if values["concept_enumeration"]:
        told.append(f"common ones differ by {count(round(values['concept_enumeration']), 'instance')}")
    if values["size_disagreement"]:
        sizes, of_truth = values["size_disagreement"], values[OF_TRUTH]
        other = "" if sizes == of_truth else f" ({of_truth:.1%} relative to the right image)"
        told.append(f"sizes differ in {sizes:.1%} of the matches{other}")
    return f"{KINDS[kind][0]}: {'; '.join(told)}."


def render_explained(
    explanations: Sequence[Explanation],
    library: Library,
    paired: Sequence[Paired] = (),
    reranked: Reranking | None = None,
    *,
    images: str | Path | None = None,
    shown: int = SHOWN,
    seed: int = 0,
) -> str:
    """The page of failures: one self-contained HTML file, in which everything out of data is escaped.

    Args:
        explanations: of ``explain_run``, one of each model, all of one split and of
            concepts from one source.
        library: has captions and file names.
        paired: how the further models differ from the first one.
        reranked: what altered queries do to its ranks.
        images: folder with the image files, at any depth; None for concepts alone.
        shown: failures of each kind and direction, at most, and of those drawn at random.
        seed: of the draws.

    Raises:
        InvalidOption: no such folder of images.
        MalformedSource: an image is damaged.
    """
    pages = show_failures(explanations, library, shown, seed)
    cards = [card for page in pages for group in (page.drawn, *page.groups) for card in group.cards]
    files = sorted({image.file for card in cards for image in (card.truth, card.retrieved)})
    uris = None if images is None else thumbnails(images, files, SIDE)
    absent = [] if uris is None else [file for file in files if file not in uris]
    if absent:
        warnings.warn(
            f"{len(absent)} of {len(files)} images shown are not below {images}, the first: {absent[0]}; they stand as "
            "empty frames. The folder to name is that of the split's image files (val2014 for COCO)",
            stacklevel=2,
        )
    script = resources.files(STUDY).joinpath("templates/explained.js").read_text(encoding="utf-8")
    return template("explained.html.jinja", STUDY, keep_trailing_newline=True).render(
        first=explanations[0],
        models=[explanation.model for explanation in explanations],
        skipped={
            f"{explanation.model}, {direction_name(direction)}": why
            for explanation in explanations
            for direction, why in explanation.skipped.items()
        },
        tables=make_tables(explanations, paired, reranked),
        pages=pages,
        kinds=KINDS,
        names=sorted(set().union(*(page.concept_names for page in pages))),
        per_concept=PER_CONCEPT,
        most=LISTED,
        seed=seed,
        css=page_style("explained"),
        script=Markup(script),  # noqa: S704 - our own file
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        images=uris,
        absent=absent,
        colours=COLOURS,
        origins=[(explanation.model, _list_facts(explanation.provenance)) for explanation in explanations],
    )


def _list_facts(provenance: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a page says of its origin."""
    data, run = provenance.get("data") or {}, provenance.get("run") or {}
    facts = {
        "Command": provenance.get("command"),
        "Run file": run.get("file"),
        "Run file, sha256": run.get("sha256"),
        "Images as": run.get("corpus"),
        "Similarity": provenance.get("similarity"),
        "WordNet": provenance.get("wordnet"),
        "Data edition": data.get("edition"),
        "Package version": (provenance.get("package") or {}).get("version"),
    }
    return [(title, str(value)) for title, value in facts.items() if value]
