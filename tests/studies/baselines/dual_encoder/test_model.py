"""The model: its layers, what is trained, and what is kept of it."""

import pytest
import tiny_models
import torch
import transformers
from dual_encoder_models import config, inputs, model, pixels

from cxc_eccv.errors import InvalidOption, TowerMissing
from cxc_eccv.sources.download import sample_images
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel
from cxc_eccv.training import RetrievalCallback

OPTIONS = ("freeze_text", "extra_layers", "extra_heads", "pooling", "normalize", "scale", "learned_scale", "width")


def test_defaults_are_the_papers():
    efficientnet = transformers.EfficientNetConfig(width_coefficient=1.4, depth_coefficient=1.8, hidden_dim=1792)
    paper = DualEncoderConfig(transformers.BertConfig(), efficientnet)
    assert (paper.text_width, paper.width) == (768, 1792)
    assert (paper.extra_layers, paper.extra_heads, paper.extra_feed_forward) == (3, 8, 3072)
    assert (paper.freeze_text, paper.pooling, paper.normalize, paper.scale) == (True, "first_token", False, 1.0)


@pytest.mark.slow
def test_papers_model_has_its_shapes_and_trained_layers():
    efficientnet = transformers.EfficientNetConfig(
        width_coefficient=1.4, depth_coefficient=1.8, hidden_dim=1792, image_size=380
    )
    built = DualEncoderModel(DualEncoderConfig(transformers.BertConfig(num_hidden_layers=1), efficientnet)).eval()
    assert built.text_projection.weight.shape == (1792, 768)
    layers = built.text_layers.layers
    assert len(layers) == 3
    assert (layers[0].self_attn.num_heads, layers[0].linear1.out_features) == (8, 3072)
    with torch.inference_mode():
        assert built.get_image_features(torch.rand(1, 3, 64, 64)).pooler_output.shape == (1, 1792)
        assert built.get_text_features(torch.tensor([[1, 2, 3]])).pooler_output.shape == (1, 1792)


def test_frozen_backbone_has_no_gradient_or_dropout():
    built = model(images=True)
    built.text_model.config.hidden_dropout_prob = 0.5
    built.train()
    assert not built.text_model.training
    assert built.text_layers.training
    out = built(**inputs(), pixel_values=pixels())
    (out.text_embeds.sum() + out.image_embeds.sum()).backward()
    assert all(parameter.grad is None for parameter in built.text_model.parameters())
    for part in (built.text_layers, built.text_projection, built.image_model.encoder):
        assert all(parameter.grad is not None for parameter in part.parameters())


def test_a_trained_backbone_gets_gradients():
    built = model(freeze_text=False)
    built(**inputs()).text_embeds.sum().backward()
    assert built.text_model.embeddings.word_embeddings.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("pooling", ["first_token", "mean"])
def test_padding_does_not_change_features(pooling):
    built = model(pooling=pooling, extra_layers=2).eval()
    ids = inputs(3)["input_ids"]
    padded = torch.cat([ids, torch.zeros(3, 4, dtype=torch.long)], dim=1)
    mask = (torch.arange(9) < 5).long().expand(3, -1)
    with torch.inference_mode():
        short = built.get_text_features(ids)
        long = built.get_text_features(padded, mask)
    torch.testing.assert_close(short.pooler_output, long.pooler_output)


def test_pooling_is_of_the_last_layer():
    ids = inputs(2)["input_ids"]
    with torch.inference_mode():
        first = model(pooling="first_token").eval().get_text_features(ids)
        mean = model(pooling="mean").eval().get_text_features(ids)
    torch.testing.assert_close(first.pooler_output, first.last_hidden_state[:, 0])
    torch.testing.assert_close(mean.pooler_output, mean.last_hidden_state.mean(1))


def test_normalised_features_have_unit_length():
    built = model(images=True, normalize=True).eval()
    out = built(**inputs(), pixel_values=pixels())
    for features in (out.text_embeds, out.image_embeds):
        torch.testing.assert_close(features.norm(dim=1), torch.ones(len(features)))


@pytest.mark.parametrize("learned", [True, False])
def test_the_scale_is_learned_or_fixed(learned):
    built = model(scale=20.0, learned_scale=learned)
    assert built(**inputs()).scale.item() == pytest.approx(20)
    assert built.log_scale.requires_grad is learned


