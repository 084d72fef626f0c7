"""What separates two models: concepts that one of them misses significantly more often than the other.

A query asks for the concepts of its right image that it mentions, or for all of them if it is an image. A model misses
a concept if the image of its top item does not show it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

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


COLUMNS = ("direction", "concept", "first", "other", "queries", "images", "first_misses", "other_misses")
"""Columns of a tested concept: shares of its queries in which the first and the other model miss it."""


@dataclass(frozen=True, slots=True, eq=False)
class Separation:
    """The concepts that separate the first model from each of the others.

    Attributes:
        tested: the number of all tests.
        pairs: direction, first and other model of every comparison.
        concepts: a row for each concept that separates two models, the smallest p first: :data:`COLUMNS`, ``p_value``
            and, after Holm's correction, ``p_holm``; ``examples``, a list of dictionaries, each with a query for the
            concept that one model misses and the other does not (empty if it is an image), its right image, and the
            first images of both; and ``sentence``, which model misses the concept more.
    """

    tested: int
    pairs: Sequence[tuple[str, str, str]]
    concepts: pd.DataFrame

    @property
    def facts(self) -> dict[str, Any]:
        """The entry of ``explain.json``."""
        return {"tested": self.tested, "level": LEVEL, "concepts": self.concepts.to_dict("records")}

    @property
    def groups(self) -> list[tuple[str, str, str, list[dict[str, Any]]]]:
        """Each direction and pair of models with the concepts that separate them, and the ``word`` of each."""
        concepts = self.concepts.assign(word=self.concepts["concept"].map(concept_word))
        groups = []
        for direction, first, other in self.pairs:
            is_of_pair = (concepts[["direction", "first", "other"]] == [direction, first, other]).all(axis=1)
            groups.append((direction, first, other, concepts[is_of_pair].to_dict("records")))
        return groups

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


def _show_p(p_value: float) -> str:
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


def _describe(row: Mapping[str, Any]) -> str:
    """Which of the two models misses a concept more."""
    sides = sorted([(row["first_misses"], row["first"]), (row["other_misses"], row["other"])], reverse=True)
    (more, worse), (less, better) = sides
    return (
        f"{worse} misses '{concept_word(row['concept'])}' in {more:.0%} of its queries, {better} in {less:.0%} "
        f"({_show_p(row['p_holm'])} after Holm's correction, {row['queries']:,} queries)."
    )


def _draw_chart(first_misses: float, other_misses: float) -> str:
    """The two shares on a line of characters."""
    line = ["\N{BOX DRAWINGS LIGHT HORIZONTAL}"] * TRACK
    line[round(first_misses * (TRACK - 1))] = "\N{BLACK CIRCLE}"
    line[round(other_misses * (TRACK - 1))] = "\N{WHITE CIRCLE}"
    return "".join(line)


def _tabulate(title: str, subtitle: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    models = f"\N{BLACK CIRCLE} {rows[0]['first']} \N{WHITE CIRCLE} {rows[0]['other']}"
    header = ("concept", f"0% {models} 100%", "queries", "p")
    cells = []
    for row in rows:
        chart = _draw_chart(row["first_misses"], row["other_misses"])
        p_value = _show_p(row["p_holm"]).removeprefix("p ").removeprefix("= ")
        cells.append([row["word"], chart, f"{row['queries']:,}", p_value])
    notes = [row["sentence"] for row in rows]
    return Table([(name,) for name in header], cells, title, subtitle, notes)


def _tabulate_examples(row: Mapping[str, Any]) -> Table:
    header = ("query", "", "right image", row["first"], row["other"])
    cells = []
    for example in row["examples"]:
        images = [str(example[name]) for name in ("truth_id", "first_id", "other_id")]
        cells.append([str(example["query_id"]), example["query"], *images])
    title = f"{len(cells)} queries with '{row['word']}' that only one of them misses"
    return Table([(name,) for name in header], cells, title, "with the images retrieved", prose=frozenset([1]))


def separate_models(explanations: Sequence[Explanation], *, seed: int = 0) -> Separation:
    """The concepts that the first model and each of the others miss differently, in every direction of both.

    Every concept is tested on whose queries the two models differ in at least :data:`LEAST_IMAGES` images, and Holm's
    correction is over all tests. Queries whose images are not annotated are left out. ``seed`` draws the examples.
    """
    first, *others = explanations
    pairs = []
    tests: list[dict[str, Any]] = []
    for other in others:
        for direction in first.directions:
            if direction in other.directions:
                pairs.append((direction, first.model, other.model))
                tests += _test_concepts(direction, first, other)
    concepts = pd.DataFrame(tests, columns=[*COLUMNS, "p_value", "p_holm", "examples"])
    concepts["p_holm"] = holm(concepts["p_value"].tolist())
    concepts = concepts[concepts["p_holm"] < LEVEL].copy()
    random = np.random.default_rng(seed)
    concepts["examples"] = [_draw_examples(examples, random) for examples in concepts["examples"]]
    concepts["sentence"] = [_describe(row) for row in concepts.to_dict("records")]
    concepts["difference"] = (concepts["first_misses"] - concepts["other_misses"]).abs()
    concepts = concepts.sort_values(["p_holm", "difference", "concept"], ascending=[True, False, True], kind="stable")
    return Separation(len(tests), pairs, concepts.drop(columns="difference").reset_index(drop=True))


def _draw_examples(examples: Sequence[Mapping[str, Any]], random: np.random.Generator) -> list[Mapping[str, Any]]:
    places = sorted(random.permutation(len(examples))[:EXAMPLES].tolist())
    return [examples[place] for place in places]


def _test_concepts(direction: str, first: Explanation, other: Explanation) -> Iterator[dict[str, Any]]:
    """Yield the uncorrected test of every concept; its examples are all queries that only the worse model misses."""
    failures = first.directions[direction].failures
    images = first.concepts.images
    asked = failures.asked.assign(
        first_id=_find_tops(failures), other_id=_find_tops(other.directions[direction].failures), query=""
    )
    texts = None
    if direction != "i2t":
        texts = first.split.texts_of(asked["query_id"].to_numpy()).to_pylist()
        asked["query"] = [text.strip() for text in texts]
    places = _list_queries(first, texts, asked)
    for concept in sorted(places):
        rows = asked.iloc[places[concept]]
        first_missed = [concept not in images[top] for top in rows["first_id"]]
        other_missed = [concept not in images[top] for top in rows["other_id"]]
        misses = np.array([first_missed, other_missed])
        truths, clusters = np.unique(rows["truth_id"], return_inverse=True)
        differences = np.bincount(clusters, misses[0].astype(float) - misses[1]).astype(np.int64)
        if np.count_nonzero(differences) < LEAST_IMAGES:
            continue
        first_misses, other_misses = misses.mean(axis=1).tolist()
        worse = int(other_misses > first_misses)
        examples = rows[misses[worse] & ~misses[1 - worse]]
        yield {
            "direction": direction,
            "concept": concept,
            "first": first.model,
            "other": other.model,
            "queries": len(rows),
            "images": truths.size,
            "first_misses": first_misses,
            "other_misses": other_misses,
            "p_value": randomization_test(differences),
            "examples": examples[["query_id", "query", "truth_id", "first_id", "other_id"]].to_dict("records"),
        }


def _find_tops(failures: Failures) -> IntArray:
    """(Q,) image of the top item of every query."""
    tops: IntArray = failures.asked["truth_id"].to_numpy(np.int64, copy=True)
    places = find_positions(failures.rows["query_id"].to_numpy(), failures.asked["query_id"].to_numpy())[0]
    tops[places] = failures.rows["retrieved_id"]
    return tops


def _list_queries(model: Explanation, texts: Sequence[str] | None, asked: pd.DataFrame) -> Mapping[str, list[int]]:
    """Concept to the rows of the queries for it, whose images are all annotated."""
    images = model.concepts.images
    wanted: list[AbstractSet[str]] = [images.get(truth, {}).keys() for truth in asked["truth_id"]]
    if texts is not None:
        mentions = find_mentions(texts, model.concepts.vocabulary)
        wanted = [shown & named for shown, named in zip(wanted, mentions, strict=True)]
    annotated = asked["first_id"].isin(images) & asked["other_id"].isin(images)
    places = defaultdict(list)
    for row in np.flatnonzero(annotated).tolist():
        for concept in wanted[row]:
            places[concept].append(row)
    return places
