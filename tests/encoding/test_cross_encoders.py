"""Cross-encoders: the matrix and the re-ranking agree with one forward pass per pair."""

import itertools

import numpy as np
import pytest
import tiny_models
import torch
import transformers

from cxc_eccv.encoding import Encoding, encode, load_model, rerank, score_pairs
from cxc_eccv.encoding.cross_encoding import find_candidates
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, ModelError, UnknownName
from cxc_eccv.runs import DirectionScoresRun, EmbeddingsRun, load_run
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

CAPTIONS = list(enumerate(tiny_models.TEXTS, start=100))
PICTURES = [(seed, tiny_models.picture(seed, (32 + 16 * (seed % 2), 40))) for seed in range(1, 5)]


def score_pair_by_pair(model, tokenizer, images, score="itm"):
    """(images, captions) scores by the model's own forward pass on one pair after another."""
    scores = np.empty((len(PICTURES), len(CAPTIONS)))
    for row, (_, picture) in enumerate(PICTURES):
        for column, (_, text) in enumerate(CAPTIONS):
            inputs = {**images(images=[picture], return_tensors="pt"), **tokenizer([text], return_tensors="pt")}
            if hasattr(model, "itm_head"):
                inputs.pop("token_type_ids")
            cosine = 0 if score == "itm" else contrast(model, inputs)
            if score == "itm+itc" and model.config.model_type == "blip":
                inputs["input_ids"][0, 0] = len(tiny_models.WORDS) + 1  # [ENC], as the authors' evaluation has it
            *no_match, match = matching_logits(model, inputs)
            sums = {"itm": match - sum(no_match), "itc": cosine, "itm+itc": match + cosine}
            scores[row, column] = sums[score]
    return scores


def matching_logits(model, inputs):
    """Those of one pair, by the model's own forward pass."""
    is_blip2 = model.config.model_type == "blip-2"
    if is_blip2 and model.config.image_token_index is not None:
        inputs = with_places(inputs, model.config)
    with torch.inference_mode():
        output = model(**inputs, **({"use_image_text_matching_head": True} if is_blip2 else {}))
    names = ("itm_score", "logits", "logits_per_image")
    return next(getattr(output, name)[0] for name in names if hasattr(output, name))


def with_places(inputs, config):
    """As Blip2Processor makes inputs: image tokens before those of the text."""
    places = torch.tensor([[config.image_token_index] * config.num_query_tokens])
    before = {"input_ids": places, "attention_mask": torch.ones_like(places)}
    return inputs | {name: torch.cat([part, inputs[name]], dim=1) for name, part in before.items()}


def contrast(model, inputs):
    """The cosine of one pair, by the model's own forward pass."""
    if model.config.model_type == "blip":
        with torch.inference_mode():
            return model(**inputs, use_itm_head=False).itm_score[0, 0]
    if model.config.image_token_index is not None:
        inputs = with_places(inputs, model.config)
    with torch.inference_mode():
        return model(**inputs, use_image_text_matching_head=False).logits_per_image[0, 0]


@pytest.fixture(params=["vilt", "blip", "blip2"])
def parts(request):
    return getattr(tiny_models, request.param)()


@pytest.fixture
def first_stage():
    random = np.random.default_rng(3)
    sides = [number for number, _ in PICTURES], [number for number, _ in CAPTIONS]
    return EmbeddingsRun(*(Embeddings(ids, random.standard_normal((len(ids), 6))) for ids in sides))


def options(**more):
    return {"images": PICTURES, "captions": CAPTIONS, "progress": False, **more}


def loaded(parts):
    return load_model(parts[0], processor=parts[1:])


def test_reranking_orders_the_candidates_of_the_first_stage(parts, first_stage, tmp_path):
    run = rerank(
        loaded(parts),
        first_stage,
        top_k=2,
        encoding=Encoding(batch_size=3),
        output=tmp_path / "top.parquet",
        **options(),
    )
    scores = score_pair_by_pair(*parts)
    sides = (first_stage.images, first_stage.captions)
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


