"""Kind ``colour_all``: a colour gives way to any distant one of CSS."""

from cxc_eccv.studies.explain.altering.colours import LEAST_DISTANCE, all_colours, find_colours, recolour
from cxc_eccv.studies.explain.altering.kind import Kind, Places
from cxc_eccv.studies.explain.altering.sentences import Sentence


def find(sentence: Sentence) -> Places:
    """Every colour of a thing."""
    return [recolour(sentence, mention, all_colours()) for mention in find_colours(sentence)]


KIND = Kind(
    name="colour_all",
    description=f"A colour gives way to any CSS colour at an RGB distance of {LEAST_DISTANCE:.0f} or more: *a red "
    "bus* is *a dark slate blue bus*.",
    prepare=lambda data: find,
)
