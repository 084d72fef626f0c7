"""Whether rankings end within a tie that scores rest on."""

from __future__ import annotations

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence


def cut_rankings(evidence: Evidence) -> str | None:
    """Say how many rankings leave out items that may tie with those that scores rest on."""
    numbers: dict[str, tuple[int, int]] = {}
    for part in evidence.measured:
        for result in part.results:
            if result.n_cut:
                numbers[part.part.key] = result.n_cut, result.metric_input.query_ids.size
    if not numbers:
        return None
    key, (number, total) = max(numbers.items(), key=lambda item: item[1][0] / item[1][1])
    return (
        f"{key}: {number:,} of {total:,} rankings end within a tie that the scores depend on. Items that they leave "
        "out may tie too, so the scores may be too high. Rank more items."
    )


DOUBT = Doubt(cut_rankings)
