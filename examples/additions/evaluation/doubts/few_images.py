"""Whether there are too few images for narrow intervals."""

import numpy as np

from cxc_eccv.evaluation.doubts.doubt import Doubt, Evidence

FEWEST = 100


def few_images(evidence: Evidence) -> str | None:
    """Say how few images stand behind the queries of a direction."""
    counts = {direction: np.unique(images).size for direction, _, images in evidence.rankings()}
    few = [direction for direction, count in counts.items() if count < FEWEST]
    if not few:
        return None
    return f"{few[0]} has queries of {counts[few[0]]} images: intervals are wide. Score the whole split."


DOUBT = Doubt(few_images)
