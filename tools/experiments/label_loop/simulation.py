"""How much a strategy finds: simulated people are asked about pairs whose truth is known, or known labels are hidden.

- :func:`simulate` goes through the rounds of a project, with its own proposals, sheets, quality control and rules, and
  with people who err at rates of their own. It needs data of which all that is true is known, as of the embedded
  sample. The truth answers questions and counts what was found; models and strategies learn from answers alone.
- :func:`search_hidden` takes real data: it hides positives that people verified, and counts how many of them a strategy
  asks about. Other pairs that it asks about are unknown there, not negative.

Both give sums over rounds for every seed, of which :func:`summarise` makes numbers with intervals.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.judgments.evidence.source import official_sources
from cxc_eccv.judgments.merging import merge
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import LABELS_SCHEMA
from cxc_eccv.statistics import interval
from cxc_eccv.studies.annotation.proposing import CANDIDATES, ProposalOptions, propose
from cxc_eccv.studies.annotation.proposing.pool import Pairs, rank_lists
from cxc_eccv.studies.annotation.proposing.strategies import strategies
from cxc_eccv.studies.asking.answer_files import ANSWER_SCHEMA, tabulate
from cxc_eccv.studies.asking.questions import CANDIDATE, KnownPairs, Question, build_sheets
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import RULES, settle
from cxc_eccv.studies.asking.sheet_quality import BY_HAND, SHEET, Checks, accept, judge_sheets
from cxc_eccv.types import FloatArray, IntArray, check_whole
from cxc_eccv.types.json_records import to_json
from label_loop.sample_truth import Truth

__all__ = [
    "COUNTS",
    "ERROR_RATES",
    "MEASURES",
    "Measured",
    "Retrain",
    "Simulation",
    "answer_sheets",
    "search_hidden",
    "simulate",
    "summarise",
]

SCHEME = "eccv"
"""How people are asked; they answer its first answer or its last."""

ERROR_RATES = (0.02, 0.05, 0.05, 0.1, 0.1, 0.15, 0.2, 0.3)
"""Of eight people: how often each of them errs."""

SEARCHED = ("random", "eccv", "disagreement")
"""Strategies that are compared unless others are named."""

CANDIDATES_A_SHEET = 18
QUESTIONS_A_SHEET = 20

COUNTS = pa.schema(
    [
        ("strategy", pa.string()),
        ("seed", pa.int64()),
        ("round", pa.int32()),
        ("questions", pa.int64()),
        ("candidates", pa.int64()),
        ("positives", pa.int64()),
        ("found", pa.int64()),
        ("to_find", pa.int64()),
    ]
)
"""Sums up to a round: questions that people answered, known pairs and rejected sheets among them; pairs that were asked
about; those that became positive, null where nobody answers; those of them that are new and true; all of these."""

MEASURES = {
    "recall": ("found", "to_find"),
    "precision": ("found", "positives"),
    "cost": ("questions", "found"),
    "yield": ("found", "questions"),
}
"""A sum of :data:`COUNTS` over all seeds, divided by another: ``cost`` in questions for each new true positive."""

DRAWS = 10_000

DEPTH = 100
"""Items of a list: twice as many as the longest list that a strategy or a metric of theirs looks at."""

Retrain = Callable[[pa.Table, int], Mapping[str, Run]]
"""The labels so far, as :data:`cxc_eccv.sources.readers.LABELS_SCHEMA`, and a seed, to the models of a round."""

IdPairs = tuple[IntArray, IntArray]
"""(P,) image ids and (P,) caption ids."""

Measured = tuple[float, float | None, float | None]
"""A number, and both ends of its interval."""

CONFIDENCE = 0.95
BASELINE = "eccv"
"""The strategy of the paper, which others are compared with."""


@dataclass(frozen=True, slots=True, eq=False)
class Simulation:
    """What was found."""

    counts: pa.Table
    facts: Mapping[str, Any]


def simulate(
    library: Library,
    retrain: Retrain,
    *,
    split: str = "validation",
    strategies: Sequence[str] = SEARCHED,
    rounds: int = 3,
    budget: int = 180,
    error_rates: Sequence[float] = ERROR_RATES,
    answers: int = 3,
    rule: str = "majority",
    sources: Sequence[str] = ("coco",),
    seeds: int = 10,
) -> Simulation:
    """Propose, ask, settle and retrain, round after round, where the truth is known.

    Example:
        >>> found = simulate(
        ...     Library("sample"), lambda labels, seed: {}, strategies=["random"], rounds=2, budget=36,
        ...     error_rates=[0, 0, 0], seeds=1
        ... )
        >>> [(row["round"], row["questions"], row["candidates"]) for row in found.counts.to_pylist()]
        [(1, 120, 36), (2, 240, 72)]
    """
    for name, number in {"rounds": rounds, "budget": budget, "answers": answers, "seeds": seeds}.items():
        check_whole(name, number)
    _check_people(error_rates, answers)
    _check_names(strategies, rule)
    truth = Truth(library, split)
    known = truth.pairs.ids(_judged_pairs(truth.pairs, library, split, sources))
    to_find = truth.total - int(truth(known).sum())
    models = dict[str, None]()

    def fit(labels: pa.Table, draw: int) -> Mapping[str, Run]:
        found = retrain(labels, draw)
        models.update(dict.fromkeys(found))
        return found

    chosen: dict[str, Any] = {"budget": budget, "error_rates": error_rates, "answers": answers, "rule": rule}
    rows = []
    for seed, strategy in product(range(seeds), strategies):
        draws = range(seed * rounds + 1, (seed + 1) * rounds + 1)
        sums = _go_through_rounds(library, split, truth, known, fit, strategy, draws, sources=sources, **chosen)
        rows += [(strategy, seed, number, *own, to_find) for number, own in enumerate(sums, start=1)]
    facts = {
        "experiment": "rounds",
        "split": split,
        "strategies": list(strategies),
        "rounds": rounds,
        **chosen,
        "error_rates": list(error_rates),
        "sources": list(sources),
        "seeds": seeds,
        "models": list(models),
        "to_find": to_find,
    }
    return Simulation(_count_table(rows), {**to_json(make_provenance(library)), **facts})


def _go_through_rounds(
    library: Library,
    split: str,
    truth: Truth,
    known: IdPairs,
    fit: Retrain,
    strategy: str,
    draws: Sequence[int],
    *,
    budget: int,
    error_rates: Sequence[float],
    answers: int,
    rule: str,
    sources: Sequence[str],
) -> Iterator[tuple[int, int, int, int]]:
    """Questions, candidates, positives and true ones among these, all up to a round; a draw for each round."""
    told = tabulate([])
    asked = CANDIDATES.empty_table()
    labels = LABELS_SCHEMA.empty_table()
    questions = 0
    for number, draw in enumerate(draws, start=1):
        options = ProposalOptions(strategy=strategy, budget=budget, sources=sources, seed=draw, asked=asked)
        proposal = propose(fit(labels, draw), library.split(split), options)
        if not proposal.candidates.num_rows:
            raise DataError(f"{strategy} has nothing to propose in round {number}; ask for fewer rounds or pairs")
        # As a project's: what people were asked about before is no pair that is known not to match.
        images, captions = (np.concatenate(ids) for ids in zip(known, _to_pairs(asked), strict=True))
        known_pairs = KnownPairs(truth.content, positive=(images, captions), is_near=proposal.is_near)
        sheets = build_sheets(proposal.candidates, known_pairs, seed=draw)
        given, accepted = answer_sheets(sheets, truth, error_rates, answers=answers, seed=draw)
        told = pd.concat([told, accepted])
        asked = pa.concat_tables([asked, proposal.candidates])
        questions += len(given)
        labels = settle(told, schemes()[SCHEME], rule) if len(told) else labels
        right = truth(_to_pairs(labels.filter(labels["positive"])))
        yield questions, asked.num_rows, right.size, int(right.sum())


def answer_sheets(
    sheets: Sequence[Sequence[Question]],
    is_true: Callable[[IdPairs], NDArray[np.bool_]],
    error_rates: Sequence[float],
    *,
    answers: int = 3,
    seed: int = 0,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What simulated people answer, and what of it is accepted.

    A sheet goes to so many people in a drawn order, and to another one for each who is not accepted, until nobody is
    left. Quality control is that of ``quality``, sheet by sheet. Whoever checks doubtful sheets by hand accepts
    those on which both known pairs are answered truly: known pairs may be known wrongly, and of a sheet without a
    match every answer is the same.
    """
    _check_people(error_rates, answers)
    # Not the draws of the sheets themselves, which are often made with the same seed.
    random = np.random.default_rng([seed, len(error_rates), answers])
    asked = [{"sheet": number, **asdict(one)} for number, sheet in enumerate(sheets) for one in sheet]
    rates = np.asarray(error_rates)
    questions = pa.Table.from_pylist(asked)
    truth = is_true(_to_pairs(questions))
    numbers = np.asarray(questions["sheet"])
    is_golden = np.asarray(questions["role"]) != CANDIDATE
    waiting = [random.permutation(rates.size).tolist() for _ in sheets]
    lacking = [answers] * len(sheets)
    given = []
    accepted = []
    while due := [sheet for sheet, people in enumerate(waiting) if people and lacking[sheet]]:
        people = {sheet: waiting[sheet].pop() for sheet in due}
        rows = np.flatnonzero(np.isin(numbers, due))
        workers = np.array([people[sheet] for sheet in numbers[rows].tolist()])
        errs = random.random(rows.size) < rates[workers]
        given.append(_make_answers(questions.take(rows), workers, truth[rows] ^ errs))
        careless = set(numbers[rows[errs & is_golden[rows]]].tolist())
        checks = Checks(straight=True)
        judged = judge_sheets(given[-1], checks)
        doubtful = judged.loc[judged["verdict"] == BY_HAND, SHEET].itertuples(index=False, name=None)
        checks = replace(checks, by_hand={key: key[0] not in careless for key in doubtful})
        accepted.append(accept(given[-1], judge_sheets(given[-1], checks)))
        for sheet in set(accepted[-1]["sheet"]):
            lacking[sheet] -= 1
    return pd.concat(given), pd.concat(accepted)


