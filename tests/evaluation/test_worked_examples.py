"""One tiny example, worked out by hand, for each rule of ranking, judging and measuring."""

from types import SimpleNamespace

import numpy as np
import pytest
from row_measures import listed_matches, plausible_hits

from cxc_eccv.errors import DataError, RunTooShallow
from cxc_eccv.evaluation.metric_inputs import RankInput, TopInput
from cxc_eccv.judgments.evidence.source import Thresholds
from cxc_eccv.judgments.merging import cxc_ratings, entailed_pairs, merge
from cxc_eccv.judgments.plausible import CategoryMatches, category_matches
from cxc_eccv.metrics.entail_at_k import SPEC as ENTAIL_AT_K
from cxc_eccv.metrics.kinds import Variant
from cxc_eccv.metrics.map_at_r import map_at_r
from cxc_eccv.metrics.median_rank import SPEC as MEDIAN_RANK
from cxc_eccv.metrics.r_precision import r_precision
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.types import Embeddings, Judgments, PositiveRanks, TopK, look_up_gains

SCORES = [0.9, 0.5, 0.5, 0.5, 0.1]
"""Of the captions 10, 20, 30, 40 and 50 for image 1; 30 and 50 are its captions."""
CAPTIONS = np.array([10, 20, 30, 40, 50])


def in_every_form(scores=SCORES):
    """The same scores as one-dimensional vectors, as a score matrix and as a ranking."""
    images = np.array([1])
    order = np.argsort(-np.array(scores), kind="stable")
    lists = RankedLists(images, np.array([0, 5]), CAPTIONS[order], np.array(scores)[order])
    return {
        "embeddings": EmbeddingsRun(
            Embeddings(images, [[1.0]]), Embeddings(CAPTIONS, np.array(scores)[:, None]), similarity="dot"
        ),
        "scores": ScoresRun(images, CAPTIONS, np.array([scores])),
        "rankings": RankingsRun({"i2t": lists}),
    }


@pytest.mark.parametrize("form", ["embeddings", "scores", "rankings"])
def test_tied_item_ranks_above_a_positive(form):
    """30 ties with 20 and 40 behind 10: rank 4 whichever way they are listed; 50 is last."""
    qrels = Judgments.from_pairs([1], CAPTIONS, [1, 1], [30, 50])
    found = ranked(in_every_form()[form]).rank(qrels, "i2t")
    assert found.ranks.tolist() == [4, 5]
    assert found.ties.tolist() == [2]
    both = ranked(in_every_form()[form]).rank(Judgments.from_pairs([1], CAPTIONS, [1, 1], [30, 40]), "i2t")
    assert both.ranks.tolist() == [3, 4]
    assert both.ties.tolist() == [1]


@pytest.mark.parametrize("form", ["embeddings", "scores", "rankings"])
def test_a_query_ranks_its_own_fold_alone(form):
    """Captions 10 and 40 are of the other fold: of 20, 30 and 50 the positive 30 ties with one, and ranks second."""
    qrels = Judgments(
        np.array([1]), CAPTIONS, [0, 1], [2], [0], query_folds=np.array([3]), gallery_folds=np.array([1, 3, 3, 1, 3])
    )
    found = ranked(in_every_form()[form]).rank(qrels, "i2t")
    assert (found.ranks.tolist(), found.ties.tolist(), found.n_gallery.tolist()) == ([2], [1], [3])


@pytest.mark.parametrize("form", ["embeddings", "rankings"])
def test_the_query_is_not_in_its_own_gallery(form):
    """Caption 10 scores highest with itself; left out, its positive 30 comes second, behind 20 with which it ties."""
    qrels = Judgments.from_pairs([10], CAPTIONS, [10], [30], without_self=True)
    vectors = np.array([[1.0, 0], [0.5, 0], [0.5, 0], [0.4, 0], [0.1, 0]])
    runs = {
        "embeddings": EmbeddingsRun(None, Embeddings(CAPTIONS, vectors), similarity="dot"),
        "rankings": RankingsRun(
            {"t2t": RankedLists(np.array([10]), np.array([0, 5]), CAPTIONS, np.array([1, 0.5, 0.5, 0.4, 0.1]))}
        ),
    }
    found = ranked(runs[form]).rank(qrels, "t2t")
    assert (found.ranks.tolist(), found.ties.tolist(), found.n_gallery.tolist()) == ([2], [1], [4])


