"""Rank correlations with human ratings to results."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cxc_eccv.errors import MalformedRun
from cxc_eccv.evaluation.bootstrap import interval
from cxc_eccv.evaluation.measured import Measured
from cxc_eccv.evaluation.plan import Variant
from cxc_eccv.evaluation.settings import Settings
from cxc_eccv.types import FloatArray, Result

__all__ = ["correlations"]


def correlations(measured: Measured, settings: Settings) -> tuple[list[Result], dict[str, str]]:
    """Results of one kind of rated pairs, and why some are lacking.

    A metric that gives samples is reported as their mean, with the percentile interval of the samples, and as their
    standard deviation (ddof 0) under its name and ``_std``. A model whose similarities are all equal has no rank
    correlation.

    Args:
        measured: with rated pairs and similarities.
        settings: seed, and confidence of the intervals.
    """
    results: list[Result] = []
    reasons: dict[str, str] = {}
    for variant in measured.request.variants:
        options = variant.spec.accepted({"seed": settings.seed})
        try:
            values = variant.spec.function(*measured.inputs[variant.label], **variant.parameters, **options)
        except MalformedRun as error:
            reasons[f"{measured.request.key}/{variant.label}"] = str(error)
        else:
            results += _results(measured, variant, values, settings)
    return results, reasons


def _results(measured: Measured, variant: Variant, values: FloatArray, settings: Settings) -> list[Result]:
    request = measured.request
    n_queries = int(np.unique(measured.inputs[variant.label][0].query_ids).size)
    parameters = dict(variant.parameters) | ({"n_samples": values.size} if values.ndim else {})
    row = Result(request.task.name, request.part, variant.label, float(values.mean()), n_queries, parameters=parameters)
    if not values.ndim:
        return [row]
    low, high = (None, None) if settings.level is None else interval(values, settings.level)
    spread = replace(row, metric=f"{variant.label}_std", value=float(values.std()))
    return [replace(row, low=low, high=high), spread]
