"""What separates two models: concepts that one of them misses significantly more often than the other.

A query asks for the concepts of its right image that it mentions, or for all of them if it is an image. A model misses
a concept if the image of its top item does not show it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from cxc_eccv.statistics import holm, randomization_test
from cxc_eccv.studies.explain.concepts import concept_word, find_mentions
from cxc_eccv.studies.explain.explanation import Explanation
from cxc_eccv.studies.explain.failed_queries import Failures
from cxc_eccv.tables import Table
from cxc_eccv.types import IntArray, find_positions
from cxc_eccv.wording import count

LEVEL = 0.05

LEAST_IMAGES = 6
"""Fewest images on which the models must differ: with five no p-value is below 0.05. It is known before the sign is."""

EXAMPLES = 10
"""Queries of each concept that only one model misses, drawn at random."""

SHOWN = 10
"""Concepts of each comparison on a terminal; the page and ``explain.json`` have all."""

TRACK = 21
"""Characters of a chart on a terminal, from 0% to 100%."""

NOTE = (
    "misses: shares of the queries whose image shows the concept (and that mention it, if they are text) where the top "
    "item's image does not. p: exact paired randomization test over images, after Holm's correction"
)


@dataclass(frozen=True, slots=True)
class Example:
    """A query for a concept that one model misses and the other does not; ``query`` is empty if it is an image."""

    query_id: int
    query: str
    truth_id: int
    first_id: int
    other_id: int


@dataclass(frozen=True, slots=True)
class Separating:
    """A concept, and the shares of its queries in which the first and the other model miss it."""

    direction: str
    concept: str
    first: str
    other: str
    queries: int
    images: int
    first_misses: float
    other_misses: float
    p_value: float
    p_holm: float
    examples: tuple[Example, ...] = ()

    @property
    def word(self) -> str:
        """The concept's name without its part of speech."""
        return concept_word(self.concept)

    @property
    def p_text(self) -> str:
        """The corrected p-value, as a sentence has it."""
        return "p < 0.001" if self.p_holm < 0.001 else f"p = {self.p_holm:.3f}"

    @property
    def sentence(self) -> str:
        """Which model misses it more."""
        sides = sorted(((self.first_misses, self.first), (self.other_misses, self.other)), reverse=True)
        (more, worse), (less, better) = sides
        return (
            f"{worse} misses '{self.word}' in {more:.0%} of its queries, {better} in {less:.0%} ({self.p_text} after "
            f"Holm's correction, {self.queries:,} queries)."
        )

    @property
    def chart(self) -> str:
        """The two shares on a line of characters."""
        line = ["\N{BOX DRAWINGS LIGHT HORIZONTAL}"] * TRACK
        first, other = (round(share * (TRACK - 1)) for share in (self.first_misses, self.other_misses))
        line[first], line[other] = "\N{BLACK CIRCLE}", "\N{WHITE CIRCLE}"
        return "".join(line)


@dataclass(frozen=True, slots=True)
class Separation:
    """The concepts that separate the first model from each of the others, of all ``tested``; smallest p first."""

    tested: int
    concepts: tuple[Separating, ...]
    pairs: tuple[tuple[str, str, str], ...]

    @property
    def facts(self) -> dict[str, Any]:
        """The entry of ``explain.json``."""
        rows = [{**asdict(row), "sentence": row.sentence} for row in self.concepts]
        return {"tested": self.tested, "level": LEVEL, "concepts": rows}

    @property
    def groups(self) -> list[tuple[str, str, str, list[Separating]]]:
        """Each direction and pair of models with the concepts that separate them."""
        return [
            (*pair, [row for row in self.concepts if (row.direction, row.first, row.other) == pair])
            for pair in self.pairs
        ]

    @property
    def note(self) -> str:
        """What the shares and the p-values are."""
        return f"{NOTE} for {count(self.tested, 'test')}."

    def tables(self) -> list[Table]:
        """For a terminal: the concepts of every comparison with a chart, and examples of the first one."""
        tables = []
        for direction, first, other, rows in self.groups:
            title = f"What separates {first} and {other}, {direction}"
            if not rows:
                tables.append(Table([], [], title, notes=["No concept is missed significantly more by one of them."]))
                continue
            cut = f"{SHOWN} of {len(rows)} concepts" if len(rows) > SHOWN else ""
            tables += [_tabulate(title, cut, rows[:SHOWN]), _tabulate_examples(rows[0])]
        return [*tables[:-1], replace(tables[-1], notes=[*tables[-1].notes, self.note])] if tables else []


