"""Crisscrossed Captions' STS: how similar two sentences are in meaning."""

from dataclasses import replace

from cxc_eccv.studies.asking.schemes.cxc import SCHEME as SITS
from cxc_eccv.studies.asking.schemes.cxc import TIPS
from cxc_eccv.studies.asking.schemes.scheme import Part

SCHEME = replace(
    SITS,
    name="cxc_captions",
    title="How similar are the two sentences?",
    question="How similar are the two sentences in meaning?",
    instructions=(*TIPS, "Judge the meaning, not the words. Ignore mistakes of grammar that do not hide it."),
    marks=(
        "The texts are on different topics.",
        "The texts are not equivalent but are on the same topic.",
        "The texts are not equivalent but share some details.",
        "The texts are roughly equivalent but some important information differs or is missing.",
        "The texts are mostly equivalent but some unimportant details differ.",
        "The texts are completely equivalent as they mean the same thing.",
    ),
    shows=(Part("text", "caption", "One sentence"), Part("text", "other", "The other sentence")),
    sides=("caption", "caption"),
    rated_gold=(4.5, 0.5),
)
