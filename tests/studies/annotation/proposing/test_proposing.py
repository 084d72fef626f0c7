"""What is proposed: every strategy against plain loops over sorted lists, and what is refused."""

import json
from collections import Counter, defaultdict
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import oracles
import pyarrow as pa
import pytest
from annotated_projects import noisy_run
from label_files import write_label_file

from cxc_eccv.errors import CxcEccvError, DataError, InvalidOption, MissingIds, RunTooShallow, UnknownName
from cxc_eccv.judgments.evidence.source import labels_of_file
from cxc_eccv.ranking import scores as blocks
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation import proposing
from cxc_eccv.studies.annotation.proposing import strategies as strategy_file
from cxc_eccv.studies.annotation.proposing.alike import choose_caption_pairs, choose_image_pairs
from cxc_eccv.studies.annotation.proposing.pool import CANDIDATES, Choice, ProposalOptions
from cxc_eccv.studies.annotation.proposing.strategies import ENTAILMENT, strategies
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

QUERIES = (20, 30)
OFFICIAL = ("coco", "cxc", "eccv", "entailment")


@pytest.fixture(scope="module")
def content(sample_library):
    return sample_library.split("test")


@pytest.fixture(scope="module")
def runs(content):
    """Three models whose scores tie often: whole numbers, higher for an image's own captions."""
    random = np.random.default_rng(0)
    own = content.caption_image_ids == content.image_ids[:, None]
    scores = [random.integers(0, 9, own.shape) + 3 * own for _ in range(3)]
    return {
        name: ScoresRun(content.image_ids, content.caption_ids, scores.astype(np.float32))
        for name, scores in zip(("first", "second", "third"), scores, strict=True)
    }


@pytest.fixture(scope="module")
def known(sample_library):
    """Pair to the names of the sources that call it positive, and all pairs that one judged, from the raw tables."""
    positive = defaultdict(set)
    judged = set()
    captions = sample_library.split("test").captions
    for pair in zip(captions["image_id"].to_pylist(), captions["caption_id"].to_pylist(), strict=True):
        positive[pair].add("coco")
    rated = sample_library.split("test").ratings("sits")
    for caption, image, rating in zip(*(rated[name].to_pylist() for name in rated.column_names[:3]), strict=True):
        judged.add((image, caption))
        if rating >= 3:
            positive[image, caption].add("cxc")
    for direction in ("i2t", "t2i"):
        table = sample_library.split("test").eccv("eccv", direction)
        for pair in zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
            positive[pair if direction == "i2t" else pair[::-1]].add("eccv")
    images, captions, labels, _ = labels_of_file(
        sample_library.split("test"), sample_library.split("test").entailment()
    )
    for image, caption, entailed in zip(images.tolist(), captions.tolist(), labels.tolist(), strict=True):
        judged.add((image, caption))
        if entailed:
            positive[image, caption].add("entailment")
    return positive, judged | positive.keys()


def propose(runs, library, split="test", **options):
    return proposing.propose(runs, library.split(split), ProposalOptions(**options))


def pairs_of(table):
    return list(zip(table["image_id"].to_pylist(), table["caption_id"].to_pylist(), strict=True))


def rows_of(table):
    return {(row["image_id"], row["caption_id"]): row for row in table.to_pylist()}


def ranked(run, direction, query):
    """Items of a query, best first, equal ones by id."""
    if direction == "i2t":
        scores = dict(zip(run.caption_ids.tolist(), run.scores[run.image_ids.tolist().index(query)], strict=True))
    else:
        scores = dict(zip(run.image_ids.tolist(), run.scores[:, run.caption_ids.tolist().index(query)], strict=True))
    return sorted(scores, key=lambda item: (-scores[item], item))


def listed(runs, content, depth, queries=None):
    """Pair to the (model, direction, rank) of every list that has it."""
    images, captions = queries or (content.image_ids.tolist(), content.caption_ids.tolist())
    found = defaultdict(set)
    for name, run in runs.items():
        for direction, asked in (("i2t", images), ("t2i", captions)):
            for query in asked:
                for rank, item in enumerate(ranked(run, direction, query)[:depth], 1):
                    pair = (query, item) if direction == "i2t" else (item, query)
                    found[pair].add((name, direction, rank))
    return found


