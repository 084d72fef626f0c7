"""Which metrics given rankings are deep enough for, and why the others are not."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.errors import RunTooShallow
from cxc_eccv.evaluation.plan import Variant
from cxc_eccv.ranking.lists.depth import values_at_known_depth
from cxc_eccv.ranking.lists.given import GivenRanks
from cxc_eccv.types import Judgments, PositiveRanks

__all__ = ["Ranks", "ranks_alone", "unsettled"]

Ranks = PositiveRanks | GivenRanks


def ranks_alone(ranks: Ranks) -> PositiveRanks:
    """The ranks without what is known of the depth of the rankings."""
    return ranks.ranks if isinstance(ranks, GivenRanks) else ranks


def unsettled(ranks: Ranks, judgments: Judgments, variants: Sequence[Variant]) -> dict[str, RunTooShallow]:
    """Label of each metric that the rankings end too early for, and the error that says where.

    In folds (COCO 1K) only whole rankings settle anything: how many items of its fold a shorter one holds is chance.

    Args:
        ranks: of a run; those of vectors and scores are always whole.
        judgments: what was ranked.
        variants: the metrics.

    Example:
        >>> from cxc_eccv.evaluation.plan import plan_of
        >>> from cxc_eccv.ranking.lists.given import given_ranks
        >>> from cxc_eccv.registry import task
        >>> given, qrels = given_ranks([[30, 10]], [[10]]), Judgments.from_pairs([0], [10, 20, 30], [0], [10])
        >>> list(unsettled(given, qrels, plan_of(task("coco_5k"), None).parts["i2t"]))
        ['recall_at_5', 'recall_at_10']
    """
    if not isinstance(ranks, GivenRanks):
        return {}
    if judgments.gallery_folds is not None and not ranks.complete.all():
        query = np.flatnonzero(~ranks.complete)[0]
        error = RunTooShallow(
            f"folds are cut out of rankings of the whole gallery, {judgments.gallery_ids.size} items; that of query "
            f"{judgments.query_ids[query]} holds {ranks.depths[query]} of the {ranks.ranks.n_gallery[query]} items of "
            "its fold. Rank the whole gallery."
        )
        return dict.fromkeys((variant.label for variant in variants), error)
    errors = {variant.label: _error(ranks, variant) for variant in variants}
    return {label: error for label, error in errors.items() if error is not None}


def _error(given: GivenRanks, variant: Variant) -> RunTooShallow | None:
    try:
        values_at_known_depth(variant.spec.function, given, **variant.parameters)
    except RunTooShallow as error:
        return error
    return None
