"""A declaration that is incomplete or wrong for its kind of metric is refused where it is made."""

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman
from cxc_eccv.metrics.bpref import bpref
from cxc_eccv.metrics.graded_r_precision import expect, graded_r_precision
from cxc_eccv.metrics.graded_recall_at_k import graded_recall_at_k
from cxc_eccv.metrics.kendall_tau_b import sample_tau_b
from cxc_eccv.metrics.kinds import (
    BestRank,
    FailureMetric,
    JudgedMetric,
    PlausibleMetric,
    RankMetric,
    RatedMetric,
    SumOver,
    TopMetric,
    WholeMetric,
)
from cxc_eccv.metrics.median_rank import SPEC as MEDIAN_RANK
from cxc_eccv.metrics.mrr import mrr
from cxc_eccv.metrics.non_common_similarity import non_common_similarity
from cxc_eccv.metrics.pmrp import pmrp
from cxc_eccv.metrics.recall_at_k import recall_at_k
from cxc_eccv.metrics.rsum import rsum

CITED = {"citation": "Author, venue, year"}
AT_K = {"parameters": {"k": (1, 5)}}
BY_BEST = {"depends_on": BestRank(), **CITED}


def add_nothing(order, ranks, n_positives):
    return np.zeros(ranks.size)


def expect_nothing(top, judgments, k):
    return np.zeros(1)


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"unit": "ranks"}, UnknownName, "did you mean 'rank'"),
        ({"bounds": (1.0, None)}, InvalidOption, "unit 'percent' is for values of at most 1"),
        ({"bounds": (0.0, 600.0), "unit": "correlation"}, InvalidOption, "declare unit='rank' or unit='number'"),
        ({**AT_K}, InvalidOption, "must be those of its parameters: {k}"),
        ({"title": "MRR@{k}"}, InvalidOption, "must be those of its parameters: none"),
        ({"title": "MRR@{k}", **AT_K}, InvalidOption, "its function takes no argument 'k'"),
        ({"citation": ""}, InvalidOption, "citation is empty"),
        ({"aggregate": "mode"}, UnknownName, "aggregate of metric mrr"),
        ({"depends_on": SumOver(add_nothing), "aggregate": "median"}, InvalidOption, "median of sums is unknown"),
    ],
)
def test_rank_metric_declared_wrongly_is_refused(wrong, error, words):
    with pytest.raises(error, match=words):
        RankMetric(mrr, **({"title": "MRR", **BY_BEST} | wrong))


@pytest.mark.parametrize(
    ("declare", "error", "words"),
    [
        (lambda: RankMetric(mrr, "MRR", **CITED), TypeError, "depends_on"),
        (
            lambda: RankMetric(recall_at_k, "R@{k}", depends_on=SumOver(add_nothing), **AT_K, **CITED),
            InvalidOption,
            "its term takes no argument 'k'",
        ),
        (lambda: JudgedMetric(bpref, "bpref", judged_only=True, **CITED), InvalidOption, "no argument 'judged_only'"),
        (lambda: TopMetric(graded_r_precision, "g", gains="degrees", **CITED), TypeError, "expected"),
        (
            lambda: TopMetric(graded_r_precision, "g", gains="degree", expected=expect, **CITED),
            UnknownName,
            "did you mean 'degrees'",
        ),
        (
            lambda: TopMetric(graded_recall_at_k, "g@{k}", gains="degrees", expected=expect, **AT_K, **CITED),
            InvalidOption,
            "its expected takes no argument 'k'",
        ),
        (
            lambda: TopMetric(graded_recall_at_k, "g@{k}", gains="labels", expected=expect_nothing, **AT_K, **CITED),
            InvalidOption,
            "its expected takes no argument 'probabilities'",
        ),
        (lambda: PlausibleMetric(pmrp, "PMRP", criteria=(), **CITED), InvalidOption, "criteria is empty"),
        (
            lambda: RatedMetric(bootstrap_spearman, "rho", samples=sample_tau_b, **CITED),
            InvalidOption,
            "draws samples itself",
        ),
        (
            lambda: WholeMetric(rsum, "RSUM", of=MEDIAN_RANK, unit="rank", **CITED),
            InvalidOption,
            "median_rank is a median; sum up a mean",
        ),
        (
            lambda: FailureMetric(non_common_similarity, "NCS", of_areas=True, **CITED),
            InvalidOption,
            "areas or similarities of concepts, not both",
        ),
    ],
)
def test_metric_incomplete_for_its_kind_is_refused(declare, error, words):
    with pytest.raises(error, match=words):
        declare()
