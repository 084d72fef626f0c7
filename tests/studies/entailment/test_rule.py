"""The rule that weak positives are mined by: fitted as a logistic regression is, calibrated for lists."""

import numpy as np
import pytest

from cxc_eccv.errors import DataError
from cxc_eccv.studies.entailment.measures import average_precision, choose_threshold, fit_logistic, precision_of_best
from cxc_eccv.studies.entailment.mining_rule import fit_rule, table_of_rule
from cxc_eccv.tables import tables_to_markdown


def lists_of(images=40, depth=60, seed=0, weights=(0.7, 1.3, 0.3)):
    """Probabilities, ranks, labels and images of whole lists, where the truth follows a known rule."""
    random = np.random.default_rng(seed)
    logits, ranks = random.normal(0.5, 2, images * depth), np.tile(np.arange(1, depth + 1), images)
    odds = weights[0] * logits - weights[1] * np.log(ranks) + weights[2]
    labels = (random.random(odds.size) < 1 / (1 + np.exp(-odds))).astype(int)
    return 1 / (1 + np.exp(-logits)), ranks, labels, np.repeat(np.arange(images), depth)


@pytest.fixture(scope="module")
def lists():
    return lists_of()


def test_the_rule_finds_the_weights_that_made_the_labels(lists):
    rule = fit_rule(*lists_of(images=400)).rule
    assert (rule.logit, rule.log_rank, rule.offset) == pytest.approx((0.7, 1.3, 0.3), abs=0.12)
    fitted = fit_rule(*lists)
    precisions = dict(fitted.average_precision)
    assert precisions.pop("both") > max(precisions.values()) + 0.1
    assert fitted.kept_precision["both"] > fitted.kept_precision["rank"] > fitted.kept_precision["classifier"]


def test_probabilities_mean_the_share_of_lists(lists):
    scores, ranks, labels, _ = lists
    rule = fit_rule(*lists).rule
    assert rule.probabilities(scores, ranks).mean() == pytest.approx(labels.mean(), abs=0.005)
    # Labelled pairs that were chosen by their labels have another share; given the lists', the rule is the same.
    few = labels.astype(bool) | (np.random.default_rng(1).random(labels.size) < labels.mean())
    chosen = fit_rule(*(column[few] for column in lists), share=labels.mean(), precision=0.5)
    assert labels[few].mean() > 0.4
    assert chosen.rule.probabilities(scores, ranks).mean() == pytest.approx(labels.mean(), abs=0.01)
    kept = chosen.rule.probabilities(scores, ranks) >= chosen.threshold
    assert labels[kept].mean() == pytest.approx(0.5, abs=0.06)


def test_each_pair_is_judged_by_a_rule_of_other_images():
    scores, ranks, labels, images = lists_of(images=10, depth=5)
    labels = np.random.default_rng(3).integers(0, 2, labels.size)  # nothing to learn
    fitted = fit_rule(scores, ranks, labels, images)
    whole = average_precision(labels, fitted.rule.probabilities(scores, ranks))
    assert fitted.average_precision["both"] < whole


def test_a_weight_is_never_below_0(lists):
    scores, ranks, labels, images = lists
    upside_down = fit_rule(1 - scores, ranks, labels, images).rule
    assert upside_down.logit == 0 < upside_down.log_rank
    with pytest.raises(DataError, match="neither higher probabilities nor better ranks"):
        fit_rule(1 - scores, 61 - ranks, labels, images)


def test_a_certain_classifier_has_a_finite_logit():
    rule = fit_rule([1, 0, 1, 0, 0.9, 0.1], [1, 2, 1, 2, 3, 3], [1, 0, 1, 0, 1, 0], [1, 1, 2, 2, 3, 3]).rule
    assert np.isfinite(rule.probabilities([0, 1], [1, 1])).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ranks": np.ones(2400)}, "the rank is the same for all 2400 labelled pairs"),
        ({"scores": np.full(2400, 0.3)}, "the probability of the classifier is the same"),
        ({"labels": np.ones(2400, int)}, "all 2400 pairs are labelled 1"),
        ({"images": np.zeros(2400)}, "^1 of 1 labelled images"),
        ({"labels": np.zeros(2400, int)}, "none of 2,400 pairs is labelled 1|^0 of 40 labelled images"),
    ],
)
def test_labels_that_allow_no_rule_are_refused(lists, change, message):
    names = ("scores", "ranks", "labels", "images")
    with pytest.raises(DataError, match=message):
        fit_rule(**(dict(zip(names, lists, strict=True)) | change))


def test_average_precision_and_the_best_pairs_share_ties_and_shares():
    metrics = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    random = np.random.default_rng(0)
    labels, scores = random.integers(0, 2, 200), random.integers(0, 20, 200)
    assert average_precision(labels, scores) == pytest.approx(metrics.average_precision_score(labels, scores))
    drawn = [labels[np.lexsort([random.random(200), -scores])[:37]].mean() for _ in range(4000)]
    assert precision_of_best(labels, scores, 37) == pytest.approx(np.mean(drawn), abs=0.005)
    # A share of 10% is that of labels among which every negative stands 9 times as often.
    often = np.where(labels == 1, 1, 9 * labels.sum() / (200 - labels.sum()))
    weighted = metrics.average_precision_score(labels, scores, sample_weight=often)
    assert average_precision(labels, scores, share=0.1) == pytest.approx(weighted)
    assert choose_threshold([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0], precision=0.6) == 0.7
    assert choose_threshold([0.9, 0.8, 0.7, 0.1], [1, 0, 1, 0], precision=0.6, share=0.1) == 0.9


def test_two_features_are_fitted_as_scikit_learn_fits_them(lists):
    linear = pytest.importorskip("sklearn.linear_model", reason="scikit-learn is not installed")
    scores, ranks, labels, _ = lists
    features = [np.log(scores / (1 - scores)), -np.log(ranks)]
    expected = linear.LogisticRegression(C=np.inf, tol=1e-10).fit(np.stack(features, axis=1), labels)
    weights, offset = fit_logistic(features, labels)
    # Platt's targets are not quite 0 and 1.
    assert [*weights, offset] == pytest.approx([*expected.coef_[0], *expected.intercept_], abs=0.02)


def test_the_table_tells_the_rank_alone_beside_the_rule(lists):
    for threshold in (None, 1.0):
        fitted = fit_rule(*lists, threshold=threshold)
        shown = tables_to_markdown([table_of_rule(fitted.facts() | {"labelled": "pairs.csv"})])
        assert "Rule fitted on pairs.csv" in shown
        assert f"| Rank alone | {100 * fitted.average_precision['rank']:.1f} |" in shown
        assert f"Precision of the best {fitted.kept:,}" in shown
