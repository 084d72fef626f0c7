"""What the page of failures shows: cards with the right and the retrieved image side by side.

Verdicts and their order follow from the numbers of a failure, and so from annotated concepts only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.optimize import linear_sum_assignment

from cxc_eccv.report.charts import Segment, segments
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.studies.explain.concepts import (
    Box,
    ImageConcepts,
    Place,
    concept_word,
    find_differences,
    locate_mentions,
)
from cxc_eccv.studies.explain.explanation import MEASURED_TITLES, Explanation
from cxc_eccv.studies.explain.failed_queries import INFORMED, MEASURED, MEASURES, OF_TRUTH, Explained, Failures
from cxc_eccv.studies.explain.failure_kinds import FAILURE_KINDS, sort_by_kind
from cxc_eccv.types import IntArray
from cxc_eccv.types.concept_pairs import Concepts
from cxc_eccv.wording import count, list_names

SHOWN = 12
"""Cards of each kind and direction, and of failures drawn at random."""

PER_CONCEPT = 5
LISTED = 500
"""Failures of each missing concept in the list for the search, and in all, of one direction."""

COLOURS = 8
"""Colours of boxes; a card with more concepts reuses them, and numbers distinguish the concepts."""

SHOWN_AS = dict(zip(MEASURED, ("{:.1%}", "{:.3f}", "{:g}", "{:.1%}", "{:.1%}"), strict=True))
"""Formats of the numbers, with fewer digits than in the tables."""


class ShownConcept(NamedTuple):
    """A concept of one image; matched concepts share a number, and ``instances`` is None if they are not counted."""

    number: int
    name: str
    synset: str
    instances: int | None
    mentioned: bool


class Row(NamedTuple):
    """Concepts of the right image and of the retrieved one that are ``common``, ``joined`` by NCS, or ``alone``."""

    kind: str
    truth: ShownConcept | None
    retrieved: ShownConcept | None
    similarity: str


class DrawnBox(NamedTuple):
    """A box in percent of the image; the largest one of its concept is ``numbered``."""

    number: int
    style: str
    numbered: bool
    kind: str


class ShownImage(NamedTuple):
    """One of the two images of a failure."""

    file: str
    alt: str
    boxes: list[DrawnBox]


class Failure(NamedTuple):
    """A failed query in the list for the search; ``query`` or ``chosen`` is empty if it is an image.

    ``both``, ``truth`` and ``retrieved`` are the names of the concepts in both images, and in only one of them.
    """

    query_id: int
    kind: str
    query: str
    chosen: str
    truth_rank: int | None
    both: list[str]
    truth: list[str]
    retrieved: list[str]


class FailureCard(NamedTuple):
    """One failure with its images, the parts of the query with whether they mention a concept, and its numbers.

    A number is its title, its value, and its value for the concepts that the query mentions.
    """

    failure: Failure
    verdict: str
    marked: list[tuple[str, bool]]
    truth: ShownImage
    retrieved: ShownImage
    rows: list[Row]
    numbers: list[tuple[str, str, str]]


class FailureGroup(NamedTuple):
    """The number of failures of one kind, and the cards of some."""

    kind: str
    title: str
    meaning: str
    total: int
    cards: list[FailureCard]


class DirectionPage(NamedTuple):
    """One direction of one model: failures drawn at random, the worst ones by kind, and others for the search."""

    anchor: str
    model: str
    direction: str
    queries: int
    failures: int
    unexplained: int
    drawn: FailureGroup
    groups: list[FailureGroup]
    listed: list[Failure]

    @property
    def cards(self) -> list[FailureCard]:
        """All cards; a failure may be both drawn at random and among the worst."""
        return list(chain(self.drawn.cards, *(group.cards for group in self.groups)))

    @property
    def concept_names(self) -> set[str]:
        """Names of the concepts of all these failures."""
        names = set[str]()
        for failure in (*(card.failure for card in self.cards), *self.listed):
            names.update(failure.both, failure.truth, failure.retrieved)
        return names

    @property
    def bar(self) -> list[Segment]:
        """The bar of the shares of the kinds."""
        counts = [group.total for group in self.groups] + [self.unexplained]
        titles = [*(group.title.lower() for group in self.groups), "without a verdict"]
        return segments(counts, [*(group.kind for group in self.groups), "wrong"], titles)


def show_failures(explanations: Sequence[Explanation], shown: int = SHOWN, seed: int = 0) -> list[DirectionPage]:
    """The failures of every model and direction as cards: some at random, and the worst ones of each kind."""
    pages = []
    for number, explanation in enumerate(explanations, start=1):
        for direction, explained in explanation.directions.items():
            anchor = make_anchor(number, direction)
            pages.append(_show_direction(anchor, explanation, explained, shown, seed))
    return pages


def make_anchor(number: int, direction: str) -> str:
    """The anchor of a direction of a model, which is numbered from 1."""
    return f"m{number}-{direction}"


def _show_direction(
    anchor: str, explanation: Explanation, explained: Explained, shown: int, seed: int
) -> DirectionPage:
    failures = explained.failures
    of_kind = sort_by_kind(explained)
    judged = np.concatenate(list(of_kind.values()))
    draws = np.random.default_rng(seed).permutation(np.sort(judged))
    listed = _choose_listed(explanation, failures, draws)
    shown_rows = np.unique(np.concatenate([draws[:shown], *(members[:shown] for members in of_kind.values())]))
    described = _describe_failures(explanation, failures, of_kind, np.union1d(shown_rows, listed).astype(np.int64))
    cards = _make_cards(explanation, explained, shown_rows, [described[row] for row in shown_rows.tolist()])

    def group(kind: str, title: str, meaning: str, members: IntArray) -> FailureGroup:
        cards_of_group = [cards[row] for row in members[:shown].tolist()]
        return FailureGroup(kind=kind, title=title, meaning=meaning, total=members.size, cards=cards_of_group)

    return DirectionPage(
        anchor=anchor,
        model=explanation.model,
        direction=failures.direction,
        queries=failures.n_queries,
        failures=len(failures),
        unexplained=len(failures) - judged.size,
        drawn=group("drawn", "Drawn at random", f"with a verdict, seed {seed}", draws),
        groups=[group(kind, *words, of_kind[kind]) for kind, words in FAILURE_KINDS.items()],
        listed=[described[row] for row in listed],
    )


def _describe_failures(
    explanation: Explanation, failures: Failures, of_kind: Mapping[str, IntArray], wanted: IntArray
) -> dict[int, Failure]:
    """The wanted rows, which have a verdict, to their failures."""
    images = explanation.concepts.images
    rows = failures.rows.iloc[wanted].assign(kind="", query="", chosen="")
    for kind, members in of_kind.items():
        rows.loc[np.intersect1d(wanted, members), "kind"] = kind
    if failures.direction != "i2t":
        rows["query"] = explanation.split.texts_of(rows["query_id"].to_numpy()).to_pylist()
    if failures.direction != "t2i":
        rows["chosen"] = explanation.split.texts_of(rows["item_id"].to_numpy()).to_pylist()
    described = {}
    for row in rows.itertuples():
        truth = images[row.truth_id].keys()
        retrieved = images[row.retrieved_id].keys()
        described[row.Index] = Failure(
            query_id=row.query_id,
            kind=row.kind,
            query=row.query.strip(),
            chosen=row.chosen.strip(),
            truth_rank=None if row.truth_rank is pd.NA else row.truth_rank,
            both=_name(truth & retrieved),
            truth=_name(truth - retrieved),
            retrieved=_name(retrieved - truth),
        )
    return described


def _name(concepts: AbstractSet[str]) -> list[str]:
    return sorted({concept_word(concept) for concept in concepts})


def _choose_listed(explanation: Explanation, failures: Failures, draws: IntArray) -> list[int]:
    """The first of the drawn rows that add to a missing concept with too few rows."""
    images = explanation.concepts.images
    pairs = failures.rows.iloc[draws]
    rows: list[int] = []
    counts = Counter[str]()
    for row, truth, retrieved in zip(draws.tolist(), pairs["truth_id"], pairs["retrieved_id"], strict=True):
        missing = images[truth].keys() - images[retrieved].keys()
        if len(rows) < LISTED and any(counts[name] < PER_CONCEPT for name in missing):
            counts.update(missing)
            rows.append(row)
    return rows


def _make_cards(
    explanation: Explanation, explained: Explained, rows: IntArray, described: Sequence[Failure]
) -> dict[int, FailureCard]:
    """Row of each failure to its card."""
    failures = explained.failures
    images = explanation.concepts.images
    truths = failures.rows["truth_id"].to_numpy()
    tops = failures.rows["retrieved_id"].to_numpy()
    # The concepts of all failures with numbers, so that a word means the same on the page and in the numbers.
    explained_rows = np.flatnonzero(np.asarray(explained.table[MEASURES[0]].is_valid()))
    seen = np.union1d(truths[explained_rows], tops[explained_rows])
    vocabulary = sorted(set().union(*(images[image] for image in seen.tolist())))
    places = locate_mentions([failure.query for failure in described], vocabulary)
    if failures.direction == "i2t":
        captions = [failure.chosen for failure in described]
        others = truths[rows]
        asking = "retrieved caption"
        asked = "right image"
    else:
        captions = [failure.query for failure in described]
        others = tops[rows]
        asking = "query"
        asked = "retrieved image"
    why = _compare_attributes(explanation, vocabulary, captions, others, asking=asking, asked=asked)
    columns = zip(
        rows.tolist(),
        described,
        explained.table.take(rows).to_pylist(),
        places,
        why,
        explanation.split.files_of(truths[rows]).to_pylist(),
        explanation.split.files_of(tops[rows]).to_pylist(),
        strict=True,
    )
    return {row: _make_card(explanation.concepts, *column) for row, *column in columns}


def _compare_attributes(
    explanation: Explanation,
    vocabulary: Sequence[str],
    texts: Sequence[str],
    image_ids: IntArray,
    *,
    asking: str,
    asked: str,
) -> list[list[str]]:
    """Sentences on colours and sizes of each text that no caption of its image has, for concepts that it shows."""
    captions = explanation.split.captions
    captions = captions.filter(pa.array(np.isin(np.asarray(captions["image_id"]), image_ids)))
    sentences = captions["text"].to_pylist()
    by_image = defaultdict(list)
    for image, sentence, places in zip(
        captions["image_id"].to_pylist(), sentences, locate_mentions(sentences, vocabulary), strict=True
    ):
        by_image[image].append((sentence, places))
    reasons = []
    for text, places, image in zip(texts, locate_mentions(texts, vocabulary), image_ids.tolist(), strict=True):
        shown = explanation.concepts.images[image].keys()
        of_text = []
        for difference in find_differences(text, [place for place in places if place[2] & shown], by_image[image]):
            but = f"but no caption of the {asked} does"
            if difference.others:
                quoted = [f"“{words}”" for words in difference.others]
                but = f"but captions of the {asked} say {list_names(quoted)}"
            of_text.append(f"the {asking} says “{difference.asked}”, {but}")
        reasons.append(of_text)
    return reasons


def _make_card(
    concepts: ImageConcepts,
    failure: Failure,
    values: Mapping[str, Any],
    places: Sequence[Place],
    why: Sequence[str],
    truth_file: str,
    retrieved_file: str,
) -> FailureCard:
    truth, retrieved = concepts.of([values["truth_id"], values["retrieved_id"]])
    places = [place for place in places if place[2] & (truth.keys() | retrieved.keys())]
    mentioned = set().union(*(names for _, _, names in places))
    rows = _join_concepts(truth, retrieved, mentioned, counted=concepts.counted)

    def show(title: str, file: str, image: int, kinds: Sequence[tuple[str, ShownConcept | None]]) -> ShownImage:
        of_image = [(kind, concept) for kind, concept in kinds if concept]
        words = [f"{concept.instances or ''} {concept.name}".strip() for _, concept in of_image]
        alt = f"{title}: {list_names(words)}" if words else f"{title}: no annotated concept"
        return ShownImage(file, alt, _draw_boxes(concepts.boxes.get(image, ()), of_image))

    def number(name: str) -> str:
        return "" if values[name] is None else SHOWN_AS[name.removesuffix(INFORMED)].format(values[name])

    of_truth = [(row.kind, row.truth) for row in rows]
    of_retrieved = [(row.kind, row.retrieved) for row in rows]
    return FailureCard(
        failure=failure,
        verdict=_judge_in_words(failure.kind, rows, values, why),
        marked=_mark(failure.query, places),
        truth=show("Right image", truth_file, values["truth_id"], of_truth),
        retrieved=show("Retrieved image", retrieved_file, values["retrieved_id"], of_retrieved),
        rows=rows,
        numbers=[(MEASURED_TITLES[name], number(name), number(f"{name}{INFORMED}")) for name in MEASURED],
    )


def _join_concepts(truth: Concepts, retrieved: Concepts, mentioned: AbstractSet[str], *, counted: bool) -> list[Row]:
    """Concepts that both images show, those that NCS matches, and the others; mentioned concepts come first."""

    def show(number: int, concept: str | None, image: Concepts) -> ShownConcept | None:
        if concept is None:
            return None
        instances = image[concept].size if counted else None
        return ShownConcept(number, concept_word(concept), concept, instances, concept in mentioned)

    def by_weight(names: Iterable[str], *images: Concepts) -> list[str]:
        def weigh(name: str) -> float:
            return sum(float(np.nansum(image[name])) for image in images)

        return sorted(names, key=lambda name: (name not in mentioned, -weigh(name), name))

    missing = sorted(truth.keys() - retrieved.keys())
    others = sorted(retrieved.keys() - truth.keys())
    matches = []
    if missing and others:
        table = similarity_matrix([*missing, *others])[: len(missing), len(missing) :]  # as NCS matches them
        for row, column in zip(*linear_sum_assignment(table, maximize=True), strict=True):
            matches.append((missing[row], others[column], float(table[row, column])))
    matches.sort(key=lambda match: (match[0] not in mentioned, -match[2], match[0]))
    matched = {left for left, _, _ in matches} | {right for _, right, _ in matches}
    common = by_weight(truth.keys() & retrieved.keys(), truth, retrieved)
    lines: list[tuple[str, str | None, str | None, str]] = [("common", name, name, "") for name in common]
    lines += [("joined", left, right, f"{similarity:.3f}") for left, right, similarity in matches]
    lines += [("alone", name, None, "") for name in by_weight(set(missing) - matched, truth)]
    lines += [("alone", None, name, "") for name in by_weight(set(others) - matched, retrieved)]
    rows = []
    for number, (kind, left, right, similarity) in enumerate(lines, start=1):
        rows.append(Row(kind, show(number, left, truth), show(number, right, retrieved), similarity))
    return rows


def _draw_boxes(boxes: Sequence[Box], concepts: Sequence[tuple[str, ShownConcept]]) -> list[DrawnBox]:
    """Boxes with the numbers of their concepts; large ones are drawn first."""
    by_synset = {concept.synset: (kind, concept) for kind, concept in concepts}
    drawn = []
    numbered = set[str]()
    for box in sorted(boxes, key=lambda box: -box.width * box.height):
        kind, concept = by_synset[box.concept]
        place = zip(("left", "top", "width", "height"), (box.x, box.y, box.width, box.height), strict=True)
        style = ";".join(f"{name}:{100 * share:.2f}%" for name, share in place)
        drawn.append(DrawnBox(concept.number, style, box.concept not in numbered, kind))
        numbered.add(box.concept)
    return drawn


def _mark(text: str, places: Sequence[Place]) -> list[tuple[str, bool]]:
    """The text in parts, and whether each mentions a concept."""
    parts = []
    done = 0
    for start, end, _ in places:
        parts += [(text[done:start], False), (text[start:end], True)]
        done = end
    return [(part, marked) for part, marked in [*parts, (text[done:], False)] if part]


def _judge_in_words(kind: str, rows: Sequence[Row], values: Mapping[str, Any], why: Sequence[str]) -> str:
    """The verdict on a failure in one sentence: its kind and the reasons."""
    wanted = [(row.truth, row.kind == "common") for row in rows if row.truth is not None]
    hit = [concept.name for concept, common in wanted if concept.mentioned and common]
    missed = [concept.name for concept, common in wanted if concept.mentioned and not common]
    n_common = sum(common for _, common in wanted)
    share = (f"{n_common} of {count(len(wanted), 'concept')}" if n_common else "nothing") + " of the right image"
    if not any(row.retrieved for row in rows):
        parts = ["the retrieved image shows no annotated concept"]
    elif not (hit or missed):
        parts = [f"it shows {share}"]
    elif not hit:
        parts = [f"it shows no concept of the query ({list_names(missed)})"]
    elif missed:
        parts = [f"it shows {list_names(hit)} of the query, but not {list_names(missed)}"]
    else:
        parts = [f"it shows all concepts of the query ({list_names(hit)})"]
    if n_common and 0 < len(hit) + len(missed) < len(wanted):
        parts.append(f"in all {share}")
    parts += [
        f"{row.retrieved.name} takes the place of {row.truth.name}"
        for row in rows
        if row.kind == "joined" and row.truth and row.retrieved
    ][:1]
    parts += why
    if values["concept_enumeration"]:
        parts.append(f"common ones differ by {count(round(values['concept_enumeration']), 'instance')}")
    if values["size_disagreement"]:
        sizes = values["size_disagreement"]
        of_truth = values[OF_TRUTH]
        other = "" if sizes == of_truth else f" ({of_truth:.1%} relative to the right image)"
        parts.append(f"sizes differ in {sizes:.1%} of the matches{other}")
    return f"{FAILURE_KINDS[kind][0]}: {'; '.join(parts)}."
