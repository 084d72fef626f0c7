"""``evaluate`` modules of metrics on pairs: rated pairs of items, and the concepts of two images of a failed query."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.evaluate_modules.module import Column, Example, MetricModule, Results, finite_numbers, ids, number_lists
from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.types import FloatArray, RatedPairs
from cxc_eccv.types.concept_pairs import ConceptPairs, Concepts, Similarity
from cxc_eccv.types.strict_json import Json


class RatedPairsModule(MetricModule):
    """A rank correlation; predictions are similarities of pairs, references their ratings."""

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": Column(finite_numbers, "float64", "the model's similarity of each rated pair, finite."),
        "references": Column(finite_numbers, "float64", "the human rating of each pair."),
        "query_ids": Column(
            ids,
            "int64",
            "id of each pair's query: the caption for STS, the image for SIS and SITS. List a pair in both orders if "
            "it counts for both items.",
        ),
        "item_ids": Column(ids, "int64", "id of the item rated with the query."),
    }
    n_inputs = 2
    result_texts: ClassVar[Mapping[str, str]] = {"{}_std": "standard deviation over the samples (ddof 0)."}
    limits = """\
- Ratings or similarities that are all equal, NaN, infinite values, empty input and unequal lengths raise an error.
- The value depends on which item of a pair is the query; the paper's choice is given above."""
    example: ClassVar[Example] = {
        "predictions": [0.91, 0.35, 0.54, 0.18, 0.77, 0.32, 0.62, 0.09],
        "references": [4.8, 2.1, 3.0, 0.6, 4.1, 1.9, 3.6, 0.2],
        "query_ids": [1, 1, 2, 3, 4, 5, 6, 6],
        "item_ids": [11, 12, 13, 14, 15, 16, 17, 18],
    }

    @classmethod
    def scores(
        cls,
        predictions: list[float],
        references: list[float],
        query_ids: list[int],
        item_ids: list[int],
        *,
        per_sample: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value; for a metric with samples their mean and standard deviation."""
        pairs = RatedPairs(np.array(query_ids), np.array(item_ids), np.array(references))
        values = cls.spec.function(pairs, np.array(predictions), **parameters)
        name = cls.spec.name
        spread = {f"{name}_std": float(np.std(values))} if values.ndim else {}
        samples = {f"{name}_samples": np.atleast_1d(values).tolist()} if per_sample else {}
        return {name: float(values.mean()), **spread, **samples}


def concept_lists(name: str, values: Any) -> list[list[str]]:  # noqa: ANN401 - checked here
    """One list of concepts per image, with each concept once per instance."""
    rows = []
    for index, row in enumerate(values):
        concepts = None if isinstance(row, str | Mapping) or not np.iterable(row) else list(row)
        if concepts is None or not all(isinstance(concept, str) and concept for concept in concepts):
            raise MalformedRun(f"{name}, row {index} is {row!r}; need a list of concepts, one per instance")
        rows.append(concepts)
    return rows


IMAGE_COLUMNS = {
    "predictions": Column(
        concept_lists,
        "list of string",
        "concepts of the top image of every failed query, each once per instance: WordNet synsets, such as "
        "`dog.n.01`, or other names; possibly none.",
    ),
    "references": Column(
        concept_lists, "list of string", "concepts of the query's image, in the same form; at least one."
    ),
}
EXAMPLE = {
    "predictions": [["dog.n.01", "frisbee.n.01", "park.n.01"], ["cat.n.01", "sofa.n.01"]],
    "references": [["dog.n.01", "dog.n.01", "ball.n.01", "park.n.01"], ["cat.n.01"]],
}
LIMITS = """\
- Rows must be failed queries. Leave out failures whose image shows no concept; such rows raise an error.
- Concepts are compared as text: `dog` and `dog.n.01` differ. With a source that names concepts without instances, use
  only concept agreement and non-common concept similarity.
- Empty input, unequal lengths and values of another type raise an error."""
DEFINED = {"{}_defined": "number of rows with a value, over which the mean is taken; none raises an error."}


class ConceptModule(MetricModule):
    """A metric of failed queries; predictions are concepts of the retrieved images, references those of the right."""

    spec: ClassVar[FailureMetric]
    columns: ClassVar[Mapping[str, Column]] = IMAGE_COLUMNS
    limits = LIMITS
    example: ClassVar[Example] = EXAMPLE

    @classmethod
    def scores(cls, *columns: list[list[Any]], per_query: bool = False, **parameters: Any) -> Results:  # noqa: ANN401
        """Name to value of the result, with what the card names beside it."""
        values = cls.spec.function(_make_pairs(*columns), **parameters)
        return cls.average_defined(values, per_query=per_query) | (parameters if cls.shows_options else {})

    @classmethod
    def average_defined(cls, values: FloatArray, *, per_query: bool) -> Results:
        """The mean over the rows with a value, and their number if it is in the card."""
        name = cls.spec.name
        is_defined = ~np.isnan(values)
        if not is_defined.any():
            raise DataError(f"{name} is undefined for all {values.size} rows; its card says when it is undefined")
        number = {f"{name}_defined": int(is_defined.sum())} if cls.result_texts else {}
        each = [None if np.isnan(value) else value for value in values.tolist()]
        by_query = {f"{name}_per_query": each} if per_query else {}
        return {name: float(values[is_defined].mean()), **number, **by_query}


class SimilarConceptsModule(ConceptModule):
    """A metric of concepts and their similarities."""

    n_inputs = 2
    option_texts: ClassVar[Mapping[str, str]] = {
        "similarities": "a dict of concept to a dict of other concepts to similarities from 0 to 1, in either order, "
        "for all pairs to compare. None is WordNet's path similarity of synsets, which needs `nltk` "
        "and its corpus (`pip install nltk && python -m nltk.downloader wordnet`).",
    }
    result_texts = DEFINED
    limits = (
        "- Rows in which all concepts of an image are shown by the other have no value and are left out of the mean.\n"
        "  With `per_query`, they are `None`.\n" + LIMITS
    )
    example_options: ClassVar[Example] = {"similarities": {"ball.n.01": {"frisbee.n.01": 0.2}}}
    packages = ("nltk",)

    @classmethod
    def scores(
        cls,
        *columns: list[list[Any]],
        similarities: Mapping[str, Mapping[str, float]] | None = None,
        per_query: bool = False,
        **parameters: Json,
    ) -> Results:
        """Name to value, and the number of rows with a value."""
        similarity = similarity_matrix if similarities is None else tabulate(similarities)
        values = cls.spec.function(_make_pairs(*columns), similarity, **parameters)
        return cls.average_defined(values, per_query=per_query)


class ConceptSizesModule(ConceptModule):
    """A metric of concepts and the areas of their instances."""

    columns: ClassVar[Mapping[str, Column]] = {
        **IMAGE_COLUMNS,
        "prediction_areas": Column(
            number_lists,
            "list of float64",
            "area of each prediction as a share of its image: above 0, at most 1.",
            beside="predictions",
        ),
        "reference_areas": Column(
            number_lists, "list of float64", "area of each reference as a share of its image.", beside="references"
        ),
    }
    shows_options = True
    result_texts = DEFINED
    limits = (
        "- Rows whose images have no concept in common have no value and are left out of the mean. With `per_query`, "
        "they are `None`.\n- Without a threshold, values have no upper bound.\n" + LIMITS
    )
    example: ClassVar[Example] = {
        **EXAMPLE,
        "prediction_areas": [[0.1, 0.02, 0.75], [0.2, 0.4]],
        "reference_areas": [[0.25, 0.15, 0.01, 0.9], [0.45]],
    }


def tabulate(table: Mapping[str, Mapping[str, float]]) -> Similarity:
    """The similarities of a table, for two concepts in either order; NaN where the table has none."""
    if not isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in table.values()):
        raise InvalidOption(
            f"similarities is {table!r:.60}; give a dict of concept to a dict of other concepts to similarities, or "
            "None for WordNet's"
        )
    by_pair: dict[frozenset[str], float] = {}
    for concept, row in table.items():
        for other, value in row.items():
            if by_pair.setdefault(frozenset((concept, other)), value) != value:
                raise InvalidOption(f"similarities has two values for the pair {concept!r} and {other!r}; give one")

    def look_up(names: Sequence[str]) -> FloatArray:
        known = by_pair | {frozenset((name,)): 1.0 for name in names}
        pairs = [known.get(frozenset(pair), np.nan) for pair in itertools.product(names, repeat=2)]
        return np.array(pairs, dtype=np.float64).reshape(len(names), len(names))

    return look_up


def _make_pairs(
    predictions: list[list[str]],
    references: list[list[str]],
    prediction_areas: list[list[float]] | None = None,
    reference_areas: list[list[float]] | None = None,
) -> ConceptPairs:
    """The concepts of the images of each row; query ids are row numbers."""
    shown = _group(predictions, prediction_areas)
    truths = _group(references, reference_areas)
    return ConceptPairs(np.arange(len(truths)), truths, shown)


def _group(images: list[list[str]], areas: list[list[float]] | None) -> list[Concepts]:
    """For each image, concept to the areas of its instances; NaN without areas."""
    if areas is None:
        areas = [[np.nan] * len(names) for names in images]
    grouped: list[Concepts] = []
    for names, values in zip(images, map(np.array, areas), strict=True):
        by_row = np.array(names)
        grouped.append({name: values[by_row == name] for name in dict.fromkeys(names)})
    return grouped
