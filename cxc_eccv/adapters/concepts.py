"""``evaluate`` modules of metrics that explain failures: concepts of two images each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from cxc_eccv.adapters.inputs import Column, number_lists
from cxc_eccv.adapters.module import MetricModule
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.wordnet import similarity_matrix
from cxc_eccv.types import FloatArray
from cxc_eccv.types.seen import ConceptPairs, Concepts, Similarity

__all__ = ["ConceptModule", "ConceptSizesModule", "SimilarConceptsModule", "concept_lists"]


def concept_lists(name: str, values: Any) -> list[list[str]]:  # noqa: ANN401 - checked here
    """One list of concepts per image, each as often as the image shows it.

    Example:
        >>> concept_lists("predictions", [["dog.n.01", "dog.n.01"], "dog.n.01"])
        Traceback (most recent call last):
        cxc_eccv.errors.MalformedRun: predictions, row 1 is 'dog.n.01'; need a list of concepts, one per instance
    """
    rows = []
    for place, row in enumerate(values):
        own = None if isinstance(row, str | Mapping) or not np.iterable(row) else list(row)
        if own is None or not all(isinstance(concept, str) and concept for concept in own):
            raise MalformedRun(f"{name}, row {place} is {row!r}; need a list of concepts, one per instance")
        rows.append([str(concept) for concept in own])
    return rows


class ConceptModule(MetricModule):
    """A metric of concepts: predictions are those of the retrieved images, references those of the ground truths.

    Example:
        >>> from cxc_eccv.metrics.concept_enumeration import SPEC
        >>> class ConceptEnumeration(ConceptModule):
        ...     spec = SPEC
        >>> ConceptEnumeration.scores({"predictions": [["dog", "sky"]], "references": [["dog", "dog", "dog"]]})
        {'concept_enumeration': 2.0}
    """

    columns: ClassVar[Mapping[str, Column]] = {"predictions": concept_lists, "references": concept_lists}

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value of the one result."""
        values = cls.spec.function(_pair(inputs["references"], inputs["predictions"]), **parameters)
        return _results_of(cls.spec, values, per_query=per_query)


