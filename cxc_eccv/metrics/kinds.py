"""Kinds of metrics: each says what its metrics are computed from, and refuses what is incomplete or wrong for it."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from string import Formatter
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.judgments.plausible import Criterion
from cxc_eccv.types import FloatArray, IntArray, PositiveRanks
from cxc_eccv.types.ids import find_fold_rows, number_within

UNIT_FACTORS = {"percent": 100, "correlation": 1, "rank": 1, "number": 1}
"""Unit of a value to the factor with which it is shown."""
HIGHEST_GAIN = {"ratings": 5.0, "labels": 1.0, "degrees": 1.0}
"""Kind of gains to the gain of a perfect match."""
CONDENSED_LIST_PAPERS = "Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466"
"""The papers that leave unjudged items out of lists."""
MEAN_ROUNDING = 1e-9
"""A mean of ones may exceed 1 by this much."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a metric is called, and how to read its values; a subclass says what it is computed from.

    Attributes:
        function: the metric: maps what it is computed from to values of queries, samples or failures.
        title: short name with placeholders for its parameters, such as ``R@{k}``.
        citation: the paper that defines the metric.
        parameters: parameter to the values that a report shows by default.
        bounds: lowest and highest value; None where there is no bound.
        higher_is_better: direction of improvement.
        unit: how values are shown: ``percent`` (times 100), ``correlation`` (more decimals), ``rank`` or ``number``.
        long_title: longer name; defaults to ``title``.
        packages: further packages that the function imports, for its ``evaluate`` module.
    """

    function: Callable[..., FloatArray]
    title: str
    _: KW_ONLY
    citation: str
    parameters: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    bounds: tuple[float, float | None] = (0.0, 1.0)
    higher_is_better: bool = True
    unit: str = "percent"
    long_title: str = ""
    packages: tuple[str, ...] = ()

    reads: str = field(default="", init=False)  # the judgments of a task's part, by their name in a ``Part``
    aggregate: str = field(default="mean", init=False)  # how values become one number: mean, median or sum
    averaged_over: str = field(default="queries", init=False)  # what has the values that become one number
    binary: bool = field(default=False, init=False)  # whether each is 0 or 1, so that a binomial interval exists
    explains: bool = field(default=False, init=False)  # whether it measures failed queries, for cxc-eccv explain
    is_open: bool = field(default=False, init=False)  # whether labels of retrieved pairs alone decide a value

    def __post_init__(self) -> None:
        if not self.citation:
            raise InvalidOption(f"metric {self.name}: citation is empty; name the paper that defines it")
        if self.unit not in UNIT_FACTORS:
            raise UnknownName(f"unit of metric {self.name}", self.unit, UNIT_FACTORS)
        if self.unit in ("percent", "correlation") and (self.bounds[1] is None or self.bounds[1] > 1):
            raise InvalidOption(
                f"metric {self.name}: unit {self.unit!r} is for values of at most 1, but its bounds are {self.bounds}; "
                "declare unit='rank' or unit='number'"
            )
        object.__setattr__(self, "long_title", self.long_title or self.title)
        for title in (self.title, self.long_title):
            if {place for _, place, _, _ in Formatter().parse(title) if place is not None} != set(self.parameters):
                places = ", ".join(f"{{{name}}}" for name in self.parameters)
                raise InvalidOption(
                    f"metric {self.name}: the placeholders in its title {title!r} must be those of its parameters: "
                    f"{places or 'none'}"
                )
        self.check_arguments("function", self.function, *self.parameters)
        self.check_kind()

    def check_kind(self) -> None:
        """Raise InvalidOption or UnknownName if what the kind adds is incomplete or wrong."""

    def check_arguments(self, field_name: str, function: Callable[..., object], *arguments: str) -> None:
        """Raise InvalidOption if a function of this declaration does not take these arguments by name."""
        for argument in arguments:
            if argument not in inspect.signature(function).parameters:
                raise InvalidOption(f"metric {self.name}: its {field_name} takes no argument {argument!r}")

    @property
    def name(self) -> str:
        """The function's name."""
        return self.function.__name__

    @property
    def is_worst_at_zero(self) -> bool:
        """Whether the number is a mean of values of which 0 is the worst."""
        return self.aggregate == "mean" and self.higher_is_better and self.bounds[0] == 0

    @property
    def description(self) -> str:
        """The function's docstring."""
        return inspect.getdoc(self.function) or ""

    def compute(self, *inputs: object, **parameters: object) -> FloatArray:
        """The values of what the metric is computed from."""
        return self.function(*inputs, **parameters)

    def label(self, **parameters: int | str) -> str:
        """The name in report keys, with the value of a parameter in place of its name.

        Example:
            >>> from cxc_eccv.metrics.recall_at_k import SPEC
            >>> SPEC.label(k=5)
            'recall_at_5'
        """
        label = self.name
        for parameter, value in parameters.items():
            label = f"{label.removesuffix(f'_{parameter}')}_{value}"
        return label

    def variants(self) -> Iterator[dict[str, int]]:
        """Every combination of the default parameter values.

        Example:
            >>> from cxc_eccv.metrics.recall_at_k import SPEC
            >>> list(SPEC.variants())
            [{'k': 1}, {'k': 5}, {'k': 10}]
        """
        for values in itertools.product(*self.parameters.values()):
            yield dict(zip(self.parameters, values, strict=True))

    def average(self, values: FloatArray, folds: IntArray | None = None) -> float:
        """The mean of (Q,) values, or their median if the metric is a median: of every fold, averaged over folds.

        Example:
            >>> from cxc_eccv.metrics.median_rank import SPEC
            >>> ranks, folds = np.array([1.0, 2.0, 3.0, 9.0]), np.array([0, 0, 0, 1])
            >>> SPEC.average(ranks), SPEC.average(ranks, folds)
            (2.5, 5.5)
        """
        if self.aggregate == "mean":
            return float(values.mean())
        return float(np.mean([np.median(values[rows]) for rows in find_fold_rows(folds, values.size)]))


