"""Ranking captions against images that stand for their other captions: plain loops, and ``cxc-eccv query-corpus``."""

import json
import re
from functools import partial
from importlib.util import find_spec

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from slow_ranks import slow_rank, slow_scores

from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MissingIds, UnknownName
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_run, save_embeddings
from cxc_eccv.studies.explain.caption_corpus import (
    collect_captions,
    evaluate_query_corpus,
    key_summaries,
    mean_corpus,
    pair_up,
    summary_corpus,
    take_rows,
)
from cxc_eccv.studies.explain.failed_queries import find_failures
from cxc_eccv.types import Embeddings


def table(owners, texts=None):
    ids = [1000 + place for place in range(len(owners))]
    texts = texts or [f"caption {number}" for number in ids]
    return pa.table({"caption_id": pa.array(ids, pa.int64()), "image_id": pa.array(owners, pa.int64()), "text": texts})


def rank_by_loops(owners, vectors, position, normalize=False):
    means = []
    queries = []
    for image in dict.fromkeys(owners):
        rows = [row for row, owner in enumerate(owners) if owner == image]
        if len(rows) < 2 or len(rows) <= position:
            continue
        queries.append(vectors[rows[position]].astype(float))
        others = [vectors[row].astype(float) for row in rows if row != rows[position]]
        if normalize:
            others = [vector / np.sqrt((vector**2).sum()) for vector in others]
        means.append(sum(others) / len(others))
    return [slow_rank(query, means, place) for place, query in enumerate(queries)]


def check(report, position, ranks):
    for label, value in slow_scores(ranks).items():
        assert report.scores[f"coco/query_{position}/{label}"] == pytest.approx(value, abs=1e-12), label


@pytest.mark.parametrize("normalize", [False, True])
def test_a_plain_loop_agrees(sample_library, normalize):
    random = np.random.default_rng(3)
    owners = random.permutation(np.repeat(np.arange(40), random.integers(1, 8, 40))).tolist()
    vectors = random.standard_normal((len(owners), 6)).astype(np.float32) * random.uniform(0.1, 9, (len(owners), 1))
    vectors = vectors.astype(np.float32)
    options = {"collection": "coco", "query_position": "all", "normalize": normalize}
    report = evaluate_query_corpus(table(owners), vectors, sample_library, **options)
    most = max(owners.count(image) for image in owners)
    every = []
    for position in range(most):
        ranks = rank_by_loops(owners, vectors, position, normalize)
        check(report, position, ranks)
        every += ranks
        assert report.rows[position].queries == len(ranks)
        assert report.rows[position].left_out == 40 - len(ranks)
    check(report, "all", every)
    assert [row.position for row in report.rows] == [*map(str, range(most)), "all"]
    assert report.rows[-1].queries == len(every)


@given(st.lists(st.integers(0, 6), min_size=2, max_size=30), st.integers(0, 4))
def test_each_caption_is_query_or_represents_its_image(owners, position):
    owners = np.array(owners)
    sizes = {image: np.count_nonzero(owners == image) for image in owners.tolist()}
    taking = [image for image in dict.fromkeys(owners.tolist()) if sizes[image] > max(position, 1)]
    if not taking:
        with pytest.raises(InvalidOption, match="no image has a caption at position"):
            pair_up(owners, position)
        return
    pairing = pair_up(owners, position)
    assert pairing.image_ids.tolist() == taking
    assert pairing.left_out == len(sizes) - len(taking)
    for place, image in enumerate(taking):
        rows = np.flatnonzero(owners == image).tolist()
        assert pairing.queries[place] == rows.pop(position)
        assert pairing.others[pairing.starts[place] : pairing.starts[place + 1]].tolist() == rows


def test_images_with_equal_captions_tie_in_any_order(sample_library):
    random = np.random.default_rng(0)
    said = random.standard_normal((4, 7)).astype(np.float32)
    vectors = np.concatenate([random.standard_normal((1, 7)), said, random.standard_normal((1, 7)), said[::-1]])
    vectors = vectors.astype(np.float32)
    report = evaluate_query_corpus(table([1] * 5 + [2] * 5), vectors, sample_library, collection="coco")
    assert report.rows[0].ties == 2
    assert report.scores["coco/query_0/recall_at_1"] == 0  # an image that ties counts as above


def test_mean_vector_ignores_the_order_of_captions():
    said = np.array([[2.0**60, 1], [1, 1], [-(2.0**60), 1]], dtype=np.float32)  # the sum depends on the order
    owners = np.repeat([7, 8, 9], 4)
    vectors = np.ones((12, 2), dtype=np.float32)
    for image, order in enumerate(([0, 1, 2], [0, 2, 1], [2, 1, 0])):
        vectors[4 * image + 1 : 4 * image + 4] = said[order]
    means = mean_corpus(vectors)(pair_up(owners, 0)).vectors
    assert (means == means[0]).all()


def test_query_repeated_among_the_others_is_counted(sample_library):
    texts = ["A dog.", "a  DOG.", "Two dogs.", "A cat.", "A bus.", "A cat"]
    vectors = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    report = evaluate_query_corpus(table([1, 1, 1, 2, 2, 2], texts), vectors, sample_library, collection="coco")
    assert report.rows[0].same_words == 1
    assert "same words" in report.to_markdown()