def test_positives_outside_the_gallery_count_towards_r():
    """R = 3 with one out of reach: the other two at ranks 1 and 3 give 2/3 and (1 + 2/3) / 3."""
    qrels = Judgments.from_pairs([1], CAPTIONS, [1, 1, 1], [10, 50, 99])
    assert (qrels.n_positives.tolist(), qrels.unreachable.tolist()) == ([3], [1])
    ranks = ranked(in_every_form([0.9, 0.5, 0.3, 0.2, 0.4])["embeddings"], Options(similarity="dot")).rank(qrels, "i2t")
    assert ranks.ranks.tolist() == [1, 3]
    assert r_precision(ranks).item() == pytest.approx(2 / 3)
    assert map_at_r(ranks).item() == pytest.approx((1 + 2 / 3) / 3)


def test_median_rank_is_that_of_best_ranks():
    """Best ranks 1, 2, 5 and 9: the median of the queries is 3.5, although five of all positives rank behind 5."""
    ranks = PositiveRanks.of([[1, 100], [9, 100], [2, 100], [5, 100]])
    rank_input = RankInput(task("coco_5k"), "i2t", Judgments.from_pairs([1], [2], [1], [2]), ())
    values = rank_input.use_ranks(ranks).compute_values(Variant(MEDIAN_RANK, {}))
    assert values.queries.values.tolist() == [1, 9, 2, 5]
    assert MEDIAN_RANK.aggregate == "median"
    assert values.number == 3.5


def hits_of(scores, matching, look=(0, None)):
    """Plausible hits of image 1, of which ``matching`` captions have its one category."""
    captions = np.arange(10, 10 + len(scores))
    run = EmbeddingsRun(
        Embeddings(np.array([1]), [[1.0]]), Embeddings(captions, np.array(scores, dtype=float)[:, None])
    )
    sets = np.isin(np.arange(len(scores)), matching)[:, None]
    matches = CategoryMatches.of(np.array([1]), np.array([[True]]), captions, sets)
    return plausible_hits(run, matches, "i2t", (look,), similarity="dot")


@pytest.mark.parametrize("few", [64, 0])
def test_tie_at_the_cut_counts_only_with_match(few, monkeypatch):
    """R = 2. First the tie holds no match; then it holds one, which gives way; then two fill what is left."""
    monkeypatch.setattr("cxc_eccv.ranking.readers.rows.FEW_ITEMS", few)
    without = hits_of([9, 5, 5, 5, 1], matching=[0, 4])
    assert (without.hits.tolist(), without.ties.tolist()) == ([[1]], [0])
    with_one = hits_of([9, 5, 5, 5, 1], matching=[0, 2])
    assert (with_one.hits.tolist(), with_one.ties.tolist()) == ([[1]], [2])
    with_more = hits_of([9, 5, 5, 5, 1], matching=[0, 1, 2])
    assert (with_more.n_matches.tolist(), with_more.hits.tolist(), with_more.ties.tolist()) == ([[3]], [[2]], [1])


def test_zeta_counts_differing_categories_inclusively(sample_library):
    sets = np.array([[True, False, False], [True, True, False], [True, True, True]])
    matches = CategoryMatches.of(np.array([1]), sets[:1], np.array([7, 8, 9]), sets)
    assert [listed_matches(matches, zeta).n_positives.tolist() for zeta in (0, 1, 2)] == [[1], [2], [3]]
    assert listed_matches(category_matches(sample_library.split("test"), "i2t"), 0).query_ids.size


def test_top_of_gallery_excludes_the_query():
    """Captions 7, 8 and 9 rank two others each: these two are the whole top 5, and one alone is too shallow."""
    qrels = Judgments(np.array([7]), np.array([7, 8, 9]), [0, 1], [2], [0], without_self=True, gains=np.array([3.0]))
    assert look_up_gains(TopK(np.array([7]), np.array([[8, 9]])), qrels, 5, "ndcg_at_k")[0].tolist() == [[0, 3]]
    with pytest.raises(RunTooShallow, match="looks at the top 2, but its ranking holds 1"):
        look_up_gains(TopK(np.array([7]), np.array([[9]])), qrels, 5, "ndcg_at_k")


def test_item_outside_the_gallery_is_not_judged():
    """Neither below, nor between, nor above the ids of the gallery, whose first and last are judged."""
    qrels = Judgments(np.array([5]), np.array([10, 20]), [0, 2], [0, 1], [0], gains=np.array([1.0, 1.0]))
    found = look_up_gains(TopK(np.array([5]), np.array([[1, 15]])), qrels, 2, "entail_at_k")
    above = look_up_gains(TopK(np.array([5]), np.array([[99, 20]])), qrels, 2, "entail_at_k")
    assert [part.tolist() for part in found] == [[[0, 0]], [[False, False]]]
    assert [part.tolist() for part in above] == [[[0, 1]], [[False, True]]]