def proposals_of(row):
    return {(own["model"], own["direction"], own["rank"]) for own in row["proposals"]}


def lists_of(runs, content, directions=("i2t", "t2i")):
    """The same models as rankings."""
    sides = dict(zip(directions, (content.image_ids.tolist(), content.caption_ids.tolist()), strict=False))
    return {
        name: RankingsRun.from_dicts(*({query: ranked(run, way, query) for query in ids} for way, ids in sides.items()))
        for name, run in runs.items()
    }


def some_queries(content):
    return content.image_ids[5:25].tolist(), content.caption_ids[40:70].tolist()


def open_pairs(found, known):
    return [pair for pair in found if pair not in known[1]]


def assert_refused(error, message, runs, library, **options):
    with pytest.raises(error, match=message):
        propose(runs, library, **options)


class TestEccv:
    def test_candidates_are_the_union_of_ranked_lists(self, runs, sample_library, content, known):
        """Each candidate names the models that proposed it, with their ranks."""
        queries = some_queries(content)
        found = propose(runs, sample_library, queries=queries)
        expected = listed(runs, content, 5, queries)
        candidates = rows_of(found.candidates)
        apart = rows_of(found.known)
        assert found.candidates.schema == found.known.schema == CANDIDATES
        assert len(candidates) == found.candidates.num_rows
        assert sorted(candidates) == sorted(open_pairs(expected, known))
        assert sorted(apart) == sorted(pair for pair in expected if known[0].get(pair))
        for pair, row in (candidates | apart).items():
            assert proposals_of(row) == expected[pair]
            assert len(row["proposals"]) == len(expected[pair])
            assert row["strategy"] == "eccv"
        for pair, row in candidates.items():
            assert row["priority"] == pytest.approx(sum(1 / rank for *_, rank in expected[pair]))
            assert row["known"] == []
        for pair, row in apart.items():
            assert row["known"] == [name for name in OFFICIAL if name in known[0][pair]]
            assert row["priority"] is None

    def test_counts_as_the_paper_counts(self, runs, sample_library, content, known):
        queries = some_queries(content)
        counts = propose(runs, sample_library, queries=queries, budget=7).facts.counts
        expected = listed(runs, content, 5, queries)
        positive = [pair for pair in expected if known[0].get(pair)]
        negative = [pair for pair in expected if pair in known[1] and not known[0].get(pair)]
        assert counts == {
            "proposed": (20 + 30) * 5 * 3,
            "distinct": len(expected),
            "known_positive": len(positive),
            "judged_negative": len(negative),
            "asked_before": 0,
            "open": len(expected) - len(positive) - len(negative),
            "candidates": 7,
        }
        assert positive
        assert negative

    def test_seed_determines_the_drawn_queries(self, runs, sample_library):
        """No more queries propose than were asked for."""
        first, same, other = (
            propose(runs, sample_library, queries=QUERIES, seed=seed).candidates for seed in (1, 1, 2)
        )
        assert first.equals(same)
        assert not first.equals(other)
        for direction, side, most in (("i2t", "image_id", 20), ("t2i", "caption_id", 30)):
            ways = [(row[side], own["direction"]) for row in first.to_pylist() for own in row["proposals"]]
            assert len({query for query, way in ways if way == direction}) <= most

    def test_further_rounds_have_the_same_queries(self, runs, sample_library):
        first = propose(runs, sample_library, queries=QUERIES, seed=1)
        again = propose(runs, sample_library, queries=QUERIES, seed=1, budget=50)
        further = propose(runs, sample_library, queries=QUERIES, seed=1, budget=50, asked=again.candidates)
        assert set(pairs_of(further.candidates)) | set(pairs_of(again.candidates)) <= set(pairs_of(first.candidates))
        assert further.candidates.num_rows == 50

    def test_one_side_alone_may_ask(self, runs, sample_library):
        for queries, direction in (((10, 0), "i2t"), ((0, 10), "t2i"), ((None, 0), "i2t")):
            found = propose(runs, sample_library, queries=queries).candidates
            assert {own["direction"] for row in found["proposals"].to_pylist() for own in row} == {direction}

    def test_models_that_rank_one_direction_ask_in_it(self, runs, sample_library, content):
        lists = lists_of(runs, content, ["i2t"])
        for strategy in ("eccv", "disagreement"):
            found = propose(lists, sample_library, strategy=strategy)
            expected = propose(runs, sample_library, strategy=strategy, queries=(None, 0)).candidates
            assert found.candidates.equals(expected)
            assert found.facts.options["queries"] == {"images": 60, "captions": 0}
        mixed = {"scores": runs["first"], "lists": lists["second"]}
        assert_refused(InvalidOption, "lists does not rank t2i.*--queries 500,0", mixed, sample_library)

    def test_ranking_file_proposes_like_its_scores(self, runs, sample_library, content):
        lists = lists_of(runs, content)
        for strategy in ("eccv", "disagreement"):
            of_scores, of_lists = (propose(own, sample_library, strategy=strategy, seed=3) for own in (runs, lists))
            assert of_scores.candidates.equals(of_lists.candidates)
            assert of_scores.known.equals(of_lists.known)
            every = [part.ravel() for part in np.meshgrid(content.image_ids, content.caption_ids)]
            assert (of_scores.is_near(*every) == of_lists.is_near(*every)).all()


