"""``evaluate`` modules of metrics that explain failures: concepts of two images each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.inputs import Column, number_lists
from cxc_eccv.adapters.module import PER_QUERY, MetricModule
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity


def concept_lists(name: str, values: Any) -> list[list[str]]:  # noqa: ANN401 - checked here
    """One list of concepts per image, each as often as the image shows it."""
    rows = []
    for place, row in enumerate(values):
        concepts = None if isinstance(row, str | Mapping) or not np.iterable(row) else list(row)
        if concepts is None or not all(isinstance(concept, str) and concept for concept in concepts):
            raise MalformedRun(f"{name}, row {place} is {row!r}; need a list of concepts, one per instance")
        rows.append([str(concept) for concept in concepts])
    return rows


IMAGES = {
    "predictions": Column(
        concept_lists,
        "list of string",
        "what the image at the top shows, for every query that did not retrieve its own: each concept once per "
        "instance. WordNet synsets, such as `dog.n.01`, or names of your own. There may be none.",
    ),
    "references": Column(
        concept_lists, "list of string", "likewise what the query's own image shows; at least one concept."
    ),
}
EXAMPLE = {
    "predictions": [["dog.n.01", "frisbee.n.01", "park.n.01"], ["cat.n.01", "sofa.n.01"]],
    "references": [["dog.n.01", "dog.n.01", "ball.n.01", "park.n.01"], ["cat.n.01"]],
}
LIMITS = """\
- Rows are failures alone: a query that retrieved its own image has nothing to explain. Leave a failure out, and count
  it, if its own image shows no concept; such a row raises.
- Concepts are compared as text: `dog` and `dog.n.01` are two. Where a source tells only which concepts an image shows,
  concept agreement and non-common concept similarity say what they should; the number and the sizes of instances it
  cannot tell.
- Empty input, unequal lengths and values of another type raise. None yields a number."""
DEFINED = {"{}_defined": "number of rows that have a value: those that the mean is over. None at all raises."}


class ConceptModule(MetricModule):
    """A metric of concepts: predictions are those of the retrieved images, references those of the ground truths."""

    columns = IMAGES
    option_texts: ClassVar[Mapping[str, str]] = {"per_query": PER_QUERY}
    limits = LIMITS
    example: ClassVar[Mapping[str, list[Any]]] = EXAMPLE

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_query: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value of the one result."""
        values = cls.spec.function(_pair(inputs), **parameters)
        return _results_of(cls.spec, values, per_query=per_query)


class SimilarConceptsModule(MetricModule):
    """A metric of concepts and how similar two of them are."""

    columns = IMAGES
    n_inputs = 2
    option_texts: ClassVar[Mapping[str, str]] = {
        "similarities": "a dict of a concept to a dict of others to their similarity with it, from 0 to 1, in "
        "either order; every two that must be compared need one. None is WordNet's path similarity, of synsets: "
        "that needs `nltk` (`pip install 'cxc_eccv[explain]'`) and its corpus (`python -m nltk.downloader "
        "wordnet`).",
        "per_query": PER_QUERY,
    }
    result_texts = DEFINED
    limits = (
        "- Rows where one of the two images shows nothing that the other does not show have no value and are left out "
        "of the\n  mean. With `per_query`, they are `None`.\n" + LIMITS
    )
    example: ClassVar[Mapping[str, list[Any]]] = EXAMPLE
    example_options: ClassVar[Mapping[str, Any]] = {"similarities": {"ball.n.01": {"frisbee.n.01": 0.2}}}
    packages = ("scipy", "nltk")

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        similarities: Mapping[str, Mapping[str, float]] | None = None,
        per_query: bool = False,
        **parameters: object,
    ) -> dict[str, Any]:
        """Name to value, and the number of rows that it is the mean of."""
        similarity = similarity_matrix if similarities is None else tabulate(similarities)
        pairs = _pair(inputs)
        values = cls.spec.function(pairs, similarity, **parameters)
        return _results_of(cls.spec, values, per_query=per_query, partial=True)