def _make_answers(asked: pa.Table, workers: IntArray, said: NDArray[np.bool_]) -> pd.DataFrame:
    """An answer to every question, without a remark and in no time."""
    best, *_, worst = schemes()[SCHEME].answers
    gains = np.where(said, best.gain, worst.gain)
    columns: dict[str, Any] = {name: asked[name] for name in ("sheet", "pair_id", "image_id", "caption_id", "role")}
    columns |= {
        "worker": [f"person {worker + 1}" for worker in workers.tolist()],
        "answer": np.where(said, json.dumps(best.name), json.dumps(worst.name)),
        "gain": gains,
        "positive": gains >= schemes()[SCHEME].positive,
        "details": ["{}"] * said.size,
        "remark": [""] * said.size,
        "seconds": np.zeros(said.size),
    }
    return pa.table(columns, schema=ANSWER_SCHEMA).to_pandas()


def search_hidden(
    runs: Mapping[str, Run],
    library: Library,
    *,
    strategies: Sequence[str] = SEARCHED,
    questions: Sequence[int] = (1_000, 5_000, 10_000),
    share: float = 0.5,
    seeds: int = 10,
) -> Simulation:
    """Hide a part of ECCV Caption's positives, and count how many of them each strategy asks about.

    Hidden is a drawn share of what ECCV Caption alone knows: positives of the test split, of either direction, that no
    other official source judged. What remains of ECCV Caption counts as asked about. Its queries are the
    queries: no other one has a positive that could be hidden.

    Example:
        >>> found = search_hidden({}, Library("sample"), strategies=["random"], questions=[40], seeds=1)
        >>> [(row["questions"], row["candidates"], row["to_find"]) for row in found.counts.to_pylist()]
        [(40, 36, 78)]
    """
    check_whole("seeds", seeds)
    _refuse_twice("questions", questions)
    for number in questions:
        check_whole("questions", number, QUESTIONS_A_SHEET)
    _check_names(strategies)
    pairs = Pairs(library.split("test"))
    others = [name for name in official_sources() if name != "eccv"]
    verified = _judged_pairs(pairs, library, "test", ["eccv"])
    own = np.setdiff1d(verified, _judged_pairs(pairs, library, "test", others, turned_down=True))
    hides = _count_hidden(share, own.size)
    tables = [library.split("test").eccv("eccv", direction) for direction in ("i2t", "t2i")]
    images, captions = (np.unique(np.asarray(table["query_id"])) for table in tables)
    ranked = {name: _rank_once(run, pairs) for name, run in runs.items()}
    stops = sorted(questions)
    rows = []
    options = ProposalOptions(budget=_candidates_of(stops[-1]), sources=others, queries=(images, captions))
    for seed in range(seeds):
        hidden = np.sort(np.random.default_rng(seed).choice(own, hides, replace=False))
        options = replace(options, seed=seed, asked=_to_table(pairs.ids(np.setdiff1d(verified, hidden))))
        for strategy in strategies:
            proposal = propose(ranked, library.split("test"), replace(options, strategy=strategy))
            is_hidden = np.isin(pairs.of_ids(*_to_pairs(proposal.candidates), "a candidate"), hidden)
            rows += [
                (strategy, seed, number, *_count_found(is_hidden, stop), hides)
                for number, stop in enumerate(stops, start=1)
            ]
    facts = {
        "experiment": "hidden",
        "split": "test",
        "strategies": list(strategies),
        "questions": stops,
        "share": share,
        "seeds": seeds,
        "models": list(runs),
        "runs": {name: to_json(run.facts()) for name, run in runs.items()},
        "verified": verified.size,
        "known_to_eccv_alone": own.size,
        "to_find": hides,
    }
    return Simulation(_count_table(rows), {**to_json(make_provenance(library)), **facts})


