"""How tasks, metrics, directions and values are written for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from itertools import chain

from cxc_eccv.errors import UnknownName
from cxc_eccv.extras import find_address
from cxc_eccv.metrics.kinds import UNIT_FACTORS, Spec
from cxc_eccv.registry import metric_labelled, tasks
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.statistics import FEW_IMAGES
from cxc_eccv.tables import Cell
from cxc_eccv.terminal import upper_first
from cxc_eccv.types import Result
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.result import SPREAD


def task_name(task: str) -> str:
    """The name that papers use; a task of another version is named in words."""
    declared = tasks().get(task)
    return declared.title if declared else upper_first(task.replace("_", " "))


def metric_name(label: str, *, in_full: bool = False) -> str:
    """The name that papers use for the metric of a report key; one of another version is named in words."""
    spec, parameters, is_spread = _read(label)
    if spec is None:
        return label.replace("_", " ")
    if is_spread:
        return f"{spec.title.format(**parameters)}, std over samples" if in_full else "std of samples"
    return (spec.long_title if in_full else spec.title).format(**parameters)


def name_data(results: Iterable[Result], provenance: Provenance) -> str:
    """The data set, the split and the edition behind a report."""
    names = dict.fromkeys(tasks()[row.task].collection.title for row in results if row.task in tasks())
    return describe_data(provenance.data, provenance.split, list_names(names or ["COCO"]))


def heading_of(key: str) -> tuple[str, str, str]:
    """The heading of a metric's column: task, direction and metric."""
    task, *direction, metric = key.split("/")
    return task_name(task), "".join(direction), metric_name(metric)


def show_value(label: str, value: float, decimals: int = 1, *, sign: bool = False) -> str:
    """The value in its metric's unit; correlations get two decimals more, as they are not in percent."""
    unit = unit_of(label)
    return format(UNIT_FACTORS[unit] * value, f"{'+' if sign else ''}.{decimals + 2 * (unit == 'correlation')}f")


def ordinal(number: int) -> str:
    """The number of a place in an order.

    Example:
        >>> [ordinal(number) for number in (1, 2, 3, 11, 23, 112)]
        ['1st', '2nd', '3rd', '11th', '23rd', '112th']
    """
    if 10 <= number % 100 < 20:
        return f"{number}th"
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def score_cell(result: Result) -> Cell:
    """A score with its interval."""
    low, high = ("" if bound is None else show_value(result.metric, bound) for bound in (result.low, result.high))
    return Cell(show_value(result.metric, result.value), interval=f"[{low}, {high}]" if low else "")


def unit_of(label: str) -> str:
    """The unit of a metric's values; a metric of another version is taken to be a fraction."""
    spec, _, _ = _read(label)
    return "percent" if spec is None else spec.unit


def list_names(names: Iterable[str]) -> str:
    """Names joined as in a sentence."""
    *most, last = names if (names := list(names)) else [""]
    return f"{', '.join(most)} and {last}" if most else last


def _read(label: str) -> tuple[Spec | None, Mapping[str, int], bool]:
    """The metric of a label (None if unknown), its parameters, and whether the label is of its spread."""
    for stem in dict.fromkeys((label, label.removesuffix(SPREAD))):
        with suppress(UnknownName):
            return *metric_labelled(stem), stem != label
    return None, {}, False


def key_name(key: str) -> str:
    """Direction and metric; ``both`` stands for a mean over directions, or RSUM."""
    _, *direction, metric = key.split("/")
    return f"  {''.join(direction) or 'both'} {metric_name(metric)}"


DIRECTION_NAMES = {
    "i2t": "image to text",
    "t2i": "text to image",
    "t2t": "text to text",
    "i2i": "image to image",
    "sts": "caption pairs (STS)",
    "sis": "image pairs (SIS)",
    "sits": "image-caption pairs (SITS)",
    "": "all parts",
}


NO_BREAK = "\N{NO-BREAK SPACE}"
"""Before a second number, so that a narrow column breaks only between intervals; Markdown shows a space."""

TIES = "queries in which an item has the same score as a positive; the item counts as ranked above it"
IF_TIES_HELP = "the value if items of equal scores stood in reverse order, where that changes it"
COVERAGE = "percent of the retrieved pairs that have a label; the others count as --judge says, by default as wrong"
"""Explanations of the numbers of ties, of the other end of what ties could make, and of labelled pairs."""


def find_ties_page() -> str:
    """The page on ties: its address on the owner's site, or its file in the repository if no site is set."""
    site = find_address("Documentation")
    return "docs/ties.md" if site is None else f"{site.rstrip('/')}/ties/"