def test_leave_out_policy_needs_a_label():
    """Of two queries one has a labelled caption among its top 1: it alone counts. With none there is no number."""
    qrels = Judgments(np.array([5, 6]), np.array([7, 8]), [0, 1, 2], [0, 0], [0, 0], gains=np.array([1.0, 1.0]))
    variant = Variant(ENTAIL_AT_K, {"k": 1})
    top_input = TopInput(task("entailment"), "i2t", qrels, (variant,))

    def entailed(scores):
        ranker = ranked(ScoresRun(np.array([5, 6]), np.array([7, 8]), np.array(scores)))
        request = top_input.make_request(ranker)
        ranker.rank_all({}, {"i2t": request.all_readers})
        return top_input.make_result(request).with_judge("leave_out", None).compute_values(variant)

    one = entailed([[1.0, 0.0], [0.0, 1.0]])
    assert (one.queries.ids.tolist(), one.queries.values.tolist()) == ([5], [1])
    assert one.facts["queries_left_out"] == 1
    with pytest.raises(DataError, match="entail_at_1: no query has a labelled pair among its top 1; choose another"):
        entailed([[0.0, 1.0], [0.0, 1.0]])


@pytest.mark.parametrize(("direction", "kind"), [("i2t", "sits"), ("t2i", "sits"), ("t2t", "sts"), ("i2i", "sis")])
def test_a_rating_that_equals_the_threshold_is_positive(sample_library, direction, kind):
    ratings = merge(sample_library.split("test"), direction, sources=("cxc",)).ratings
    threshold = float(np.nanquantile(ratings, 0.5, method="lower"))
    pairs = merge(sample_library.split("test"), direction, sources=("cxc",), thresholds=Thresholds(**{kind: threshold}))
    higher = np.fmax(pairs.ratings, pairs.reverse)
    assert (higher == threshold).any()
    assert pairs.positive[higher == threshold].all()
    assert not pairs.positive[higher < threshold].any()
    assert pairs.conflict[(pairs.ratings < threshold) & (pairs.reverse == threshold)].all()


def test_gain_is_the_higher_of_both_ratings(monkeypatch):
    """Images 1 and 2 were rated 1 and 4, images 1 and 3 rated 0 once: 3 has no gain and is no query."""
    ids = np.array([1, 2, 3])
    nan = np.nan
    monkeypatch.setattr(
        "cxc_eccv.judgments.merging.merge",
        lambda *_, **__: SimpleNamespace(
            query_ids=ids, gallery_ids=ids, queries=np.array([0, 0, 1, 2]), items=np.array([1, 2, 0, 0]),
            ratings=np.array([1, 0, 4, nan]), reverse=np.array([4, nan, 1, 0])
        ),
    )  # fmt: skip
    qrels = cxc_ratings(None, "i2i")
    assert (qrels.query_ids.tolist(), qrels.gains.tolist(), qrels.without_self) == ([1, 2], [4, 0, 4], True)


def test_entailment_sources_go_from_general_to_specific(sample_library):
    """Under ``override`` ECCV Caption, either of its directions, speaks after CxC and before a user's labels."""
    pairs = entailed_pairs(sample_library.split("test"), policy="override")
    assert pairs.sources == ("cxc", "eccv", "entailment")
    _, eccv, given = pairs.judged.T
    assert (pairs.positive == pairs.said_positive[:, 2])[given].all()
    assert pairs.positive[eccv & ~given].all()
    verified = set()
    for direction, (image, caption) in (("i2t", ("query_id", "item_id")), ("t2i", ("item_id", "query_id"))):
        table = sample_library.split("test").eccv("eccv", direction)
        verified |= set(zip(table[image].to_pylist(), table[caption].to_pylist(), strict=True))
    images = pairs.query_ids[pairs.queries[eccv]]
    captions = pairs.gallery_ids[pairs.items[eccv]]
    known = set(pairs.gallery_ids.tolist())
    assert set(zip(images.tolist(), captions.tolist(), strict=True)) == {one for one in verified if one[1] in known}


def test_both_directions_share_the_distances_of_category_sets(sample_library):
    to_captions, to_images = (category_matches(sample_library.split("test"), direction) for direction in ("i2t", "t2i"))
    assert to_captions.distances is to_images.distances
    content = sample_library.split("test")
    sets = sample_library.split("test").categories()
    present = dict(zip(sets.image_ids.tolist(), sets.present, strict=True))
    owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    for matches, image_of in ((to_captions, (int, owner.get)), (to_images, (owner.get, int))):
        queries, items = (
            np.array([present[image(one)] for one in ids.tolist()])
            for image, ids in zip(image_of, (matches.query_ids, matches.gallery_ids), strict=True)
        )
        apart = (queries[:, None] != items[None]).sum(axis=2)
        assert (matches.distances[matches.query_classes][:, matches.gallery_classes] == apart).all()
