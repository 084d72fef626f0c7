"""Published scores of models, in the units and under the keys of a report."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import resources

import numpy as np

from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.rsum import SPEC, rsum

FOLDER = resources.files("cxc_eccv.comparison.published")


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """A printed score, or the mean over both directions: a fraction in [0, 1], a rank, or RSUM in percent."""

    model: str
    key: str
    value: float
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The scores of one paper or repository.

    ``decimals`` is the precision of its fractions in [0, 1]; the main metric of ``task`` orders the models.
    """

    name: str
    task: str
    title: str
    citation: str
    url: str
    printed_in: str
    decimals: int
    scores: tuple[PublishedScore, ...] = field(repr=False)

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models, in the order of the paper."""
        return tuple(dict.fromkeys(score.model for score in self.scores))

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the metrics that at least one model has."""
        return tuple(dict.fromkeys(score.key for score in self.scores))

    def scores_of(self, key: str) -> dict[str, float]:
        """Model to value under one metric, for the models that have it."""
        values = {score.model: score.value for score in self.scores if score.key == key}
        if not values:
            raise UnknownName(f"metric of the {self.title} table", key, self.keys)
        return values


def published_tables() -> tuple[PublishedTable, ...]:
    """All tables of published scores."""
    return eccv_caption_table(), cxc_table(), open_clip_table()


HEADLINES = (
    "coco_1k/recall_at_1",
    "coco_1k/recall_at_5",
    "coco_1k/recall_at_10",
    "coco_1k/rsum",
    "coco_5k/recall_at_1",
    "coco_5k/recall_at_5",
    "coco_5k/recall_at_10",
    "cxc_rated/recall_at_1",
    "eccv_caption/recall_at_1",
    "eccv_caption/r_precision",
    "eccv_caption/map_at_r",
    "plausible_match/pmrp_at_50",
)
"""Rows and columns of the paper's Table 5: means over both directions, RSUM of COCO 1K."""

NO_FIGURES = ("model", "group", "direction", "pmrp_as_printed")
"""Columns of Tables D.2 and D.3 without scores; their PMRP contradicts Table 4 for 11 models and is not used."""


@cache
def eccv_caption_table() -> PublishedTable:
    """Scores of 25 models of ECCV Caption: Tables D.2 and D.3, their means over both directions, and Table 4's PMRP.

    The PMRP columns of D.2 and D.3 are packaged as printed but not used, because their mean disagrees with Table 4 for
    the last two groups of models, by up to 12 points.
    """
    per_direction = [
        PublishedScore(row["model"], f"{task}/{row['direction']}/{metric}", _fraction(printed, 4))
        for row in packaged_rows("eccv_caption_models.csv")
        for column, printed in row.items()
        if column not in NO_FIGURES
        for task, metric in [column.split("/")]
    ]
    pmrp = [
        PublishedScore(row["model"], HEADLINES[-1], _fraction(row["pmrp"], 4))
        for row in packaged_rows("eccv_caption_models_table4.csv")
    ]
    means = [
        PublishedScore(score.model, key, value)
        for score in pmrp
        for key, value in both_directions({s.key: s.value for s in per_direction if s.model == score.model}).items()
    ]
    headlines = sorted((*means, *pmrp), key=lambda score: HEADLINES.index(score.key))
    return _table("eccv_caption", 4, (*headlines, *per_direction))


ORIGINAL_LINKS = {"i2t": "coco_5k", "t2i": "coco_5k", "t2t": "co_captions"}
"""Direction to the task of the paper's row MS-COCO; its row CxC is the task cxc."""


@cache
def cxc_table() -> PublishedTable:
    """The models of Crisscrossed Captions, Tables 2 to 5; co-captions from Table 3 of its appendix."""
    retrieval = [score for row in packaged_rows("cxc_retrieval.csv") for score in _retrieval(row)]
    correlation = [score for row in packaged_rows("cxc_correlation.csv") for score in _correlation(row)]
    return _table("cxc", 3, (*retrieval, *correlation))


def _retrieval(row: dict[str, str]) -> Iterator[PublishedScore]:
    direction = row["task"]
    start = f"{ORIGINAL_LINKS[direction] if row['annotations'] == 'coco' else 'cxc'}/{direction}"
    for metric in filter(row.get, ("recall_at_1", "recall_at_5", "recall_at_10")):
        yield PublishedScore(row["model"], f"{start}/{metric}", _fraction(row[metric], 3))
    if row["median_rank"]:
        yield PublishedScore(row["model"], f"{start}/median_rank", float(row["median_rank"]))


def _correlation(row: dict[str, str]) -> Iterator[PublishedScore]:
    for kind in ("sts", "sis", "sits"):
        if row[f"{kind}_mean"]:
            mean, deviation = (_fraction(row[f"{kind}_{part}"], 3) for part in ("mean", "std"))
            yield PublishedScore(row["model"], f"cxc/{kind}/bootstrap_spearman", mean, deviation)


@cache
def open_clip_table() -> PublishedTable:
    """Zero-shot R@1, R@5 and R@10 of open_clip's 121 checkpoints on COCO 5K and Flickr30k.

    A hit is any positive in the top K. Queries are 5,000 and 1,000 images, and their captions. Equal scores stand in
    the order of ``torch.topk``, so a model whose scores often tie is rated higher than under our tie rule.
    """
    scores = [
        PublishedScore(row["model"], key, _fraction(printed, 4))
        for row in packaged_rows("open_clip_models.csv")
        for key, printed in row.items()
        if key != "model"
    ]
    return _table("open_clip", 4, scores)


def packaged_rows(file_name: str) -> list[dict[str, str]]:
    """Rows of a packaged CSV file, as printed."""
    return list(csv.DictReader((FOLDER / file_name).read_text(encoding="utf-8").splitlines()))


def _fraction(percent: str, decimals: int) -> float:
    return round(float(percent) / 100, decimals)


def _table(name: str, decimals: int, scores: Iterable[PublishedScore]) -> PublishedTable:
    sources = tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))
    return PublishedTable(name, **sources[name], decimals=decimals, scores=tuple(scores))


GUARD_DIGITS = 9
"""Decimals of means, so that equal means of printed scores are equal as floats."""


def both_directions(scores: Mapping[str, float]) -> dict[str, float]:
    """Means over ``i2t`` and ``t2i`` of every metric with both, and RSUM of COCO 1K, under keys without direction."""
    means = {}
    for key, value in scores.items():
        task, _, rest = key.partition("/i2t/")
        other = scores.get(f"{task}/t2i/{rest}")
        if rest and other is not None:
            means[f"{task}/{rest}"] = round((value + other) / 2, GUARD_DIGITS)
    recalls = [means.get(f"coco_1k/{label}") for label in SPEC.inputs]
    if None not in recalls:
        means["coco_1k/rsum"] = round(float(rsum(np.repeat(np.array(recalls, dtype=float), 2))), GUARD_DIGITS)
    return means
