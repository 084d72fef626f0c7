"""Tables of published models with their citations, and the agreement of their metrics."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from importlib import resources
from operator import itemgetter
from typing import Any

import numpy as np

from cxc_eccv.errors import DataError, UnknownName
from cxc_eccv.metrics.rsum import SPEC, rsum
from cxc_eccv.statistics.agreement import GUARD_DIGITS, order_signs, tau_b
from cxc_eccv.types import CROSS_MODAL, FloatArray
from cxc_eccv.types.result import SPREAD
from cxc_eccv.wording import unit_of

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
    names = ("cxc", "open_clip", "pcme_plus_plus", "char_gru", "entailment")
    return eccv_caption_table(), *map(printed_table, names)


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
    decimals = _read_facts("eccv_caption")["decimals"]
    per_direction = [
        PublishedScore(row["model"], f"{task}/{row['direction']}/{metric}", _fraction(printed, decimals))
        for row in packaged_rows("eccv_caption_models.csv")
        for column, printed in row.items()
        if column not in NO_FIGURES
        for task, metric in [column.split("/")]
    ]
    pmrp = [
        PublishedScore(row["model"], HEADLINES[-1], _fraction(row["pmrp"], decimals))
        for row in packaged_rows("eccv_caption_models_table4.csv")
    ]
    means = []
    for model in (score.model for score in pmrp):
        printed = {score.key: score.value for score in per_direction if score.model == model}
        of_model = both_directions(printed, printed_decimals=decimals)
        means += [PublishedScore(model, key, value) for key, value in of_model.items()]
    headlines = sorted((*means, *pmrp), key=lambda score: HEADLINES.index(score.key))
    return _table("eccv_caption", (*headlines, *per_direction))


@cache
def printed_table(name: str) -> PublishedTable:
    """A table whose file has a row per model and a column per key; ``sources.toml`` says what its figures are."""
    return _table(name, _read_scores(f"{name}_models.csv", _read_facts(name)["decimals"]))


def _read_scores(file_name: str, decimals: int) -> Iterator[PublishedScore]:
    """Scores of a file with a row per model and a column per key, and perhaps one with the key's deviations."""
    rows = packaged_rows(file_name)
    for key in (column for column in rows[0] if column != "model" and not column.endswith(SPREAD)):
        for row in filter(itemgetter(key), rows):
            value = _fraction(row[key], decimals) if is_fraction(key) else float(row[key])
            spread = row.get(f"{key}{SPREAD}")
            yield PublishedScore(row["model"], key, value, _fraction(spread, decimals) if spread else None)


def packaged_rows(file_name: str) -> list[dict[str, str]]:
    """Rows of a packaged CSV file, as printed."""
    return list(csv.DictReader((FOLDER / file_name).read_text(encoding="utf-8").splitlines()))


def _fraction(percent: str, decimals: int) -> float:
    return round(float(percent) / 100, decimals)


def is_fraction(key: str) -> bool:
    """Whether a report gives the metric as a fraction, where papers print percent."""
    return unit_of(key.rpartition("/")[2]) in ("percent", "correlation")


def _table(name: str, scores: Iterable[PublishedScore]) -> PublishedTable:
    return PublishedTable(name, **_read_facts(name), scores=tuple(scores))


def _read_facts(name: str) -> dict[str, Any]:
    facts: dict[str, Any] = tomllib.loads((FOLDER / "sources.toml").read_text(encoding="utf-8"))[name]
    return facts


