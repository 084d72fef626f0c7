"""Gradient checkpointing: which towers it reaches, the memory that it saves, and the gradients that it keeps."""

import copy

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

import entailment_models  # noqa: E402 - after the check for torch
import tiny_models  # noqa: E402
import transformers  # noqa: E402
from dual_encoder_models import TEXT, config, inputs  # noqa: E402

from cxc_eccv.errors import InvalidOption  # noqa: E402
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel  # noqa: E402
from cxc_eccv.studies.baselines.dual_encoder.options import TrainingOptions  # noqa: E402
from cxc_eccv.studies.trainers.trainer import check_checkpointing  # noqa: E402

pytestmark = pytest.mark.thorough


def checkpointed(folder):
    return TrainingOptions(output_dir=str(folder), use_cpu=True, activation_checkpointing=True)


def dual(image, *, freeze_text):
    """A dual encoder with dropout in all its layers."""
    torch.manual_seed(0)
    sizes = {"extra_layers": 2, "extra_heads": 2, "extra_feed_forward": 32, "extra_dropout": 0.3}
    text = transformers.BertConfig(**{**TEXT, "num_hidden_layers": 3})
    return DualEncoderModel(DualEncoderConfig(text, image, freeze_text=freeze_text, **sizes)).train()


def vit():
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2}
    return transformers.ViTConfig(**sizes, image_size=16, patch_size=4, hidden_dropout_prob=0.3)


def step(model, run):
    """The gradients of a model, and the bytes that each of its towers keeps for the backward pass."""
    towers = {}
    places = []

    def keep(tensor):
        if places:
            towers.setdefault(places[-1], {})[tensor.data_ptr(), tensor.shape] = tensor.nbytes
        return tensor

    names = [name for name, _ in model.named_children()]
    for name in names:
        module = getattr(model, name)
        if module is not None:
            module.register_forward_pre_hook(lambda *_, name=name: places.append(name))
            module.register_forward_hook(lambda *_: places.remove(places[-1]))
    weights = {weight.data_ptr() for weight in model.parameters()}
    torch.manual_seed(1)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        value = run(model)
    value.backward()
    sums = {
        name: sum(size for (pointer, _), size in tensors.items() if pointer not in weights)
        for name, tensors in towers.items()
    }
    return {name: one.grad for name, one in model.named_parameters() if one.grad is not None}, sums


def compare(model, run):
    """Check that gradients stay equal; return the share of its bytes that each tower still keeps."""
    other = copy.deepcopy(model)
    other.activation_checkpointing_enable()
    (expected, whole), (computed, less) = step(model, run), step(other, run)
    assert computed.keys() == expected.keys()
    for name, gradient in expected.items():
        torch.testing.assert_close(computed[name], gradient, rtol=1e-6, atol=1e-7, msg=name)
    return {name: less[name] / size for name, size in whole.items()}


def embed(model):
    images = torch.rand(16, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    out = model(**inputs(16, 12), pixel_values=images)
    return out.text_embeds.square().mean() + out.image_embeds.square().mean()


def test_every_trained_tower_keeps_a_fraction(tmp_path):
    model = dual(vit(), freeze_text=False)
    check_checkpointing(model, checkpointed(tmp_path))
    shares = compare(model, embed)
    assert shares.keys() >= {"text_model", "text_layers", "image_model"}
    assert all(shares[name] < 0.35 for name in ("text_model", "text_layers", "image_model"))


def test_extra_layers_on_frozen_tower_keep_fewer_activations(tmp_path):
    model = dual(vit(), freeze_text=True)
    check_checkpointing(model, checkpointed(tmp_path))
    shares = compare(model, embed)
    assert "text_model" not in shares  # without gradients nothing is kept
    assert shares["text_layers"] < 0.35


IMAGES = {
    "BitModel": transformers.BitConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], num_groups=4),
    "ResNetModel": transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1]),
    "EfficientNetModel": transformers.EfficientNetConfig(width_coefficient=0.1, depth_coefficient=0.1, hidden_dim=64),
    "ConvNextModel": config(images=True).image_config,
}


@pytest.mark.parametrize("name", IMAGES)
def test_a_tower_without_checkpoints_is_refused(tmp_path, name):
    model = dual(IMAGES[name], freeze_text=True)
    with pytest.raises(InvalidOption, match=f"{name} has no layers that can compute"):
        check_checkpointing(model, checkpointed(tmp_path))
    model.image_model.requires_grad_(False)
    check_checkpointing(model, checkpointed(tmp_path))


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_towers_of_pretrained_pairs_are_reached(tmp_path, kind):
    model = getattr(tiny_models, kind)()[0].train()
    check_checkpointing(model, checkpointed(tmp_path))
    size = model.config.vision_config.image_size
    images = torch.rand(8, 3, size, size, generator=torch.Generator().manual_seed(0))
    ids = torch.randint(1, 9, (8, 8), generator=torch.Generator().manual_seed(0))

    def run(model):
        out = model(input_ids=ids, attention_mask=torch.ones_like(ids), pixel_values=images)
        return (out.text_embeds @ out.image_embeds.T).square().mean()

    shares = compare(model, run)
    assert all(shares[name] < 0.5 for name in ("text_model", "vision_model"))


CLASSIFIERS = ["bert with blip", "blip shared", "bert over vit", "roberta over dinov2", "bert over clip"]


@pytest.mark.parametrize("parts", CLASSIFIERS)
def test_classifiers_of_transformers_are_reached(tmp_path, parts):
    model, _ = entailment_models.classifier(parts)
    check_checkpointing(model, checkpointed(tmp_path))


def test_models_without_checkpoints_are_refused(tmp_path):
    classifier, _ = entailment_models.classifier("bert over resnet")
    for model, name in ((classifier, "ResNetModel"), (tiny_models.dual()[0], "VisionTextDualEncoderModel")):
        with pytest.raises(InvalidOption, match=name):
            check_checkpointing(model, checkpointed(tmp_path))
