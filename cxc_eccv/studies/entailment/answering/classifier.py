"""A classifier trained by this package."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cxc_eccv.studies.entailment.answerer import Announced, Kind

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier


def announce(source: str | Path, *, images: bool, device: str | None, name: str | None) -> Announced:
    """Read the config of a classifier."""
    from transformers import AutoConfig

    from cxc_eccv.encoding.checkpoints import Origin, load_part
    from cxc_eccv.studies.entailment import scoring

    def load() -> Classifier:
        return scoring.load_classifier(source, device=device, name=name)

    config = load_part(AutoConfig, str(source), Origin(None))
    return Announced(
        name or (Path(source).name if Path(source).is_dir() else str(source)),
        load,
        float(config.threshold),
        bool(config.has_visual),
        getattr(config, "training_data", None),
        str(getattr(config, "_name_or_path", "")),
        getattr(config, "_commit_hash", None),
    )


KIND = Kind(
    "classifier",
    "a classifier trained with cxc-eccv train entailment-classifier",
    lambda _, config: config.get("model_type") == "cxc_eccv_entailment",
    announce,
)