class TestWhatIsAskedAgain:
    @pytest.mark.parametrize("strategy", sorted(strategies().keys() - {"active"}))
    def test_nothing_that_somebody_judged_or_was_asked(self, strategy, runs, sample_library, content, known):
        own = runs if strategy != "entailment" else {"first": runs["first"]}
        if strategy == "cxc":
            own = {"vectors": vectors(content)}
        rounds = []
        before = None
        for _ in range(3):
            found = propose(own, sample_library, strategy=strategy, budget=12, asked=before)
            rounds += pairs_of(found.candidates)
            before = pa.table({"image_id": [pair[0] for pair in rounds], "caption_id": [pair[1] for pair in rounds]})
        assert len(rounds) == len(set(rounds)) == 36
        assert not known[1] & set(rounds)

    def test_what_was_asked_before_is_counted(self, runs, sample_library):
        first = propose(runs, sample_library, queries=QUERIES)
        rest = propose(runs, sample_library, queries=QUERIES, asked=first.candidates.slice(0, 30)).facts.counts
        counts = first.facts.counts
        assert (rest["asked_before"], rest["open"]) == (30, counts["open"] - 30)
        nothing = propose(runs, sample_library, queries=QUERIES, asked=first.candidates)
        assert nothing.candidates.num_rows == 0
        assert nothing.candidates.schema == CANDIDATES

    def test_labels_of_an_earlier_project_are_known(self, runs, sample_library, content, tmp_path):
        first = propose(runs, sample_library, budget=2).candidates
        positive, negative = pairs_of(first)
        write_label_file(tmp_path / "mine.parquet", sample_library, [positive, negative], [1.0, 0.0])
        found = propose(runs, Library("sample", labels=[tmp_path / "mine.parquet"]))
        assert rows_of(found.known)[positive]["known"] == ["mine"]
        assert not {positive, negative} & set(pairs_of(found.candidates))
        assert negative not in rows_of(found.known)
        assert found.facts.options["sources"] == [*OFFICIAL, "mine"]

    def test_caller_chooses_the_known_sources(self, runs, sample_library, known):
        found = propose(runs, sample_library, sources=["coco"])
        apart = rows_of(found.known)
        assert {name for row in apart.values() for name in row["known"]} == {"coco"}
        assert any(known[0].get(pair) for pair in pairs_of(found.candidates))
        assert found.facts.options["sources"] == ["coco"]