BOUNDS = "lowest and highest value under any labels for the pairs that nobody judged"
EXPECTED = "in parentheses, the mean over random labels drawn with the given probabilities"
ESTIMATE = "the value if people had judged all of them, from their answers about drawn pairs"
UNJUDGED = "share of the retrieved pairs that nobody judged"
"""Explanations of the bounds of a number."""

INTERVAL_PHRASES = {
    "bootstrap": "from a bootstrap that keeps the captions of an image together",
    "bootstrap_queries": "from a bootstrap over queries with all their rated pairs",
    "random_halves": "from random halves of the queries, as the metric defines",
    "studentized": f"Student's t over images, corrected for skewness, as they are fewer than {FEW_IMAGES:,}",
    "binomial": "Wilson's, as if the queries were independent",
    "binomial_images": "Wilson's, as if there were as many independent queries as images",
}
"""Explanations of the methods of intervals."""

CHECK_FIRST = "Check this first"
"""Heading of the doubts about a run."""

UNKNOWN_PRECISION = "precision unknown"
OVER_IMAGES = "interval over images only"
PRECISION = "precision: the percentage of the pairs the judge calls entailed that people call so, from drawn pairs"
"""What the interval of a number by a judge leaves out, and what is known of the judge."""


def direction_name(direction: str) -> str:
    """Modalities of the query and of the ranked items, in words."""
    return DIRECTION_NAMES.get(direction, direction)


def row_name(result: Result) -> str:
    """The metric's full name, which has the numeric parameters, and the parameters that are words."""
    words = [
        f"{name}: {value}".replace("_", " ") for name, value in result.parameters.items() if isinstance(value, str)
    ]
    name = metric_name(result.metric, in_full=True)
    return f"{name} ({', '.join(words)})" if words else name


@dataclass(frozen=True, slots=True)
class Shown(Result):
    """A result together with the standard deviation over its metric's samples, which a report keeps as a result."""

    deviation: float | None = None


def fold_deviations(results: Iterable[Result]) -> list[Shown]:
    """The results with their deviations, which are no longer results themselves."""
    by_key = {result.key: result for result in results}
    deviations = {
        key.removesuffix(SPREAD): result.value
        for key, result in by_key.items()
        if key.endswith(SPREAD) and key.removesuffix(SPREAD) in by_key
    }
    folded = []
    for key, result in by_key.items():
        if key.removesuffix(SPREAD) == key or key.removesuffix(SPREAD) not in deviations:
            values = {field.name: getattr(result, field.name) for field in fields(Result)}
            folded.append(Shown(**values, deviation=deviations.get(key)))
    return folded


def value_text(result: Result) -> str:
    """The value: fractions in percent, correlations as they are with the deviation of their samples."""
    deviation = deviation_text(result).replace(" ", NO_BREAK)
    return f"{show_value(result.metric, result.value)} {deviation}".rstrip()


def deviation_text(result: Result) -> str:
    """The deviation in the units of the value; empty without one."""
    deviation = result.deviation if isinstance(result, Shown) else None
    return "" if deviation is None else f"± {show_value(result.metric, deviation)}"


def interval_text(result: Result) -> str:
    """The interval in the units of the value; empty without one."""
    if result.low is None or result.high is None:
        return ""
    return f"{show_value(result.metric, result.low)} to{NO_BREAK}{show_value(result.metric, result.high)}"


def explain_intervals(results: Iterable[Result]) -> str:
    """How the intervals were made, by metric if not all in one way; empty if the report does not say.

    Example:
        >>> recall = Result("coco_5k", "i2t", "recall_at_1", 0.5, 9, interval_method="binomial")
        >>> rank = Result("coco_5k", "i2t", "median_rank", 2.0, 9, interval_method="bootstrap")
        >>> explain_intervals([recall])
        "Wilson's, as if the queries were independent"
        >>> explain_intervals([recall, rank]).partition("; ")[2]
        'other metrics: from a bootstrap that keeps the captions of an image together'
        >>> perfect = Result("coco_5k", "t2i", "recall_at_1", 1.0, 9, interval_method="binomial_images")
        >>> explain_intervals([perfect, rank]).partition("; ")[0]
        "R@1 of 0 or 100%: Wilson's, as if there were as many independent queries as images"
    """
    metrics: dict[str, dict[str, None]] = {}
    is_extreme = True  # of all that have Wilson's interval for images: chosen as no value differs, not by an option
    for result in results:
        if result.interval_method is not None:
            metrics.setdefault(result.interval_method, {})[metric_name(result.metric)] = None
        if result.interval_method == "binomial_images":
            is_extreme &= result.value in (0, 1)
    if len(metrics) == 1:
        return INTERVAL_PHRASES[next(iter(metrics))]
    usual = max(("bootstrap", "studentized"), key=lambda method: len(metrics.get(method, {})))
    of_others = metrics.pop(usual, {})
    n_methods = Counter(chain(of_others, *metrics.values()))
    texts = []
    for method, names in metrics.items():
        shown = [f"{name} in some tasks" if n_methods[name] > 1 else name for name in names]
        of_these = ", ".join(shown)
        if method == "binomial_images" and is_extreme:
            of_these = f"{', '.join(names)} of 0 or 100%"
        texts.append(f"{of_these}: {INTERVAL_PHRASES[method]}")
    if of_others:
        others = "values" if any(n_methods[name] > 1 for name in of_others) else "metrics"
        texts.append(f"other {others}: {INTERVAL_PHRASES[usual]}")
    return "; ".join(texts)