class SimilarConceptsModule(ConceptModule):
    """A metric of concepts and how similar two of them are.

    Example:
        >>> from cxc_eccv.metrics.non_common_similarity import SPEC
        >>> class NonCommonSimilarity(SimilarConceptsModule):
        ...     spec = SPEC
        >>> rows = {"predictions": [["dog", "disc"], ["dog"]], "references": [["dog", "ball"], ["dog"]]}
        >>> NonCommonSimilarity.scores(rows, similarities={"ball": {"disc": 0.25}})
        {'non_common_similarity': 0.25, 'non_common_similarity_defined': 1}
    """

    n_inputs: ClassVar[int] = 2

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        similarities: Mapping[str, Mapping[str, float]] | None = None,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value, and the number of rows that it is the mean of."""
        similarity = similarity_matrix if similarities is None else tabulate(similarities)
        pairs = _pair(inputs["references"], inputs["predictions"])
        values = cls.spec.function(pairs, similarity, **parameters)
        return _results_of(cls.spec, values, per_query=per_query, partial=True)


class ConceptSizesModule(MetricModule):
    """A metric of concepts and the areas of their instances.

    Example:
        >>> from cxc_eccv.metrics.size_disagreement import SPEC
        >>> class SizeDisagreement(ConceptSizesModule):
        ...     spec = SPEC
        >>> rows = {"predictions": [["dog"]], "references": [["dog"]]}
        >>> areas = {"prediction_areas": [[0.5]], "reference_areas": [[0.2]]}
        >>> SizeDisagreement.scores(rows | areas, relative_to="smaller", threshold=1.0)
        {'size_disagreement': 1.0, 'size_disagreement_defined': 1, 'relative_to': 'smaller', 'threshold': 1.0}
    """

    columns: ClassVar[Mapping[str, Column]] = {
        "predictions": concept_lists,
        "references": concept_lists,
        "prediction_areas": number_lists,
        "reference_areas": number_lists,
    }

    @classmethod
    def scores(
        cls,
        inputs: Mapping[str, list[Any]],
        *,
        per_query: bool = False,
        **parameters: Any,  # noqa: ANN401 - the metric's own
    ) -> dict[str, Any]:
        """Name to value, the number of rows that it is the mean of, and the options that it depends on."""
        for side in ("prediction", "reference"):
            _match_lengths(side, inputs[f"{side}s"], inputs[f"{side}_areas"])
        pairs = _pair(
            inputs["references"], inputs["predictions"], inputs["reference_areas"], inputs["prediction_areas"]
        )
        values = cls.spec.function(pairs, **parameters)
        return _results_of(cls.spec, values, per_query=per_query, partial=True) | parameters


def tabulate(table: Mapping[str, Mapping[str, float]]) -> Similarity:
    """Similarities that a user lists, of two concepts in either order; NaN where they lack one.

    Example:
        >>> tabulate({"ball": {"disc": 0.25}})(["ball", "disc", "sky"])[0].tolist()
        [1.0, 0.25, nan]
    """
    if not isinstance(table, Mapping) or not all(isinstance(row, Mapping) for row in table.values()):
        raise InvalidOption(
            f"similarities is {table!r:.60}; give a dict of a concept to a dict of others to their similarity with it, "
            "or None for WordNet's"
        )
    known: dict[frozenset[str], float] = {}
    for one, row in table.items():
        for other, value in row.items():
            if known.setdefault(frozenset((one, other)), value) != value:
                raise InvalidOption(f"similarities has two values for {one!r} and {other!r}; they are the same pair")

    def look_up(names: Sequence[str]) -> FloatArray:
        same = {frozenset((name,)): 1.0 for name in names}
        pairs = [[(known | same).get(frozenset((one, other)), np.nan) for other in names] for one in names]
        return np.array(pairs, dtype=np.float64)

    return look_up


def _pair(
    references: Sequence[Sequence[str]],
    predictions: Sequence[Sequence[str]],
    reference_areas: Sequence[Sequence[float]] | None = None,
    prediction_areas: Sequence[Sequence[float]] | None = None,
) -> ConceptPairs:
    """What the images of each row show; the rows number the queries."""
    truths = _group(references, reference_areas)
    return ConceptPairs(np.arange(len(truths)), truths, _group(predictions, prediction_areas))


def _group(images: Sequence[Sequence[str]], areas: Sequence[Sequence[float]] | None) -> list[Concepts]:
    """Instances by concept, image by image; of unknown area where none are given."""
    found: list[Concepts] = []
    for place, names in enumerate(images):
        own: dict[str, list[float]] = {}
        for name, area in zip(names, [np.nan] * len(names) if areas is None else areas[place], strict=True):
            own.setdefault(name, []).append(area)
        found.append({name: np.array(sizes) for name, sizes in own.items()})
    return found


def _match_lengths(side: str, names: Sequence[Sequence[str]], areas: Sequence[Sequence[float]]) -> None:
    for row, (concepts, own) in enumerate(zip(names, areas, strict=True)):
        if len(concepts) != len(own):
            raise DataError(
                f"row {row} has {len(concepts)} {side}s and {len(own)} {side}_areas; give the area of each instance"
            )


def _results_of(spec: Spec, values: FloatArray, *, per_query: bool, partial: bool = False) -> dict[str, Any]:
    """The mean over the rows where the metric is defined, and their number where there may be others."""
    defined = ~np.isnan(values)
    if not defined.any():
        raise DataError(f"{spec.name} is defined for none of the {values.size} rows; its card says where it is not")
    number = {f"{spec.name}_defined": int(defined.sum())} if partial else {}
    each = [value if known else None for value, known in zip(values.tolist(), defined.tolist(), strict=True)]
    return {spec.name: float(values[defined].mean())} | number | ({f"{spec.name}_per_query": each} if per_query else {})
