"""Request: everything that a caller asks of an evaluation, checked before there is a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Protocol, TypedDict

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation.answers import Answers, read_answers
from cxc_eccv.ranking import Options
from cxc_eccv.runs.run import check_name
from cxc_eccv.sources.collections.collection import Collection
from cxc_eccv.sources.library import Library
from cxc_eccv.statistics import Intervals
from cxc_eccv.types import IntArray, check_whole
from cxc_eccv.types.ids import check_type, shorten
from cxc_eccv.types.training_data import check_training_data
from cxc_eccv.unjudged.judges import AnyJudge, Judge, read_judge
from cxc_eccv.unjudged.policies import Classifier, policies

EVALUATION_SPLITS = ("validation", "test")
BOUNDS_DEPTH = 50

COUNT_ZERO = "zero"
"""The option ``missing`` that counts queries without results as 0, as trec_eval -c does."""


class Fields(TypedDict, total=False):
    """The fields of a :class:`Request` beside its tasks, as keywords of :func:`cxc_eccv.evaluate`, which explains them.

    A test compares them with the fields.
    """

    metrics: str | Sequence[str] | None
    split: str
    sources: str | Sequence[str] | None
    limit: int | None
    allow_missing: bool
    missing: str | None
    similarity: str | None
    device: str | None
    block_size: int | None
    intervals: str
    confidence: float | None
    seed: int
    unjudged: str | None
    judge: AnyJudge
    bounds: bool
    bounds_depth: int | None
    answers: str | Path | Answers | None
    per_query: bool
    name: str | None
    training_data: Sequence[str] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Request(Intervals):
    """What to score, how to rank, which intervals, and how to treat unjudged pairs; the options are checked here.

    :func:`cxc_eccv.evaluate` explains each field.

    Example:
        >>> Request(tasks="cxc", limit=0)
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: limit is 0, expected a whole number of at least 1
    """

    tasks: str | Sequence[str] = "all"
    metrics: str | Sequence[str] | None = None
    split: str = "test"
    sources: str | Sequence[str] | None = None
    limit: int | None = None
    allow_missing: bool = False
    missing: str | None = None
    similarity: str | None = None
    device: str | None = None
    block_size: int | None = None
    unjudged: str | None = None
    judge: AnyJudge = None
    bounds: bool = False
    bounds_depth: int | None = None
    answers: str | Path | Answers | None = None
    per_query: bool = False
    name: str | None = None
    training_data: Sequence[str] | None = None

    def __post_init__(self) -> None:
        Intervals.__post_init__(self)
        check_split(self.split)
        for option in ("tasks", "metrics", "sources"):
            _check_names(option, getattr(self, option))
        for option in ("allow_missing", "bounds", "per_query"):
            check_type(option, getattr(self, option), bool, "True or False")
        for option in ("limit", "bounds_depth"):
            if getattr(self, option) is not None:
                check_whole(option, getattr(self, option))
        if self.name is not None:
            check_name("evaluate", self.name, InvalidOption)
        if self.training_data is not None:
            check_training_data(self.training_data)
        self.make_options()
        self._check_missing()
        self._check_unjudged()

    def _check_missing(self) -> None:
        """Check what queries without results count as."""
        if self.missing is None:
            return
        check_type("missing", self.missing, str, f"{COUNT_ZERO!r} or None")
        if self.missing != COUNT_ZERO:
            raise UnknownName("value of queries without results (missing)", self.missing, [COUNT_ZERO])
        if self.allow_missing:
            raise InvalidOption(
                "allow_missing (--allow-missing) leaves queries without results out, and missing='zero' (--missing "
                "zero) counts them as 0; set one of the two"
            )
        if self.bounds:
            raise InvalidOption(
                "missing='zero' (--missing zero): bounds (--bounds) are over labels of retrieved items, and queries "
                "without results have none; leave one of the two out"
            )

    def _check_unjudged(self) -> None:
        """Read the judge of unjudged pairs, and check that nothing lacks what it needs."""
        if self.unjudged is not None:
            check_type("unjudged", self.unjudged, str, "the name of a policy; a judge is the option judge (--judge)")
            if self.unjudged not in policies():
                raise UnknownName("policy for unjudged pairs", self.unjudged, policies())
        object.__setattr__(self, "judge", read_judge(self.judge))
        if not self.bounds and self.bounds_depth is not None:
            raise InvalidOption("bounds_depth needs bounds; set bounds too (--bounds)")
        if self.judge is not None and self.unjudged is not None and not self.bounds:
            raise InvalidOption(
                f"unjudged is {self.unjudged!r}, so the judge answers for bounds alone; set bounds too (--bounds), or "
                "leave unjudged (--unjudged) out"
            )
        if isinstance(self.answers, str | Path):
            object.__setattr__(self, "answers", read_answers(self.answers))
        has_probabilities = self.probabilities_of is not None or isinstance(self.judge, Judge)
        if self.answers is not None and not (self.bounds and has_probabilities):
            raise InvalidOption(
                "answers need a judge of the other pairs, and bounds: give a judge that knows probabilities (--judge), "
                "and set bounds (--bounds)"
            )

    def make_options(self, *, progress: bool = False) -> Options:
        """How to rank."""
        return Options(self.similarity, self.block_size, self.device, progress)

    @property
    def metric_names(self) -> Sequence[str] | None:
        """The named metrics; None for those of each task."""
        return [self.metrics] if isinstance(self.metrics, str) else self.metrics

    @property
    def depth(self) -> int:
        """Number of items of a query that count as retrieved, for metrics without K."""
        return BOUNDS_DEPTH if self.bounds_depth is None else self.bounds_depth

    @property
    def policy(self) -> str | Classifier:
        """What Entail@K makes of pairs without a label: the named policy, else the judge, else not_entailed."""
        if self.unjudged is not None or self.judge is None:
            return self.unjudged or "not_entailed"
        if not callable(self.judge):
            raise InvalidOption("the judge has no data yet; pass what its method for_split(split) returns")
        return self.judge

    @property
    def probabilities_of(self) -> Callable[[IntArray, IntArray], Any] | None:
        """Function of image ids and caption ids to the judge's probabilities; None if it knows none."""
        of_judge: Callable[[IntArray, IntArray], Any] | None = getattr(self.judge, "probabilities", None)
        return of_judge

    def with_judge_for(self, library: Library, collection: Collection) -> Request:
        """This request with the judge's classifier for the data."""
        if not isinstance(self.judge, Judge):
            return self
        return replace(self, judge=self.judge.for_split(library.split(self.split, collection)))


