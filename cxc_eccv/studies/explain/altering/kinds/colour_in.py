"""Kind ``colour_in``: a colour gives way to a distant one that the data mentions."""

from collections.abc import Callable, Sequence

from cxc_eccv.studies.explain.altering.colours import LEAST_DISTANCE, find_colours, recolour
from cxc_eccv.studies.explain.altering.kind import Kind, Places
from cxc_eccv.studies.explain.altering.sentences import Sentence


def prepare(data: Sequence[Sentence]) -> Callable[[Sentence], Places]:
    """Every colour of a thing, for colours that some sentence of the data gives to a thing."""
    mentioned = sorted({mention.colour for sentence in data for mention in find_colours(sentence)})

    def find(sentence: Sentence) -> Places:
        places = [recolour(sentence, mention, mentioned) for mention in find_colours(sentence)]
        return [changes for changes in places if changes]

    return find


KIND = Kind(
    name="colour_in",
    description="A colour gives way to one that another sentence of the data mentions, at an RGB distance of "
    f"{LEAST_DISTANCE:.0f} or more: *a red bus* is *a green bus*.",
    prepare=prepare,
)
