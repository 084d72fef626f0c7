"""The scheme of explainable evaluation: what a retrieved image gets wrong, and how well it replaces the right one."""

from collections.abc import Mapping
from typing import Any

from cxc_eccv.studies.asking.schemes.scheme import Details, Part, Scheme

ALTERNATIVES = "alternatives"
CLASSES = (ALTERNATIVES, "object class", "colour", "enumeration", "size", "action", "detail")


def read_older(row: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a row with ``rater``, ``classes`` and ``rating``, which older versions of ``cxc-eccv failures`` wrote."""
    classes, rating = row["classes"], row["rating"]
    if isinstance(classes, str):
        classes = [name.strip() for name in classes.split(";") if name.strip()]
    if isinstance(rating, str) and rating.strip().isdecimal() and len(rating) < 4:
        rating = int(rating)
    return {"worker": row["rater"], "answer": rating, "details": {"classes": classes}, "caption": row["query"]}


SCHEME = Scheme(
    name="failures",
    title="What does the retrieved image get wrong?",
    question="How well does the retrieved image serve in the place of the right one, from 1 to 10?",
    instructions=(
        "You see a sentence that somebody searched with, the image it was written for, and the one that was found.",
        "Mark what the retrieved image gets wrong of the sentence, or that it is an alternative, where it serves as "
        "well.",
    ),
    scale=(1.0, 10.0),
    step=1.0,
    details=(
        Details(
            "classes",
            "What does the retrieved image get wrong of the sentence?",
            {name: "nothing, it serves as well" if name == ALTERNATIVES else name for name in CLASSES},
            always=True,
            alone=ALTERNATIVES,
        ),
    ),
    shows=(
        Part("text", "caption", "The sentence"),
        Part("image", "other", "The right image"),
        Part("image", "file_name", "The retrieved image"),
    ),
    in_projects=False,
    older=(("pair_id", "query", "rater", "classes", "rating"), read_older),
    citation="Lymperaiou et al., 2022, sections 4.2 and 6.3",
)
