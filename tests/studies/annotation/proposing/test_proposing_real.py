"""What is proposed on the real test split, against products and sorts by NumPy; and how CxC's pairs came about."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.studies.annotation.proposing import ProposalOptions, propose
from cxc_eccv.types import Embeddings, find_positions

pytestmark = pytest.mark.reference
MODELS = 5


@pytest.fixture(scope="module")
def content(real_library):
    return real_library.split("test")


@pytest.fixture(scope="module")
def runs(content):
    """Seeded models whose captions scatter around their images, more or less."""
    owners = find_positions(content.caption_image_ids, content.image_ids)[0]

    def make(seed):
        random = np.random.default_rng(seed)
        images = random.standard_normal((5_000, 32))
        captions = images[owners] + (1.2 + 0.2 * seed) * random.standard_normal((25_000, 32))
        return EmbeddingsRun(Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions))

    return {f"model {seed}": make(seed) for seed in range(MODELS)}


@pytest.fixture(scope="module")
def proposed(runs, real_library):
    return propose(runs, real_library.split("test"), ProposalOptions(queries=(1261, 1333), seed=7))


def test_as_many_proposals_as_the_paper_s(proposed):
    counts = proposed.facts.counts
    assert counts["proposed"] == 64_850
    shown = [counts[name] for name in ("distinct", "known_positive", "judged_negative")]
    assert shown == pytest.approx([55_558, 6_769, 2], abs=3)  # the page shows them; a tie may fall otherwise elsewhere
    apart = counts["known_positive"] + counts["judged_negative"] + counts["asked_before"] + counts["open"]
    assert counts["distinct"] == apart
    assert proposed.candidates.num_rows == counts["open"]
    assert proposed.known.num_rows == counts["known_positive"]


@pytest.mark.parametrize("split", ["validation", "test"])
def test_released_pairs_derive_from_rated_pairs(real_library, split):
    """Of two rated images, or captions: the left one's image and a caption of the right one's, any of the five."""
    content = real_library.split(split)
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))

    def pairs(kind, method):
        table = real_library.split(split).ratings(kind)
        rows = table.filter(pa.compute.equal(table["sampling_method"], method))
        return list(zip(rows["left_id"].to_pylist(), rows["right_id"].to_pylist(), strict=True))

    images = set(pairs("sis", "i2i_csim"))
    captions = pairs("sts", "c2c_isim")
    described = {(owners[left], owners[right]) for left, right in captions}
    exact = {(owners[left], right) for left, right in captions}
    found = pairs("sits", "c2i_intrasim")
    origins = Counter(((image, owners[own]) in images, (image, owners[own]) in described) for own, image in found)
    assert origins[False, False] == {"test": 6, "validation": 7}[split]
    by_captions = origins[False, True] + origins[True, True]
    assert 0.5 < by_captions / len(found) < 0.6
    share = sum((image, own) in exact for own, image in found) / by_captions
    assert share == pytest.approx(0.2, abs=0.01)
    assert len({frozenset(pair) for pair in described}) == len(captions)  # of two images once, in one order
