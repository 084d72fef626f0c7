"""A model's failures in one table, as in Table 3 of Lymperaiou et al., and several models side by side."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.studies.explain.explanation import COUNTS, NUMBERS, Explained, Explanation, Paired
from cxc_eccv.studies.explain.measures import INFORMED, MEASURES, OF_TRUTH, OVER_RIVAL
from cxc_eccv.tables import MISSING, Cell, Table
from cxc_eccv.types import FloatArray
from cxc_eccv.types.reported import group_by_reason

if TYPE_CHECKING:
    from cxc_eccv.studies.explain.reranking import Reranking

DECIMALS = 12
"""Values are rounded to this many decimals before a mode is found."""

OF_NUMBER = ("same_multiplicity", "different_multiplicity", "differing_per_failure", "enumeration_disagreement")
"""Numbers that need counted instances."""


@dataclass(frozen=True, slots=True)
class Summary:
    """The global table of one direction; shares are in [0, 1].

    ``counts`` has the number of failures behind each mean, ``not_computed`` the reason for each missing number.
    """

    scores: Mapping[str, float]
    counts: Mapping[str, int]
    not_computed: Mapping[str, str]


def summarize(explained: Explained) -> Summary:
    """The numbers of the paper's Table 3, and further ones, as ``docs/explain.md`` defines them.

    Means are over the failures on which a number is defined; a mode is the most frequent value, the smallest of equally
    frequent ones. The rest are sums over all failures whose right image shows a concept, and their ratios.

    By the paper's sums, its column of matched synsets is matchings per non-common concepts (184,747 of 627,833 are
    29.43%), and not a share of the right image's synsets as its list of columns says; and its column of enumeration
    disagreement is no percentage but ``differing_per_failure`` (69,595 in 28,817 failures are 2.42).
    """
    table, failures = explained.table, explained.failures
    known = {name: table[name].drop_null().to_numpy() for name in (*NUMBERS, *COUNTS)}
    common, missed, other, differing = (known[name] for name in COUNTS)
    unannotated = len(failures) - int(np.asarray(table["annotated"]).sum())
    sums = {
        "queries": failures.n_queries,
        "failures": len(failures),
        "without_concepts": len(failures) - unannotated - common.size,
        **({"not_annotated": unannotated} if unannotated else {}),
        "object_hits": int(common.sum()),
        "object_misses": int(missed.sum()),
        "non_common_concepts": int((missed + other).sum()),
        "matchings": int(np.minimum(missed, other).sum()),
    }
    means = {name: values for name, values in known.items() if name in NUMBERS and values.size}
    if "differing_concepts" not in explained.not_computed:
        sums |= {"same_multiplicity": int((common - differing).sum()), "different_multiplicity": int(differing.sum())}
        shared = common > 0
        means |= {"enumeration_disagreement": differing[shared] / common[shared]} if shared.any() else {}
    scores: dict[str, float] = sums | {name: float(values.mean()) for name, values in means.items()}
    scores |= {f"{name}_mode": find_mode(means[name]) for name in MEASURES if name in means}
    scores |= {"failure_rate": len(failures) / failures.n_queries, **ratios_of_sums(sums, common.size)}
    nothing = "it is undefined on all failures" if len(failures) else "no query failed"
    why = explained.not_computed.get("differing_concepts", nothing)
    reasons = {name: explained.not_computed.get(name, nothing) for name in NUMBERS}
    reasons |= {**dict.fromkeys(OF_NUMBER, why), "matched_synsets": nothing}
    lacking = {name: reason for name, reason in reasons.items() if name not in scores}
    return Summary(scores, {name: values.size for name, values in means.items()}, lacking)


def ratios_of_sums(sums: Mapping[str, float], n_explained: int) -> dict[str, float]:
    """The paper's ratios of sums, without those whose divisor is 0."""
    ratios = {}
    if sums["non_common_concepts"]:
        ratios["matched_synsets"] = sums["matchings"] / sums["non_common_concepts"]
    if n_explained and "different_multiplicity" in sums:
        ratios["differing_per_failure"] = sums["different_multiplicity"] / n_explained
    return ratios


def find_mode(values: FloatArray) -> float:
    """The most frequent value; the smallest of equally frequent ones."""
    distinct, counts = np.unique(values.round(DECIMALS), return_counts=True)
    return float(distinct[counts.argmax()])


