"""Baselines without training: discovery, values against loops and the paper's, and what bad input gets."""

from statistics import harmonic_mean

import numpy as np
import pytest
from command_line import run_command

from cxc_eccv.cli.demo import TfIdf, words
from cxc_eccv.errors import InvalidOption, MalformedRun, MalformedSource, UnknownName
from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.baselines.sts_baselines import evaluate_baseline
from cxc_eccv.studies.baselines.untrained import Inputs, baseline_named
from cxc_eccv.studies.baselines.untrained.bow import evaluate_bow
from cxc_eccv.studies.baselines.untrained.other_captions import score_by_other_captions
from cxc_eccv.studies.baselines.untrained.random import draw_run
from cxc_eccv.studies.baselines.untrained.word_vectors import AveragedVectors, read_word_vectors
from cxc_eccv.types import Embeddings

TABLE = "dog 1.0 0.0\ncat 0.0 2.0\nblue red 5 5\nbus 4 4\n"


def vectors_file(folder, text=TABLE):
    path = folder / "glove.txt"
    path.write_text(text, encoding="utf-8")
    return path


def test_unknown_name_gets_a_hint():
    with pytest.raises(UnknownName, match="did you mean 'random'"):
        baseline_named("randon")


def test_random_vectors_are_those_of_their_seed(sample_library):
    one, other, again = (draw_run(sample_library.split(), seed) for seed in (1, 2, 1))
    np.testing.assert_array_equal(one.images.vectors, again.images.vectors)
    assert not np.allclose(one.captions.vectors, other.captions.vectors)
    report, _ = baseline_named("random")(sample_library.split(), Inputs(seed=1))
    assert report.scores == evaluate(one, data_dir=sample_library).scores
    assert report.provenance.model == "random vectors, seed 1"


@pytest.mark.filterwarnings("ignore:.*texts have no word with a vector:UserWarning")
def test_baseline_reports_its_similarity_or_the_files(sample_library, make_run, tmp_path):
    words = vectors_file(tmp_path, "red 1 0 0\nblue 0 1 0\na 0 0 1\n")
    features = [tmp_path / f"{name}.npz" for name in ("plain", "dot")]
    for path, similarity in zip(features, (None, "dot"), strict=True):
        save_embeddings(path, EmbeddingsRun(make_run(sample_library).images, None, similarity=similarity))
    cases = [("random", Inputs(), "cosine"), ("word_vectors", Inputs(vectors=words), "cosine")]
    cases += [
        ("image_features", Inputs(features=path), said) for path, said in zip(features, ("cosine", "dot"), strict=True)
    ]
    for name, inputs, said in cases:
        report, run = baseline_named(name)(sample_library.split(), inputs)
        assert run.similarity == said
        found = report.provenance.similarity, report.provenance.similarity_from
        assert found == (said, "the run"), name


def test_captions_of_unknown_words_are_never_found(sample_library, monkeypatch):
    """Cosines of bags of words are not negative: the zero row's 0 is the lowest there is, and ties count against it."""
    unknown = TfIdf.fit(["qwerty"])
    monkeypatch.setattr(TfIdf, "fit", lambda texts: unknown)
    report = evaluate_bow(sample_library.split())
    assert report.scores["cxc/t2t/recall_at_10"] == 0
    gallery = sample_library.split("test").captions.num_rows - 1
    assert report.scores["cxc/t2t/median_rank"] > 0.9 * gallery


def test_refused_input_names_those_that_are_taken(sample_library):
    with pytest.raises(InvalidOption, match="random does not take --model; it takes --seed"):
        baseline_named("random")(sample_library.split(), Inputs(model="x"))
    with pytest.raises(InvalidOption, match="it takes no such options"):
        baseline_named("bow")(sample_library.split(), Inputs(seed=1))


def test_caption_vector_is_the_mean_of_known_words(tmp_path):
    """A text of unknown words gets the mean of all vectors."""
    encoder = AveragedVectors(read_word_vectors(vectors_file(tmp_path), {"dog", "cat", "bus", "unicorn"}))
    found = encoder(["A dog, a dog and a cat.", "BUS"])
    np.testing.assert_allclose(found, [[2 / 3, 2 / 3], [4, 4]], rtol=1e-6)
    with pytest.warns(UserWarning, match="1 of 2 texts have no word with a vector"):
        unknown, cat = encoder(["unicorn", "cat"])
    assert cat.tolist() == [0, 2]
    np.testing.assert_allclose(unknown, np.mean(list(encoder.vectors.values()), axis=0))


