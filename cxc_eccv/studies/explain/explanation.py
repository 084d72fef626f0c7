"""Explain the failures of models, compare models, and show the numbers as tables.

The global table is Table 3 of Lymperaiou et al.; several models stand side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import chain

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy.stats import mode

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation.make_report import describe_run, make_provenance
from cxc_eccv.evaluation.plan import Plan
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.runs import Run
from cxc_eccv.runs.run import check_name
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.wordnet import VERSION as WORDNET
from cxc_eccv.statistics import Draws, bootstrap_mean
from cxc_eccv.studies.explain.caption_corpus import CONFIDENCE
from cxc_eccv.studies.explain.concepts import ImageConcepts
from cxc_eccv.studies.explain.failed_queries import (
    COUNTS,
    INFORMED,
    MATCHED,
    MEASURES,
    NUMBERS,
    OF_TRUTH,
    OVER_RIVAL,
    SIZE_THRESHOLD,
    Explained,
    check_run,
    explain_failures,
    find_failures,
)
from cxc_eccv.studies.explain.keyword_matching import match_keywords
from cxc_eccv.tables import MISSING, Cell, Table, interval_cell
from cxc_eccv.types import FloatArray, IntArray
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.result import group_by_reason
from cxc_eccv.types.strict_json import JsonObject

DECIMALS = 12
"""Values are rounded to this many decimals before a mode is found."""

OF_NUMBER = ("same_multiplicity", "different_multiplicity", "differing_per_failure", "enumeration_disagreement")
"""Numbers that need counted instances."""


@dataclass(frozen=True, slots=True, eq=False)
class Explanation:
    """The explained failures of one model; ``skipped`` has the reason for each direction it cannot be ranked in."""

    model: str
    split: Split
    concepts: ImageConcepts
    directions: Mapping[str, Explained]
    skipped: Mapping[str, str]
    provenance: Provenance
    size_threshold: float = SIZE_THRESHOLD

    @property
    def data(self) -> str:
        """The split and the edition of the data in words."""
        return describe_data(self.provenance.data, self.split.name, self.split.collection.title)


def check_runs(
    runs: Mapping[str, Run],
    split: Split,
    *,
    directions: Sequence[str] | None = None,
    similarity: str | None = None,
) -> dict[str, Plan]:
    """Check that runs can be explained, and compared, before long files are read.

    Returns the selection of each model's run, see :func:`check_run`.
    """
    selections = {}
    for model, run in runs.items():
        ranked(run, Options(similarity))
        selections[model] = check_run(run, split, directions)
    baseline, *others = selections
    first = _list_queries(selections[baseline])
    for model in others:
        for direction, query_ids in _list_queries(selections[model]).items():
            if direction in first and not np.array_equal(first[direction], query_ids):
                raise InvalidOption(
                    f"{baseline} and {model} have different {direction} queries, {first[direction].size:,} and "
                    f"{query_ids.size:,}. Give runs of the same images; query-corpus rankings also need the same "
                    "--query-position."
                )
    return selections


def _list_queries(plan: Plan) -> dict[str, IntArray]:
    """The query ids of each direction."""
    return {part.name: part.inputs[0].query_ids for part in plan.parts}


def explain_run(
    run: Run,
    split: Split,
    concepts: ImageConcepts,
    *,
    selection: Plan | None = None,
    similarity: str | None = None,
    name: str | None = None,
    size_threshold: float = SIZE_THRESHOLD,
) -> Explanation:
    """Find and explain a run's failures, in the directions that :func:`check_run` selected.

    ``size_threshold`` is the paper's T_D, the smallest difference in size that counts in SD.
    """
    if name is not None:
        check_name("evaluate", name, InvalidOption)
    scoring = ranked(run, Options(similarity)).scoring
    model = run.model if name is None else name
    chosen = selection or check_run(run, split)
    explained = {}
    for part in chosen.parts:
        direction = part.name
        failures = find_failures(run, split, direction, similarity=scoring["similarity"], selection=chosen)
        query_ids = failures.rows["query_id"].to_numpy()
        texts = None if direction == "i2t" else split.texts_of(query_ids).to_pylist()
        of_direction = explain_failures(failures, concepts, texts, size_threshold=size_threshold)
        matched = [None] * len(failures) if texts is None else match_keywords(failures, texts, split, concepts)
        table = of_direction.table.append_column(MATCHED, pa.array(matched, pa.int64()))
        explained[direction] = replace(of_direction, table=table)
    about: JsonObject = {
        "source": concepts.source,
        "counted": concepts.counted,
        "images": {"annotated": len(concepts.images), "of": concepts.n_images},
        "left_out": dict(concepts.left_out),
    }
    facts = Provenance(
        run=describe_run(run, chosen.inputs),
        similarity=scoring["similarity"],
        similarity_from=scoring["similarity_from"],
        model=model,
        restriction=chosen.restriction,
        others={
            "collection": split.collection.name,
            "concepts": about,
            "wordnet": WORDNET,
            "size_threshold": size_threshold,
        },
    )
    title = model or (run.path.name if run.path is not None else "run")
    provenance = make_provenance(split.library, split.name, facts)
    return Explanation(
        model=title,
        split=split,
        concepts=concepts,
        directions=explained,
        skipped=chosen.skipped,
        provenance=provenance,
        size_threshold=size_threshold,
    )


PAIRED = ["model", "baseline", "key", "value", "low", "high", "n_queries", "n_images"]
"""Columns of numbers of two models' failures over the same queries: the model's minus the baseline's.

