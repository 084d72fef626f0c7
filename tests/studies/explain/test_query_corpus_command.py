"""``cxc-eccv query-corpus`` on a file of embeddings: its table, its files, and what it refuses."""

import json
import re
from functools import partial

import numpy as np
import pytest

from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_run, save_embeddings
from cxc_eccv.studies.explain.failures import find_failures
from cxc_eccv.studies.explain.query_corpus import collect_captions, evaluate_query_corpus
from cxc_eccv.types import Embeddings


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
    found = find_failures(run, sample_library, "test", "t2i")
    assert found.n_queries == (300 if position == "all" else 60)
    assert len(found) / found.n_queries == pytest.approx(scores[f"coco/query_{position}/fails"], abs=1e-12)
    known = found.truth_ranks.drop_null().to_numpy()
    assert 2 <= known.min() <= known.max() <= 50
    below_ten = found.n_queries - len(found) + (known <= 10).sum()
    assert below_ten / found.n_queries == pytest.approx(scores[f"coco/query_{position}/recall_at_10"], abs=1e-12)
    with pytest.raises(InvalidOption, match=r"by the mean of their other captions, .* explain for this file"):
        evaluate(run, data_dir=sample_library)
    with pytest.raises(MissingIds, match=r"none of its queries is a caption of COCO's validation split"):
        find_failures(run, sample_library, "validation", "t2i")


@pytest.mark.usefixtures("wordnet")
def test_two_models_are_explained_side_by_side(command, make_run, sample_library, tmp_path):
    for seed, name in enumerate(("one", "two")):
        save_embeddings(tmp_path / f"{name}.npz", make_run(sample_library, seed=seed))
        assert command("query-corpus", tmp_path / f"{name}.npz", "--output", tmp_path / name)[0] == 0
    files = [tmp_path / name / "rankings.parquet" for name in ("one", "two")]
    status, shown, _ = command("explain", *files, "--output", tmp_path / "out")
    assert status == 0
    assert "images as the mean of their other captions" in shown
    content = json.loads((tmp_path / "out" / "explain.json").read_text())
    assert content["provenance"]["run"]["corpus"] == "the mean of their other captions"
    assert content["provenance"]["restriction"]["captions"] == {"used": 60, "of": 300}
    assert content["scores"]["t2i/queries"] == 60
    assert 0 < content["scores"]["t2i/concept_agreement_informed"] < 1
    assert {row["key"] for row in content["paired"]} >= {"t2i/failure_rate", "t2i/concept_agreement"}
    assert "images as" in (tmp_path / "out" / "explain.html").read_text().lower()


def test_rankings_of_query_corpus_are_of_one_direction_and_corpus(tmp_path):
    lists = RankingsRun.from_dicts({7: [1]}, {1: [7]}).lists
    with pytest.raises(MalformedRun, match="have only t2i, but these have i2t, t2i"):
        RankingsRun(lists, corpus="a summary")
    with pytest.raises(MalformedRun, match="what represents an image is ' '; give one line"):
        RankingsRun({"t2i": lists["t2i"]}, corpus=" ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "nothing to rank: name a file with embeddings of the captions, or a model with --model"),
        (("FILE", "--model", "bert"), "is encoded already: give one of the two"),
        (("FILE", "--summarizer", "t5"), "--summarizer: only for --model, and .* holds vectors of captions"),
        (("FILE", "--collection", "flickr9k"), "UnknownName: .*did you mean 'flickr8k'"),
        (("FILE", "--collection", "flickr8k"), "flickr8k"),
        (("FILE", "--query-position", "7"), "no image has a caption at position 7"),
        (("FILE", "--query-position", "first"), "query position 'first': give a number from 0, or all"),
        (("FILE", "--split", "val"), "lacks 300 of 300 captions"),
        (("IMAGES",), "holds no captions; a query and what it searches are captions"),
        (("--model", "bert", "--summarizer", "t5", "--normalize"), "--normalize is for the mean of vectors"),
    ],
)
def test_what_does_not_fit_is_one_message(words, message, search, file, tmp_path):
    save_embeddings(tmp_path / "images.npz", EmbeddingsRun(Embeddings([1], np.ones((1, 2))), None))
    places = {"FILE": file, "IMAGES": tmp_path / "images.npz"}
    status, shown, said = search(*(places.get(word, word) for word in words))
    assert (status, shown) == (2, "")
    assert re.search(message, said), said