def _summarize_all(explanation: Explanation) -> dict[str, Summary]:
    return {direction: summarize(explained) for direction, explained in explanation.directions.items()}


def explanations_to_json(
    explanations: Sequence[Explanation],
    paired: Sequence[Paired] = (),
    reranked: Reranking | None = None,
    command: str | None = None,
    confidence: float = 0.95,
) -> str:
    """The text of ``explain.json``: the first model's numbers, and further models under ``others``.

    ``paired`` has their differences from the first; numbers of altered queries are among the first's, and with
    intervals under ``adversarial``. The provenance has the confidence of the intervals if it is not 95%.
    """
    stamp: dict[str, Any] = {"command": command} if command else {}
    stamp |= {"confidence": confidence} if confidence != 0.95 else {}
    first, *others = (
        {"model": model.model, **_entries(model), "provenance": {**model.provenance, **stamp}} for model in explanations
    )
    content: dict[str, Any] = {"schema": 1, **first}
    if reranked is not None:
        content["scores"] = {**content["scores"], **reranked.scores}
        content["adversarial"] = {**reranked.facts, "rows": [asdict(row) for row in reranked.rows]}
    if others:
        content |= {"others": others, "paired": [asdict(row) for row in paired]}
    return json.dumps(content, indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def join_tables(explanations: Sequence[Explanation]) -> pa.Table:
    """A row per model, direction and failure, with their provenance in the metadata."""
    parts = []
    for explanation in explanations:
        for direction, explained in explanation.directions.items():
            table = explained.table
            for name, text in (("direction", direction), ("model", explanation.model)):
                column = pa.array([text] * table.num_rows, pa.string()).dictionary_encode()
                table = table.add_column(0, name, column)
            parts.append(table)
    facts = {
        explanation.model: {"not_computed": _entries(explanation)["not_computed"], **explanation.provenance}
        for explanation in explanations
    }
    joined = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return joined.replace_schema_metadata({"explained": json.dumps(facts, ensure_ascii=False)})


def _entries(explanation: Explanation) -> dict[str, dict[str, Any]]:
    summaries = _summarize_all(explanation)
    entries: dict[str, dict[str, Any]] = {
        part: {
            f"{direction}/{name}": value
            for direction, summary in summaries.items()
            for name, value in getattr(summary, part).items()
        }
        for part in ("scores", "counts", "not_computed")
    }
    entries["not_computed"] = {**explanation.skipped, **entries["not_computed"]}
    return entries


COUNT, PERCENT, NUMBER = "{:,.0f}", "{:.2%}", "{:.3f}"
FOUR = (
    ("CA", "concept_agreement", PERCENT),
    ("NCS", "non_common_similarity", NUMBER),
    ("CE", "concept_enumeration", NUMBER),
    ("SD", "size_disagreement", PERCENT),
)
MEASURED = (*FOUR, ("SD relative to truth", OF_TRUTH, PERCENT))
"""With SD twice: relative to the smaller instance of a match, and to the right image's."""

TITLES: Mapping[str, str] = {name: title for title, name, _ in MEASURED}

SECTIONS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "": (
        ("queries", "queries", COUNT),
        ("failures", "failures", COUNT),
        ("of the queries", "failure_rate", PERCENT),
        ("failed only by it", "failed_alone", PERCENT),
        ("only by the first", "baseline_failed_alone", PERCENT),
        ("without concepts", "without_concepts", COUNT),
        ("not annotated", "not_annotated", COUNT),
    ),
    "All concepts": (
        *MEASURED,
        ("SD without threshold", "size_disagreement_real", NUMBER),
        *((f"{title}, mode", f"{name}_mode", show) for title, name, show in FOUR),
    ),
    "Mentioned concepts": [(title, f"{name}{INFORMED}", show) for title, name, show in MEASURED],
    "Over the best rival": [(title, f"{name}{OVER_RIVAL}", show) for title, name, show in MEASURED],
    "Sums": (
        ("object hits", "object_hits", COUNT),
        ("object misses", "object_misses", COUNT),
        ("non-common concepts", "non_common_concepts", COUNT),
        ("matchings", "matchings", COUNT),
        ("matched synsets", "matched_synsets", PERCENT),
        ("same multiplicity", "same_multiplicity", COUNT),
        ("different multiplicity", "different_multiplicity", COUNT),
        ("different per failure", "differing_per_failure", NUMBER),
        ("enum. disagreement", "enumeration_disagreement", PERCENT),
    ),
}
"""Section to its rows: title, name and format of each number."""

