"""Judged-only mAP@R, of the condensed list."""

from __future__ import annotations

from cxc_eccv.metrics.map_at_r import map_at_r
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.types import FloatArray, JudgedRanks


def judged_only_map_at_r(ranks: JudgedRanks) -> FloatArray:
    """mAP@R of the condensed list.

    Args:
        ranks: ranks of the judged items of Q queries.

    Returns:
        (Q,) values in [0, 1].

    References:
        Sakai, Alternatives to Bpref, SIGIR 2007; ``judged_only`` of ir_measures.

    Example:
        >>> judged_only_map_at_r(JudgedRanks.of([[(4, 1), (9, 0), (12, 2)]])).tolist()
        [0.5]
    """
    return map_at_r(ranks.judged_only)


SPEC = Spec(
    function=judged_only_map_at_r,
    title="mAP@R, judged only",
    needs="judged_ranks",
    citation="Sakai, SIGIR 2007, doi:10.1145/1277741.1277756; MacAvaney et al., ECIR 2022, arXiv:2111.13466",
)
