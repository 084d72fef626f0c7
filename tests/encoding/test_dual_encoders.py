"""Dual encoders: every vector is that of the model's own forward pass on the item alone."""

import json

import numpy as np
import pytest
import tiny_models
import torch

from cxc_eccv.encoding import Encoding, encode, load_model, text_encoder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.runs import load_embeddings

DUAL = {name: getattr(tiny_models, name) for name in ("clip", "siglip", "siglip2", "align", "dual")}


def alone(model, method, inputs):
    """The features of one item, by the model's public method."""
    with torch.inference_mode():
        output = getattr(model, method)(**inputs)
    return (output if isinstance(output, torch.Tensor) else output.pooler_output)[0].numpy()


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4 * float(np.abs(right).max()))


@pytest.mark.parametrize("name", DUAL)
def test_every_vector_is_that_of_the_item_alone(name):
    model, tokenizer, images = DUAL[name]()
    pictures = [(10 - seed, tiny_models.picture(seed, (40, 32 + 8 * seed))) for seed in range(5)]
    captions = list(enumerate(tiny_models.TEXTS, start=100))
    run = encode(
        model,
        images=pictures,
        captions=captions,
        processor=(tokenizer, images),
        encoding=Encoding(batch_size=3),
        progress=False,
    )
    assert run.images.ids.tolist() == [10, 9, 8, 7, 6]
    assert run.captions.ids.tolist() == [100, 101, 102, 103, 104]
    assert run.images.vectors.dtype == np.float32
    padding = {"padding": "max_length", "max_length": 16} if "siglip" in name else {}
    for (_, picture), vector in zip(pictures, run.images.vectors, strict=True):
        close(vector, alone(model, "get_image_features", images(images=[picture], return_tensors="pt")))
    for (_, text), vector in zip(captions, run.captions.vectors, strict=True):
        tokens = tokenizer([text], return_tensors="pt", truncation=True, **padding)
        if "lip" in name:
            tokens.pop("token_type_ids", None)
        close(vector, alone(model, "get_text_features", tokens))


@pytest.mark.parametrize("name", DUAL)
def test_a_model_in_training_trains_on_after_encoding(name):
    model, *processor = DUAL[name]()
    model.train()
    resting = next(module for module in model.modules() if module is not model)
    resting.eval()
    before = [module.training for module in model.modules()]
    pictures = [(1, tiny_models.picture(1))]
    captions = list(enumerate(tiny_models.TEXTS))
    dropped = encode(model, images=pictures, captions=captions, processor=tuple(processor), progress=False)
    assert [module.training for module in model.modules()] == before
    still = encode(model.eval(), images=pictures, captions=captions, processor=tuple(processor), progress=False)
    np.testing.assert_array_equal(dropped.captions.vectors, still.captions.vectors)
    np.testing.assert_array_equal(dropped.images.vectors, still.images.vectors)


CAPITALS = [(1, "A Dog on the Bus"), (2, "TWO CATS."), (3, "a dog on the bus")]


@pytest.mark.parametrize("kind", ["siglip", "siglip2"])
def test_siglip_2_texts_are_lowercased_with_64_tokens(kind, tmp_path):
    """Of fixed resolution, it says ``siglip`` and has a tokenizer that keeps capitals; else ``siglip2`` lowers them."""
    model, tokenizer, images = getattr(tiny_models, kind)(tiny_models.gemma_tokenizer(), positions=64)
    folder = str(tiny_models.save((model, tokenizer, images), tmp_path / "model"))
    run = encode(folder, captions=CAPITALS, device="cpu", output=tmp_path / "run.npz", progress=False)
    for (_, text), vector in zip(CAPITALS, run.captions.vectors, strict=True):
        ids = [tokenizer.convert_tokens_to_ids(letter.replace(" ", "▁")) for letter in text.lower()] + [1]
        inputs = {"input_ids": torch.tensor([ids + [0] * (64 - len(ids))])}
        close(vector, alone(model, "get_text_features", inputs))
    np.testing.assert_array_equal(run.captions.vectors[0], run.captions.vectors[2])
    record = json.loads((tmp_path / "run.encoding.json").read_text())
    assert record["encoding"].get("lowercased", False) is (kind == "siglip")
    np.testing.assert_array_equal(text_encoder(folder, device="cpu")(["A DOG"]), text_encoder(folder)(["a dog"]))


def test_lowercase_option_changes_vectors_and_fingerprint(tmp_path):
    model, tokenizer, _ = tiny_models.siglip(tiny_models.gemma_tokenizer(), positions=64)
    folder = tiny_models.save((model, tokenizer), tmp_path / "model")
    prints = {}
    vectors = {}
    for lowercase in (None, True, False):
        loaded = load_model(folder, device="cpu", lowercase=lowercase)
        run = encode(loaded, captions=CAPITALS, output=tmp_path / "run.npz", progress=False)
        record = json.loads((tmp_path / "run.encoding.json").read_text())
        assert record["encoding"].get("lowercased", False) is (lowercase is not False)
        prints[lowercase], vectors[lowercase] = record["fingerprint"], run.captions.vectors
    assert prints[None] == prints[True] != prints[False]
    np.testing.assert_array_equal(vectors[None], vectors[True])
    assert np.abs(vectors[None] - vectors[False]).max(axis=1).tolist()[2] == 0
    assert np.abs(vectors[None] - vectors[False]).max(axis=1)[:2].min() > 0
    assert tokenizer("A")["input_ids"] != tokenizer("a")["input_ids"]


