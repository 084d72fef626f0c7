"""Adversarial re-ranking, against a plain loop."""

import json

import numpy as np
import pytest
from slow_ranks import slow_rank, slow_scores

from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, UnknownIds, UnknownName
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, ScoresRun, save_embeddings
from cxc_eccv.studies.explain.reranking import rerank, reranking_tables
from cxc_eccv.tables import tables_to_markdown
from cxc_eccv.types import Embeddings


def alter(captions, kind, rows, seed=0, noise=1.0):
    turn = noise * np.random.default_rng(seed).standard_normal((len(rows), captions.vectors.shape[1]))
    vectors = (captions.vectors[rows] + turn).astype(np.float32)
    return {f"adversarial_{kind}_ids": captions.ids[rows], f"adversarial_{kind}_embeddings": vectors}


def altered_run(**arrays):
    return EmbeddingsRun(None, None, further=arrays)


def slow_pairs(direction, run, content, ids, vectors):
    """(before, after) of every caption: rank of its image among all, or among means of captions at other positions."""
    new = dict(zip(ids.tolist(), vectors.astype(float), strict=True))
    captions = dict(zip(run.captions.ids.tolist(), run.captions.vectors.astype(float), strict=True))
    images = content.image_ids.tolist()
    owners = content.caption_image_ids
    of_image = {image: content.caption_ids[owners == image].tolist() for image in images}
    pairs = {}
    for image in images:
        for position, caption in enumerate(of_image[image]):
            if direction == "t2i":
                items = [run.images.vectors[run.images.ids.tolist().index(one)].astype(float) for one in images]
            else:
                items = [
                    np.mean([captions[c] for place, c in enumerate(of_image[one]) if place != position], axis=0)
                    for one in images
                ]
            own = images.index(image)
            query = captions[caption]
            pairs[caption] = slow_rank(query, items, own), slow_rank(new.get(caption, query), items, own)
    return pairs


@pytest.mark.parametrize("direction", ["t2i", "t2t"])
def test_a_plain_loop_agrees(direction, sample_library, make_run):
    run = make_run(sample_library, width=6)
    content = sample_library.split()
    near = np.repeat(run.images.vectors, 5, axis=0) + run.captions.vectors
    run = EmbeddingsRun(run.images, Embeddings(run.captions.ids, near))
    rows = np.random.default_rng(1).permutation(run.captions.ids.size)[:80]
    arrays = alter(run.captions, "size", rows)
    arrays["adversarial_size_embeddings"][:7] = run.captions.vectors[rows[:7]]  # nothing was altered
    found = rerank(run, altered_run(**arrays), sample_library.split(), directions=[direction])
    row = found.moves.loc[direction, "size"]
    pairs = slow_pairs(direction, run, content, *arrays.values())
    changed = [pairs[caption] for caption in run.captions.ids[rows[7:]].tolist()]
    assert (row.queries, row.unchanged) == (80, 7)
    assert row.lower == sum(after > before for before, after in changed)
    assert row.higher == sum(after < before for before, after in changed)
    assert row.same == sum(after == before for before, after in changed)
    for scope, ranks in (("whole", list(pairs.values())), ("altered", changed)):
        changes = found.find_changes(direction, "size", scope)
        for place, name in enumerate(("before", "after")):
            for label, value in slow_scores(pair[place] for pair in ranks).items():
                assert changes.at[label, name] == pytest.approx(value, abs=1e-12), (label, name)
        for change in changes.itertuples():
            assert change.change == pytest.approx(change.after - change.before)
            assert change.low - 1e-12 <= change.change <= change.high + 1e-12


@pytest.mark.parametrize(("noise", "unchanged"), [(1e-6, 40), (1e-4, 0)])
def test_the_rounding_of_another_batch_is_no_alteration(noise, unchanged, sample_library, make_run):
    run = make_run(sample_library)
    run = EmbeddingsRun(run.images, Embeddings(run.captions.ids, 100 * run.captions.vectors))
    arrays = alter(run.captions, "size", np.arange(41), noise=100 * noise)
    arrays["adversarial_size_embeddings"][40] *= -1
    found = rerank(run, altered_run(**arrays), sample_library.split(), directions=["t2i"])
    assert found.moves["unchanged"].tolist() == [unchanged]