def if_ties_help_text(result: Result) -> str:
    """The value if ties helped, in the units of the value; empty if it looks the same."""
    if result.if_ties_help is None:
        return ""
    helped = show_value(result.metric, result.if_ties_help)
    return "" if helped == show_value(result.metric, result.value) else helped


def chance_text(result: Result) -> str:
    """The value to expect of a random order, in the units of the value; empty without a formula."""
    return "" if result.chance is None else show_value(result.metric, result.chance)


def bounds_text(result: Result) -> str:
    """The bounds over unjudged pairs and the expected value, in the units of the value; empty without bounds."""
    bounds = result.bounds
    if bounds is None:
        return ""
    if not bounds.unjudged:
        return f"all pairs{NO_BREAK}judged"
    expected = "" if bounds.expected is None else f" ({show_value(result.metric, bounds.expected)})"
    low, high = (show_value(result.metric, value) for value in (bounds.low, bounds.high))
    return f"{low} to{NO_BREAK}{high}{expected}"


def estimate_text(result: Result) -> str:
    """The value estimated from people's answers about drawn pairs, with its interval; empty without answers."""
    bounds = result.bounds
    if bounds is None or bounds.estimate is None:
        return ""
    return _with_ends(result, bounds.estimate, bounds.estimate_low, bounds.estimate_high)


def _with_ends(result: Result, value: float, low: float | None, high: float | None) -> str:
    """A value with its interval, in the units of the result."""
    ends = [] if low is None or high is None else [show_value(result.metric, end) for end in (low, high)]
    return f"{show_value(result.metric, value)} [{', '.join(ends)}]" if ends else show_value(result.metric, value)


def unjudged_text(result: Result) -> str:
    """The share of the retrieved pairs that nobody judged; empty if it is zero or unknown."""
    bounds = result.bounds
    return "" if bounds is None or not bounds.unjudged else share(bounds.unjudged, bounds.retrieved)


def judge_text(result: Result) -> str:
    """The precision of the judge that answered for pairs without a label; empty without such answers."""
    if result.parameters.get("unjudged") != "classifier" or result.coverage == 1:
        return ""
    bounds = result.bounds
    if bounds is None or bounds.precision is None:
        return UNKNOWN_PRECISION
    return f"precision {_with_ends(result, bounds.precision, bounds.precision_low, bounds.precision_high)}"


def judge_caution(results: Iterable[Result], split: str | None = None) -> str:
    """What the intervals of numbers by a judge leave out, and the command that asks people; empty without a judge."""
    judged = [result for result in results if judge_text(result)]
    unknown = next((result for result in judged if judge_text(result) == UNKNOWN_PRECISION), None)
    if unknown is None:
        return f"Entail@K has an {OVER_IMAGES}; {PRECISION}." if judged else ""
    known = tasks().get(unknown.task)
    part = " --split val" if split == "validation" else ""
    if known is None or known.collection.is_default:
        pairs = f"--scheme entailment --number {unknown.key} --budget 300 --judge JUDGE"
        ask = f"cxc-eccv annotate propose FOLDER RUN {pairs}{part}"
    else:
        ask = f"cxc-eccv entailment export RUN --images IMAGES --output FOLDER{part}"
    return f"Entail@K has an {OVER_IMAGES}; the judge's precision in retrieved lists is unknown. To ask people: {ask}"


def rank_text(rank: int | None) -> str:
    """A rank, or ``not found`` for a ranking that ends before it."""
    return "not found" if rank is None else f"{rank:,}"


def share(part: int, whole: int) -> str:
    """A part in percent; it rounds to 0% or 100% only if it is exactly that."""
    percent = 100 * part / whole
    if 0 < percent < 0.05:
        return "<0.1%"
    if 99.95 < percent < 100:
        return ">99.9%"
    return "0%" if part == 0 else f"{percent:.1f}%"


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    if number == 1:
        return f"1 {noun}"
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number:,} {plural}"
