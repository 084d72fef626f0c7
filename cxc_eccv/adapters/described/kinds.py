"""What the modules of one kind have in common: columns, options, results, limits, an example."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cxc_eccv.adapters.altered import AlteredRankingModule
from cxc_eccv.adapters.compared import ComparedPartsModule, ComparisonsModule
from cxc_eccv.adapters.concepts import ConceptModule, ConceptSizesModule, SimilarConceptsModule
from cxc_eccv.adapters.graded import GradedRankingModule
from cxc_eccv.adapters.module import MetricModule
from cxc_eccv.adapters.plausible import PlausibleMatchModule
from cxc_eccv.adapters.ranks import BothDirectionsModule, RankingModule, RatedPairsModule

__all__ = ["KINDS", "LIST", "Column", "Kind"]

LIST = "list of "


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a module.

    Attributes:
        dtype: of its values, as ``datasets`` names it; a list of them a row where it begins with ``list of``.
        description: what it holds.

    Example:
        >>> Column("list of int64", "ids").feature
        'datasets.Sequence(datasets.Value("int64"))'
    """

    dtype: str
    description: str

    @property
    def feature(self) -> str:
        """Source text of its ``datasets`` feature."""
        value = f'datasets.Value("{self.dtype.removeprefix(LIST)}")'
        return f"datasets.Sequence({value})" if self.dtype.startswith(LIST) else value


@dataclass(frozen=True, slots=True)
class Kind:
    """All modules whose metric needs the same input.

    Attributes:
        base: the class that computes.
        columns: name to column.
        options: name to description of the options that the metric itself does not have.
        results: name of a result, with the metric's name in braces, to what it holds beside the metric's own value.
        limits: what a user should know, as a Markdown list.
        example: columns of a small example.
        example_options: options it is called with.
        packages: what it needs beside ``evaluate`` and ``numpy``.
    """

    base: type[MetricModule]
    columns: Mapping[str, Column]
    options: Mapping[str, str]
    results: Mapping[str, str]
    limits: str
    example: Mapping[str, list[Any]]
    example_options: Mapping[str, Any]
    packages: tuple[str, ...] = ()


IDS = "list of int64"
RANKINGS = {
    "predictions": Column(
        IDS,
        "ranked gallery ids of each query, best first, without the query itself. Ids are whole numbers; strings, "
        "floats and repeated ids are refused. Rankings may be cut short as far as the metric allows.",
    ),
    "references": Column(IDS, "ids of the positives of each query, in any order; at least one."),
}
GALLERY_SIZE = (
    "number of items that a query ranks, one number or a list with one per query. With it, a ranking that holds the "
    "whole gallery is known to be complete: positives it lacks are outside the gallery, and any depth suffices."
)
RANKING_LIMITS = """\
- Rankings carry no scores, so ties are invisible here: the given order is trusted. A model that gives many items equal
  scores is better evaluated from its embeddings or scores with `cxc-eccv evaluate`, which counts ties against it.
- A ranking that ends too early raises `RunTooShallow`, which names the query, the depth it has and the depth it
  needs. Empty input, repeated ids, unequal lengths and ids that are not whole numbers raise too. None
  yields a number.
- Every query counts the same. Leave a query without positives out."""

PER_QUERY = "also return the value of every query, as `<name>_per_query`."

COMPARED = {
    "predictions": Column("float64", "the model's score of each image with its caption, finite."),
    "references": Column("float64", "the score of the same image with the caption's hard negative, finite."),
}
COMPARED_LIMITS = """\
- Strictly above counts, so that ties count against the model. Scores of half precision tie often: compare in the
  precision that the model was evaluated in.
- NaN, infinite values, empty input and unequal lengths raise. None yields a number."""
CONCEPTS = "list of string"
AREAS = "list of float64"
IMAGES = {
    "predictions": Column(
        CONCEPTS,
        "what the image at the top shows, for every query that did not retrieve its own: each concept once per "
        "instance. WordNet synsets, such as `dog.n.01`, or names of your own. There may be none.",
    ),
    "references": Column(CONCEPTS, "likewise what the query's own image shows; at least one concept."),
}
SHOWN = {
    "predictions": [["dog.n.01", "frisbee.n.01", "park.n.01"], ["cat.n.01", "sofa.n.01"]],
    "references": [["dog.n.01", "dog.n.01", "ball.n.01", "park.n.01"], ["cat.n.01"]],
}
IMAGES_LIMITS = """\
- Rows are failures alone: a query that retrieved its own image has nothing to explain. Leave a failure out, and count
  it, if its own image shows no concept; such a row raises.
- Concepts are compared as text: `dog` and `dog.n.01` are two. Where a source tells only which concepts an image shows,
  concept agreement and non-common concept similarity say what they should; the number and the sizes of instances it
  cannot tell.
- Empty input, unequal lengths and values of another type raise. None yields a number."""
DEFINED = {"{}_defined": "number of rows that have a value: those that the mean is over. None at all raises."}
UNDEFINED = " With `per_query`, they are `None`."

