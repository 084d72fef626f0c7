"""The multi-modal entailment paper's scheme: two criteria, both of which must hold."""

from collections.abc import Mapping
from typing import Any

from cxc_eccv.studies.asking.schemes.scheme import CAPTIONS, IMAGE, SENTENCE, Scheme

BOTH = ("describes", "follows")
JUDGED = {"": None, "0": dict.fromkeys(BOTH, False), "1": dict.fromkeys(BOTH, True)}


def read_older(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row with a ``label`` of 0 or 1, which older versions of ``cxc-eccv entailment export`` wrote."""
    label = "" if row["label"] is None else str(row["label"]).strip()
    return {"worker": "1", "answer": JUDGED.get(label, label), "caption": row["hypothesis"]}


SCHEME = Scheme(
    name="entailment",
    title="Does the image with its captions entail the sentence?",
    question="Do both of these hold?",
    instructions=("You see an image with the captions that were written for it, and a further sentence.",),
    criteria={
        "describes": "The sentence clearly describes the content of the image, without ambiguity.",
        "follows": "The sentence can be inferred from the captions, and does not contradict them all.",
    },
    positive=1.0,
    shows=(IMAGE, CAPTIONS, SENTENCE),
    rated_gold=(5.0, 0.0),
    older=(("pair_id", "hypothesis", "hypothesis_id", "label"), read_older),
    citation="Yan et al., Findings of ACL 2023, section 5",
)