@dataclass(frozen=True, slots=True)
class BestRank:
    """A query's value depends only on the rank of its best positive."""


Term = Callable[..., NDArray[np.generic]]
"""Maps the place of each positive among those of its query, its rank, R and a metric's parameters to a number."""


@dataclass(frozen=True, slots=True)
class SumOver:
    """A query's value is the sum of a term over its positives that are ranked.

    Attributes:
        term: the number that each positive adds.

    Example:
        >>> def term(order, ranks, n_positives):
        ...     return 1 / ranks
        >>> SumOver(term).compute(PositiveRanks.of([[2, 4], [1]])).tolist()
        [0.75, 1.0]
    """

    term: Term

    def compute(self, ranks: PositiveRanks, **parameters: int) -> FloatArray:
        """(Q,) values of a metric with these parameters."""
        order = number_within(np.diff(ranks.indptr)) + 1
        terms = self.term(order, ranks.ranks, ranks.n_positives[ranks.rows], **parameters)
        return self._divide(ranks.sum(terms), ranks.n_positives)

    def share(self, order: IntArray, ranks: IntArray, n_positives: IntArray, **parameters: int) -> FloatArray:
        """(P,) what each positive adds to a value."""
        return self._divide(np.asarray(self.term(order, ranks, n_positives, **parameters)), n_positives)

    def _divide(self, sums: FloatArray, n_positives: IntArray) -> FloatArray:
        return sums


class MeanOver(SumOver):
    """A query's value is the mean of a term over its R positives; those that are not ranked add 0.

    Example:
        >>> def term(order, ranks, n_positives):
        ...     return 1 / ranks
        >>> MeanOver(term).compute(PositiveRanks.of([[2, 4], [1]])).tolist()
        [0.375, 1.0]
    """

    __slots__ = ()

    def _divide(self, sums: FloatArray, n_positives: IntArray) -> FloatArray:
        return sums / n_positives


@dataclass(frozen=True, slots=True)
class RankMetric(Spec):
    """A metric of the ranks of the positives of every query (``PositiveRanks``).

    Attributes:
        depends_on: what of the ranks decides a value; bounds and expected values over unjudged pairs follow from it.
        aggregate: ``mean`` or ``median`` of the values of queries.
        binary: whether every query's value is 0 or 1.
        chance: the number to expect if galleries are in random order, from a ``RandomOrder`` and the metric's
            parameters; None where no formula is known.
    """

    _: KW_ONLY
    depends_on: BestRank | SumOver
    aggregate: str = "mean"
    binary: bool = False
    chance: Callable[..., float] | None = None
    reads: str = field(default="ranks", init=False)
    is_open: bool = field(default=True, init=False)

    def check_kind(self) -> None:
        """Check that bounds can follow from what it depends on."""
        if self.aggregate not in ("mean", "median"):
            raise UnknownName(f"aggregate of metric {self.name}", self.aggregate, ("mean", "median"))
        if isinstance(self.depends_on, SumOver):
            self.check_arguments("term", self.depends_on.term, *self.parameters)
            if self.aggregate == "median":
                raise InvalidOption(f"metric {self.name}: the expected median of sums is unknown; depend on BestRank()")

    @property
    def best_rank(self) -> bool:
        """Whether only the rank of the best positive counts."""
        return isinstance(self.depends_on, BestRank)

    @property
    def share(self) -> Callable[..., FloatArray] | None:
        """What each positive adds to a value, for a sum or mean over positives; see :meth:`SumOver.share`."""
        return self.depends_on.share if isinstance(self.depends_on, SumOver) else None


