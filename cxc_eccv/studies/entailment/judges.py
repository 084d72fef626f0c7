"""The judge that ``cxc-eccv evaluate --unjudged`` loads: a classifier of entailment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.cli.extras import check_model, needs_train_extra

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.judge import ClassifierJudge


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """Load a classifier from a folder or the Hub as a judge; ``images`` is the folder with the image files."""
    check_model(name, images)
    with needs_train_extra():
        from cxc_eccv.studies.entailment.judge import ClassifierJudge

        return ClassifierJudge(name, images, device=device)
