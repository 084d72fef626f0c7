"""PublishedTable: one paper's figures in the units and under the keys of a report."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

import numpy as np

from cxc_eccv.errors import UnknownName
from cxc_eccv.metrics.rsum import SPEC, rsum

__all__ = ["PublishedScore", "PublishedTable", "both_directions", "packaged_rows", "source_of"]

FOLDER = resources.files("cxc_eccv.comparison.published")


@dataclass(frozen=True, slots=True)
class PublishedScore:
    """One printed figure, or the mean of the two directions' figures.

    Attributes:
        model: as named in the table.
        group: kind of model, or empty.
        key: ``task/direction/metric`` as in report.json; without direction for a whole task.
        value: fraction in [0, 1], a plain rank, or RSUM in percent.
        deviation: printed standard deviation, or None.
    """

    model: str
    group: str
    key: str
    value: float
    deviation: float | None = None


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """The figures of one paper.

    Attributes:
        name: short, for keys and file names.
        title, citation, url, printed_in: the paper, and its tables.
        decimals: of the printed fractions, once in [0, 1]; a model is placed with its values rounded alike.
        scores: every figure.

    Example:
        >>> from cxc_eccv.comparison.published import eccv_caption_table
        >>> table = eccv_caption_table()
        >>> table.scores_of("eccv_caption/i2t/map_at_r")["BLIP"], table.printed_in
        (0.3602, 'Tables D.2 and D.3; PMRP from Table 4')
    """

    name: str
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
        """Model to value under one metric; only the models that have it.

        Raises:
            UnknownName: no model of the table has this metric.
        """
        found = {score.model: score.value for score in self.scores if score.key == key}
        if not found:
            raise UnknownName(f"metric of the {self.title} table", key, self.keys)
        return found


def packaged_rows(file_name: str) -> list[dict[str, str]]:
    """Rows of a packaged CSV file, the figures as printed.

    Example:
        >>> packaged_rows("cxc_correlation.csv")[0]["sts_mean"]
        '55.1'
    """
    return list(csv.DictReader((FOLDER / file_name).read_text(encoding="utf-8").splitlines()))


def source_of(name: str) -> Mapping[str, Any]:
    """Title, citation, url and place of print of one table.

    Example:
        >>> source_of("cxc")["url"]
        'https://arxiv.org/abs/2004.15020'
    """
    sources: dict[str, Any] = tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))
    if name not in sources:
        raise UnknownName("published table", name, sources)
    return dict(sources[name])


SUMMED_TASK = "coco_1k"
GUARD_DIGITS = 9
"""Means are rounded to these decimals: equal means of printed figures are to be equal as floats too."""


def both_directions(scores: Mapping[str, float]) -> dict[str, float]:
    """Means over ``i2t`` and ``t2i`` of every metric that has both, and RSUM of COCO 1K.

    ECCV Caption compares models by these means (Tables 4 and 5).

    Args:
        scores: key (``task/direction/metric``) to value.

    Returns:
        Key without direction (``task/metric``) to value.

    Example:
        >>> both_directions({"coco_5k/i2t/recall_at_1": 0.5, "coco_5k/t2i/recall_at_1": 0.25, "cxc/t2t/mrr": 0.5})
        {'coco_5k/recall_at_1': 0.375}
    """
    means = {}
    for key, value in scores.items():
        task, _, rest = key.partition("/i2t/")
        other = scores.get(f"{task}/t2i/{rest}")
        if rest and other is not None:
            means[f"{task}/{rest}"] = round((value + other) / 2, GUARD_DIGITS)
    recalls = [means.get(f"{SUMMED_TASK}/{label}") for label in SPEC.inputs]
    if None not in recalls:
        means[f"{SUMMED_TASK}/rsum"] = round(float(rsum(np.repeat(np.array(recalls, dtype=float), 2))), GUARD_DIGITS)
    return means
