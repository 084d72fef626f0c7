"""Judges of what nobody judged, for ``cxc-eccv evaluate --unjudged``: the classifier that a folder or Hub id holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.cli.extras import check_model, needs_train_extra

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.judge import ClassifierJudge


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """Load the judge of this name: a classifier's folder or Hub id; ``images`` is the folder that it looks into."""
    check_model(name, images)
    with needs_train_extra():
        from cxc_eccv.studies.entailment.judge import ClassifierJudge

        return ClassifierJudge(name, images, device=device)
