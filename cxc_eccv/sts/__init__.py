"""Semantic textual similarity (STS): correlates a text encoder's similarities with human scores."""

from cxc_eccv.sts.evaluate import FittedPerTask, evaluate_sts
from cxc_eccv.sts.sentence_sets import task_names, task_texts
from cxc_eccv.sts.sts_report import StsReport, list_notes, list_tables, to_json, to_markdown

__all__ = [
    "FittedPerTask",
    "StsReport",
    "evaluate_sts",
    "list_notes",
    "list_tables",
    "task_names",
    "task_texts",
    "to_json",
    "to_markdown",
]