@pytest.mark.parametrize(("images", "learned"), [(True, True), (False, False)])
def test_saved_and_loaded_it_is_the_same(tmp_path, images, learned):
    built = model(images=images, scale=7.0, learned_scale=learned, normalize=True).eval()
    with torch.no_grad():
        built.log_scale.add_(0.5)
    built.save_pretrained(tmp_path)
    for loaded in (DualEncoderModel.from_pretrained(tmp_path), transformers.AutoModel.from_pretrained(tmp_path)):
        assert isinstance(loaded, DualEncoderModel)
        assert all(getattr(loaded.config, name) == getattr(built.config, name) for name in OPTIONS)
        for (name, old), (other, new) in zip(built.state_dict().items(), loaded.state_dict().items(), strict=True):
            assert name == other
            assert torch.equal(old, new), name
        assert not any(parameter.requires_grad for parameter in loaded.text_model.parameters())
        assert all(parameter.requires_grad for parameter in loaded.text_layers.parameters())
        assert loaded.log_scale.requires_grad is learned
        with torch.inference_mode():
            assert torch.equal(loaded.eval()(**inputs()).text_embeds, built(**inputs()).text_embeds)


def test_backbones_keep_their_pretrained_weights():
    torch.manual_seed(3)
    text = transformers.BertModel(config().text_config)
    image = transformers.ConvNextModel(config(images=True).image_config)
    built = DualEncoderModel.from_backbones(text, image, extra_layers=0, freeze_text=False)
    for own, given in ((built.text_model, text), (built.image_model, image)):
        assert all(torch.equal(a, b) for a, b in zip(own.parameters(), given.parameters(), strict=True))
    assert built.text_projection.weight.shape == (24, 16)


def test_image_encoder_needing_more_than_pixels_is_refused():
    image = tiny_models.siglip2()[0].vision_model
    with pytest.raises(InvalidOption, match=r"Siglip2VisionModel needs .*spatial_shapes, but gets only pixel_values"):
        DualEncoderModel.from_backbones(transformers.BertModel(config().text_config), image)


def test_captions_sorted_by_length_have_equal_features():
    built = model(pooling="mean", extra_layers=2).eval()
    lengths = torch.randint(1, 12, (150,), generator=torch.Generator().manual_seed(0))
    ids = torch.randint(1, 50, (150, 12), generator=torch.Generator().manual_seed(1))
    mask = (torch.arange(12) < lengths[:, None]).long()
    with torch.inference_mode():
        found = built.get_text_features(ids * mask, mask).pooler_output
        whole = torch.cat(
            [built.get_text_features((ids * mask)[r : r + 1], mask[r : r + 1]).pooler_output for r in range(150)]
        )
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)


def test_a_resnet_image_tower_gives_flat_features():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    built = DualEncoderModel(
        DualEncoderConfig(config().text_config, transformers.ResNetConfig(**sizes), extra_layers=0)
    )
    assert built.get_image_features(torch.rand(2, 3, 32, 32)).pooler_output.shape == (2, 16)


def test_a_text_model_has_no_images():
    with pytest.raises(TowerMissing, match="no image tower"):
        model().get_image_features(pixels())


def test_extra_layers_start_with_different_weights():
    layers = model(extra_layers=3).text_layers.layers
    first = dict(layers[0].named_parameters())
    for other in layers[1:]:
        for name, weight in other.named_parameters():
            assert weight.ndim == 1 or not torch.equal(weight, first[name]), name


@pytest.mark.thorough
def test_retrieval_callback_scores_the_model(tmp_path):
    built = DualEncoderModel(DualEncoderConfig(tiny_models.bert_config(), tiny_models.vit_config(), extra_layers=0))
    arguments = transformers.TrainingArguments(tmp_path, use_cpu=True, report_to="none", disable_tqdm=True)
    trainer = transformers.Trainer(built, arguments, eval_dataset=[])
    processor = tiny_models.bert_tokenizer(), tiny_models.vit_images()
    callback = RetrievalCallback("sample", images=sample_images(), processor=processor).add_to(trainer)
    scores = trainer.evaluate()
    assert scores["eval_cxc/t2i/recall_at_1"] == callback.report.scores["cxc/t2i/recall_at_1"]
