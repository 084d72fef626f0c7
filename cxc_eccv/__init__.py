"""Crisscrossed Captions, ECCV Caption and entailment labels as one dataset, with exact retrieval metrics.

::

    import cxc_eccv as ce

    pairs = ce.load("sits", split="test")                    # a datasets.Dataset
    report = ce.evaluate("clip.npz")                         # every task the file allows
    report = ce.evaluate(i2t={5: {7: 0.3}}, t2i={7: {5: 0.3}})    # scores of a model, or ranked lists
    print(report)                                            # a table per task
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cxc_eccv.lazy import import_on_first_use
from cxc_eccv.version import __version__ as __version__

__all__ = [
    "Library",
    "MultiPositiveCollator",
    "attach_images",
    "build_folder",
    "collect_positives",
    "compare",
    "evaluate",
    "evaluate_model",
    "load",
    "load_embeddings",
    "load_report",
    "load_reports",
    "load_run",
    "metric",
    "multi_positive_loss",
    "save_embeddings",
]

HOMES = {
    "Library": "cxc_eccv.sources.library",
    "MultiPositiveCollator": "cxc_eccv.training.contrastive",
    "attach_images": "cxc_eccv.builders.image_columns",
    "build_folder": "cxc_eccv.builders.folder_writing",
    "collect_positives": "cxc_eccv.training.contrastive",
    "compare": "cxc_eccv.comparison",
    "evaluate": "cxc_eccv.evaluation",
    "evaluate_model": "cxc_eccv.encoding.evaluate_model",
    "load": "cxc_eccv.builders.load",
    "load_embeddings": "cxc_eccv.runs",
    "load_report": "cxc_eccv.report.loading",
    "load_reports": "cxc_eccv.comparison",
    "load_run": "cxc_eccv.runs",
    "metric": "cxc_eccv.evaluate_modules",
    "multi_positive_loss": "cxc_eccv.training.contrastive",
    "save_embeddings": "cxc_eccv.runs",
}
"""Name to its module; imported on first use, so that ``import cxc_eccv`` is quick."""

if TYPE_CHECKING:
    from cxc_eccv.builders.folder_writing import build_folder
    from cxc_eccv.builders.image_columns import attach_images
    from cxc_eccv.builders.load import load
    from cxc_eccv.comparison import compare, load_reports
    from cxc_eccv.encoding.evaluate_model import evaluate_model
    from cxc_eccv.evaluate_modules import metric
    from cxc_eccv.evaluation import evaluate
    from cxc_eccv.report.loading import load_report
    from cxc_eccv.runs import load_embeddings, load_run, save_embeddings
    from cxc_eccv.sources.library import Library
    from cxc_eccv.training.contrastive import MultiPositiveCollator, collect_positives, multi_positive_loss


__getattr__ = import_on_first_use(__name__, HOMES)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