def _count_hidden(share: float, n_known: int) -> int:
    if not 0 < share < 1:
        raise InvalidOption(f"share={share}: hide a share between 0 and 1")
    if not round(share * n_known):
        raise InvalidOption(f"share={share}: of {n_known:,} positives that is none; hide more of them")
    return round(share * n_known)


def _count_found(is_hidden: NDArray[np.bool_], questions: int) -> tuple[int, int, None, int]:
    """Questions, candidates and hidden ones among these, of candidates in their order; who asks less has no more."""
    asked = min(_candidates_of(questions), is_hidden.size)
    spent = min(questions, math.ceil(is_hidden.size * QUESTIONS_A_SHEET / CANDIDATES_A_SHEET))
    return spent, asked, None, int(is_hidden[:asked].sum())


def _rank_once(run: Run, pairs: Pairs) -> RankingsRun:
    """The lists of a run to a depth that every strategy is content with, so that no seed scores all pairs again."""
    lists = rank_lists(run, pairs, DEPTH)
    items = {direction: pairs.ids(own.ravel())[direction == "i2t"] for direction, own in lists.items()}
    queries = {"i2t": pairs.image_ids, "t2i": pairs.caption_ids}
    ends = {direction: np.arange(0, own.size + 1, own.shape[1]) for direction, own in lists.items()}
    return RankingsRun({way: RankedLists(queries[way], ends[way], items[way]) for way in lists})


