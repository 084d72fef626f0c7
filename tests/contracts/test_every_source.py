"""What holds for every source of labels: in the package, and in a copy with one more."""

import numpy as np
import pytest

from cxc_eccv.errors import SourceMissing
from cxc_eccv.judgments.evidence.source import Thresholds, gather, item_ids, label_sources, number_pairs
from cxc_eccv.judgments.merging import merge
from cxc_eccv.sources.catalog import SPLITS, load_catalog
from cxc_eccv.types import DIRECTIONS

pytestmark = pytest.mark.parametrize("name", label_sources())


def test_source_says_what_it_is(name):
    source = label_sources()[name]
    assert source.title
    assert source.yes
    assert all(source.rule(direction, Thresholds()) for direction in DIRECTIONS)
    assert [other.name for other in label_sources().values() if other.order == source.order] == [name]
    for group in source.groups:
        assert load_catalog().of_group(group)


@pytest.mark.parametrize("split", SPLITS)
def test_directions_say_the_same_of_pair(name, split, sample_library):
    """Whether an image and a caption match does not depend on which of them is the query."""
    try:
        parts = [gather(sample_library.split(split), way, name, Thresholds()) for way in ("i2t", "t2i")]
    except SourceMissing as error:
        pytest.skip(f"the sample lacks a file: {error}")
    if parts == [None, None]:
        return
    by_image, by_caption = parts
    assert _list_judged(by_image.queries, by_image.items, by_image) == _list_judged(
        by_caption.items, by_caption.queries, by_caption
    )


def _list_judged(images, captions, evidence):
    ratings = np.where(np.isnan(evidence.ratings), -1, evidence.ratings)
    columns = (images, captions, evidence.positive, ratings)
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("split", SPLITS)
def test_evidence_is_of_the_split(name, split, direction, sample_library):
    try:
        evidence = gather(sample_library.split(split), direction, name, Thresholds())
    except SourceMissing as error:
        pytest.skip(f"the sample lacks a file: {error}")
    if evidence is None:
        return
    assert (evidence.source, bool(evidence.rule)) == (name, True)
    numbers = number_pairs(evidence.queries, evidence.items, *item_ids(sample_library.split(split), direction))
    assert np.unique(numbers).size == numbers.size
    assert {array.size for array in (evidence.positive, evidence.ratings, evidence.reverse)} == {numbers.size}
    assert evidence.positive.all() or not label_sources()[name].lists_positives
    assert direction in ("i2t", "t2i") or not (evidence.queries == evidence.items).any()
    merged = merge(sample_library.split(split), direction, sources=(name,))
    assert (merged.sources, merged.queries.size, merged.positive.sum()) == (
        (name,),
        numbers.size,
        evidence.positive.sum(),
    )