@dataclass(frozen=True, slots=True)
class JudgedMetric(Spec):
    """A metric of the ranks of all judged items of every query, negatives too (``JudgedRanks``).

    Attributes:
        binary: whether every query's value is 0 or 1.
        judged_only: whether the function is called with ``judged_only=True``; see :meth:`condense`.
        chance: as of a ``RankMetric``, in a gallery of judged items.
    """

    _: KW_ONLY
    binary: bool = False
    judged_only: bool = False
    chance: Callable[..., float] | None = None
    reads: str = field(default="verdicts", init=False)

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
            citation=CONDENSED_LIST_PAPERS,
            parameters=spec.parameters,
            binary=spec.binary,
            judged_only=True,
            chance=spec.chance if isinstance(spec, RankMetric) else None,
        )

    def check_kind(self) -> None:
        """Check that the function can look at judged items alone."""
        if self.judged_only:
            self.check_arguments("function", self.function, "judged_only")

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
        """Check the gains, and that K is the only parameter; an ideal ranking needs no more labels of 0 and 1."""
        object.__setattr__(self, "reads", self.gains)
        object.__setattr__(self, "is_open", self.gains == "labels")
        if self.gains not in HIGHEST_GAIN:
            raise UnknownName(f"gains of metric {self.name}", self.gains, HIGHEST_GAIN)
        if set(self.parameters) - {"k"}:
            raise InvalidOption(f"metric {self.name}: its parameters are {', '.join(self.parameters)}; k can be one")
        self.check_arguments("expected", self.expected, *self.parameters, "probabilities")
        if self.highest is not None:
            self.check_arguments("highest", self.highest, *self.parameters)

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
    reads: str = field(default="matches", init=False)

    def check_kind(self) -> None:
        """Check that something is counted."""
        if not self.criteria:
            raise InvalidOption(f"metric {self.name}: criteria is empty; give zetas and cuts")


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
    reads: str = field(default="rated", init=False)

    def check_kind(self) -> None:
        """Check that samples come from one place."""
        object.__setattr__(self, "averaged_over", "samples" if self.draws_samples else "all pairs at once")
        if self.draws_samples and self.samples is not None:
            raise InvalidOption(f"metric {self.name}: its function draws samples itself; declare no samples")

    @property
    def draws_samples(self) -> bool:
        """Whether the function returns values over random samples, from a seed."""
        return "n_samples" in inspect.signature(self.function).parameters


@dataclass(frozen=True, slots=True)
class WholeMetric(Spec):
    """A metric of the values of another metric in all directions of a task, which its function sums up.

    Attributes:
        of: the other metric, every variant of which is summed.
    """

    _: KW_ONLY
    of: RankMetric
    aggregate: str = field(default="sum", init=False)
    averaged_over: str = field(default="parts", init=False)

    def check_kind(self) -> None:
        """Check that a sum of values means something."""
        if self.of.aggregate != "mean":
            raise InvalidOption(f"metric {self.name}: {self.of.name} is a {self.of.aggregate}; sum up a mean")

    @property
    def inputs(self) -> dict[str, dict[str, int]]:
        """Label to parameters of every score of a direction that it sums up."""
        return {self.of.label(**parameters): parameters for parameters in self.of.variants()}


@dataclass(frozen=True, slots=True)
class FailureMetric(Spec):
    """A metric of the concepts of the two images of every failed query, which ``cxc-eccv explain`` computes.

    Attributes:
        of_areas: whether it is computed from the areas of instances.
    """

    _: KW_ONLY
    of_areas: bool = False
    averaged_over: str = field(default="failures that have a value", init=False)
    explains: bool = field(default=True, init=False)

    def check_kind(self) -> None:
        """Check that areas are not compared as names are."""
        if self.of_areas and self.of_similarities:
            raise InvalidOption(f"metric {self.name}: it compares areas or similarities of concepts, not both")

    @property
    def of_similarities(self) -> bool:
        """Whether it is computed from similarities of concepts."""
        return "similarity" in inspect.signature(self.function).parameters


Kind = TypeVar("Kind", bound=Spec, covariant=True)


@dataclass(frozen=True, slots=True, eq=False)
class Variant(Generic[Kind]):
    """A metric with the parameters of one call."""

    spec: Kind
    parameters: Mapping[str, int]
    shown: bool = True  # False if it is computed only for another metric

    @property
    def label(self) -> str:
        """The name in report keys."""
        return self.spec.label(**self.parameters)

    @property
    def k(self) -> int | None:
        """The depth K; None for a metric without one."""
        return self.parameters.get("k")

    def compute(self, *inputs: object, **options: object) -> FloatArray:
        """The values of the metric."""
        return self.spec.compute(*inputs, **self.parameters, **options)
