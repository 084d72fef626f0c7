"""Crisscrossed Captions' SITS: how well an image and a sentence match, on a scale without visible numbers."""

from cxc_eccv.studies.asking.schemes.scheme import Scheme

TIPS = (
    "Move the slider to where the pair belongs between the descriptions along it. A place between two of them is "
    "as good as one at them.",
    "Use all of the scale. Be quick: where you waver between two places, take one between them.",
)

SCHEME = Scheme(
    name="cxc",
    title="How well does the sentence describe the image?",
    question="How similar is what the image shows to what the sentence says?",
    instructions=TIPS,
    scale=(0.0, 5.0),
    marks=(
        "The image and sentence are completely unmatched.",
        "The image and sentence are not matched, but are loosely thematically related.",
        "The image and sentence are not matched, but share some details in one or more of the types of participants, "
        "actions, objects or background.",
        "The image and sentence are roughly matched, but some important details are different or missing.",
        "The image and sentence are mostly matched, but some unimportant details differ.",
        "The image and sentence are perfectly matched. The sentence is an almost perfect description of the image.",
    ),
    positive=0.6,
    rule="mean",
    citation="Parekh et al., EACL 2021, arXiv:2004.15020, section 2 and appendix, Table 2",
)