REQUEST_ENTRIES: Mapping[str, str | None] = MappingProxyType(
    {
        "tasks": "scores",
        "metrics": "scores",
        "split": "provenance/split",
        "sources": "provenance/labels/sources",
        "limit": "provenance/restriction/limit",
        "allow_missing": "provenance/restriction/allow_missing",
        "similarity": "provenance/similarity",
        "device": None,
        "block_size": None,
        "intervals": "provenance/intervals",
        "confidence": "provenance/confidence",
        "seed": "provenance/seed",
        "unjudged": "results",
        "judge": "results",
        "bounds": "results",
        "bounds_depth": "provenance/bounds_depth",
        "answers": "provenance/answers",
        "per_query": None,
        "name": "provenance/model",
        "training_data": "provenance/trained_on",
    }
)
"""Field of a request to its entry of report.json; None if it changes no value. Others are in provenance/options."""


def _check_names(option: str, names: str | Sequence[str] | None) -> None:
    """Raise InvalidOption unless an option is a name or several; only ``tasks`` cannot be None."""
    if isinstance(names, str) or (names is None and option != "tasks"):
        return
    if not isinstance(names, Sequence) or not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"{option} is {shorten(names)}, expected a name or a list of names")
    if not names and option != "sources":
        raise InvalidOption(f"{option} is an empty list, so there is nothing to score")


class Rankable(Protocol):
    """What is ranked, as far as it is known before any score: a run, or a model that is still to encode."""

    may_be_cut: ClassVar[bool]

    @property
    def corpus(self) -> str | None:
        """What represents an image in rankings of ``query-corpus``, or None."""

    @property
    def path(self) -> Path | None:
        """The file, or None."""

    def ids(self, side: str) -> IntArray:
        """(N,) ids of the ``images`` or ``captions``, possibly none."""

    def why_not(self, direction: str) -> str | None:
        """Why this direction cannot be ranked, or None."""

    def why_unrated(self, direction: str) -> str | None:
        """Why pairs of this direction have no similarity, or None."""


def check_split(split: str) -> None:
    """Raise UnknownName unless the split exists."""
    if split not in EVALUATION_SPLITS:
        raise UnknownName("split", split, EVALUATION_SPLITS)
