"""Semantic textual similarity (STS): correlates a text encoder's similarities with human scores."""

from cxc_eccv.sts.evaluate import FittedPerTask, evaluate_sts
from cxc_eccv.sts.sentence_sets import task_names, task_texts
from cxc_eccv.sts.sts_report import StsReport

__all__ = [
    "FittedPerTask",
    "StsReport",
    "evaluate_sts",
    "task_names",
    "task_texts",
]
