"""``evaluate`` modules of metrics that explain failed queries by the concepts of two images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.module import Column, Example, MetricModule, Results, number_lists
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.metrics.kinds import FailureMetric
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity
from cxc_eccv.types.strict_json import Json


def concept_lists(name: str, values: Any) -> list[list[str]]:  # noqa: ANN401 - checked here
    """One list of concepts per image, with each concept once per instance."""
    rows = []
    for index, row in enumerate(values):
        concepts = None if isinstance(row, str | Mapping) or not np.iterable(row) else list(row)
        if concepts is None or not all(isinstance(concept, str) and concept for concept in concepts):
            raise MalformedRun(f"{name}, row {index} is {row!r}; need a list of concepts, one per instance")
        rows.append([str(concept) for concept in concepts])
    return rows


IMAGES = {
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


class FailureModule(MetricModule):
    """A metric of failed queries; predictions are concepts of the retrieved images, references those of the right."""

    spec: ClassVar[FailureMetric]
    columns: ClassVar[Mapping[str, Column]] = IMAGES
    limits = LIMITS
    example: ClassVar[Example] = EXAMPLE

    @classmethod
    def average_defined(cls, values: FloatArray, *, per_query: bool) -> Results:
        """The mean over the rows with a value, and their number if it is in the card."""
        name, is_defined = cls.spec.name, ~np.isnan(values)
        if not is_defined.any():
            raise DataError(f"{name} is undefined for all {values.size} rows; its card says when it is undefined")
        number = {f"{name}_defined": int(is_defined.sum())} if cls.result_texts else {}
        each = [value if flag else None for value, flag in zip(values.tolist(), is_defined.tolist(), strict=True)]
        by_query = {f"{name}_per_query": each} if per_query else {}
        return {name: float(values[is_defined].mean()), **number, **by_query}


class ConceptModule(FailureModule):
    """A metric of concepts."""

    @classmethod
    def scores(
        cls, predictions: list[list[str]], references: list[list[str]], *, per_query: bool = False, **parameters: object
    ) -> Results:
        """Name to value of the result."""
        pairs = _make_pairs(predictions, references)
        return cls.average_defined(cls.spec.function(pairs, **parameters), per_query=per_query)


class SimilarConceptsModule(FailureModule):
    """A metric of concepts and their similarities."""

    n_inputs = 2
    option_texts: ClassVar[Mapping[str, str]] = {
        "similarities": "a dict of concept to a dict of other concepts to similarities from 0 to 1, in either order, "
        "for all pairs to compare. None is WordNet's path similarity of synsets, which needs `nltk` "
        "(`pip install 'cxc_eccv[explain]'`) and its corpus (`python -m nltk.downloader wordnet`).",
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
        predictions: list[list[str]],
        references: list[list[str]],
        *,
        similarities: Mapping[str, Mapping[str, float]] | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> Results:
        """Name to value, and the number of rows with a value."""
        similarity = similarity_matrix if similarities is None else tabulate(similarities)
        values = cls.spec.function(_make_pairs(predictions, references), similarity, **parameters)
        return cls.average_defined(values, per_query=per_query)


class ConceptSizesModule(FailureModule):
    """A metric of concepts and the areas of their instances."""

    columns: ClassVar[Mapping[str, Column]] = {
        **IMAGES,
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

    @classmethod
    def scores(
        cls,
        predictions: list[list[str]],
        references: list[list[str]],
        prediction_areas: list[list[float]],
        reference_areas: list[list[float]],
        *,
        per_query: bool = False,
        **parameters: Json,
    ) -> Results:
        """Name to value, the number of rows with a value, and the options."""
        pairs = _make_pairs(predictions, references, prediction_areas, reference_areas)
        return cls.average_defined(cls.spec.function(pairs, **parameters), per_query=per_query) | parameters


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
        same = {frozenset((name,)): 1.0 for name in names}
        pairs = [[(by_pair | same).get(frozenset((name, other)), np.nan) for other in names] for name in names]
        return np.array(pairs, dtype=np.float64)

    return look_up


def _make_pairs(
    predictions: list[list[str]],
    references: list[list[str]],
    prediction_areas: list[list[float]] | None = None,
    reference_areas: list[list[float]] | None = None,
) -> ConceptPairs:
    """The concepts of the images of each row; query ids are row numbers."""
    shown, truths = _group(predictions, prediction_areas), _group(references, reference_areas)
    return ConceptPairs(np.arange(len(truths)), truths, shown)


def _group(images: list[list[str]], areas: list[list[float]] | None) -> list[Concepts]:
    """For each image, concept to the areas of its instances; NaN without areas."""
    groups: list[Concepts] = []
    for index, names in enumerate(images):
        sizes: dict[str, list[float]] = {}
        for name, area in zip(names, [np.nan] * len(names) if areas is None else areas[index], strict=True):
            sizes.setdefault(name, []).append(area)
        groups.append({name: np.array(values) for name, values in sizes.items()})
    return groups