The key is ``direction/name``. ``failure_rate`` is the share of failed queries, over all queries; ``failed_alone`` and
``baseline_failed_alone`` are the shares of all queries that only one of the two fails; any other name is the mean of a
number over the queries that both fail and on which it is defined for both.
"""


def compare_failures(baseline: Explanation, others: Sequence[Explanation], *, seed: int = 0) -> pd.DataFrame:
    """Compare models' failures with those of a baseline over the queries that both were asked, which must be the same.

    A direction that one of two models cannot be ranked in has no rows, and neither has a number that is defined for
    both on no query that both fail. Intervals are percentiles of a bootstrap over images.

    Returns:
        A row per model and number, with the columns :data:`PAIRED`.
    """
    draws = Draws(seed)
    rows = []
    for model in others:
        for direction, of_baseline in baseline.directions.items():
            if direction not in model.directions:
                continue
            for name, values, images in _pair_up(of_baseline, model.directions[direction]):
                mean = bootstrap_mean(values, images, draws, CONFIDENCE)
                sizes = values.size, np.unique(images).size
                rows.append((model.model, baseline.model, f"{direction}/{name}", *astuple(mean), *sizes))
    return pd.DataFrame(rows, columns=PAIRED)


def _pair_up(baseline: Explained, model: Explained) -> Iterator[tuple[str, FloatArray, IntArray]]:
    """Yield the name, and each query's value and image, of every compared number."""
    asked = baseline.failures.asked["query_id"].to_numpy()
    images = baseline.failures.asked["truth_id"].to_numpy()
    failed = np.isin(asked, baseline.failures.rows["query_id"])
    fails = np.isin(asked, model.failures.rows["query_id"])
    yield "failure_rate", fails.astype(np.float64) - failed, images
    yield "failed_alone", (fails & ~failed).astype(np.float64), images
    yield "baseline_failed_alone", (failed & ~fails).astype(np.float64), images
    both = failed & fails  # the failures of both models are in the order of all queries
    before = baseline.table.filter(np.isin(baseline.failures.rows["query_id"], asked[both]))
    after = model.table.filter(np.isin(model.failures.rows["query_id"], asked[both]))
    for name in NUMBERS:
        differences = after[name].to_numpy() - before[name].to_numpy()
        defined = ~np.isnan(differences)
        if defined.any():
            yield name, differences[defined], images[both][defined]


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
    disagreement is no percentage but ``differing_per_failure`` (69,595 in 28,817 failures are 2.42). As its list of
    columns says, ``enumeration_disagreement`` is 69,595 of all 110,839 common concepts, 62.79%.
    """
    table = explained.table
    failures = explained.failures
    known = {name: table[name].drop_null().to_numpy() for name in (*NUMBERS, *COUNTS)}
    common, missed, other, differing = (known[name] for name in COUNTS)
    unannotated = len(failures) - int(np.asarray(table["annotated"]).sum())
    sums = {
        "queries": failures.n_queries,
        "failures": len(failures),
        "without_concepts": len(failures) - unannotated - common.size,
        "not_annotated": unannotated,
        "object_hits": int(common.sum()),
        "object_misses": int(missed.sum()),
        "non_common_concepts": int((missed + other).sum()),
        "matchings": int(np.minimum(missed, other).sum()),
    }
    if not unannotated:
        del sums["not_annotated"]
    means = {name: values for name, values in known.items() if name in NUMBERS and values.size}
    if "differing_concepts" not in explained.not_computed:
        sums |= {"same_multiplicity": int((common - differing).sum()), "different_multiplicity": int(differing.sum())}
    scores: dict[str, float] = sums | {name: float(values.mean()) for name, values in means.items()}
    # Of equally frequent values scipy's mode is the smallest.
    scores |= {f"{name}_mode": float(mode(means[name].round(DECIMALS)).mode) for name in MEASURES if name in means}
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
        common_concepts = sums["same_multiplicity"] + sums["different_multiplicity"]
        if common_concepts:
            ratios["enumeration_disagreement"] = sums["different_multiplicity"] / common_concepts
    return ratios


COUNT = "{:,.0f}"
PERCENT = "{:.2%}"
NUMBER = "{:.3f}"
FOUR = (
    ("CA", "concept_agreement", PERCENT),
    ("NCS", "non_common_similarity", NUMBER),
    ("CE", "concept_enumeration", NUMBER),
    ("SD", "size_disagreement", PERCENT),
)
MEASURED = (*FOUR, ("SD relative to truth", OF_TRUTH, PERCENT))
"""With SD twice: relative to the smaller instance of a match, and to the right image's."""