SIDE_BY_SIDE = (
    "Differences from {first}: numbers of failures over the queries that both fail, others over all queries, with "
    "{level:g}% intervals from a bootstrap over images."
)


def make_tables(
    explanations: Sequence[Explanation], paired: Sequence[Paired] = (), confidence: float = 0.95
) -> list[Table]:
    """The global table of one model with a column per direction; a table per direction of several models.

    ``confidence`` is that of the intervals of ``paired``.
    """
    first, *others = explanations
    corpus = first.provenance.get("run", {}).get("corpus")
    subtitle = f"{first.concepts.source}{f'; images as {corpus}' if corpus else ''}"
    data = describe_data(first.provenance)
    if not others:
        summaries = _summarize_all(first)
        rows = _rows([summary.scores for summary in summaries.values()])
        header = [("",), *((direction,) for direction in summaries)]
        notes = _group({**first.skipped, **_reasons(summaries)})
        return [Table(header, rows, f"Failures of {first.model}", subtitle, notes, data=data)]
    directions = dict.fromkeys(name for model in explanations for name in model.directions)
    note = SIDE_BY_SIDE.format(first=first.model, level=100 * confidence)
    return [_compare_models(direction, explanations, paired, subtitle, note) for direction in directions]


def _compare_models(
    direction: str, explanations: Sequence[Explanation], paired: Sequence[Paired], subtitle: str, note: str
) -> Table:
    first = explanations[0].model
    summaries = {
        model.model: summarize(model.directions[direction]) for model in explanations if direction in model.directions
    }
    pairs: dict[str, dict[str, Paired]] = {}
    for row in paired:
        if row.key.startswith(f"{direction}/"):
            pairs.setdefault(row.model, {})[row.key.removeprefix(f"{direction}/")] = row
    rows = _rows([summary.scores for summary in summaries.values()], list(pairs.values()))
    header = [("",), *((name,) for name in summaries), *((f"{name} minus {first}",) for name in pairs)]
    notes = [note] if pairs else []
    notes += _group({model.model: model.skipped[direction] for model in explanations if direction in model.skipped})
    notes += _group(_reasons(summaries))
    models = f"{len(summaries)} models" if len(summaries) > 1 else next(iter(summaries))
    data = describe_data(explanations[0].provenance)
    return Table(header, rows, f"Failures of {models}, {direction}", subtitle, notes, data=data)


def _rows(scores: Sequence[Mapping[str, float]], pairs: Sequence[Mapping[str, Paired]] = ()) -> list[list[str | Cell]]:
    rows: list[list[str | Cell]] = []
    for section, lines in SECTIONS.items():
        shown: list[list[str | Cell]] = []
        for title, name, show in lines:
            cells: list[str | Cell] = [show.format(column[name]) if name in column else MISSING for column in scores]
            cells += [_show_pair(column[name], show) if name in column else MISSING for column in pairs]
            if any(cell is not MISSING for cell in cells):
                shown.append([title, *cells])
        rows += [[section], *shown] if section and shown else shown
    return rows


def _show_pair(row: Paired, show: str) -> Cell:
    signed = show if row.is_share else show.replace(":", ":+")
    return Cell(signed.format(row.value), interval=f"[{signed.format(row.low)}, {signed.format(row.high)}]")


def _reasons(summaries: Mapping[str, Summary]) -> dict[str, str]:
    """Titles of missing numbers to the reason, without variants that are missing for the reason of their measure."""
    titles: dict[tuple[str, str, str], list[str]] = {}
    for column, summary in summaries.items():
        reasons = summary.not_computed
        for section, lines in SECTIONS.items():
            for title, name, _ in lines:
                measure = name.removesuffix(INFORMED).removesuffix(OVER_RIVAL)
                if name in reasons and (measure == name or reasons.get(measure) != reasons[name]):
                    of = "" if measure == name else f" ({section[0].lower()}{section[1:]})"
                    titles.setdefault((column, of, reasons[name]), []).append(title)
    return {f"{column} {', '.join(names)}{of}": reason for (column, of, reason), names in titles.items()}


def _group(reasons: Mapping[str, str]) -> list[str]:
    """Notes with each reason once, after all names that it applies to."""
    return [f"{'; '.join(names)}: {reason}." for reason, names in group_by_reason(reasons).items()]
