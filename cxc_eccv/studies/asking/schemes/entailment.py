"""The multi-modal entailment paper's: two criteria, both of which must hold."""

from cxc_eccv.studies.asking.schemes.scheme import Scheme

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
    shows_captions=True,
    citation="Yan et al., Findings of ACL 2023, section 5",
)