def test_original_ranks_and_cosines_equal_evaluate(sample_library, make_run):
    run = make_run(sample_library)
    content = sample_library.split()
    arrays = alter(run.captions, "size", np.arange(12))
    found = rerank(run, altered_run(**arrays), sample_library.split(), directions=["t2i"])
    whole = found.find_changes("t2i", "size", "whole")
    report = evaluate(run, tasks="coco_5k/t2i", metrics=["recall_at_k", "median_rank"], data_dir=sample_library)
    for label in ("recall_at_1", "recall_at_5", "recall_at_10", "median_rank"):
        assert whole.at[label, "before"] == report.scores[f"coco_5k/t2i/{label}"]
    owners = content.caption_image_ids[:12]
    items = run.images.vectors[[run.images.ids.tolist().index(owner) for owner in owners]].astype(float)

    def mean_cosine(vectors):
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(items, axis=1)
        return ((vectors * items).sum(axis=1) / norms).mean()

    cosine = found.find_changes("t2i", "size", "moves").loc["cosine"]
    assert cosine.before == pytest.approx(mean_cosine(run.captions.vectors[:12].astype(float)))
    assert cosine.after == pytest.approx(mean_cosine(arrays["adversarial_size_embeddings"].astype(float)))


def test_reversed_order_is_significant_and_unchanged_is_not(sample_library, make_run):
    run = make_run(sample_library)
    content = sample_library.split()
    places = [run.images.ids.tolist().index(owner) for owner in content.caption_image_ids.tolist()]
    run = EmbeddingsRun(run.images, Embeddings(run.captions.ids, run.images.vectors[places]))
    every = np.arange(run.captions.ids.size)
    turned = {"adversarial_size_ids": run.captions.ids, "adversarial_size_embeddings": -run.captions.vectors}
    slight = alter(run.captions, "rare_synonym", every, seed=1, noise=0.001)
    found = rerank(run, altered_run(**turned, **slight), sample_library.split(), directions=["t2i"])
    moves = found.moves.loc["t2i"]
    assert moves.at["size", "lower"] == moves.at["size", "queries"] == 300
    assert found.find_changes("t2i", "size", "whole").at["recall_at_1", "change"] == -1
    assert found.find_changes("t2i", "size", "moves").loc[["moved", "cosine"], "p_holm"].max() < 0.05
    assert (moves.at["rare_synonym", "lower"], moves.at["rare_synonym", "same"]) == (0, 300)
    assert found.find_changes("t2i", "rare_synonym", "moves").at["moved", "p_holm"] == 1
    text = tables_to_markdown(reranking_tables(found))
    assert "rare synonym (control)" in text
    assert "**100.00** [100.0, 100.0]" in text
    assert found.scores["t2i/adversarial/size/lower_share"] == 1
    assert found.scores["t2i/adversarial/size/recall_at_1_change"] == -1
    assert found.scores["t2i/adversarial/size/altered/recall_at_1_original"] == 1


IDS = "adversarial_size_ids"
VECTORS = "adversarial_size_embeddings"