def both_directions(scores: Mapping[str, float], *, printed_decimals: int | None = None) -> dict[str, float]:
    """Means over ``i2t`` and ``t2i`` of every metric with both, and RSUM of COCO 1K, under keys without direction.

    Means of printed figures are rounded to ``printed_decimals`` as papers round them: in decimal arithmetic, half up.
    """
    means = {}
    for key, value in scores.items():
        task, _, rest = key.partition("/i2t/")
        other = scores.get(f"{task}/t2i/{rest}")
        if rest and other is not None:
            if printed_decimals is None:
                means[f"{task}/{rest}"] = round((value + other) / 2, GUARD_DIGITS)
            else:
                means[f"{task}/{rest}"] = _average_printed(value, other, printed_decimals)
    recalls = [scores.get(f"coco_1k/{direction}/{label}") for direction in CROSS_MODAL for label in SPEC.inputs]
    if None not in recalls:
        means["coco_1k/rsum"] = round(float(rsum(np.array(recalls, dtype=float))), GUARD_DIGITS)
    return means


def _average_printed(value: float, other: float, decimals: int) -> float:
    """The mean of two printed figures, to as many decimals; half of the last decimal is rounded up."""
    mean = (Decimal(str(value)) + Decimal(str(other))) / 2
    return float(mean.quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP))


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Kendall's tau-b (M, M) between metrics, over the models that they rank."""

    metrics: tuple[str, ...]
    models: tuple[str, ...]
    tau: FloatArray

    def between(self, metric: str, other: str) -> float:
        """Tau-b between two metrics."""
        return float(self.tau[self.metrics.index(metric), self.metrics.index(other)])


def metric_agreement(scores: Mapping[str, Mapping[str, float]], *, lower_is_better: Collection[str] = ()) -> Agreement:
    """Kendall's tau-b between the orders of models under several metrics.

    Args:
        scores: metric to model to value; every metric has the same models.
        lower_is_better: metrics whose smaller values are better, for example ranks.

    Raises:
        DataError: there is no metric, metrics differ in their models, there are fewer than 3 models, a value is not
            finite, or all models tie under a metric.

    References:
        Kendall, The treatment of ties in ranking problems, Biometrika 1945; Chun et al., ECCV 2022, Table 5.

    Example:
        >>> agreement = metric_agreement({"a": {"x": 1, "y": 2, "z": 3}, "b": {"x": 1, "y": 3, "z": 2}})
        >>> round(agreement.between("a", "b"), 4)
        0.3333
    """
    if not scores:
        raise DataError("there is no metric to correlate")
    metrics = tuple(scores)
    models = tuple(next(iter(scores.values()), ()))
    values = {}
    for metric, of_model in scores.items():
        if set(of_model) != set(models):
            odd = ", ".join(sorted(set(of_model) ^ set(models)))
            raise DataError(f"{metric} and {metrics[0]} rank different models: only one of the two has {odd}")
        if len(models) < 3:
            raise DataError(f"{metric} ranks {len(models)} models; a rank correlation needs at least 3")
        if not np.isfinite(list(of_model.values())).all():
            raise DataError(f"{metric}: a value is not finite")
        if len(set(of_model.values())) == 1:
            raise DataError(f"all models tie under {metric}, so there is no order to correlate")
        sign = -1.0 if metric in lower_is_better else 1.0
        values[metric] = sign * np.array([of_model[model] for model in models], dtype=float)
    signs = [order_signs(values[metric][:, np.newaxis]) for metric in metrics]
    tau = np.array([[tau_b(one, other)[0] for other in signs] for one in signs])
    return Agreement(metrics, models, tau)


def published_agreement() -> Agreement:
    """The agreement of 12 metrics over the 25 models of ECCV Caption: Table 5, computed from the paper's other tables.

    Equal to the printed table to two decimals except for PMRP with COCO 1K R@1, R@10, RSUM and ECCV Caption R@1, which
    are printed 0.01 higher. Table 4 prints the same PMRP, 57.65, for PCME (CutMix) and VSE infinity (WSL grid); tau-b
    counts them as tied. With VSE infinity above PCME all 66 entries are the printed ones.

    Example:
        >>> agreement = published_agreement()
        >>> round(agreement.between("coco_5k/recall_at_1", "eccv_caption/map_at_r"), 2)
        0.39
    """
    table = eccv_caption_table()
    return metric_agreement({key: table.scores_of(key) for key in HEADLINES})