class TestNear:
    def test_near_pairs_are_any_models_top_25(self, runs, sample_library, content):
        """The lists of both directions count."""
        found = propose(runs, sample_library, queries=(1, 0), budget=1)
        expected = listed(runs, content, 25)
        images, captions = (part.ravel() for part in np.meshgrid(content.image_ids, content.caption_ids))
        near = found.is_near(images, captions)
        assert near.dtype == bool
        said = set(zip(images[near].tolist(), captions[near].tolist(), strict=True))
        assert said == set(expected)
        with pytest.raises(DataError, match="image 1 is not in this split"):
            found.is_near(np.array([1]), np.array([1]))

    def test_one_direction_where_a_model_ranks_no_other(self, runs, sample_library, content):
        lists = {image: ranked(runs["first"], "i2t", image)[:25] for image in content.image_ids.tolist()}
        found = propose({"lists": RankingsRun.from_dicts(lists)}, sample_library, queries=(10, 0))
        every = [part.ravel() for part in np.meshgrid(content.image_ids, content.caption_ids)]
        assert found.is_near(*every).sum() == 60 * 25
        assert list(found.facts.models["lists"]["lists"]) == ["i2t"]


def vectors(content, seed=0, width=6, *, images=True, captions=True):
    random = np.random.default_rng(seed)
    sides = [
        Embeddings(ids, random.standard_normal((ids.size, width))) if wanted else None
        for ids, wanted in ((content.image_ids, images), (content.caption_ids, captions))
    ]
    return EmbeddingsRun(*sides)


class TestCxc:
    def nearest(self, vectors_of, number=5):
        """Key to the keys of its nearest others, best first, and their similarity."""
        return {
            one: sorted(
                ((oracles.score_of(own, other), key) for key, other in vectors_of.items() if key != one),
                key=lambda entry: (-entry[0], entry[1]),
            )[:number]
            for one, own in vectors_of.items()
        }

    def test_image_pairs_are_those_whose_captions_are_alike(self, content):
        run = vectors(content, images=False)
        groups = defaultdict(list)
        for image, vector in zip(content.caption_image_ids.tolist(), run.captions.vectors, strict=True):
            groups[image].append(vector / np.linalg.norm(vector.astype(float)))
        expected = self.nearest({image: sum(own) / len(own) for image, own in groups.items()})
        found = choose_image_pairs({"texts": run}, content)
        assert found.num_rows == 60 * 5
        for row in found.to_pylist():
            similarity, right = expected[row["left_id"]][row["rank"] - 1]
            assert (row["right_id"], row["model"], row["sampling_method"]) == (right, "texts", "i2i_csim")
            assert row["similarity"] == pytest.approx(similarity, abs=1e-5)
            assert row["left_id"] != row["right_id"]
        assert found["similarity"].to_pylist() == sorted(found["similarity"].to_pylist(), reverse=True)

    def test_caption_pairs_come_from_similar_images(self, content):
        """As many co-captions are drawn as pairs of captions of two images."""
        run = vectors(content, captions=False)
        expected = self.nearest(dict(zip(content.image_ids.tolist(), run.images.vectors.astype(float), strict=True)))
        alike = {frozenset((image, other)) for image, own in expected.items() for _, other in own}
        owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
        found = choose_caption_pairs({"looks": run}, content, seed=3).to_pylist()
        chosen = [row for row in found if row["sampling_method"] == "c2c_isim"]
        co = [row for row in found if row["sampling_method"] == "c2c_cocaption"]
        images = [frozenset((owners[row["left_id"]], owners[row["right_id"]])) for row in chosen]
        assert Counter(images) == Counter(alike)
        assert len(co) == len(chosen)
        assert len({frozenset((row["left_id"], row["right_id"])) for row in co}) == len(co)
        for row in co:
            assert owners[row["left_id"]] == owners[row["right_id"]]
            assert row["left_id"] != row["right_id"]
            assert (row["model"], row["rank"], row["similarity"]) == (None, None, None)
        assert found == choose_caption_pairs({"looks": run}, content, seed=3).to_pylist()
        assert found != choose_caption_pairs({"looks": run}, content, seed=4).to_pylist()

    def test_any_caption_of_an_image_may_be_drawn(self, content):
        """Each of its five is drawn about equally often."""
        run = vectors(content, captions=False)
        places = Counter()
        by_image = content.caption_ids[np.argsort(content.caption_image_ids, kind="stable")].tolist()
        order = {caption: place % 5 for place, caption in enumerate(by_image)}
        for seed in range(20):
            found = choose_caption_pairs({"looks": run}, content, seed=seed)
            rows = found.filter(found["model"].is_valid())
            places.update(order[caption] for name in ("left_id", "right_id") for caption in rows[name].to_pylist())
        assert set(places) == set(range(5))
        assert max(places.values()) < 1.2 * min(places.values())

    def test_candidates_come_half_from_captions_and_images(self, sample_library, content):
        runs = {"texts": vectors(content, 1, images=False), "looks": vectors(content, 2, captions=False)}
        neighbours = choose_image_pairs(runs, content).to_pylist()
        described = {(row["left_id"], row["right_id"]): row["rank"] for row in neighbours}
        looking = self.nearest(
            dict(zip(content.image_ids.tolist(), runs["looks"].images.vectors.astype(float), strict=True))
        )
        owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
        found = propose(runs, sample_library, strategy="cxc", budget=60).candidates.to_pylist()
        assert len(found) == 60
        every = propose(runs, sample_library, strategy="cxc")
        assert every.candidates.num_rows == every.facts.counts["open"] > 60
        origin = Counter()
        for row in found:
            pair = row["image_id"], owners[row["caption_id"]]
            for own in row["proposals"]:
                if own["direction"] == "i2i":
                    assert (own["model"], own["rank"]) == ("texts", described[pair])
                else:
                    near = [image for _, image in looking[pair[0]]]
                    assert (own["model"], own["direction"]) == ("looks", "t2t")
                    assert pair[1] == near[own["rank"] - 1]
            origin.update({own["direction"] for own in row["proposals"]})
        assert min(origin["t2t"], origin["i2i"]) >= 30  # a pair may come from both

    def test_most_similar_pairs_come_first_across_models(self, sample_library, content):
        runs = {name: vectors(content, seed, images=False) for seed, name in enumerate("ab")}
        table = choose_image_pairs(runs, content)
        assert table.num_rows == 2 * 300
        for name in "ab":
            own = table.filter(pa.compute.equal(table["model"], name))["similarity"].to_pylist()
            assert own == sorted(own, reverse=True)
        assert table["model"].to_pylist()[:4] == ["a", "b", "a", "b"]

    def test_what_cannot_be_compared_is_refused(self, runs, sample_library, content):
        texts = {"texts": vectors(content, images=False)}
        assert_refused(InvalidOption, "no model has vectors of images", texts, sample_library, strategy="cxc")
        few = {"few": EmbeddingsRun(None, Embeddings(content.caption_ids[1:], np.ones((299, 2))))}
        with pytest.raises(MissingIds, match=f"few lacks 1 of 300 captions.*{content.caption_ids[0]}"):
            choose_image_pairs(few, content)