MEASURED_TITLES: Mapping[str, str] = {name: title for title, name, _ in MEASURED}

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
        ("enum. disagreement", "enumeration_disagreement", PERCENT),
        ("different per failure", "differing_per_failure", NUMBER),
    ),
}
"""Section to its rows: title, name and format of each number."""

SIDE_BY_SIDE = (
    "Differences from {first}: numbers of failures over the queries that both fail, others over all queries, with "
    f"{100 * CONFIDENCE:g}% intervals from a bootstrap over images."
)


def make_tables(explanations: Sequence[Explanation], paired: pd.DataFrame | None = None) -> list[Table]:
    """The global table of one model with a column per direction; a table per direction of several models.

    ``paired`` is the result of :func:`compare_failures`.
    """
    paired = pd.DataFrame(columns=PAIRED, dtype=object) if paired is None else paired
    first, *others = explanations
    corpus = first.provenance.run.corpus
    subtitle = f"{first.concepts.source}{f'; images as {corpus}' if corpus else ''}"
    data = first.data
    if not others:
        summaries = {direction: summarize(explained) for direction, explained in first.directions.items()}
        rows = _rows([summary.scores for summary in summaries.values()])
        header = [("",), *((direction,) for direction in summaries)]
        notes = _group({**first.skipped, **_find_reasons(summaries)})
        return [Table(header, rows, f"Failures of {first.model}", subtitle, notes, data=data)]
    directions = dict.fromkeys(chain.from_iterable(model.directions for model in explanations))
    note = SIDE_BY_SIDE.format(first=first.model)
    return [_compare_models(direction, explanations, paired, subtitle, note) for direction in directions]


