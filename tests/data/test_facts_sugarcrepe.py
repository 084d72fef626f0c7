"""Facts about the real SugarCrepe files that its card, its task and the documentation state."""

from collections import Counter

import numpy as np
import pytest

from cxc_eccv.builders.config import BuildOptions, dataset_configs
from cxc_eccv.sources.readers import SUGARCREPE_PARTS, read_sugarcrepe

SIZES = {
    "replace_obj": 1_652,
    "replace_att": 788,
    "replace_rel": 1_406,
    "swap_obj": 245,
    "swap_att": 666,
    "add_obj": 2_062,
    "add_att": 692,
}


@pytest.fixture(scope="module")
def tables(real_library):
    return {part: real_library.read(f"sugarcrepe_{part}", read_sugarcrepe) for part in SUGARCREPE_PARTS}


@pytest.fixture(scope="module")
def items(tables):
    return [(part, *row.values()) for part, table in tables.items() for row in table.to_pylist()]


def test_parts_have_as_many_items_as_published_with_these_at_their_ends(tables, items):
    assert {part: table.num_rows for part, table in tables.items()} == SIZES
    assert len(items) == 7_511
    first, last = tables["add_att"].slice(0, 1).to_pylist()[0], tables["swap_obj"].slice(244).to_pylist()[0]
    assert first == {
        "item_id": 0,
        "file_name": "000000085329.jpg",
        "image_id": 85_329,
        "caption": "A drawing of a young woman with many facial piercings.",
        "negative": "A drawing of a tattooed young woman with many facial piercings.",
    }
    assert last["item_id"] == 245


def test_one_number_is_left_out(tables):
    """Its authors took the item out in November 2023; the paper counts it."""
    for part, table in tables.items():
        missing = set(range(table.num_rows + (part == "swap_obj"))) - set(table["item_id"].to_pylist())
        assert missing == ({108} if part == "swap_obj" else set())


def test_images_and_splits(real_library, items):
    images = {image for _, _, _, image, _, _ in items}
    assert len(images) == 1_560
    test, validation = (set(real_library.karpathy(split).image_ids.tolist()) for split in ("test", "validation"))
    assert (len(images & test), len(images & validation)) == (183, 177)
    assert sum(image in test | validation for _, _, _, image, _, _ in items) == 1_681


def test_captions_are_those_of_coco(real_library, items):
    texts = {
        (row["image_id"], row["text"])
        for split in ("test", "validation")
        for row in real_library.captions(split).to_pylist()
    }
    own = {image for image, _ in texts}
    strange = [
        (image, caption) for _, _, _, image, caption, _ in items if image in own and (image, caption) not in texts
    ]
    assert {image for image, _ in strange} == {96_493}
    assert len(strange) == 4


def test_the_form_of_a_text_gives_captions_away(items):
    """White space, full stops and capitals alone tell a third of the items, all but one of them rightly."""

    def marks(text):
        bare = text.strip()
        return (text != bare) + (not bare.endswith(".")) + (not bare[0].isupper())

    signs = np.sign([marks(caption) - marks(negative) for *_, caption, negative in items])
    assert Counter(signs.tolist()) == {1: 2_228, 0: 5_282, -1: 1}
    captions, negatives = zip(*(item[-2:] for item in items), strict=True)
    for texts, facts in ((captions, (1_074, 6_105, 6_646)), (negatives, (0, 7_489, 7_457))):
        bare = [text.strip() for text in texts]
        stops, capitals = sum(text.endswith(".") for text in bare), sum(text[0].isupper() for text in bare)
        assert (sum(map(str.__ne__, texts, bare)), stops, capitals) == facts
    parts = np.array([part for part, *_ in items])
    shares = [np.mean((signs[parts == part] + 1) / 2) for part in SIZES]
    assert 0.62 < min(shares) < max(shares) < 0.67


def test_what_is_added_makes_a_text_longer_and_some_captions_are_repeated(items):
    longer = [len(negative) > len(caption) for part, *_, caption, negative in items if part.startswith("add")]
    assert np.mean(longer) == pytest.approx(0.99, abs=0.005)
    assert len({(image, caption) for _, _, _, image, caption, _ in items}) == 4_355
    within = Counter((part, image, caption) for part, _, _, image, caption, _ in items)
    assert Counter(part for (part, _, _), count in within.items() if count > 1) == {"swap_att": 4, "swap_obj": 1}
    across = Counter(item[3:] for item in items)
    assert Counter(across.values())[2] == 6


def test_the_config_holds_every_item_in_order(real_library, items):
    table = dataset_configs()["sugarcrepe"].rows(real_library, "test", BuildOptions()).table
    assert [tuple(row.values()) for row in table.to_pylist()] == items