class TestEntailment:
    def test_entailment_draws_from_top_30_and_chance(self, runs, sample_library, content, known):
        """One pair of each image comes from the top 30, and a tenth of all pairs by chance."""
        one = {"first": runs["first"]}
        tops = {image: ranked(runs["first"], "i2t", image)[:30] for image in content.image_ids.tolist()}
        whole = propose(one, sample_library, strategy="entailment").candidates["proposals"].to_pylist()
        assert (len(whole), sum(map(bool, whole))) == (round(60 / 0.9), 60)  # every image once
        proposed = propose(one, sample_library, strategy="entailment", budget=50)
        found = proposed.candidates.to_pylist()
        counts = proposed.facts.counts
        assert (counts["proposed"], counts["distinct"], counts["candidates"]) == (50, 50, 50)
        chosen = [row for row in found if row["proposals"]]
        assert (len(found), len(chosen)) == (50, 45)
        assert len({row["image_id"] for row in chosen}) == 45
        for row in chosen:
            (own,) = row["proposals"]
            assert (own["model"], own["direction"]) == ("first", "i2t")
            assert tops[row["image_id"]][own["rank"] - 1] == row["caption_id"]

    def test_only_open_captions_may_be_drawn(self, runs, sample_library, content, known):
        one = {"first": runs["first"]}
        image = content.image_ids[0].item()
        drawn = set()
        for seed in range(50):
            options = {"strategy": "entailment", "queries": ([image], []), "depth": 8, "budget": 1}
            drawn |= set(pairs_of(propose(one, sample_library, **options, seed=seed).candidates))
        top = {(image, caption) for caption in ranked(runs["first"], "i2t", image)[:8]}
        assert drawn == {pair for pair in top if pair not in known[1]}
        assert drawn < top

    def test_chance_pairs_are_in_no_list(self, monkeypatch):
        """Chance offers the pairs of the lists first."""
        lists = np.arange(60).reshape(30, 2)
        monkeypatch.setattr(strategy_file, "draw_pairs", lambda *_: np.arange(100))
        pool = SimpleNamespace(lists={"model": {"i2t": lists}}, depth=2, queries=(np.arange(30), None))
        pool.options = ProposalOptions(budget=20)
        pool.random = np.random.default_rng(0)
        pool.is_open = lambda pairs: np.ones(np.shape(pairs), bool)
        chosen = ENTAILMENT.choose(pool)
        assert len(set(chosen.pairs.tolist())) == 20
        assert set(chosen.entries.pairs.tolist()) < set(chosen.pairs.tolist())


