"""Kinds of metrics: each says what its metrics are computed from, and refuses what is incomplete or wrong for it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.plausible import Criterion
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray

HIGHEST_GAIN = {"ratings": 5.0, "labels": 1.0, "degrees": 1.0}
"""Kind of gains to the gain of a perfect match."""
CONDENSED = "Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466"
"""The papers that leave unjudged items out of lists."""


@dataclass(frozen=True, slots=True)
class BestRank:
    """A query's value depends only on the rank of its best positive."""


@dataclass(frozen=True, slots=True)
class SumOver:
    """A query's value is the sum of a term over its positives.

    Attributes:
        term: maps the place of each positive among those of its query, its rank, R and the metric's parameters to what
            it adds.
    """

    term: Callable[..., FloatArray]


@dataclass(frozen=True, slots=True)
class RankMetric(Spec):
    """A metric of the ranks of the positives of every query (``PositiveRanks``).

    Attributes:
        depends_on: what of the ranks decides a value; bounds and expected values over unjudged pairs follow from it.
        aggregate: ``mean`` or ``median`` of the values of queries.
        binary: whether every query's value is 0 or 1.
    """

    _: KW_ONLY
    depends_on: BestRank | SumOver
    aggregate: str = "mean"
    binary: bool = False

    def check_kind(self) -> None:
        """Check that bounds can follow from what it depends on."""
        if self.aggregate not in ("mean", "median"):
            raise UnknownName(f"aggregate of metric {self.name}", self.aggregate, ("mean", "median"))
        if self.term is not None:
            self.check_arguments("term", self.term, *self.parameters)
            if self.aggregate == "median":
                raise InvalidOption(f"metric {self.name}: the expected median of sums is unknown; depend on BestRank()")

    @property
    def reads(self) -> str:
        """Positives."""
        return "ranks"

    @property
    def is_open(self) -> bool:
        """Always: labels only add positives."""
        return True

    @property
    def best_rank(self) -> bool:
        """Whether only the rank of the best positive counts."""
        return isinstance(self.depends_on, BestRank)

    @property
    def term(self) -> Callable[..., FloatArray] | None:
        """What each positive adds, for a sum over positives."""
        return self.depends_on.term if isinstance(self.depends_on, SumOver) else None


@dataclass(frozen=True, slots=True)
class JudgedMetric(Spec):
    """A metric of the ranks of all judged items of every query, negatives too (``JudgedRanks``).

    Attributes:
        binary: whether every query's value is 0 or 1.
        judged_only: whether the function is called with ``judged_only=True``; see :meth:`condense`.
    """

    _: KW_ONLY
    binary: bool = False
    judged_only: bool = False

    @classmethod
    def condense(cls, spec: RankMetric | TopMetric) -> JudgedMetric:
        """The same metric of judged items alone, the condensed list: its function takes ``judged_only=True``.

        Example:
            >>> from cxc_eccv.metrics.map_at_r import SPEC
            >>> JudgedMetric.condense(SPEC).name
            'judged_only_map_at_r'
        """
        return cls(
            spec.function,
            f"{spec.title}, judged only",
            citation=CONDENSED,
            parameters=spec.parameters,
            binary=spec.binary,
            judged_only=True,
        )

    def check_kind(self) -> None:
        """Check that the function can look at judged items alone."""
        if self.judged_only:
            self.check_arguments("function", self.function, "judged_only")

    @property
    def reads(self) -> str:
        """Judged items."""
        return "verdicts"

    @property
    def name(self) -> str:
        """The function's name, which ``judged_only`` precedes if it looks at judged items alone."""
        return f"judged_only_{self.function.__name__}" if self.judged_only else self.function.__name__

    def compute(self, *inputs: object, **parameters: object) -> FloatArray:
        """The values of judged items, with ``judged_only=True`` for a condensed list."""
        return self.function(*inputs, **parameters, **({"judged_only": True} if self.judged_only else {}))


