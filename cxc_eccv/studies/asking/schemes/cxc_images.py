"""Crisscrossed Captions' SIS: how similar two images are."""

from dataclasses import replace

from cxc_eccv.studies.asking.schemes.cxc import SCHEME as SITS
from cxc_eccv.studies.asking.schemes.scheme import Part

SCHEME = replace(
    SITS,
    name="cxc_images",
    title="How similar are the two images?",
    question="How similar are the scenes that the two images show?",
    marks=(
        "The two scenes are completely dissimilar.",
        "The two scenes are not equivalent, but are loosely thematically related.",
        "The two scenes are not equivalent, but share some details in terms of the types of participants, actions, "
        "objects or background.",
        "The two scenes are roughly equivalent, but some important details are different or missing.",
        "The two scenes are mostly equivalent, but some unimportant details differ.",
        "The scenes are near duplicates, possibly being viewed from a different perspective.",
    ),
    positive=0.5,
    shows=(Part("image", "file_name", "One image"), Part("image", "other", "The other image")),
    sides=("image", "image"),
    rated_gold=(4.0, 0.0),
)