def test_pairs_of_equal_priority_are_drawn():
    """Without a draw the first images of the split would fill every budget."""
    pairs = np.arange(10)
    priority = np.array([1.0] * 8 + [2.0] * 2)
    drawn = set()
    for seed in range(20):
        pool = SimpleNamespace(
            random=np.random.default_rng(seed), options=ProposalOptions(budget=4), is_open=lambda pairs: pairs != 3
        )
        found, of_pairs = proposing._cut(Choice(pairs, priority), pool)
        assert set(found[:2].tolist()) == {8, 9}
        assert of_pairs.tolist() == [2.0, 2.0, 1.0, 1.0]
        drawn |= set(found[2:].tolist())
    assert drawn == {0, 1, 2, 4, 5, 6, 7}


def test_disagreement_is_the_spread_of_reciprocal_ranks(runs, sample_library, content, known):
    queries = some_queries(content)
    found = rows_of(propose(runs, sample_library, strategy="disagreement", queries=queries).candidates)
    expected = listed(runs, content, 25, queries)
    assert sorted(found) == sorted(open_pairs(expected, known))
    for pair, row in found.items():
        spread = 0
        for direction in ("i2t", "t2i"):
            said = [
                next((1 / rank for model, own, rank in expected[pair] if (model, own) == (name, direction)), 0)
                for name in runs
            ]
            mean = sum(said) / 3
            spread += (sum((value - mean) ** 2 for value in said) / 3) ** 0.5
        assert row["priority"] == pytest.approx(spread, abs=1e-12)


class TestRandom:
    def test_every_open_pair_is_drawn_equally_often(self, sample_library, content, known):
        queries = content.image_ids[:2].tolist(), content.caption_ids[:3].tolist()
        drawn = Counter()
        for seed in range(200):
            found = propose({}, sample_library, strategy="random", budget=60, queries=queries, seed=seed).candidates
            assert (found.num_rows, found["priority"].null_count, set(map(len, found["proposals"]))) == (60, 60, {0})
            drawn.update(pairs_of(found))
        every = {
            (image, caption)
            for image in content.image_ids.tolist()
            for caption in content.caption_ids.tolist()
            if image in queries[0] or caption in queries[1]
        }
        free = every - known[1]
        assert set(drawn) == free
        expected = 200 * 60 / len(free)
        statistic = sum((drawn[pair] - expected) ** 2 / expected for pair in free)
        assert abs(statistic / len(free) - 1) < 0.2

    def test_all_open_pairs_where_the_budget_is_larger(self, sample_library, content, known):
        queries = content.image_ids[:1].tolist(), []
        found = propose({}, sample_library, strategy="random", budget=10_000, queries=queries).candidates
        image = queries[0][0]
        assert set(pairs_of(found)) == {(image, caption) for caption in content.caption_ids.tolist()} - known[1]


