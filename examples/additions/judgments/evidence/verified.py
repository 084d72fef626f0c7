"""Verified: pairs of the test split, in a table with verdicts of people."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.judgments.evidence.source import Evidence, Source, Thresholds
from cxc_eccv.sources.columns import LABEL, WHOLE_NUMBER, read_columns
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL
from cxc_eccv.types.judgments import orient

FORMS = {"image_id": WHOLE_NUMBER, "caption_id": WHOLE_NUMBER, "positive": LABEL}


def read(path: Path) -> pa.Table:
    """The pairs with their verdicts."""
    return read_columns(path, "verified pairs", FORMS, *FORMS)


def evidence(split: Split, direction: str, thresholds: Thresholds) -> Evidence | None:
    """All pairs of the table, judged in both directions."""
    if split.name != "test" or direction not in CROSS_MODAL:
        return None
    images, captions, positive = (np.asarray(split.library.read("verified_pairs", read)[name]) for name in FORMS)
    return Evidence.of(*orient(images, captions, direction), positive.astype(bool))


SOURCE = Source(
    name="verified",
    title="verified",
    description="People's verdicts in a table, for the queries of its pairs. The pairs are of test.",
    order=35,
    rule=lambda direction, thresholds: "verified by people",
    evidence=evidence,
    groups=("verified",),
    yes="verified",
    no="rejected",
)
