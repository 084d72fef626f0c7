"""What the Markdown and the HTML report show, gathered once for both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from cxc_eccv.report.best_ranks import best_ranks
from cxc_eccv.report.caveats import Caveat, caveats, skipped_by_reason
from cxc_eccv.report.disagreement import COCO, Verdicts, verdicts
from cxc_eccv.report.example_cards import QueryCard, example_cards
from cxc_eccv.report.examples_table import reason_of
from cxc_eccv.report.origin import facts, files, modified, run_name
from cxc_eccv.report.rank_bins import RankBins, rank_bins
from cxc_eccv.report.recall_curves import CurvePanel, curve_panels
from cxc_eccv.report.score_tables import TaskScores, first_ranks, task_scores
from cxc_eccv.types import Report, Result

__all__ = ["ExampleGroup", "Page", "page_of"]

GROUPS = {
    "label_dependent": (
        "Most label-dependent",
        "A right item stands in the top ten, and the gap between its rank and the best rank under the original COCO "
        "links is largest: what COCO counts as an error, another label calls right.",
    ),
    "worst": (
        "Worst",
        "The best positive under all labels stands furthest down: no label excuses these.",
    ),
    "plain": (
        "Plain sample",
        "Spread evenly over the other queries, chosen without a look at their ranks.",
    ),
}
"""Group of shown queries to its title and how its queries were chosen."""


@dataclass(frozen=True, slots=True)
class ExampleGroup:
    """Shown queries of one direction that were chosen for the same reason."""

    direction: str
    title: str
    reason: str
    cards: tuple[QueryCard, ...]


@dataclass(frozen=True, slots=True)
class Page:
    """The content of a report.

    Attributes:
        name: of the model or its file; may be empty.
        split, edition: of the data.
        confidence: of the intervals, or None.
        scores: a card per task.
        first_ranks: recall at 1 of every task and direction that has it.
        panels: recall over k per task.
        bins: distribution of ranks per task and direction.
        verdicts: where the labels disagree, per direction and depth.
        examples: shown queries.
        no_examples: why there are none; empty where there are some.
        caveats: ties and coverage.
        skipped: reason and what was skipped for it.
        facts, files: origin of the numbers.
        modified: raw files that are not the catalog's, with the sha256 expected and found.
        by_coco: directions that COCO 5K ranks, so that a query has a best rank under the original links.
    """

    name: str
    split: str
    edition: str
    confidence: float | None
    scores: Sequence[TaskScores]
    first_ranks: Sequence[Result]
    panels: Sequence[CurvePanel]
    bins: Sequence[RankBins]
    verdicts: Mapping[str, Sequence[Verdicts]]
    examples: Sequence[ExampleGroup]
    no_examples: str
    caveats: Sequence[Caveat]
    skipped: Sequence[tuple[str, list[str]]]
    facts: Sequence[tuple[str, str]]
    files: Sequence[tuple[str, str]]
    modified: Sequence[tuple[str, str, str]]
    by_coco: Sequence[str]

    @property
    def cards(self) -> list[QueryCard]:
        """All shown queries."""
        return [card for group in self.examples for card in group.cards]


def page_of(report: Report, examples: pa.Table) -> Page:
    """Gather what there is to show.

    Args:
        report: its per-query values may be absent; what is drawn from them is then left out.
        examples: of :func:`cxc_eccv.report.examples.collect_examples`.

    Example:
        >>> from cxc_eccv.report.examples_table import no_examples
        >>> report = Report((Result("cxc", "t2t", "recall_at_1", 0.5, 2),), {}, {"split": "test"})
        >>> page = page_of(report, no_examples("none were kept"))
        >>> page.split, page.first_ranks[0].value, page.no_examples
        ('test', 0.5, 'none were kept')
    """
    ranks = best_ranks(report)
    found = verdicts(ranks)
    return Page(
        name=run_name(report),
        split=str(report.provenance.get("split", "")),
        edition=str((report.provenance.get("data") or {}).get("edition", "")),
        confidence=report.provenance.get("confidence", 0.95),
        scores=task_scores(report),
        first_ranks=first_ranks(report),
        panels=curve_panels(report, ranks),
        bins=rank_bins(ranks),
        verdicts={direction: list(rows) for direction, rows in groupby(found, key=lambda one: one.direction)},
        examples=_groups(example_cards(examples)),
        no_examples=reason_of(examples),
        caveats=caveats(report),
        skipped=skipped_by_reason(report),
        facts=facts(report),
        files=files(report),
        modified=modified(report),
        by_coco=[key.partition("/")[2] for key in ranks if key.startswith(f"{COCO}/")],
    )


def _groups(cards: Sequence[QueryCard]) -> list[ExampleGroup]:
    grouped = groupby(cards, key=lambda card: (card.direction, card.group))
    return [ExampleGroup(direction, *GROUPS[group], tuple(own)) for (direction, group), own in grouped]