class TestRefused:
    @pytest.mark.parametrize(
        ("options", "error", "message"),
        [
            ({"strategy": "ecvc"}, UnknownName, "eccv"),
            ({"strategy": "random"}, InvalidOption, "strategy random needs a budget"),
            ({"strategy": "entailment"}, InvalidOption, "strategy entailment takes at most 1 models; there are 3"),
            ({"strategy": "cxc"}, InvalidOption, "first has scores.*give embeddings"),
            (
                {"strategy": "eccv", "sides": ("image", "image")},
                InvalidOption,
                "cannot choose pairs of two images; give --strategy cxc",
            ),
            ({"strategy": "random", "depth": 5, "budget": 5}, InvalidOption, "random does not take depth"),
            ({"number": "map_at_r"}, InvalidOption, "eccv does not take number; active takes it"),
            ({"budget": 0}, InvalidOption, "budget is 0"),
            ({"depth": 0}, InvalidOption, "depth is 0"),
            ({"seed": -1}, InvalidOption, "seed is -1"),
            ({"queries": 5}, InvalidOption, "give images and captions"),
            ({"queries": (61, 5)}, InvalidOption, "60 images, fewer than 61"),
            ({"queries": (0, 0)}, InvalidOption, "give at least one image or caption"),
            ({"queries": ([1], [])}, InvalidOption, "1 is not among the images of the split"),
            ({"queries": ([1.5], [])}, CxcEccvError, "whole-number ids"),
            ({"sources": ["ecvc"]}, UnknownName, "eccv"),
            ({"sources": []}, InvalidOption, "no source"),
            ({"split": "tset"}, CxcEccvError, "tset"),
            ({"asked": pa.table({"image_id": [1], "caption_id": [1]})}, DataError, "asked before: image 1 is not"),
        ],
    )
    def test_options(self, options, error, message, runs, sample_library):
        assert_refused(error, message, runs, sample_library, **options)

    def test_probabilities(self, runs, sample_library, content):
        ids = {"image_id": content.image_ids[:40], "caption_id": content.caption_ids[:40]}
        table = pa.table(ids | {"probability": np.zeros(40)})
        options = {"strategy": "active", "number": "coco_5k/t2i/recall_at_1", "budget": 200}
        for wrong, message in (
            (
                pa.table(ids | {"probability": np.full(40, 1.5)}),
                r"row 0 \(image \d+, caption \d+\): found 1.5, expected",
            ),
            (pa.table(ids | {"probability": np.append(np.zeros(39), np.nan)}), r"row 39 .*: found nan"),
            (pa.concat_tables([table, table.slice(0, 1)]), "occurs twice"),
            (table.slice(0, 1).set_column(0, "image_id", [[1]]), "image 1 is not in this split"),
        ):
            one = {"first": runs["first"]}
            assert_refused(DataError, message, one, sample_library, **options, judge=wrong)

    def test_models(self, runs, sample_library, content):
        first = runs["first"]
        lists = {image: ranked(first, "i2t", image) for image in content.image_ids.tolist()}
        short = {cut: RankingsRun.from_dicts({image: own[:cut] for image, own in lists.items()}) for cut in (24, 29)}
        lacking = RankingsRun.from_dicts({image: lists[image] for image in content.image_ids[1:].tolist()})
        few = ScoresRun(first.image_ids[1:], first.caption_ids, first.scores[1:])
        for own, options, error, message in (
            ({}, {}, InvalidOption, "strategy eccv takes at least 1 models; there are 0"),
            ({"a": first}, {"strategy": "disagreement"}, InvalidOption, "takes at least 2 models; there are 1"),
            ({"a": first}, {"strategy": "entailment", "queries": (5, 5)}, InvalidOption, "--queries 500,0"),
            (
                {"texts": vectors(content, images=False)},
                {},
                InvalidOption,
                "does not rank i2t: the run has no images",
            ),
            ({"a": first, "again": first}, {}, InvalidOption, "a and again have the same ranked lists"),
            ({"few": few}, {}, MissingIds, str(first.image_ids[0])),
            ({"few": lacking}, {"queries": (5, 0)}, MissingIds, str(content.image_ids[0])),
            ({"short": short[24]}, {"depth": 25, "queries": (5, 0)}, RunTooShallow, "its top 25"),
            ({"short": short[29]}, {"depth": 30, "queries": (5, 0)}, RunTooShallow, "its top 30"),
        ):
            assert_refused(error, message, own, sample_library, **options)


