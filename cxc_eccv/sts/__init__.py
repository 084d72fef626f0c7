"""Semantic textual similarity: how well a text encoder's cosines agree with people, on sentences of many kinds."""

from cxc_eccv.sts.evaluation import FittedPerTask, evaluate_sts
from cxc_eccv.sts.results import StsReport

__all__ = ["FittedPerTask", "StsReport", "evaluate_sts"]
