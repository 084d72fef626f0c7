"""Queries with what was retrieved for them."""

from cxc_eccv.report.examples.cards import QueryCard, example_cards, shown_files, thumbnails
from cxc_eccv.report.examples.disagreement import COCO, Verdicts, finding, verdicts
from cxc_eccv.report.examples.examples import collect_examples
from cxc_eccv.report.examples.table import LEAST_SCHEMA, SCHEMA, no_examples, reason_of, with_every_source

__all__ = [
    "COCO",
    "LEAST_SCHEMA",
    "SCHEMA",
    "QueryCard",
    "Verdicts",
    "collect_examples",
    "example_cards",
    "finding",
    "no_examples",
    "reason_of",
    "shown_files",
    "thumbnails",
    "verdicts",
    "with_every_source",
]