KINDS = {
    "ranks": Kind(
        base=RankingModule,
        columns=RANKINGS,
        options={"gallery_size": GALLERY_SIZE, "per_query": PER_QUERY},
        results={},
        limits=RANKING_LIMITS,
        example={"predictions": [[10, 30, 20, 40], [20, 10, 40, 30]], "references": [[30, 20], [20]]},
        example_options={"gallery_size": 4},
    ),
    "top_k": Kind(
        base=GradedRankingModule,
        columns={
            "predictions": RANKINGS["predictions"],
            "references": Column(IDS, "ids of all judged items of each query, those of gain 0 too; at least one."),
            "gains": Column(
                "list of float64",
                "the gain of each reference, in the same order: a rating, 1 and 0 for labels, or a degree from 0 to 1.",
            ),
        },
        options={"gallery_size": GALLERY_SIZE, "per_query": PER_QUERY},
        results={"{}_coverage": "share of the items it looks at that was judged."},
        limits=f"""\
{RANKING_LIMITS}
- A judged item that no ranking can hold still counts, in the ideal ranking or towards R; leave it out of the
  references.
- A classifier, where the metric takes one, is asked with the positions of the queries and the ids of the items.""",
        example={
            "predictions": [[10, 30, 20, 40], [20, 10, 40, 30]],
            "references": [[10, 30], [40]],
            "gains": [[1, 0], [1]],
        },
        example_options={"gallery_size": 4},
    ),
    "plausible_hits": Kind(
        base=PlausibleMatchModule,
        columns={
            "predictions": RANKINGS["predictions"],
            "references": Column(
                IDS,
                "ids of the gallery items of the query's own image: the captions of an image, the image of a caption. "
                "They say which categories the query shows.",
            ),
        },
        options={
            "categories": "a dict of every gallery item to the ids of its image's categories; always needed. Items "
            "with an empty list take no part: they are left out of gallery and rankings.",
            "per_query": PER_QUERY,
        },
        results={},
        limits=RANKING_LIMITS,
        example={"predictions": [[10, 30, 20, 40], [20, 10, 40, 30]], "references": [[10], [20]]},
        example_options={"categories": {10: [1, 18], 20: [3], 30: [3, 44, 62], 40: [18, 1]}},
    ),
    "altered_ranks": Kind(
        base=AlteredRankingModule,
        columns={
            "predictions": RANKINGS["predictions"],
            "references": Column(IDS, "ids of the positives of each query, which are originals; at least one."),
        },
        options={
            "altered": "ids of all altered items of the gallery; always needed.",
            "per_query": PER_QUERY,
        },
        results={},
        limits=RANKING_LIMITS,
        example={"predictions": [[10, 31, 30, 20], [21, 20, 10, 30]], "references": [[30], [20]]},
        example_options={"altered": [11, 21, 31]},
    ),
    "scores of ranks": Kind(
        base=BothDirectionsModule,
        columns={
            **RANKINGS,
            "directions": Column(
                "string",
                "direction of each query, `i2t` (image to text) or `t2i` (text to image); both must occur.",
            ),
        },
        options={"gallery_size": GALLERY_SIZE},
        results={},
        limits=RANKING_LIMITS,
        example={
            "predictions": [[10, 30, 20, 40], [20, 10, 40, 30], [2, 1], [1, 2]],
            "references": [[30, 20], [20], [1], [1]],
            "directions": ["i2t", "i2t", "t2i", "t2i"],
        },
        example_options={"gallery_size": [4, 4, 2, 2]},
    ),
    "comparisons": Kind(
        base=ComparisonsModule,
        columns=COMPARED,
        options={"per_query": "also return the value of every item, as `<name>_per_query`."},
        results={},
        limits=COMPARED_LIMITS,
        example={"predictions": [0.91, 0.35, 0.54, 0.18], "references": [0.48, 0.21, 0.54, 0.27]},
        example_options={},
    ),
    "scores of comparisons": Kind(
        base=ComparedPartsModule,
        columns={**COMPARED, "parts": Column("string", "name of the part that each item is of.")},
        options={},
        results={},
        limits=f"{COMPARED_LIMITS}\n- A part counts the same whether it has a hundred items or one.",
        example={
            "predictions": [0.91, 0.35, 0.54, 0.18],
            "references": [0.48, 0.21, 0.54, 0.27],
            "parts": ["add_att", "add_att", "swap_obj", "swap_obj"],
        },
        example_options={},
    ),
    "rated_pairs": Kind(
        base=RatedPairsModule,
        columns={
            "predictions": Column("float64", "the model's similarity of each rated pair, finite."),
            "references": Column("float64", "the human rating of each pair."),
            "query_ids": Column(
                "int64",
                "id of each pair's query: the caption for STS, the image for SIS and SITS. A pair that counts for both "
                "of its items is listed twice, once in each order.",
            ),
            "item_ids": Column("int64", "id of the item that was rated with the query."),
        },
        options={"per_sample": "also return the correlation of every sample, as `<name>_samples`."},
        results={"{}_std": "standard deviation over the samples (ddof 0)."},
        limits="""\
- Ratings or similarities that are all equal have no rank correlation: they raise, as NaN, infinite values, empty input
  and unequal lengths do. None yields a number.
- The value depends on which item of a pair is the query; the paper's choice is given above.""",
        example={
            "predictions": [0.91, 0.35, 0.54, 0.18, 0.77, 0.32, 0.62, 0.09],
            "references": [4.8, 2.1, 3.0, 0.6, 4.1, 1.9, 3.6, 0.2],
            "query_ids": [1, 1, 2, 3, 4, 5, 6, 6],
            "item_ids": [11, 12, 13, 14, 15, 16, 17, 18],
        },
        example_options={},
    ),
    "concepts": Kind(
        base=ConceptModule,
        columns=IMAGES,
        options={"per_query": PER_QUERY},
        results={},
        limits=IMAGES_LIMITS,
        example=SHOWN,
        example_options={},
    ),
    "concept_similarity": Kind(
        base=SimilarConceptsModule,
        columns=IMAGES,
        options={
            "similarities": "a dict of a concept to a dict of others to their similarity with it, from 0 to 1, in "
            "either order; every two that must be compared need one. None is WordNet's path similarity, of synsets: "
            "that needs `nltk` (`pip install 'cxc_eccv[explain]'`) and its corpus (`python -m nltk.downloader "
            "wordnet`).",
            "per_query": PER_QUERY,
        },
        results=DEFINED,
        limits=f"""\
- Rows where one of the two images shows nothing that the other does not show have no value and are left out of the
  mean.{UNDEFINED}
{IMAGES_LIMITS}""",
        example=SHOWN,
        example_options={"similarities": {"ball.n.01": {"frisbee.n.01": 0.2}}},
        packages=("scipy", "nltk"),
    ),
    "concept_sizes": Kind(
        base=ConceptSizesModule,
        columns={
            **IMAGES,
            "prediction_areas": Column(
                AREAS, "the area of each prediction, as a share of its image: above 0, at most 1."
            ),
            "reference_areas": Column(AREAS, "likewise of each reference."),
        },
        options={"per_query": PER_QUERY},
        results=DEFINED,
        limits=f"""\
- Rows whose images have no concept in common have no value and are left out of the mean.{UNDEFINED}
- Without a threshold, values have no upper bound.
{IMAGES_LIMITS}""",
        example={
            **SHOWN,
            "prediction_areas": [[0.1, 0.02, 0.75], [0.2, 0.4]],
            "reference_areas": [[0.25, 0.15, 0.01, 0.9], [0.45]],
        },
        example_options={},
        packages=("scipy",),
    ),
}
"""What a metric needs (``Spec.needs``) to its kind; of one that needs scores, what these need as well."""
