"""Totals of Flickr8k's human judgments, and what follows for the tasks."""

import numpy as np

from cxc_eccv.judgments.flickr8k import crowd_ratings, expert_ratings, flickr8k_human, flickr8k_verdicts, read_votes


def test_the_crowd_s_votes(real_library):
    votes = read_votes(real_library.split("test", "flickr8k"))
    majority = votes.yes > votes.no
    assert votes.images.size == 47_830
    assert (np.unique(votes.images).size, np.unique(votes.captions).size) == (1_000, 1_000)
    assert int(votes.linked.sum()) == 721
    assert int((votes.linked & ~majority).sum()) == 21
    cross = ~votes.linked
    counts = [int((cross & kind).sum()) for kind in (majority, votes.undecided, votes.yes < votes.no)]
    assert counts == [2_004, 27, 45_078]
    found = votes.captions[cross & majority]
    assert np.unique(found).size == 550
    assert np.unique(found, return_counts=True)[1].max() == 22
    for ids, least, most in ((votes.images, 10, 120), (votes.captions, 6, 169)):
        sizes = np.unique(ids, return_counts=True)[1]
        assert (sizes.min(), sizes.max()) == (least, most)


def test_verdicts_are_equal_in_both_directions(real_library):
    """Ratings of the crowd and of experts leave an image's own captions out."""
    pairs = []
    for direction in ("i2t", "t2i"):
        judged = flickr8k_verdicts(real_library.split("test", "flickr8k"), direction)
        assert np.bincount(judged.gains.astype(int)).tolist() == [45_078, 1_000, 2_004]
        assert (judged.query_ids.size, judged.gallery_ids.size) == (1_000, 1_000)
        queries = judged.query_ids[judged.rows]
        items = judged.gallery_ids[judged.indices]
        images, captions = (queries, items) if direction == "i2t" else (items, queries)
        pairs.append(set(zip(images.tolist(), captions.tolist(), judged.gains.tolist(), strict=True)))
        assert int(flickr8k_human(real_library.split("test", "flickr8k"), direction).n_positives.sum()) == 3_004
    assert pairs[0] == pairs[1]
    assert crowd_ratings(real_library.split("test", "flickr8k")).ratings.size == 47_109
    experts = expert_ratings(real_library.split("test", "flickr8k"))
    assert experts.ratings.size == 5_664 * 3 == 16_992
    assert np.unique(experts.ratings).tolist() == [1, 2, 3, 4]
    assert experts.ratings.reshape(-1, 3).sum(axis=0).tolist() == [7_748, 8_827, 10_325]


def test_experts_are_looser_than_the_crowd(real_library):
    votes = read_votes(real_library.split("test", "flickr8k"))
    experts = expert_ratings(real_library.split("test", "flickr8k"))
    medians = np.median(experts.ratings.reshape(-1, 3), axis=1)
    rated = dict(
        zip(zip(experts.query_ids[::3].tolist(), experts.item_ids[::3].tolist(), strict=True), medians, strict=True)
    )
    counts: dict[tuple[bool, int], int] = {}
    for image, caption, yes, no in zip(
        *(each.tolist() for each in (votes.images, votes.captions, votes.yes, votes.no)), strict=True
    ):
        if (image, caption) in rated:
            key = bool(rated[image, caption] >= 3), int(np.sign(yes - no))
            counts[key] = counts.get(key, 0) + 1
    assert counts == {
        (True, 1): 250,
        (True, -1): 359,
        (False, -1): 1_538,
        (False, 1): 21,
        **{k: v for k, v in counts.items() if k[1] == 0},
    }
    assert sum(counts.values()) == 2_172
