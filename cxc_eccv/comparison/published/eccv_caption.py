"""The 25 models of ECCV Caption's Tables 4, D.2 and D.3."""

from __future__ import annotations

from functools import cache

from cxc_eccv.comparison.published.table import (
    PublishedScore,
    PublishedTable,
    both_directions,
    packaged_rows,
    source_of,
)

__all__ = ["HEADLINES", "eccv_caption_table"]

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

DECIMALS = 4
NO_FIGURES = ("model", "group", "direction", "pmrp_as_printed")
"""Columns of Tables D.2 and D.3 that give no score: their PMRP contradicts Table 4 for 11 of the models."""


@cache
def eccv_caption_table() -> PublishedTable:
    """Scores of 25 models on COCO, CxC and ECCV Caption, per direction and over both.

    Per direction the figures of Tables D.2 (image to text) and D.3; over both directions their means, and RSUM as the
    sum of the COCO 1K recalls (Table 4 prints it to one decimal). PMRP is Table 4's alone: the mean of both
    directions, with zeta 0 and R cut to 50. The PMRP columns of D.2 and D.3 are packaged as printed but not used,
    because their mean disagrees with Table 4 for the last two groups of models, by up to 12 points.

    Example:
        >>> table = eccv_caption_table()
        >>> table.scores_of("coco_1k/rsum")["VSE0"], table.scores_of("plausible_match/pmrp_at_50")["VSE0"]
        (418.87, 0.4695)
    """
    per_direction = [score for row in packaged_rows("eccv_caption_models.csv") for score in _scores(row)]
    pmrp = [
        PublishedScore(row["model"], row["group"], HEADLINES[-1], _fraction(row["pmrp"]))
        for row in packaged_rows("eccv_caption_models_table4.csv")
    ]
    means = [
        PublishedScore(one.model, one.group, key, value)
        for one in pmrp
        for key, value in both_directions({s.key: s.value for s in per_direction if s.model == one.model}).items()
    ]
    headlines = sorted((*means, *pmrp), key=lambda score: HEADLINES.index(score.key))
    return PublishedTable(
        "eccv_caption", **source_of("eccv_caption"), decimals=DECIMALS, scores=(*headlines, *per_direction)
    )


def _scores(row: dict[str, str]) -> list[PublishedScore]:
    columns = [column.split("/") for column in row if column not in NO_FIGURES]
    return [
        PublishedScore(
            row["model"], row["group"], f"{task}/{row['direction']}/{metric}", _fraction(row[f"{task}/{metric}"])
        )
        for task, metric in columns
    ]


def _fraction(percent: str) -> float:
    return round(float(percent) / 100, DECIMALS)