def summarise(simulation: Simulation) -> Iterator[dict[str, Any]]:
    """The numbers of every strategy and round over all seeds, with 95% intervals: a bootstrap over the seeds.

    Of a single seed there is no interval: low and high are None.

    Example:
        >>> rows = [("eccv", seed, 1, 40, 36, 10, 8, 80) for seed in range(3)]
        >>> columns = list(zip(*rows, strict=True))
        >>> found = next(summarise(Simulation(pa.table(columns, schema=COUNTS), {})))
        >>> found["recall"], found["cost"], found["ahead"]
        ((0.1, 0.1, 0.1), (5.0, 5.0, 5.0), (0.0, 0.0, 0.0))
    """
    table = simulation.counts
    steps = {
        key: table.filter((pc.field("strategy") == key[0]) & (pc.field("round") == key[1])).sort_by("seed")
        for key in dict.fromkeys(zip(table["strategy"].to_pylist(), table["round"].to_pylist(), strict=True))
    }
    for (strategy, number), own in steps.items():
        draws = np.random.default_rng(0).integers(own.num_rows, size=(DRAWS, own.num_rows))
        sums = {name: own[name].to_numpy().astype(np.float64) for name in COUNTS.names[3:]}
        means = {name: float(sums[name].mean()) for name in ("questions", "candidates", "found")}
        ratios = {name: _ratio(sums[upper], sums[lower], draws) for name, (upper, lower) in MEASURES.items()}
        other = steps.get((BASELINE, number))
        ahead = None
        if other is not None:
            more = sums["found"] - other["found"].to_numpy()
            ahead = (float(more.mean()), *_interval(more[draws].mean(axis=1), more.size))
        yield {"strategy": strategy, "round": number, **means, **ratios, "ahead": ahead}


