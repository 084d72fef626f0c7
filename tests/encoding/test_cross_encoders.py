"""Cross-encoders: the matrix and the re-ranking agree with one forward pass per pair."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

import torch  # noqa: E402 - after the skip

from cxc_eccv.encoding import encode, rerank, score_pairs  # noqa: E402 - after the skip
from cxc_eccv.encoding.cross_encoding import candidates  # noqa: E402 - after the skip
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, ModelError  # noqa: E402 - after the skip
from cxc_eccv.runs import EmbeddingsRun, load_run  # noqa: E402 - after the skip
from cxc_eccv.types import Embeddings  # noqa: E402 - after the skip

CAPTIONS = list(enumerate(tiny_models.TEXTS, start=100))
PICTURES = [(seed, tiny_models.picture(seed, (32 + 16 * (seed % 2), 40))) for seed in range(1, 5)]


def one_by_one(model, tokenizer, images):
    scores = np.empty((len(PICTURES), len(CAPTIONS)))
    for row, (_, picture) in enumerate(PICTURES):
        for column, (_, text) in enumerate(CAPTIONS):
            inputs = {**images(images=[picture], return_tensors="pt"), **tokenizer([text], return_tensors="pt")}
            if hasattr(model, "itm_head"):
                inputs.pop("token_type_ids")
            with torch.inference_mode():
                output = model(**inputs)
            logits = output.itm_score if hasattr(output, "itm_score") else output.logits
            scores[row, column] = logits[0, 0] if logits.shape[1] == 1 else logits[0, 1] - logits[0, 0]
    return scores


@pytest.fixture(params=["vilt", "blip"])
def parts(request):
    return getattr(tiny_models, request.param)()


@pytest.fixture
def first_stage():
    random = np.random.default_rng(3)
    sides = [number for number, _ in PICTURES], [number for number, _ in CAPTIONS]
    return EmbeddingsRun(*(Embeddings(ids, random.standard_normal((len(ids), 6))) for ids in sides))


def options(parts, **more):
    return {"images": PICTURES, "captions": CAPTIONS, "processor": parts[1:], "progress": False, **more}


def test_the_matrix_holds_the_score_of_every_pair(parts, tmp_path):
    run = score_pairs(parts[0], batch_size=3, output=tmp_path / "scores.npz", **options(parts))
    expected = one_by_one(*parts)
    np.testing.assert_allclose(run.scores, expected, rtol=1e-5, atol=5e-6)
    assert np.ptp(expected, axis=0).min() > 1e-4
    assert np.ptp(expected, axis=1).min() > 1e-4
    written = load_run(tmp_path / "scores.npz")
    np.testing.assert_array_equal(written.scores, run.scores)
    assert written.image_ids.tolist() == [1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["scores.encoding.json", "scores.npz"]


def test_reranking_orders_the_candidates_of_the_first_stage(parts, first_stage, tmp_path):
    run = rerank(parts[0], first_stage, top_k=2, batch_size=3, output=tmp_path / "top.parquet", **options(parts))
    scores, sides = one_by_one(*parts), (first_stage.images, first_stage.captions)
    unit = [side.vectors / np.linalg.norm(side.vectors, axis=1)[:, None] for side in sides]
    cosine = unit[0] @ unit[1].T
    written = load_run(tmp_path / "top.parquet")
    for lists in (run.lists, written.lists):
        for row, image in enumerate(first_stage.images.ids):
            best = sorted(np.argsort(-cosine[row])[:2], key=lambda column: -scores[row, column])
            place = lists["i2t"].query_ids.tolist().index(image)
            assert lists["i2t"].items[2 * place : 2 * place + 2].tolist() == [100 + column for column in best]
        for column, caption in enumerate(first_stage.captions.ids):
            best = sorted(np.argsort(-cosine[:, column])[:2], key=lambda row: -scores[row, column])
            place = lists["t2i"].query_ids.tolist().index(caption)
            assert lists["t2i"].items[2 * place : 2 * place + 2].tolist() == [1 + row for row in best]
    np.testing.assert_array_equal(run.lists["i2t"].scores, written.lists["i2t"].scores)


def test_candidates_are_those_of_the_similarity_that_the_run_is_meant_for():
    ids = np.array([1]), np.array([7, 8])
    sides = Embeddings(ids[0], [[1.0, 0.0]]), Embeddings(ids[1], [[0.1, 0.0], [5.0, 5.0]])
    found = [candidates(EmbeddingsRun(*sides, similarity=one), *ids, 1)["i2t"] for one in (None, "cosine", "dot")]
    assert [rows.tolist() for rows in found] == [[[0]], [[0]], [[1]]]
    zero = EmbeddingsRun(sides[0], Embeddings(ids[1], [[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(MalformedRun, match=r"1 of 2 captions have the zero vector.* the first: 8"):
        candidates(zero, *ids, 1)


def test_a_bad_image_leaves_the_matrix_and_the_lists(first_stage, tmp_path):
    parts = tiny_models.blip()
    pictures = [*PICTURES[:2], (3, tmp_path / "gone.jpg"), (4, tiny_models.picture(4, mode="L"))]
    bad = options(parts, images=pictures, skip_bad_images=True, batch_size=3)
    with pytest.warns(UserWarning, match="left out|converted") as caught:
        run = score_pairs(parts[0], **bad)
    assert run.image_ids.tolist() == [1, 2, 4]
    assert run.scores.shape == (3, 5)
    assert [str(one.message)[:50] for one in caught] == [
        "1 images were not RGB and were converted: L 1",
        "1 images were left out and have no vector: 3: no i",
    ]
    with pytest.warns(UserWarning, match="left out"), pytest.warns(UserWarning, match="converted"):
        lists = rerank(parts[0], first_stage, top_k=3, **bad).lists
    assert lists["i2t"].query_ids.tolist() == [1, 2, 4]
    assert 3 not in lists["t2i"].items


def test_silly_sizes_are_refused_with_advice(first_stage):
    parts = tiny_models.blip()
    with pytest.raises(InvalidOption, match=r"4 images with 5 captions are 20 pairs.*--rerank FILE.npz --top-k 20"):
        score_pairs(parts[0], max_pairs=19, **options(parts))
    with pytest.raises(InvalidOption, match="top_k is 5, expected a whole number from 1 to 4"):
        rerank(parts[0], first_stage, top_k=5, **options(parts))


def test_a_cross_encoder_has_no_embeddings_and_a_dual_encoder_scores_no_pairs(first_stage):
    blip, clip = tiny_models.blip(), tiny_models.clip()
    with pytest.raises(ModelError, match="BlipForImageTextRetrieval scores pairs and has no embeddings"):
        encode(blip[0], captions=CAPTIONS, processor=blip[1:], progress=False)
    with pytest.raises(ModelError, match=r"CLIPModel.* does not score pairs"):
        score_pairs(clip[0], **options(clip))
    short = EmbeddingsRun(first_stage.images, Embeddings([100], np.ones((1, 6))))
    with pytest.raises(MissingIds, match="lacks 4 of 5 captions, the first: 101"):
        rerank(blip[0], short, top_k=1, **options(blip))
