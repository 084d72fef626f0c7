"""Crisscrossed Captions': how similar the meanings are, on a scale without visible numbers."""

from cxc_eccv.studies.asking.schemes.scheme import Scheme

SCHEME = Scheme(
    name="cxc",
    title="How well does the sentence describe the image?",
    question="How similar is what the image shows to what the sentence says?",
    instructions=(
        "Move the slider to where the pair belongs between the descriptions along it. A place between two of them is "
        "as good as one at them.",
    ),
    scale=(0.0, 5.0),
    marks=(
        "completely unmatched",
        "not matched, but loosely thematically related",
        "not matched, but some details are shared",
        "roughly matched, but some important details are different or missing",
        "mostly matched, but some unimportant details differ",
        "perfectly matched",
    ),
    positive=0.6,
    citation="Parekh et al., EACL 2021, arXiv:2004.15020, section 2 and appendix",
)