@pytest.mark.parametrize(
    ("spoil", "error", "message"),
    [
        (lambda good, own: {}, MalformedRun, "has no altered queries"),
        (lambda good, own: {IDS: good[IDS]}, MalformedRun, "has 'adversarial_size_ids' but not"),
        (lambda good, own: good | {IDS: good[IDS][:-1]}, MalformedRun, "has 5 rows for 4 ids"),
        (lambda good, own: good | {IDS: good[IDS][[0, 0, 1, 2, 3]]}, MalformedRun, "is in rows 0 and 1"),
        (lambda good, own: alter(own, "sise", np.arange(5)), UnknownName, "did you mean 'size'"),
        (lambda good, own: good | {IDS: good[IDS] + 10**9}, UnknownIds, "5 of 5 captions are not in"),
        (lambda good, own: good | {VECTORS: good[VECTORS][:, :-1]}, MalformedRun, "15 dimensions.* model's have 16"),
        (lambda good, own: good | {VECTORS: own.vectors[:5]}, InvalidOption, "all 5 altered queries have"),
    ],
)
def test_bad_altered_queries_give_no_number(spoil, error, message, sample_library, make_run):
    run = make_run(sample_library)
    arrays = spoil(alter(run.captions, "size", np.arange(5)), run.captions)
    altered = altered_run(**arrays) if arrays else EmbeddingsRun(None, Embeddings([1], [[1.0]]))
    with pytest.raises(error, match=message):
        rerank(run, altered, sample_library.split())


def test_runs_that_cannot_be_asked(sample_library, make_run):
    run = make_run(sample_library)
    arrays = alter(run.captions, "size", np.arange(5)) | alter(run.captions, "colour_in", np.arange(3))
    altered = altered_run(**arrays)
    text = EmbeddingsRun(None, run.captions, model="one")
    scores = ScoresRun(run.images.ids, run.captions.ids, run.images.vectors @ run.captions.vectors.T)
    fewer = EmbeddingsRun(None, Embeddings(run.captions.ids[1:], run.captions.vectors[1:]))
    other = EmbeddingsRun(None, None, further=arrays, model="another")
    for asked, queries, directions, error, message in (
        (scores, altered, None, InvalidOption, "need vectors"),
        (EmbeddingsRun(run.images, None), altered, None, InvalidOption, "need vectors"),
        (text, other, None, InvalidOption, "their model is another, but that of the run is one"),
        (text, altered, ["t2i"], InvalidOption, "cannot be ranked in t2i: the run has no images"),
        (run, altered, ["i2t"], InvalidOption, "choose among the directions t2i and t2t"),
        (fewer, altered, None, MissingIds, "lacks 1 of 300 captions"),
    ):
        with pytest.raises(error, match=message):
            rerank(asked, queries, sample_library.split(), directions=directions)
    moves = rerank(text, altered, sample_library.split()).moves
    assert moves["queries"].to_dict() == {("t2t", "size"): 5, ("t2t", "colour_in"): 3}


@pytest.mark.usefixtures("wordnet")
def test_the_command_writes_keys_of_its_own(command, sample_library, make_run, tmp_path):
    run = make_run(sample_library)
    save_embeddings(tmp_path / "clip.npz", run)
    save_embeddings(tmp_path / "altered.npz", altered_run(**alter(run.captions, "size", np.arange(40))))
    words = ("explain", tmp_path / "clip.npz", "--direction", "t2i", "--output", tmp_path / "out")
    assert command(*words)[0] == 0
    plain = json.loads((tmp_path / "out" / "explain.json").read_text())
    status, out, err = command(*words, "--adversarial", tmp_path / "altered.npz")
    assert status == 0, err
    content = json.loads((tmp_path / "out" / "explain.json").read_text())
    scores = content["scores"]
    assert scores.items() >= plain["scores"].items()
    assert {key for key in scores if key not in plain["scores"]} == {
        key for key in scores if key.startswith("t2i/adversarial/size/")
    }
    parts = [scores[f"t2i/adversarial/size/{name}"] for name in ("lower", "higher", "same")]
    assert sum(parts) == scores["t2i/adversarial/size/queries"] == 40
    (row,) = content["adversarial"]["rows"]
    assert row["whole"]["recall_at_1"]["before"] == pytest.approx(1 - scores["t2i/failure_rate"])
    assert "Ranks of altered queries, t2i" in out
    for name in ("explain.md", "explain.html"):
        assert "Ranks of altered queries, t2i" in (tmp_path / "out" / name).read_text(encoding="utf-8")