@dataclass(frozen=True, slots=True)
class TopMetric(Spec):
    """A metric of the gains of the top K items of every query, or of the top R without a parameter k (``TopK``).

    Attributes:
        gains: ``ratings``, ``labels`` of 0 and 1, or ``degrees`` from 0 to 1.
        expected: the mean over random labels of unjudged items, from the top, the judgments, k if the metric has one,
            and (Q, K) probabilities, 0 for judged items, to (Q,) values.
        highest: if gains between 0 and the highest can give the highest value: that value, from the top, the judgments
            and k to (Q,) values.
    """

    _: KW_ONLY
    gains: str
    expected: Callable[..., FloatArray]
    highest: Callable[..., FloatArray] | None = None

    def check_kind(self) -> None:
        """Check the gains, and that K is the only parameter."""
        if self.gains not in HIGHEST_GAIN:
            raise UnknownName(f"gains of metric {self.name}", self.gains, HIGHEST_GAIN)
        if set(self.parameters) - {"k"}:
            raise InvalidOption(f"metric {self.name}: its parameters are {', '.join(self.parameters)}; k can be one")
        self.check_arguments("expected", self.expected, *self.parameters, "probabilities")
        if self.highest is not None:
            self.check_arguments("highest", self.highest, *self.parameters)

    @property
    def reads(self) -> str:
        """Judged items with such gains."""
        return self.gains

    @property
    def is_open(self) -> bool:
        """Only for labels, of which an ideal ranking needs no more."""
        return self.gains == "labels"

    @property
    def has_policy(self) -> bool:
        """Whether the function takes a policy for unjudged pairs."""
        return "unjudged" in inspect.signature(self.function).parameters


@dataclass(frozen=True, slots=True)
class PlausibleMetric(Spec):
    """A metric of plausible matches in the top of every query (``PlausibleHits``).

    Attributes:
        criteria: the zetas and cuts at which matches are counted.
    """

    _: KW_ONLY
    criteria: tuple[Criterion, ...]

    def check_kind(self) -> None:
        """Check that something is counted."""
        if not self.criteria:
            raise InvalidOption(f"metric {self.name}: criteria is empty; give zetas and cuts")

    @property
    def reads(self) -> str:
        """Category matches."""
        return "matches"


@dataclass(frozen=True, slots=True)
class RatedMetric(Spec):
    """A correlation of similarities with the ratings of pairs (``RatedPairs``).

    Attributes:
        samples: the values over drawn clusters, from what the function takes, (S, C) how often each cluster is drawn,
            and (P,) the cluster of each pair; None for a function that draws samples itself, or without an interval.
    """

    _: KW_ONLY
    samples: Callable[..., FloatArray] | None = None
    bounds: tuple[float, float | None] = (-1.0, 1.0)
    unit: str = "correlation"

    def check_kind(self) -> None:
        """Check that samples come from one place."""
        if self.draws_samples and self.samples is not None:
            raise InvalidOption(f"metric {self.name}: its function draws samples itself; declare no samples")

    @property
    def reads(self) -> str:
        """Rated pairs."""
        return "rated"

    @property
    def draws_samples(self) -> bool:
        """Whether the function returns values over random samples, from a seed."""
        return "n_samples" in inspect.signature(self.function).parameters

    @property
    def averaged_over(self) -> str:
        """Samples, or nothing."""
        return "samples" if self.draws_samples else "all pairs at once"


@dataclass(frozen=True, slots=True)
class WholeMetric(Spec):
    """A metric of the values of another metric in all directions of a task, which its function sums up.

    Attributes:
        of: the other metric, every variant of which is summed.
    """

    _: KW_ONLY
    of: RankMetric

    def check_kind(self) -> None:
        """Check that a sum of values means something."""
        if self.of.aggregate != "mean":
            raise InvalidOption(f"metric {self.name}: {self.of.name} is a {self.of.aggregate}; sum up a mean")

    @property
    def inputs(self) -> dict[str, dict[str, int]]:
        """Label to parameters of every score of a direction that it sums up."""
        return {self.of.label(**parameters): parameters for parameters in self.of.variants()}

    @property
    def aggregate(self) -> str:
        """A sum."""
        return "sum"

    @property
    def averaged_over(self) -> str:
        """Directions."""
        return "parts"


@dataclass(frozen=True, slots=True)
class FailureMetric(Spec):
    """A metric of the concepts of the two images of every failed query, which ``cxc-eccv explain`` computes.

    Attributes:
        of_areas: whether it is computed from the areas of instances.
    """

    _: KW_ONLY
    of_areas: bool = False

    def check_kind(self) -> None:
        """Check that areas are not compared as names are."""
        if self.of_areas and self.of_similarities:
            raise InvalidOption(f"metric {self.name}: it compares areas or similarities of concepts, not both")

    @property
    def of_similarities(self) -> bool:
        """Whether it is computed from similarities of concepts."""
        return "similarity" in inspect.signature(self.function).parameters

    @property
    def averaged_over(self) -> str:
        """Failures; some may have no value."""
        return "failures that have a value"

    @property
    def explains(self) -> bool:
        """Always."""
        return True
