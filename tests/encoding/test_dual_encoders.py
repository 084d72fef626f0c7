"""Dual encoders: every vector is that of the model's own forward pass on the item alone."""

import numpy as np
import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")
tiny_models = pytest.importorskip("tiny_models", reason="torch is not installed")

import torch  # noqa: E402 - after the skip

from cxc_eccv.encoding import encode  # noqa: E402 - after the skip

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
    run = encode(model, images=pictures, captions=captions, processor=(tokenizer, images), batch_size=3, progress=False)
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


def test_a_folder_and_a_saved_model_give_what_the_loaded_ones_give(tmp_path):
    parts = tiny_models.clip()
    name = tiny_models.save(parts, tmp_path / "model")
    (tmp_path / "val2014").mkdir()
    pairs = tiny_models.picture_files(tmp_path / "val2014", 3)
    captions = {"caption_id": [5, 6], "text": ["a dog", "a cat"]}
    one = encode(str(name), images=tmp_path, captions=captions, device="cpu", progress=False)
    other = encode(parts[0], images=pairs, captions=captions, processor=parts[1:], progress=False)
    assert one.images.ids.tolist() == [1, 2, 3]
    np.testing.assert_array_equal(one.images.vectors, other.images.vectors)
    np.testing.assert_array_equal(one.captions.vectors, other.captions.vectors)