def _ratio(upper: FloatArray, lower: FloatArray, draws: IntArray) -> Measured | None:
    """A sum over seeds divided by another, and its interval; None where a draw of seeds divides by nothing."""
    below = lower[draws].sum(axis=1)
    if np.isnan(below).any() or not below.all():
        return None
    return float(upper.sum() / lower.sum()), *_interval(upper[draws].sum(axis=1) / below, lower.size)


def _interval(samples: FloatArray, n_seeds: int) -> tuple[float, float] | tuple[None, None]:
    return interval(samples, CONFIDENCE) if n_seeds > 1 else (None, None)


def _check_people(error_rates: Sequence[float], answers: int) -> None:
    for rate in error_rates:
        if not 0 <= rate <= 1:
            raise InvalidOption(f"error rate {rate}: how often somebody errs is between 0 and 1")
    if len(error_rates) < answers:
        raise InvalidOption(
            f"{len(error_rates)} people cannot give {answers} answers to a question; give more error rates, or ask for "
            "fewer answers"
        )


def _check_names(chosen: Sequence[str], rule: str = "majority") -> None:
    _refuse_twice("strategies", chosen)
    for strategy in chosen:
        if strategy not in strategies():
            raise UnknownName("strategy", strategy, strategies())
    if rule not in RULES:
        raise UnknownName("rule", rule, RULES)


def _refuse_twice(name: str, chosen: Sequence[object]) -> None:
    """None, or one twice: sums over seeds would count it twice."""
    if not chosen or len(set(chosen)) < len(chosen):
        told = f"named twice among {', '.join(map(str, chosen))}" if chosen else "none is named"
        raise InvalidOption(f"{name}: {told}; name each once")


def _judged_pairs(
    pairs: Pairs, library: Library, split: str, sources: Sequence[str], *, turned_down: bool = False
) -> IntArray:
    """Numbers, ascending, of all pairs that sources call positive, and of those they turn down."""
    merged = merge(library.split(split), "i2t", sources=sources)
    return np.unique(pairs.number(merged.queries, merged.items)[merged.positive | turned_down])


def _candidates_of(questions: int) -> int:
    """How many candidates are among so many questions."""
    return questions * CANDIDATES_A_SHEET // QUESTIONS_A_SHEET


def _to_pairs(table: pa.Table) -> IdPairs:
    return np.asarray(table["image_id"]), np.asarray(table["caption_id"])


def _to_table(pairs: IdPairs) -> pa.Table:
    return pa.table(dict(zip(("image_id", "caption_id"), pairs, strict=True)))


def _count_table(rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    return pa.table(list(zip(*rows, strict=True)), schema=COUNTS)