def test_other_models_keep_their_tokenizers_capitals(tmp_path):
    """The first SigLIP keeps them too: only SigLIP 2 lowercases texts by default."""
    words = {word: place for place, word in enumerate([*tiny_models.WORDS, "Dog"])}
    tokenizer = tiny_models.transformers.BertTokenizer(vocab=words, model_max_length=16, do_lower_case=False)
    model, _, _ = tiny_models.siglip(tokenizer)
    options = {"output": tmp_path / "run.npz", "processor": tokenizer, "progress": False}
    run = encode(model, captions=[(1, "Dog"), (2, "dog")], **options)
    assert np.abs(run.captions.vectors[0] - run.captions.vectors[1]).max() > 0
    assert "lowercased" not in json.loads((tmp_path / "run.encoding.json").read_text())["encoding"]
    lowered = encode(load_model(model, processor=tokenizer, lowercase=True), captions=[(1, "Dog")], progress=False)
    close(lowered.captions.vectors[0], run.captions.vectors[1])
    assert tokenizer("Dog")["input_ids"] != tokenizer("dog")["input_ids"]  # the option changed a copy


def test_images_alone_are_not_called_lowercased():
    model, tokenizer, images = tiny_models.siglip(tiny_models.gemma_tokenizer(), positions=64)
    pictures = [(1, tiny_models.picture(1))]
    loaded = load_model(model, processor=(tokenizer, images))
    assert loaded.lowercases
    run = encode(loaded, images=pictures, progress=False)
    assert not run.encoding.lowercased


def test_tokenizer_that_cannot_lowercase_is_refused():
    tokenizer = tiny_models.transformers.CanineTokenizer()
    loaded = load_model(tiny_models.bert()[0], processor=tokenizer, lowercase=True)
    with pytest.raises(InvalidOption, match="CanineTokenizer cannot lower-case texts; lower-case the captions"):
        encode(loaded, captions=[(1, "Dog")], progress=False)


def test_left_padding_changes_no_text_vector():
    """Loading the text tower alone gives the same vectors too."""
    model, tokenizer, _ = tiny_models.dual()
    expected = text_encoder(model, processor=tokenizer)(tiny_models.TEXTS)
    tokenizer.padding_side = "left"
    close(text_encoder(model, processor=tokenizer)(tiny_models.TEXTS), expected)
    model, tokenizer, _ = tiny_models.siglip(tiny_models.gemma_tokenizer(), positions=64)
    expected = text_encoder(model, processor=tokenizer)(["A dog", "two cats"])
    np.testing.assert_array_equal(text_encoder(model.text_model, processor=tokenizer)(["a dog", "two cats"]), expected)


@pytest.mark.parametrize("name", ["dual", "vit"])
def test_central_crop_keeps_its_share_of_the_area(name, tmp_path):
    """The share is part of the fingerprint."""
    model, tokenizer, images = getattr(tiny_models, name)()
    whole = tiny_models.picture(3, (400, 200))
    # sqrt(0.875) of either side
    middle = whole.crop((13, 6, 387, 193))
    assert middle.width * middle.height == pytest.approx(0.875 * 400 * 200, rel=0.005)
    options = {"processor": (tokenizer, images) if tokenizer else images, "progress": False}
    prints = []
    for share, seen in ((0.875, middle), (None, whole), (1, whole)):
        run = encode(
            model, images=[(1, whole)], encoding=Encoding(central_crop=share), output=tmp_path / "run.npz", **options
        )
        np.testing.assert_array_equal(run.images.vectors, encode(model, images=[(1, seen)], **options).images.vectors)
        record = json.loads((tmp_path / "run.encoding.json").read_text())
        assert record["encoding"].get("central_crop") == share
        prints.append(record["fingerprint"])
    assert len(set(prints)) == 3
    for share in (0, -0.5, 1.01, float("nan"), True):
        with pytest.raises(InvalidOption, match="expected a share of the area above 0 and at most 1"):
            encode(model, images=[(1, whole)], encoding=Encoding(central_crop=share), **options)


@pytest.mark.parametrize(("normalize", "similarity"), [(None, "cosine"), (True, "cosine"), (False, "dot")])
def test_the_file_says_what_the_model_compares_by(normalize, similarity, tmp_path):
    model, tokenizer, images = tiny_models.clip()
    if normalize is not None:
        model.config.normalize = normalize
    captions = {"caption_id": [5, 6], "text": ["a dog", "a cat"]}
    path = tmp_path / "clip.safetensors"
    run = encode(model, captions=captions, processor=(tokenizer, images), output=path, progress=False)
    assert (run.similarity, load_embeddings(path).similarity) == (similarity, similarity)
