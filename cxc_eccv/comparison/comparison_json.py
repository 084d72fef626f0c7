"""compare.json: a comparison and placements as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from cxc_eccv.comparison.paired import Comparison
from cxc_eccv.comparison.published import Agreement, Placement, PublishedTable

__all__ = ["comparison_to_json"]

SCHEMA = 1
P_VALUE = "two-sided: 2 (1 + min(samples <= 0, samples >= 0)) / (samples + 1), at most 1"
RESAMPLED = "images with all their queries, with replacement, the same draws for both models"


def comparison_to_json(
    comparison: Comparison | None,
    placements: Sequence[Placement] = (),
    tables: Sequence[PublishedTable] = (),
    agreement: Agreement | None = None,
) -> str:
    """The text of ``compare.json``; values are in the units of report.json.

    Args:
        comparison: of two reports or more, or None.
        placements: of models among published ones.
        tables: where the published figures are from.
        agreement: rank correlations between metrics over the published models.

    Example:
        >>> json.loads(comparison_to_json(None))
        {'schema': 1}
    """
    content: dict[str, Any] = {"schema": SCHEMA}
    if comparison is not None:
        content |= _compared(comparison)
    if tables:
        content["published"] = {
            "sources": [{name: getattr(table, name) for name in ("name", "citation", "url")} for table in tables],
            "placements": [asdict(one) for one in placements],
        }
    if agreement is not None:
        content["published"]["agreement"] = {
            "statistic": "Kendall tau-b",
            "metrics": agreement.metrics,
            "models": len(agreement.models),
            "tau": agreement.tau.tolist(),
        }
    return json.dumps(content, indent=2, allow_nan=False) + "\n"


def _compared(comparison: Comparison) -> dict[str, Any]:
    return {
        "baseline": comparison.baseline,
        "models": comparison.models,
        "settings": {
            **asdict(comparison.settings),
            "resampled": RESAMPLED,
            "interval": "percentile",
            "p_value": P_VALUE,
            "correction": "Holm",
            "tests": len(comparison.differences),
        },
        "differences": [
            {"key": one.key, **asdict(one), "significant": comparison.significant(one)}
            for one in comparison.differences
        ],
        "not_compared": comparison.not_compared,
        "notes": comparison.notes,
    }
