"""What the five models of ECCV Caption ranked highest, as runs, from the raw answers of its crowd."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.runs import RankingsRun
from cxc_eccv.sources.library import Split
from cxc_eccv.sources.readers import CrowdAnswers, read_crowd_answers
from cxc_eccv.sources.reading import parse_number, shown
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.types.judgments import orient

DEEPEST_RANK = 25
"""The paper's models retrieved so many items of a query."""

Candidates = dict[int, dict[tuple[int, bool], list[int]]]
"""Query to items, by their rank and whether they are queries of the other direction, so may list this query."""


@dataclass(frozen=True, slots=True, eq=False)
class MachineLists:
    """The certain lists of one direction.

    Attributes:
        runs: model, as the file writes it, to its rankings.
        n_left_out: model to the number of its lists that are not certain.
    """

    runs: Mapping[str, RankingsRun]
    n_left_out: Mapping[str, int]


def read_machine_lists(path: str | Path, split: Split, direction: str) -> MachineLists:
    """Read each model's ranked lists from a copy of ECCV Caption's ``mturk_parsed.csv``.

    The file does not say which side of a pair was the query. Only queries of ECCV Caption have a list; a row whose
    image and caption both are queries may be of either. A list is certain if every rank, from the first to the deepest
    of the file, has one row, or several of which one can be of no other list. Other lists are left out.

    Args:
        path: a user's copy of the file; its column ``ranking`` begins with 0 or 1.
        split: the test split of COCO.
        direction: ``i2t`` or ``t2i``.

    Raises:
        UnknownName: there is no such direction.
        MalformedSource: a rank is no whole number from 0 to 25, or no list is certain; the line is named.

    Example:
        >>> lists = read_machine_lists("mturk_parsed.csv", ce.Library().split("test"), "t2i")  # doctest: +SKIP
        >>> ce.evaluate(lists.runs["CLIP"], "eccv_caption/t2i", allow_missing=True)  # doctest: +SKIP
    """
    if direction not in CROSS_MODAL:
        raise UnknownName("direction of ECCV Caption", direction, CROSS_MODAL)
    answers = read_crowd_answers(Path(path))
    ranks = _read_ranks(answers)
    query_ids = _read_queries(split, direction)
    ids_of_opposite_queries = _read_queries(split, "t2i" if direction == "i2t" else "i2t")
    queries, items = orient(answers.images, answers.captions, direction)
    rows = zip(answers.models.to_pylist(), queries.tolist(), items.tolist(), ranks, strict=True)
    by_model: dict[str, Candidates] = {}
    for model, query, item, rank in rows:
        by_query = by_model.setdefault(model, defaultdict(lambda: defaultdict(list)))
        if query in query_ids:
            by_query[query][rank, item in ids_of_opposite_queries].append(item)
    span = range(min(ranks), max(ranks) + 1)
    runs = {}
    n_left_out = {}
    for model, candidates in by_model.items():
        lists = dict(_find_lists(candidates, span))
        n_left_out[model] = len(candidates) - len(lists)
        if lists:
            runs[model] = RankingsRun.from_dicts(**{direction: lists})
    if not runs:
        expected = f"a query of {direction} with one row for each rank, from {span[0]} to {span[-1]}"
        raise MalformedSource(path, f"line {answers.lines[0]} on", "no such list of any model", expected)
    return MachineLists(runs, n_left_out)


def _read_queries(split: Split, direction: str) -> set[int]:
    """The ids of ECCV Caption's queries."""
    return set(np.asarray(split.eccv("eccv", direction)["query_id"]).tolist())


def _read_ranks(answers: CrowdAnswers) -> list[int]:
    ranks = []
    for line, cell in zip(answers.lines, answers.rankings.to_pylist(), strict=True):
        rank = parse_number(cell.strip())
        if not isinstance(rank, int) or rank > DEEPEST_RANK:
            expected = f"a whole number from 0 to {DEEPEST_RANK}"
            raise MalformedSource(answers.path, f"line {line}, column 'ranking'", shown(cell), expected)
        ranks.append(rank)
    if min(ranks) > 1 or min(ranks) == max(ranks):
        raise MalformedSource(
            answers.path, "column 'ranking'", f"ranks {min(ranks)} to {max(ranks)}", "ranks from 0 or 1 to 2 or more"
        )
    return ranks


def _find_lists(by_query: Candidates, span: range) -> Iterator[tuple[int, list[int]]]:
    """Queries with their certain lists."""
    for query, items in by_query.items():
        at_ranks = [items.get((rank, False)) or items.get((rank, True), []) for rank in span]
        ranked = list(itertools.chain.from_iterable(at_ranks))
        has_one_each = all(len(at_rank) == 1 for at_rank in at_ranks)
        if has_one_each and len(set(ranked)) == len(span):
            yield query, ranked