def test_summaries_stand_for_images(sample_library):
    owners = [1, 1, 2, 2, 3, 3]
    vectors = np.eye(6, dtype=np.float32)
    sums = {"one": vectors[0], "two": vectors[2], "three": vectors[5]}

    def encode(texts):
        return Embeddings([number for number, _ in texts], np.stack([sums[text] for _, text in texts]))

    given = pa.table({"image_id": [1, 2, 3], "summary": ["one", "two", "three"]})
    corpus = summary_corpus(key_summaries(given, [0], "a file"), encode)
    report = evaluate_query_corpus(table(owners), vectors, sample_library, collection="coco", corpus=corpus)
    assert report.scores["coco/query_0/recall_at_1"] == pytest.approx(2 / 3)
    with pytest.raises(MissingIds, match=r"3 of 3 images have no summary .* at position 1, the first: 1"):
        evaluate_query_corpus(
            table(owners), vectors, sample_library, collection="coco", corpus=corpus, query_position=1
        )


@pytest.mark.parametrize(
    ("columns", "positions", "message"),
    [
        ({"summary": ["a", "b"]}, [0, 1], "no column query_position, which 2 positions need"),
        ({"summary": ["a", " "]}, [0], "row 1: the summary of image 8 is ' '"),
        ({"summary": ["a", None]}, [0], "row 1: the summary of image 8 is None"),
        ({"summary": ["a", "b"], "image_id": [7, 7]}, [0], "row 1: a second summary of image 7"),
    ],
)
def test_bad_summaries(columns, positions, message):
    with pytest.raises(DataError, match=message):
        key_summaries(pa.table({"image_id": [7, 8]} | columns), positions, "t5.jsonl")


def test_what_cannot_be_ranked(sample_library):
    captions = collect_captions(sample_library, "coco")
    ids = captions["caption_id"].to_numpy()
    vectors = np.ones((ids.size, 2), dtype=np.float32)
    with pytest.raises(UnknownName, match="did you mean 'flickr8k'"):
        collect_captions(sample_library, "flickr8")
    with pytest.raises(MissingIds, match=f"clip.npz lacks 1 of {ids.size} captions, the first: {ids[-1]}"):
        take_rows(Embeddings(ids[:-1], vectors[:-1]), ids, "clip.npz")
    with pytest.raises(MalformedRun, match=r"1 of .* captions have a zero vector"):
        take_rows(Embeddings(ids, np.append(vectors[:-1], [[0, 0]], axis=0)), ids, "clip.npz")
    for position in ("first", -1, "-1", True):
        with pytest.raises(InvalidOption, match="query position"):
            evaluate_query_corpus(captions, vectors, sample_library, collection="coco", query_position=position)
    with pytest.raises(InvalidOption, match=r"no image has a caption at position 5 .* positions are 0 to 4"):
        evaluate_query_corpus(captions, vectors, sample_library, collection="coco", query_position="5")
    turned = np.array([[1, 0], [1, 0], [-1, 0]], dtype=np.float32)
    with pytest.raises(MalformedRun, match=r"captions of 1 images average to the zero vector.*the first: 4"):
        evaluate_query_corpus(table([4, 4, 4]), turned, sample_library, collection="coco")


def test_collections_of_the_real_data(real_library):
    flickr8k = collect_captions(real_library, "flickr8k")
    assert flickr8k.num_rows == 5 * 8091
    assert len(set(flickr8k["image_id"].to_pylist())) == 8091
    positions = flickr8k["caption_id"].to_numpy().reshape(-1, 5) % 10
    assert (positions == np.arange(5)).all()  # the fifth of an image stands where the query at position 4 is looked for
    assert collect_captions(real_library, "flickr30k").num_rows == 5_070 + 5_000
    assert collect_captions(real_library, "coco").num_rows == 25_000
    assert collect_captions(real_library, "flickr8k", "test").num_rows == 5_000


@pytest.fixture
def search(command):
    return partial(command, "query-corpus")


@pytest.fixture
def file(make_run, sample_library, tmp_path):
    run = make_run(sample_library)
    save_embeddings(tmp_path / "text.npz", EmbeddingsRun(None, run.captions, model="a text model"))
    return tmp_path / "text.npz"


def test_the_numbers_of_the_function(search, file, sample_library, make_run, tmp_path):
    status, shown, said = search(file, "--query-position", "all", "--output", tmp_path / "out")
    assert status == 0, said
    captions = collect_captions(sample_library, "coco")
    vectors = make_run(sample_library).captions.vectors
    options = {"collection": "coco", "query_position": "all"}
    expected = evaluate_query_corpus(captions, vectors, sample_library, **options)
    content = json.loads((tmp_path / "out" / "query_corpus.json").read_text())
    assert content["schema"] == 1
    assert content["scores"] == expected.scores
    assert len(content["scores"]) == 6 * 8
    facts = content["provenance"]
    assert facts["model"] == "a text model"
    assert facts["run"]["captions"]["count"] == 300
    assert facts["data"]["files"]
    assert facts["command"].startswith("cxc-eccv query-corpus text.npz --query-position all")
    assert "coco: a text model" in shown
    assert "query all" in (tmp_path / "out" / "query_corpus.md").read_text()
    assert "R@10" in shown
    alone = search(file)[1]
    assert next(line for line in alone.splitlines() if line.strip().startswith("R@10")).count("[") == 1


