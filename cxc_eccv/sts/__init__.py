"""Semantic textual similarity (STS): correlates a text encoder's similarities with human scores."""

from cxc_eccv.sts.evaluation import FittedPerTask, evaluate_sts
from cxc_eccv.sts.results import StsReport

__all__ = ["FittedPerTask", "StsReport", "evaluate_sts"]