def test_the_header_of_word2vec_and_words_with_blanks(tmp_path):
    table = read_word_vectors(vectors_file(tmp_path, f"4 2\n{TABLE}"), {"dog", "blue red"})
    assert {word: vector.tolist() for word, vector in table.items()} == {"dog": [1, 0], "blue red": [5, 5]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog 1 x\n", "line 1"),
        ("dog 1 nan\n", "finite numbers"),
        ("dog 1 2\ncat 1\n", "line 2"),
        ("sofa 1 2\n", "none of 2 words"),
        ("dog\n", "line 1"),
    ],
)
def test_broken_word_vectors(tmp_path, text, message):
    with pytest.raises(MalformedSource, match=message):
        read_word_vectors(vectors_file(tmp_path, text), {"dog", "cat"})


def test_word_vectors_that_are_not_there(sample_library, tmp_path):
    with pytest.raises(InvalidOption, match="needs --vectors FILE"):
        baseline_named("word_vectors")(sample_library.split(), Inputs())
    with pytest.raises(MalformedSource, match="no file"):
        baseline_named("word_vectors")(sample_library.split(), Inputs(vectors=tmp_path / "glove.txt"))


def test_image_features_of_a_file_equal_their_evaluation(sample_library, make_run, tmp_path):
    images = EmbeddingsRun(make_run(sample_library).images, None)
    save_embeddings(tmp_path / "features.npz", images)
    report, _ = baseline_named("image_features")(sample_library.split(), Inputs(features=tmp_path / "features.npz"))
    assert report.scores == evaluate(images, ["cxc/i2i", "cxc/sis"], data_dir=sample_library).scores
    assert any(key.startswith("cxc/i2i/") for key in report.scores)


def test_image_features_that_are_none(sample_library, tmp_path):
    save_embeddings(tmp_path / "texts.npz", EmbeddingsRun(None, Embeddings([1], [[1.0]])))
    with pytest.raises(MalformedRun, match="has no image_ids"):
        baseline_named("image_features")(sample_library.split(), Inputs(features=tmp_path / "texts.npz"))
    for inputs in (Inputs(), Inputs(model="x"), Inputs(images=tmp_path)):
        with pytest.raises(InvalidOption, match="needs either --features"):
            baseline_named("image_features")(sample_library.split(), inputs)


FILES = ["report.json", "per_query.parquet", "examples.parquet", "report.md", "report.html"]


@pytest.mark.thorough
def test_a_baseline_keeps_the_same_files(tmp_path):
    out, _ = run_command("baseline", "bow", "--data-dir", "sample", "--output", tmp_path / "bow")
    assert " ".join(out.partition("/bow/:")[2].split()) == ", ".join(FILES)
    assert "TF-IDF" in (tmp_path / "bow" / "report.html").read_text()


@pytest.mark.thorough
def test_a_wrong_name_is_one_message():
    assert "did you mean 'bow'" in run_command("baseline", "bows", status=2)[1]


SAME_WORDS = pytest.mark.filterwarnings("ignore:.*score exactly as high:UserWarning")

PAPER = {"recall_at_1": 0.212, "recall_at_5": 0.382, "recall_at_10": 0.474}


@SAME_WORDS
@pytest.mark.slow
@pytest.mark.reference
def test_it_lands_near_the_papers_bag_of_words(real_library):
    scores = evaluate_bow(real_library.split()).scores
    for metric, value in PAPER.items():
        assert abs(scores[f"cxc/t2t/{metric}"] - value) < 0.02
    assert abs(scores["cxc/t2t/median_rank"] - 13) <= 2


@SAME_WORDS
@pytest.mark.thorough
def test_recall_equals_a_dense_loop(sample_library):
    texts = [words(text) for text in sample_library.split("test").captions["text"].to_pylist()]
    seen = [set(words(text)) for text in sample_library.split("validation").captions["text"].to_pylist()]
    vocabulary = sorted(set().union(*seen))
    idf = {w: np.log((1 + len(seen)) / (1 + sum(w in document for document in seen))) + 1 for w in vocabulary}
    dense = np.array([[text.count(w) * idf[w] for w in vocabulary] for text in texts])
    lengths = np.linalg.norm(dense, axis=1, keepdims=True)
    dense = np.divide(dense, lengths, out=np.zeros_like(dense), where=lengths > 0)  # of unknown words alone: no length
    similarity = np.round(dense @ dense.T, 6)
    np.fill_diagonal(similarity, -1)
    qrels = merged_qrels(sample_library.split("test"), "t2t")
    best = []
    for row in range(qrels.query_ids.size):
        positives = qrels.indices[qrels.indptr[row] : qrels.indptr[row + 1]]
        others = np.delete(similarity[row], positives)
        best.append(1 + int((others >= similarity[row, positives].max()).sum()))
    scores = evaluate_bow(sample_library.split()).scores
    for k in (1, 5, 10):
        assert scores[f"cxc/t2t/recall_at_{k}"] == pytest.approx(np.mean(np.array(best) <= k), abs=1e-12)
    assert scores["cxc/t2t/median_rank"] == np.median(best)


