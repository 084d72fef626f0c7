"""The character GRU: padding, packed sequences, saving, and what bad input gets."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from cxc_eccv.encoding.towers import text_encoder
from cxc_eccv.errors import InvalidOption, ModelError
from cxc_eccv.studies.baselines.char_gru.data import character_tokenizer
from cxc_eccv.studies.baselines.char_gru.model import (
    BidirectionalLayer,
    CharGruConfig,
    CharGruEnsemble,
    CharGruModel,
    hinge_loss,
)
from cxc_eccv.studies.baselines.dual_encoder.model import encode_by_length

TEXTS = ["A dog runs.", "cat", "Two men, one red bus!", "A dog runs on."]


def tiny(seed=0, **options):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 40, "hidden_size": 6, "attention_size": 4, "image_feature_size": 3, **options}
    return CharGruModel(CharGruConfig(**sizes)).eval()


def tokenizer():
    return character_tokenizer(TEXTS)


@pytest.mark.parametrize("unit", ["gru", "lstm"])
def test_both_directions_equal_packed_sequences(unit):
    layer = BidirectionalLayer(unit, 3, 5)
    reference = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[unit](3, 5, batch_first=True, bidirectional=True)
    for name, parameter in layer.left_to_right.named_parameters():
        reference.state_dict()[name].copy_(parameter.detach())
    for name, parameter in layer.right_to_left.named_parameters():
        reference.state_dict()[f"{name}_reverse"].copy_(parameter.detach())
    steps, lengths = torch.randn(4, 7, 3), torch.tensor([7, 1, 4, 6])
    packed = torch.nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    found = layer(steps, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length])


@pytest.mark.parametrize("options", [{}, {"pooling": "max"}, {"recurrent_unit": "lstm"}])
def test_padding_does_not_change_an_embedding(options):
    model, tokens = tiny(**options), tokenizer()
    batch = tokens(TEXTS, padding="max_length", max_length=50, return_tensors="pt")
    together = model.get_text_features(**batch).pooler_output
    for row, text in enumerate(TEXTS):
        alone = model.get_text_features(**tokens([text], return_tensors="pt")).pooler_output
        torch.testing.assert_close(together[row : row + 1], alone)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(4))


def test_parts_of_like_length_change_nothing():
    model, batch = tiny(), tokenizer()(TEXTS, padding=True, return_tensors="pt")
    whole = model.get_text_features(**batch).pooler_output
    for rows in (1, 2, 3, 9):
        parts = encode_by_length(model._text_vectors, batch["input_ids"], batch["attention_mask"], rows=rows)
        torch.testing.assert_close(parts, whole)


def test_the_loss_is_the_mean_over_pairs_of_its_vectors():
    model = tiny()
    ids, features = torch.randint(2, 40, (3, 2, 9)), torch.randn(3, 3)
    output = model(ids, image_features=features)
    first, second = output.text_embeds.unbind(1)
    pairs = [(first, second), (first, output.image_embeds), (second, output.image_embeds)]
    assert output.loss.item() == pytest.approx(sum(hinge_loss(*pair, 0.2).item() for pair in pairs) / 3, rel=1e-5)
    assert model(ids[:1, :1]).loss is None


def test_the_paper_is_the_default():
    config = CharGruConfig()
    assert (config.character_size, config.hidden_size, config.embedding_size) == (20, 1024, 2048)
    assert (config.attention_size, config.image_feature_size, config.margin) == (128, 2048, 0.2)
    assert (config.recurrent_unit, config.pooling) == ("gru", "attention")


def test_saved_and_loaded_it_gives_the_same_vectors(tmp_path):
    model, tokens = tiny(vocab_size=len(tokenizer())), tokenizer()
    model.save_pretrained(tmp_path)
    tokens.save_pretrained(tmp_path)
    before = text_encoder(model, processor=tokens)(TEXTS)
    assert isinstance(AutoModel.from_pretrained(tmp_path), CharGruModel)
    assert AutoTokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"] == tokens(TEXTS)["input_ids"]
    np.testing.assert_array_equal(text_encoder(str(tmp_path))(TEXTS), before)


def test_an_ensemble_is_the_mean_of_unit_vectors(tmp_path):
    models = [tiny(seed, vocab_size=len(tokenizer())) for seed in (1, 2)]
    ensemble, batch = CharGruEnsemble.of(models), tokenizer()(TEXTS, padding=True, return_tensors="pt")
    mean = sum(model.get_text_features(**batch).pooler_output for model in models) / 2
    found = ensemble.get_text_features(**batch).pooler_output
    torch.testing.assert_close(found, mean / mean.norm(dim=1, keepdim=True))
    ensemble.save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    np.testing.assert_allclose(text_encoder(str(tmp_path))(TEXTS), found.detach().numpy(), atol=1e-6)
    images = torch.randn(2, 3)
    assert ensemble.get_image_features(images).pooler_output.shape == (2, 12)
    with pytest.raises(InvalidOption, match="the same configuration"):
        CharGruEnsemble.of([models[0], tiny(hidden_size=7)])


def test_a_checkpoint_that_does_not_fit_its_config_is_refused(tmp_path):
    tiny(vocab_size=len(tokenizer())).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    CharGruConfig(vocab_size=len(tokenizer()), hidden_size=7, attention_size=4, image_feature_size=3).save_pretrained(
        tmp_path
    )
    with pytest.raises(ModelError, match="weights and config do not fit"):
        text_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tiny(image_feature_size=0).get_image_features(torch.zeros(1, 3)), "has no image side"),
        (lambda: tiny().get_image_features(torch.zeros(1, 4)), "the model needs 3"),
        (lambda: tiny().get_text_features(torch.tensor([[0, 2]]), torch.tensor([[0, 1]])), "pad on the right"),
        (lambda: CharGruConfig(pooling="mean"), "expected one of attention, max"),
        (lambda: CharGruConfig(hidden_size=0), "at least 1"),
        (lambda: CharGruConfig(margin=0), "positive"),
        (lambda: CharGruConfig(image_feature_size=-1), "at least 0"),
        (lambda: character_tokenizer([]), "all texts are empty"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidOption, match=message):
        call()