def _compare_models(
    direction: str, explanations: Sequence[Explanation], paired: pd.DataFrame, subtitle: str, note: str
) -> Table:
    first = explanations[0].model
    able = [model for model in explanations if direction in model.directions]
    summaries = {model.model: summarize(model.directions[direction]) for model in able}
    of_direction = paired[paired["key"].str.startswith(f"{direction}/")]
    of_direction = of_direction.assign(name=of_direction["key"].str.removeprefix(f"{direction}/"))
    pairs = {model: rows.set_index("name") for model, rows in of_direction.groupby("model", sort=False)}
    rows = _rows([summary.scores for summary in summaries.values()], list(pairs.values()))
    header = [("",), *((name,) for name in summaries), *((f"{name} minus {first}",) for name in pairs)]
    notes = [note] if pairs else []
    notes += _group({model.model: model.skipped[direction] for model in explanations if direction in model.skipped})
    notes += _group(_find_reasons(summaries))
    models = f"{len(summaries)} models" if len(summaries) > 1 else next(iter(summaries))
    data = explanations[0].data
    return Table(header, rows, f"Failures of {models}, {direction}", subtitle, notes, data=data)


def _rows(scores: Sequence[Mapping[str, float]], pairs: Sequence[pd.DataFrame] = ()) -> list[list[str | Cell]]:
    """Rows of the sections: a column for the scores of each model, and for the differences of each, by name."""
    rows: list[list[str | Cell]] = []
    for section, lines in SECTIONS.items():
        shown: list[list[str | Cell]] = []
        for title, name, show in lines:
            cells: list[str | Cell] = [show.format(column[name]) if name in column else MISSING for column in scores]
            cells += [_show_pair(name, column.loc[name], show) if name in column.index else MISSING for column in pairs]
            if any(cell is not MISSING for cell in cells):
                shown.append([title, *cells])
        if section and shown:
            rows.append([section])
        rows += shown
    return rows


def _show_pair(name: str, row: pd.Series, show: str) -> Cell:
    is_share = name.endswith("failed_alone")
    signed = show if is_share else show.replace(":", ":+")
    return interval_cell(row["value"], row["low"], row["high"], signed)


def _find_reasons(summaries: Mapping[str, Summary]) -> dict[str, str]:
    """Titles of missing numbers to the reason, without variants that are missing for the reason of their measure."""
    missing = pd.DataFrame(_list_missing(summaries), columns=["model", "section", "reason", "title"])
    if missing.empty:
        return {}
    titles = missing.groupby(["model", "section", "reason"], sort=False)["title"].agg(", ".join).reset_index()
    titles["numbers"] = titles["title"] + titles["section"]
    models = titles.groupby(["numbers", "reason"], sort=False)["model"].agg(list)
    reasons = {}
    for (numbers, reason), where in models.items():
        named = numbers if len(where) == len(summaries) else f"{', '.join(where)} {numbers}"
        reasons[named] = reason
    return reasons


def _list_missing(summaries: Mapping[str, Summary]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the model, the section in words, the reason and the title of every missing number."""
    for model, summary in summaries.items():
        reasons = summary.not_computed
        for section, lines in SECTIONS.items():
            for title, name, _ in lines:
                measure = name.removesuffix(INFORMED).removesuffix(OVER_RIVAL)
                if name not in reasons:
                    continue
                if name == measure:
                    yield model, "", reasons[name], title
                elif reasons.get(measure) != reasons[name]:
                    yield model, f" ({section[0].lower()}{section[1:]})", reasons[name], title


def _group(reasons: Mapping[str, str]) -> list[str]:
    """Notes with each reason once, after all names that it applies to."""
    return [f"{'; '.join(names)}: {reason}." for reason, names in group_by_reason(reasons).items()]
