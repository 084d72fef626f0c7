"""The models of the Crisscrossed Captions paper, Tables 2 to 5; co-captions from Table 3 of its appendix."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from cxc_eccv.comparison.published.table import PublishedScore, PublishedTable, packaged_rows, source_of

__all__ = ["cxc_table"]

ORIGINAL_LINKS = {"i2t": "coco_5k", "t2i": "coco_5k", "t2t": "co_captions"}
"""Direction to the task that is the paper's row MS-COCO; its row CxC is ours of that name."""

RECALLS = ("recall_at_1", "recall_at_5", "recall_at_10")
CORRELATIONS = ("sts", "sis", "sits")
DECIMALS = 3


@cache
def cxc_table() -> PublishedTable:
    """Retrieval on COCO 5K and CxC, and the bootstrap Spearman correlations with their deviations.

    Text and image models appear under the metrics of their modality only.

    Example:
        >>> cxc_table().scores_of("cxc/t2t/median_rank")["BoW (GloVe)"]
        13.0
    """
    retrieval = [score for row in packaged_rows("cxc_retrieval.csv") for score in _retrieval(row)]
    correlation = [score for row in packaged_rows("cxc_correlation.csv") for score in _correlation(row)]
    return PublishedTable("cxc", **source_of("cxc"), decimals=DECIMALS, scores=(*retrieval, *correlation))


def _retrieval(row: dict[str, str]) -> Iterator[PublishedScore]:
    direction = row["task"]
    start = f"{ORIGINAL_LINKS[direction] if row['annotations'] == 'coco' else 'cxc'}/{direction}"
    for metric in filter(row.get, RECALLS):
        yield PublishedScore(row["model"], "", f"{start}/{metric}", _fraction(row[metric]))
    if row["median_rank"]:
        yield PublishedScore(row["model"], "", f"{start}/median_rank", float(row["median_rank"]))


def _correlation(row: dict[str, str]) -> Iterator[PublishedScore]:
    for kind in CORRELATIONS:
        if row[f"{kind}_mean"]:
            mean, deviation = (_fraction(row[f"{kind}_{part}"]) for part in ("mean", "std"))
            yield PublishedScore(row["model"], "", f"cxc/{kind}/bootstrap_spearman", mean, deviation)


def _fraction(percent: str) -> float:
    return round(float(percent) / 100, DECIMALS)