def test_candidates_follow_the_similarity_of_the_run():
    ids = np.array([1]), np.array([7, 8])
    sides = Embeddings(ids[0], [[1.0, 0.0]]), Embeddings(ids[1], [[0.1, 0.0], [5.0, 5.0]])
    found = [find_candidates(EmbeddingsRun(*sides, similarity=one), *ids, 1)["i2t"] for one in (None, "cosine", "dot")]
    assert [rows.tolist() for rows in found] == [[[0]], [[0]], [[1]]]
    zero = EmbeddingsRun(sides[0], Embeddings(ids[1], [[1.0, 0.0], [0.0, 0.0]]))
    with pytest.raises(MalformedRun, match=r"1 of 2 captions have a zero vector.* the first: 8"):
        find_candidates(zero, *ids, 1)


def blip2_with_places():
    return tiny_models.blip2(image_token=len(tiny_models.WORDS))


BLIPS = (tiny_models.blip, tiny_models.blip2, blip2_with_places)


@pytest.mark.parametrize(
    ("make", "score"), [(tiny_models.vilt, "itm"), *itertools.product(BLIPS, ("itc", "itm+itc", "itm"))]
)
def test_every_score_equals_one_pass_per_pair(make, score, tmp_path):
    parts = make()
    expected = score_pair_by_pair(*parts, score)
    run = score_pairs(
        loaded(parts), score=score, encoding=Encoding(batch_size=3), output=tmp_path / "run.npz", **options()
    )
    np.testing.assert_allclose(run.scores, expected, rtol=1e-5, atol=5e-6 if score == "itm" else 2e-5)
    assert np.ptp(expected, axis=0).min() > 1e-4
    assert np.ptp(expected, axis=1).min() > 1e-4
    written = load_run(tmp_path / "run.npz")
    np.testing.assert_array_equal(written.scores, run.scores)
    assert written.image_ids.tolist() == [1, 2, 3, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.encoding.json", "run.npz"]


def test_reranking_by_the_sum_what_the_cosines_found(tmp_path):
    """The protocol of the authors: the top K by the cosine, in the order of logit and cosine together."""
    parts = tiny_models.blip2()
    first = score_pairs(loaded(parts), score="itc", output=tmp_path / "itc.npz", **options())
    sums = score_pairs(loaded(parts), score="itm+itc", **options()).scores
    lists = rerank(loaded(parts), load_run(tmp_path / "itc.npz"), top_k=2, score="itm+itc", **options()).lists
    for direction, table, total in (("i2t", first.scores, sums), ("t2i", first.scores.T, sums.T)):
        ids = first.caption_ids if direction == "i2t" else first.image_ids
        for row, found in enumerate(np.split(lists[direction].items, lists[direction].indptr[1:-1])):
            best = sorted(np.argsort(-table[row], kind="stable")[:2], key=lambda item: -total[row, item])
            assert found.tolist() == ids[best].tolist()


def test_a_bad_image_has_no_cosine(tmp_path):
    parts = tiny_models.blip()
    pictures = [*PICTURES[:2], (3, tmp_path / "gone.jpg"), PICTURES[3]]
    whole = {score: score_pairs(loaded(parts), score=score, **options()) for score in ("itc", "itm+itc")}
    for score, expected in whole.items():
        with pytest.warns(UserWarning, match="left out"):
            run = score_pairs(
                loaded(parts), score=score, **options(images=pictures, encoding=Encoding(skip_bad_images=True))
            )
        assert run.image_ids.tolist() == [1, 2, 4]
        np.testing.assert_allclose(run.scores, expected.scores[[0, 1, 3]], rtol=1e-5, atol=1e-6)


def test_a_prompt_stands_around_every_caption(parts):
    prompt = load_model(parts[0], processor=parts[1:], caption_prompt="the {} on street")
    run = score_pairs(prompt, **options())
    captions = [(number, f"the {text} on street") for number, text in CAPTIONS]
    expected = score_pairs(loaded(parts), **options(captions=captions)).scores
    np.testing.assert_allclose(run.scores, expected, rtol=1e-4, atol=1e-6)


def test_bad_image_is_absent_from_scores_and_rankings(first_stage, tmp_path):
    parts = tiny_models.blip()
    pictures = [*PICTURES[:2], (3, tmp_path / "gone.jpg"), (4, tiny_models.picture(4, mode="L"))]
    bad = options(images=pictures, encoding=Encoding(skip_bad_images=True, batch_size=3))
    with pytest.warns(UserWarning, match="left out|converted") as caught:
        run = score_pairs(loaded(parts), **bad)
    assert run.image_ids.tolist() == [1, 2, 4]
    assert run.scores.shape == (3, 5)
    assert [str(one.message)[:50] for one in caught] == [
        "1 images were not RGB and were converted: L 1",
        "1 images were left out and have no vector: 3: no i",
    ]
    with pytest.warns(UserWarning, match="left out"), pytest.warns(UserWarning, match="converted"):
        lists = rerank(loaded(parts), first_stage, top_k=3, **bad).lists
    assert lists["i2t"].query_ids.tolist() == [1, 2, 4]
    assert 3 not in lists["t2i"].items


def encode_with_blip(_):
    model, *processors = tiny_models.blip()
    encode(model, captions=CAPTIONS, processor=processors, progress=False)


def rerank_one_caption(first_stage):
    short = EmbeddingsRun(first_stage.images, Embeddings([100], np.ones((1, 6))))
    rerank(loaded(tiny_models.blip()), short, top_k=1, **options())


def score_without_marker(_):
    model, _, images = tiny_models.blip()
    words = transformers.BertTokenizer(vocab={word: place for place, word in enumerate(tiny_models.WORDS[:-1])})
    score_pairs(loaded((model, words, images)), score="itm+itc", **options())


REFUSED = {
    "too-many-pairs": (
        lambda _: score_pairs(loaded(tiny_models.blip()), max_pairs=19, **options()),
        InvalidOption,
        r"4 images with 5 captions are 20 pairs.*--rerank FILE.npz --top-k 20",
    ),
    "depth-beyond-the-images": (
        lambda first_stage: rerank(loaded(tiny_models.blip()), first_stage, top_k=5, **options()),
        InvalidOption,
        "top_k is 5, expected a whole number from 1 to 4",
    ),
    "cosine-for-reranking": (
        lambda first_stage: rerank(loaded(tiny_models.blip2()), first_stage, top_k=2, score="itc", **options()),
        InvalidOption,
        "score itc is not for re-ranking; score all pairs by itc",
    ),
    "vectors-of-a-cross-encoder": (
        encode_with_blip,
        ModelError,
        "BlipForImageTextRetrieval scores pairs and has no embeddings",
    ),
    "scores-of-a-dual-encoder": (
        lambda _: score_pairs(loaded(tiny_models.clip()), **options()),
        ModelError,
        r"CLIPModel.* does not score pairs",
    ),
    "captions-missing": (rerank_one_caption, MissingIds, "lacks 4 of 5 captions, the first: 101"),
    "no-cosine": (
        lambda _: score_pairs(loaded(tiny_models.vilt()), score="itc", **options()),
        InvalidOption,
        "score itc: ViltForImageAndTextRetrieval has only a matching head",
    ),
    "unknown-score": (
        lambda _: score_pairs(loaded(tiny_models.blip()), score="sum", **options()),
        UnknownName,
        "unknown score 'sum'",
    ),
    "no-marker-of-the-encoder": (
        score_without_marker,
        ModelError,
        r"the tokenizer has no \[ENC\], and its id is unclear with 24 embeddings for 21 tokens",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_what_does_not_fit_is_refused_with_advice(first_stage, fault):
    call, error, message = REFUSED[fault]
    with pytest.raises(error, match=message):
        call(first_stage)


def test_candidates_need_both_directions():
    run = DirectionScoresRun(np.arange(2), np.arange(3), i2t=np.eye(2, 3))
    with pytest.raises(InvalidOption, match="both directions are re-ranked, but the run has no scores_t2i"):
        find_candidates(run, np.arange(2), np.arange(3), top_k=1)
