"""A model's failures in one table, as in Table 3 of Lymperaiou et al., and several models side by side."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.score import ClusterBootstrap, Draws, interval
from cxc_eccv.explain.explanation import COUNTS, MEASURES, NUMBERS, Explained, Explanation
from cxc_eccv.types import FloatArray, IntArray

__all__ = ["Paired", "Summary", "compare_failures", "explanations_to_json", "make_tables", "summarize"]

SCHEMA = 1
DECIMALS = 12
"""Values that agree to so many are one for a mode: sums of equal numbers differ in their last place."""

OF_NUMBER = ("same_multiplicity", "different_multiplicity", "differing_per_failure", "enumeration_disagreement")
"""Numbers that need every instance."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The global table of one direction.

    Attributes:
        scores: name to number: shares in [0, 1], counts, instances.
        counts: name of a mean to the number of failures that it is over.
        not_computed: name to the reason why there is no such number.
    """

    scores: Mapping[str, float]
    counts: Mapping[str, int]
    not_computed: Mapping[str, str]


def summarize(explained: Explained) -> Summary:
    r"""The numbers of Table 3, and those that it leaves open.

    Means are over the failures on which a number is defined; a mode is the most frequent value, of equally frequent
    ones the smallest. The rest are sums over all failures whose right image shows a concept, and their ratios:

    - ``object_hits``: concepts of both images; ``object_misses``: those of the right image alone;
      ``non_common_concepts``: those of one of the two alone, whichever.
    - ``matchings``: pairs behind NCS, :math:`\min(|D_g|, |D_r|)` each; ``matched_synsets``: their ratio to the
      non-common concepts. As a pair takes two of these, it is a half at most.
    - ``same_multiplicity``, ``different_multiplicity``: concepts of both images with equally many instances, and with
      another number; ``differing_per_failure``: the latter per failure; ``enumeration_disagreement``: the mean over
      failures of the share that they are of the common concepts.

    The paper's own sums say that its column of matched synsets is this ratio (184,747 of 627,833 are 29.43%), and not
    the share of the right image's synsets that its list of columns tells of; and that its column of enumeration
    disagreement is no percentage but ``differing_per_failure`` (69,595 in 28,817 failures are 2.42).
    """
    table, failures = explained.table, explained.failures
    known = {name: table[name].drop_null().to_numpy() for name in (*NUMBERS, *COUNTS)}
    common, missed, other, differing = (known[name] for name in COUNTS)
    unannotated = len(failures) - int(np.asarray(table["annotated"]).sum())
    sums = {"queries": failures.n_queries, "failures": len(failures)}
    sums["without_concepts"] = len(failures) - unannotated - common.size
    sums |= {"not_annotated": unannotated} if unannotated else {}
    sums |= {"object_hits": int(common.sum()), "object_misses": int(missed.sum())}
    sums |= {"non_common_concepts": int((missed + other).sum()), "matchings": int(np.minimum(missed, other).sum())}
    means = {name: values for name, values in known.items() if name in NUMBERS and values.size}
    if "differing_concepts" not in explained.not_computed:
        sums |= {"same_multiplicity": int((common - differing).sum()), "different_multiplicity": int(differing.sum())}
        shared = common > 0
        means |= {"enumeration_disagreement": differing[shared] / common[shared]} if shared.any() else {}
    scores: dict[str, float] = sums | {name: float(values.mean()) for name, values in means.items()}
    scores |= {f"{name}_mode": find_mode(means[name]) for name in MEASURES if name in means}
    scores |= ratios_of_sums(sums, common.size)
    nothing = "no failure has what it is defined on" if len(failures) else "no query failed"
    reasons = {name: explained.not_computed.get(name, nothing) for name in NUMBERS if name not in scores}
    why = explained.not_computed.get("differing_concepts", nothing)
    reasons |= {name: why for name in OF_NUMBER if name not in scores}
    reasons |= {} if "matched_synsets" in scores else {"matched_synsets": nothing}
    return Summary(scores, {name: values.size for name, values in means.items()}, reasons)


def ratios_of_sums(sums: Mapping[str, float], n_explained: int) -> dict[str, float]:
    """The ratios that the paper gives with their sums; without those whose divisor is 0.

    Example:
        >>> sums = {"matchings": 184_747, "non_common_concepts": 627_833, "different_multiplicity": 69_595}
        >>> {name: round(value, 4) for name, value in ratios_of_sums(sums, 28_817).items()}
        {'matched_synsets': 0.2943, 'differing_per_failure': 2.4151}
    """
    ratios = {}
    if sums["non_common_concepts"]:
        ratios["matched_synsets"] = sums["matchings"] / sums["non_common_concepts"]
    if n_explained and "different_multiplicity" in sums:
        ratios["differing_per_failure"] = sums["different_multiplicity"] / n_explained
    return ratios


def find_mode(values: FloatArray) -> float:
    """The most frequent value, of equally frequent ones the smallest.

    Example:
        >>> find_mode(np.array([2.0, 0.5, 0.1 + 0.2, 0.3, 2.0]))
        0.3
    """
    found, counts = np.unique(values.round(DECIMALS), return_counts=True)
    return float(found[counts.argmax()])


@dataclass(frozen=True, slots=True)
class Paired:
    """One number of two models' failures over the same queries.

    Attributes:
        model, baseline: names.
        key: ``direction/name``. ``failure_rate`` is the share of failed queries, over all queries;
            ``failed_alone`` and ``baseline_failed_alone`` are the shares of all queries that one of the two alone
            fails; any other name is the mean of a number over the queries that both fail, and on which it is defined
            for both.
        value: the model's minus the baseline's; of the shares the share itself.
        low, high: percentile interval of a bootstrap over images, which keeps the captions of one together.
        n_queries, n_images: what was drawn from.
    """

    model: str
    baseline: str
    key: str
    value: float
    low: float
    high: float
    n_queries: int
    n_images: int


def compare_failures(
    baseline: Explanation, model: Explanation, *, seed: int = 0, confidence: float = 0.95
) -> tuple[list[Paired], dict[str, str]]:
    """What two models' failures differ in, over queries that both were asked, and why other numbers do not compare.

    Raises:
        InvalidOption: the two were asked other queries, or explained by other concepts.
    """
    if (baseline.split, baseline.provenance["concepts"]) != (model.split, model.provenance["concepts"]):
        raise InvalidOption(f"{baseline.model} and {model.model} are explained by other splits or concepts")
    draws, found, lacking = Draws(seed), [], {}
    for direction in dict.fromkeys([*baseline.directions, *model.directions]):
        if not (direction in baseline.directions and direction in model.directions):
            alone = baseline if direction in baseline.directions else model
            lacking[direction] = f"{alone.model} alone can be ranked in it"
            continue
        own, other = baseline.directions[direction], model.directions[direction]
        if not np.array_equal(own.failures.asked_ids, other.failures.asked_ids):
            raise InvalidOption(
                f"{baseline.model} and {model.model} were asked other {direction} queries: {own.failures.n_queries:,} "
                f"and {other.failures.n_queries:,}, of which one leaves some out. Give runs of the same images and "
                "captions."
            )
        for name, values, images in _pair_up(own, other, lacking):
            samples = ClusterBootstrap(images, draws).means(values[:, None])[0]
            found.append(
                Paired(
                    model.model,
                    baseline.model,
                    f"{direction}/{name}",
                    float(values.mean()),
                    *interval(samples, confidence),
                    n_queries=values.size,
                    n_images=int(np.unique(images).size),
                )
            )
    return found, lacking


def _pair_up(own: Explained, other: Explained, lacking: dict[str, str]) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Name, value of each query, and its image, of all that is compared; notes what is not."""
    asked, images = own.failures.asked_ids, own.failures.asked_images
    failed = [np.isin(asked, explained.failures.query_ids) for explained in (own, other)]
    for name, values in (
        ("failure_rate", failed[1].astype(float) - failed[0]),
        ("failed_alone", (failed[1] & ~failed[0]).astype(float)),
        ("baseline_failed_alone", (failed[0] & ~failed[1]).astype(float)),
    ):
        yield name, values, images
    both = failed[0] & failed[1]
    rows = [np.isin(explained.failures.query_ids, asked[both]) for explained in (own, other)]  # in the order of asked
    for name in NUMBERS:
        pair = [explained.table[name].to_numpy()[row] for explained, row in zip((own, other), rows, strict=True)]
        differences = pair[1] - pair[0]
        defined = ~np.isnan(differences)
        if defined.any():
            yield name, differences[defined], images[both][defined]
        else:
            lacking[f"{own.failures.direction}/{name}"] = "it is defined on no query that both fail"


def explanations_to_json(
    explanations: Sequence[Explanation], paired: Sequence[Paired] = (), not_compared: Mapping[str, str] | None = None
) -> str:
    """The text of ``explain.json``.

    It has the numbers of the first model, by ``direction/name``, with the number of failures behind each mean, the
    reason for each number that is lacking, and the provenance; those of further models under ``others``, and how they
    differ from the first under ``paired``.
    """
    first, *others = ({"model": one.model, **_entries(one), "provenance": dict(one.provenance)} for one in explanations)
    content: dict[str, Any] = {"schema": SCHEMA, **first}
    if others:
        content |= {"others": others, "paired": [asdict(row) for row in paired], "not_compared": not_compared or {}}
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def _entries(explanation: Explanation) -> dict[str, dict[str, Any]]:
    summaries = {direction: summarize(explained) for direction, explained in explanation.directions.items()}
    entries: dict[str, dict[str, Any]] = {
        part: {
            f"{direction}/{name}": value
            for direction, own in summaries.items()
            for name, value in getattr(own, part).items()
        }
        for part in ("scores", "counts", "not_computed")
    }
    entries["not_computed"] = {**explanation.skipped, **entries["not_computed"]}
    return entries