class ConceptSizesModule(MetricModule):
    """A metric of concepts and the areas of their instances."""

    columns: ClassVar[Mapping[str, Column]] = {
        **IMAGES,
        "prediction_areas": Column(
            number_lists, "list of float64", "the area of each prediction, as a share of its image: above 0, at most 1."
        ),
        "reference_areas": Column(number_lists, "list of float64", "likewise of each reference."),
    }
    option_texts: ClassVar[Mapping[str, str]] = {"per_query": PER_QUERY}
    result_texts = DEFINED
    limits = (
        "- Rows whose images have no concept in common have no value and are left out of the mean. With `per_query`, "
        "they are `None`.\n- Without a threshold, values have no upper bound.\n" + LIMITS
    )
    example: ClassVar[Mapping[str, list[Any]]] = {
        **EXAMPLE,
        "prediction_areas": [[0.1, 0.02, 0.75], [0.2, 0.4]],
        "reference_areas": [[0.25, 0.15, 0.01, 0.9], [0.45]],
    }
    packages = ("scipy",)

    @classmethod
    def scores(
        cls, inputs: Mapping[str, list[Any]], *, per_query: bool = False, **parameters: object
    ) -> dict[str, Any]:
        """Name to value, the number of rows that it is the mean of, and the options that it depends on."""
        for side in ("prediction", "reference"):
            shown = zip(inputs[f"{side}s"], inputs[f"{side}_areas"], strict=True)
            for row, (concepts, sizes) in enumerate(shown):
                if len(concepts) != len(sizes):
                    raise DataError(
                        f"row {row} has {len(concepts)} {side}s and {len(sizes)} {side}_areas; give the area of each "
                        "instance"
                    )
        pairs = _pair(inputs)
        values = cls.spec.function(pairs, **parameters)
        return _results_of(cls.spec, values, per_query=per_query, partial=True) | parameters


def tabulate(table: Mapping[str, Mapping[str, float]]) -> Similarity:
    """Similarities that a user lists, of two concepts in either order; NaN where they lack one."""
    if not isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in table.values()):
        raise InvalidOption(
            f"similarities is {table!r:.60}; give a dict of a concept to a dict of others to their similarity with it, "
            "or None for WordNet's"
        )
    known: dict[frozenset[str], float] = {}
    for concept, row in table.items():
        for other, value in row.items():
            if known.setdefault(frozenset((concept, other)), value) != value:
                raise InvalidOption(
                    f"similarities has two values for {concept!r} and {other!r}; they are the same pair"
                )

    def look_up(names: Sequence[str]) -> FloatArray:
        same = {frozenset((name,)): 1.0 for name in names}
        pairs = [[(known | same).get(frozenset((name, other)), np.nan) for other in names] for name in names]
        return np.array(pairs, dtype=np.float64)

    return look_up


def _pair(inputs: Mapping[str, list[Any]]) -> ConceptPairs:
    """What the images of each row show; the rows number the queries."""
    truths = _group(inputs["references"], inputs.get("reference_areas"))
    return ConceptPairs(np.arange(len(truths)), truths, _group(inputs["predictions"], inputs.get("prediction_areas")))


def _group(images: Sequence[Sequence[str]], areas: Sequence[Sequence[float]] | None) -> list[Concepts]:
    """Instances by concept, image by image; of unknown area where none are given."""
    groups: list[Concepts] = []
    for place, names in enumerate(images):
        sizes: dict[str, list[float]] = {}
        for name, area in zip(names, [np.nan] * len(names) if areas is None else areas[place], strict=True):
            sizes.setdefault(name, []).append(area)
        groups.append({name: np.array(values) for name, values in sizes.items()})
    return groups


def _results_of(spec: Spec, values: FloatArray, *, per_query: bool, partial: bool = False) -> dict[str, Any]:
    """The mean over the rows where the metric is defined, and their number where there may be others."""
    defined = ~np.isnan(values)
    if not defined.any():
        raise DataError(f"{spec.name} is defined for none of the {values.size} rows; its card says where it is not")
    number = {f"{spec.name}_defined": int(defined.sum())} if partial else {}
    each = [value if known else None for value, known in zip(values.tolist(), defined.tolist(), strict=True)]
    return {spec.name: float(values[defined].mean())} | number | ({f"{spec.name}_per_query": each} if per_query else {})