@pytest.mark.parametrize("position", ["1", "all"])
def test_failures_are_those_that_explain_finds(position, search, make_run, sample_library, tmp_path):
    captions = make_run(sample_library).captions
    captions.vectors[5:10] = captions.vectors[:5]  # two images that tie
    save_embeddings(tmp_path / "text.npz", EmbeddingsRun(None, captions, model="a text model"))
    assert search(tmp_path / "text.npz", "--query-position", position, "--output", tmp_path)[0] == 0
    scores = json.loads((tmp_path / "query_corpus.json").read_text())["scores"]
    run = load_run(tmp_path / "rankings.parquet")
    assert (run.model, run.corpus) == ("a text model", "the mean of their other captions")
    found = find_failures(run, sample_library.split("test"), "t2i")
    assert found.n_queries == (300 if position == "all" else 60)
    assert len(found) / found.n_queries == pytest.approx(scores[f"coco/query_{position}/fails"], abs=1e-12)
    known = found.rows["truth_rank"].dropna()
    assert 2 <= known.min() <= known.max() <= 50
    below_ten = found.n_queries - len(found) + (known <= 10).sum()
    assert below_ten / found.n_queries == pytest.approx(scores[f"coco/query_{position}/recall_at_10"], abs=1e-12)
    with pytest.raises(InvalidOption, match=r"by the mean of their other captions, .* explain for this file"):
        evaluate(run, data_dir=sample_library)
    with pytest.raises(MissingIds, match=r"none of its queries is a caption of COCO's validation split"):
        find_failures(run, sample_library.split("validation"), "t2i")


@pytest.mark.usefixtures("wordnet")
def test_two_models_are_explained_side_by_side(command, make_run, sample_library, tmp_path):
    for seed, name in enumerate(("one", "two")):
        save_embeddings(tmp_path / f"{name}.npz", make_run(sample_library, seed=seed))
        assert command("query-corpus", tmp_path / f"{name}.npz", "--output", tmp_path / name)[0] == 0
    files = [tmp_path / name / "rankings.parquet" for name in ("one", "two")]
    status, shown, _ = command("explain", *files, "--output", tmp_path / "out")
    assert status == 0
    assert "images as the mean of their other captions" in " ".join(shown.split())
    content = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert content["provenance"]["run"]["corpus"] == "the mean of their other captions"
    assert content["provenance"]["restriction"]["captions"] == {"used": 60, "of": 300}
    assert content["scores"]["t2i/queries"] == 60
    assert 0 < content["scores"]["t2i/concept_agreement_informed"] < 1
    assert {row["key"] for row in content["paired"]} >= {"t2i/failure_rate", "t2i/concept_agreement"}
    assert "images as" in (tmp_path / "out" / "explain.html").read_text().lower()


def test_query_corpus_rankings_need_one_direction_and_corpus(tmp_path):
    lists = RankingsRun.from_dicts({7: [1]}, {1: [7]}).lists
    with pytest.raises(MalformedRun, match="have only t2i, but these have i2t, t2i"):
        RankingsRun(lists, corpus="a summary")
    with pytest.raises(MalformedRun, match="what represents an image is ' '; give one line"):
        RankingsRun({"t2i": lists["t2i"]}, corpus=" ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to rank: name a file with embeddings of the captions, or a model with --model"),
        (("FILE", "--model", "bert"), "is encoded already: give it, or --model bert, not both"),
        (("FILE", "--summarizer", "t5"), "--summarizer: only for --model, and .* holds vectors of captions"),
        (("FILE", "--collection", "flickr9k"), "UnknownName: .*did you mean 'flickr8k'"),
        (("FILE", "--collection", "flickr8k"), "flickr8k"),
        (("FILE", "--query-position", "7"), "no image has a caption at position 7"),
        (("FILE", "--query-position", "first"), "query position 'first': give a number from 0, or all"),
        (("FILE", "--split", "val"), "lacks 300 of 300 captions"),
        (("IMAGES",), "holds no captions; a query and what it searches are captions"),
        pytest.param(
            ("--model", "bert", "--summarizer", "t5", "--normalize"),
            "--normalize is for the mean of vectors",
            marks=pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed: pip install torch"),
        ),
    ],
)
def test_what_does_not_fit_is_one_message(words, message, search, file, tmp_path):
    save_embeddings(tmp_path / "images.npz", EmbeddingsRun(Embeddings([1], np.ones((1, 2))), None))
    places = {"FILE": file, "IMAGES": tmp_path / "images.npz"}
    status, shown, said = search(*(places.get(word, word) for word in words))
    assert (status, shown) == (2, "")
    assert re.search(message, said), said