def test_text_of_unknown_words_is_a_zero_row():
    vectors = TfIdf.fit(["a dog"]).encode(["qwerty", "a dog", "dog dog a"]).toarray()
    assert vectors[0].tolist() == [0, 0]
    np.testing.assert_allclose(np.linalg.norm(vectors[1:], axis=1), 1, rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.reference
def test_tf_idf_on_the_papers_tasks(real_library):
    report = evaluate_baseline("bow", real_library)
    assert sum(row.pairs for row in report.tasks["sts"][:1]) == 12_544
    found = {(task, row.name): round(100 * row.pearson, 1) for task, rows in report.tasks.items() for row in rows}
    assert found["sts2012", "msrpar"] == 59.7
    assert found["sts2016", "question_question"] == 64.2
    assert (found["stsb", "cosine"], found["sick", "cosine"]) == (69.6, 61.8)
    assert (found["sts", "mean"], found["sts", "weighted_mean"]) == (67.0, 68.4)


def test_an_image_stands_for_its_other_captions(real_library):
    content = real_library.split("validation", "flickr8k")
    vectors = np.random.default_rng(1).standard_normal((content.caption_ids.size, 8)).astype(np.float32)
    run = EmbeddingsRun(None, Embeddings(content.caption_ids[::-1].copy(), vectors[::-1].copy()))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for pool, summarize in (("max", np.max), ("mean", np.mean)):
        found = score_by_other_captions(run, content, pool)
        drawn = np.random.default_rng(2).integers(0, (1_000, 5_000), (200, 2)).tolist()
        for row, column in [*drawn, [3, 17], [3, 15]]:
            others = np.flatnonzero(content.caption_image_ids == content.image_ids[row])
            others = others[others != column]
            expected = summarize(units[others] @ units[column])
            assert found.scores[row, column] == pytest.approx(expected, abs=1e-6)
    pictures = np.random.default_rng(4).standard_normal((content.image_ids.size, 8)).astype(np.float32)
    both = EmbeddingsRun(Embeddings(content.image_ids, pictures), run.captions)
    found, nearest = (score_by_other_captions(both, content, pool).scores for pool in ("harmonic", "max"))
    for row, column in drawn:
        cosine = pictures[row] @ units[column] / np.linalg.norm(pictures[row])
        factors = [max(2.5 * cosine, 0), max(nearest[row, column], 0)]
        expected = harmonic_mean(factors) if min(factors) > 0 else 0
        assert found[row, column] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(MalformedRun, match="run holds no image_ids"):
        score_by_other_captions(run, content, "harmonic")
    with pytest.raises(MalformedRun, match="lacks 1 captions of the split"):
        score_by_other_captions(EmbeddingsRun(None, Embeddings(content.caption_ids[1:], vectors[1:])), content)
    with pytest.raises(UnknownName, match="way to pool"):
        score_by_other_captions(run, content, "median")


@pytest.mark.parametrize("pool", ["max", "mean", "harmonic"])
def test_captions_with_equal_vectors_tie(sample_library, pool):
    content = sample_library.split("test")
    owners = content.caption_image_ids
    captions = np.random.default_rng(5).standard_normal((owners.size, 384)).astype(np.float32)
    pictures = np.random.default_rng(6).standard_normal((content.image_ids.size, 384)).astype(np.float32)
    twins = [np.flatnonzero(owners == image) for image in content.image_ids[[3, 58]]]
    captions[twins[1]], pictures[58] = captions[twins[0]], pictures[3]
    run = EmbeddingsRun(Embeddings(content.image_ids, pictures), Embeddings(content.caption_ids, captions))
    scores = score_by_other_captions(run, content, pool).scores
    others = np.delete(np.arange(len(scores)), [3, 58])
    np.testing.assert_array_equal(scores[np.ix_(others, twins[0])], scores[np.ix_(others, twins[1])])
    elsewhere = np.setdiff1d(np.arange(owners.size), np.concatenate(twins))
    np.testing.assert_array_equal(scores[3, elsewhere], scores[58, elsewhere])
