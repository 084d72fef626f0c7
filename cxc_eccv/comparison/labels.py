"""How tasks, metrics and values are written for people."""

from __future__ import annotations

__all__ = ["metric_name", "shown_value", "task_name"]

TASKS = {
    "co_captions": "co-captions",
    "coco_1k": "COCO 1K",
    "coco_5k": "COCO 5K",
    "cxc": "CxC",
    "cxc_rated": "CxC rated",
    "eccv_caption": "ECCV Caption",
    "flickr8k": "Flickr8k",
    "flickr30k": "Flickr30k",
    "plausible_match": "plausible match",
}
METRICS = {
    "map_at_r": "mAP@R",
    "r_precision": "R-Precision",
    "rsum": "RSUM",
    "mrr": "MRR",
    "bootstrap_spearman": "Spearman",
    "bootstrap_spearman_std": "std of samples",
    "pmrp": "PMRP",
}
STEMS = {"recall_at_": "R@", "mrr_at_": "MRR@", "ndcg_at_": "nDCG@", "pmrp_at_": "PMRP@", "entail_at_": "Entail@"}
PLAIN_NUMBERS = ("median_rank", "mean_rank", "rsum")


def task_name(task: str) -> str:
    """The name papers use.

    Example:
        >>> task_name("coco_1k"), task_name("entailment")
        ('COCO 1K', 'entailment')
    """
    return TASKS.get(task, task.replace("_", " "))


def metric_name(label: str) -> str:
    """The name papers use.

    Example:
        >>> metric_name("recall_at_10"), metric_name("map_at_r"), metric_name("median_rank")
        ('R@10', 'mAP@R', 'median rank')
    """
    for stem, name in STEMS.items():
        if label.startswith(stem):
            return name + label.removeprefix(stem)
    return METRICS.get(label, label.replace("_", " "))


def shown_value(metric: str, value: float, form: str = ".1f") -> str:
    """Fractions in percent; ranks and RSUM as they are.

    Args:
        metric: label of the metric.
        value: in the units of a report.
        form: format specification, for example ``+.1f``.

    Example:
        >>> shown_value("recall_at_1", 0.4174), shown_value("median_rank", 2.5, "+.1f")
        ('41.7', '+2.5')
    """
    return format(value if metric in PLAIN_NUMBERS else 100 * value, form)