def test_facts_describe_the_proposal_and_are_serialisable(runs, sample_library):
    found = propose(runs, sample_library, budget=10, queries=QUERIES, seed=4)
    facts = found.facts
    assert json.loads(json.dumps(facts.to_json())) == facts.to_json()
    assert facts.strategy == "eccv"
    options = {"budget": 10, "depth": 5, "seed": 4, "sources": [*OFFICIAL]}
    assert facts.options == options | {"queries": {"images": 20, "captions": 30}}
    assert set(facts.models) == {"first", "second", "third"}
    hashes = {name: own["lists"]["i2t"] for name, own in facts.models.items()}
    assert len(set(hashes.values())) == 3
    again = propose({"renamed": runs["first"]}, sample_library).facts.models["renamed"]["lists"]["i2t"]
    assert again == hashes["first"]
    deeper = propose(runs, sample_library, strategy="disagreement", depth=40, queries=(2, 2)).facts.models
    assert {name: own["lists"]["i2t"] for name, own in deeper.items()} == hashes


def test_the_page_names_every_strategy():
    page = (Path(__file__).parents[4] / "docs" / "annotation.md").read_text(encoding="utf-8")
    rows = page.partition("### Propose")[2].partition("\n### ")[0]
    assert {line.split("`")[1] for line in rows.splitlines() if line.startswith("| `")} == strategies().keys()


def test_known_positives_are_included_on_request(runs, sample_library):
    apart, asked = (propose(runs, sample_library, ask_known=own) for own in (False, True))
    assert set(pairs_of(asked.candidates)) == set(pairs_of(apart.candidates)) | set(pairs_of(apart.known))
    assert (asked.known.num_rows, asked.facts.options["ask_known"]) == (0, True)
    some = propose(runs, sample_library, ask_known=True, budget=20)
    known = [row for row in some.candidates.to_pylist() if row["known"]]
    assert known
    assert some.known.num_rows + len(known) == apart.known.num_rows


@pytest.mark.parametrize(("side", "kind", "direction"), [("image", "sis", "i2i"), ("caption", "sts", "t2t")])
def test_same_modality_pairs_exclude_rated_and_mirrored_ones(side, kind, direction, sample_library):
    """A pair is proposed in one order alone."""
    runs = {"noisy": noisy_run(sample_library, 0)}
    options = {"strategy": "cxc", "sides": (side, side), "depth": 25}
    found = propose(runs, sample_library, **options)
    rows = found.candidates.to_pylist()
    pairs = [frozenset((row["image_id"], row["caption_id"])) for row in rows]
    assert len(set(pairs)) == len(pairs) == found.facts.counts["open"]
    rated = sample_library.split("test").ratings(kind).to_pylist()
    assert not {frozenset((row["left_id"], row["right_id"])) for row in rated} & set(pairs)
    assert {own["direction"] for row in rows for own in row["proposals"]} == {direction}
    again = propose(runs, sample_library, **options, budget=9, asked=found.candidates.slice(0, 5))
    assert again.candidates.num_rows == 9
    assert again.facts.counts["asked_before"] == 5


@pytest.mark.parametrize("sides", [("image", "caption"), ("image", "image"), ("caption", "caption")])
def test_proposal_does_not_depend_on_the_processors(sides, sample_library, monkeypatch):
    """A process that was killed is repeated elsewhere; blocks of another size round scores otherwise."""
    runs = {name: noisy_run(sample_library, seed, width=64) for seed, name in enumerate("ab")}
    proposals = []
    for processors in (1, 2, 3, 16):
        monkeypatch.setattr(blocks, "workers", lambda processors=processors: processors)
        proposals.append(propose(runs, sample_library, strategy="cxc", sides=sides))
    first, *others = ((each.facts, each.candidates.to_pylist()) for each in proposals)
    assert all(each == first for each in others)