def _tabulate(title: str, subtitle: str, rows: Sequence[Separating]) -> Table:
    header = ("concept", f"0% \N{BLACK CIRCLE} {rows[0].first} \N{WHITE CIRCLE} {rows[0].other} 100%", "queries", "p")
    cells = [
        [row.word, row.chart, f"{row.queries:,}", row.p_text.removeprefix("p ").removeprefix("= ")] for row in rows
    ]
    notes = [row.sentence for row in rows]
    return Table([(name,) for name in header], cells, title, subtitle, notes)


def _tabulate_examples(row: Separating) -> Table:
    header = ("query", "", "right image", row.first, row.other)
    cells = [
        [str(example.query_id), example.query, *map(str, (example.truth_id, example.first_id, example.other_id))]
        for example in row.examples
    ]
    title = f"{len(cells)} queries with '{row.word}' that only one of them misses"
    return Table([(name,) for name in header], cells, title, "with the images retrieved", prose=frozenset([1]))


def separate_models(explanations: Sequence[Explanation], *, seed: int = 0) -> Separation:
    """The concepts that the first model and each of the others miss differently, in every direction of both.

    Every concept is tested on whose queries the two models differ in at least :data:`LEAST_IMAGES` images, and Holm's
    correction is over all tests. Queries whose images are not annotated are left out. ``seed`` draws the examples.
    """
    first, *others = explanations
    pairs = [(name, other) for other in others for name in first.directions if name in other.directions]
    tested = [test for direction, other in pairs for test in _test_concepts(direction, first, other)]
    corrected = holm([row.p_value for row, _ in tested])
    random = np.random.default_rng(seed)
    rows = []
    for (row, examples), p_holm in zip(tested, corrected, strict=True):
        if p_holm < LEVEL:
            chosen = sorted(random.permutation(len(examples))[:EXAMPLES].tolist())
            rows.append(replace(row, p_holm=p_holm, examples=tuple(examples[place] for place in chosen)))
    rows.sort(key=lambda row: (row.p_holm, -abs(row.first_misses - row.other_misses), row.concept))
    return Separation(len(tested), tuple(rows), tuple((name, first.model, other.model) for name, other in pairs))


def _test_concepts(
    direction: str, first: Explanation, other: Explanation
) -> Iterator[tuple[Separating, list[Example]]]:
    """Yield the uncorrected test of every concept, and the queries that only the model with more misses misses."""
    sides = [model.directions[direction].failures for model in (first, other)]
    queries = sides[0].asked_ids
    truths = sides[0].asked_images
    images = first.concepts.images
    tops = np.stack([_find_tops(side) for side in sides])
    texts = [""] * queries.size if direction == "i2t" else first.split.texts_of(queries).to_pylist()
    places = _list_queries(first, texts if direction != "i2t" else None, truths, tops)
    for concept in sorted(places):
        rows = np.array(places[concept])
        misses = np.array([[concept not in images[top] for top in line] for line in tops[:, rows].tolist()])
        shown = np.unique(truths[rows], return_inverse=True)
        differences = np.bincount(shown[1], misses[0].astype(float) - misses[1]).astype(np.int64)
        if np.count_nonzero(differences) < LEAST_IMAGES:
            continue
        p_value = randomization_test(differences)
        shares = misses.mean(axis=1).tolist()
        worse = int(shares[1] > shares[0])
        examples = [
            Example(int(queries[row]), texts[row].strip(), int(truths[row]), *tops[:, row].tolist())
            for row in rows[misses[worse] & ~misses[1 - worse]].tolist()
        ]
        row = Separating(
            direction=direction,
            concept=concept,
            first=first.model,
            other=other.model,
            queries=rows.size,
            images=shown[0].size,
            first_misses=shares[0],
            other_misses=shares[1],
            p_value=p_value,
            p_holm=p_value,
        )
        yield row, examples


def _find_tops(failures: Failures) -> IntArray:
    """(Q,) image of the top item of every query."""
    tops = failures.asked_images.copy()
    tops[find_positions(failures.query_ids, failures.asked_ids)[0]] = failures.retrieved_ids
    return tops


def _list_queries(
    model: Explanation, texts: Sequence[str] | None, truths: IntArray, tops: IntArray
) -> Mapping[str, list[int]]:
    """Concept to the rows of the queries for it, whose images are all annotated."""
    images = model.concepts.images
    mentions: list[AbstractSet[str]] = [images.get(truth, {}).keys() for truth in truths.tolist()]
    if texts is not None:
        vocabulary = sorted({name for shown in images.values() for name in shown})
        mentions = [shown & named for shown, named in zip(mentions, find_mentions(texts, vocabulary), strict=True)]
    places: dict[str, list[int]] = {}
    for row in np.flatnonzero(np.isin(tops, list(images)).all(axis=0)).tolist():
        for concept in mentions[row]:
            places.setdefault(concept, []).append(row)
    return places
