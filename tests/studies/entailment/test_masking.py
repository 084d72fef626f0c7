"""Masking: the patches that matter most are blank, in as many images as asked for, and labels follow the paper."""

import entailment_models as cases
import numpy as np
import pytest
import tiny_models
import torch
import transformers

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.entailment import classifier
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier
from cxc_eccv.studies.entailment.classifier.encoders import blank_attended, first_token_attention

pytestmark = pytest.mark.thorough

SIZES = tiny_models.VISION


def encoder(name):
    """A transformer of images, by the name of its class."""
    sizes = SIZES | ({"num_register_tokens": 3} if "Registers" in name else {})
    config = getattr(transformers, f"{name}Config")(**sizes)
    return tiny_models.seeded(lambda: getattr(transformers, f"{name}Model")(config))


def noise(count=3):
    return torch.randn(count, 3, 32, 32, generator=torch.manual_seed(0)) + 3


def attention_by_hand(model, pixels, extra):
    """Of the last layer's first token to each patch, the mean over heads, head by head from the plain attention."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        layers = model(pixel_values=pixels, output_attentions=True).attentions
    heads = layers[-1].numpy()
    return np.array([[np.mean([head[0, extra + patch] for head in image]) for patch in range(16)] for image in heads])


@pytest.mark.parametrize(
    ("name", "extra", "ratio", "count"),
    [
        ("ViT", 1, 0.4, 6),
        ("DeiT", 2, 0.1, 2),
        ("Dinov2", 1, 0.5, 8),
        ("Dinov2WithRegisters", 4, 0.9, 14),
        ("CLIPVision", 1, 0.4, 6),
        ("BlipVision", 1, 0.4, 6),
    ],
)
def test_only_the_most_attended_patches_are_blanked(name, extra, ratio, count):
    model = encoder(name)
    pixels = noise()
    blanked = blank_attended(model, pixels, ratio)
    attention = attention_by_hand(model, pixels, extra)
    for image, (before, after) in enumerate(zip(pixels, blanked, strict=True)):
        gone = set(np.argsort(-attention[image], kind="stable")[:count].tolist())
        for patch in range(16):
            row, column = divmod(patch, 4)
            place = (slice(None), slice(8 * row, 8 * row + 8), slice(8 * column, 8 * column + 8))
            assert torch.equal(after[place], torch.zeros(3, 8, 8) if patch in gone else before[place])
    assert torch.equal(pixels, noise())  # what was given is as it was


def test_the_encoder_is_left_as_it_was():
    model = encoder("ViT").train()
    before = model.config._attn_implementation
    with_dropout = transformers.ViTModel(transformers.ViTConfig(**SIZES, attention_probs_dropout_prob=0.5)).train()
    assert torch.equal(first_token_attention(with_dropout, noise()), first_token_attention(with_dropout, noise()))
    first_token_attention(model, noise())
    assert model.training
    assert all(module.training for module in model.modules())
    assert model.config._attn_implementation == before != "eager"


@pytest.mark.parametrize("name", ["resnet", "efficientnet", "siglip", "swin"])
def test_towers_without_a_first_token_are_named(name):
    swin = {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 4}
    towers = {
        "resnet": lambda: tiny_models.resnet()[0],
        "efficientnet": lambda: tiny_models.efficientnet()[0],
        "siglip": lambda: transformers.SiglipVisionModel(transformers.SiglipVisionConfig(**SIZES)),
        "swin": lambda: transformers.SwinModel(transformers.SwinConfig(**swin)),
    }
    model = towers[name]()
    bert = tiny_models.bert()[0]
    with pytest.raises(InvalidOption, match="give mask_share=0, or an encoder like ViT"):
        EntailmentClassifier.from_parts(text_model=bert, image_model=model, visual_text_model=bert)
    EntailmentClassifier.from_parts(text_model=bert, image_model=model, visual_text_model=bert, mask_share=0)


def still(**options):
    """A classifier in training mode without dropout, so that a loss can be computed twice."""
    parts = cases.PARTS["bert over vit"]()
    for part in parts.values():
        part.config.attention_probs_dropout_prob = part.config.hidden_dropout_prob = 0.0
    model, processor = cases.classifier("bert over vit", **parts, **options)
    return model.train(), processor


def test_masked_copies_count_for_visual_and_joint_heads():
    """They do not count for the text head."""
    model, processor = still(mask_share=0.5)
    batch = cases.batch_of(processor)
    found = model(**batch)
    model.eval()
    with torch.no_grad():
        plain = model(**batch)
        # By hand: pairs 1 (multimodal) and 2 (visual) are entailed and have an image; 5 is entailed and has none.
        total = float(plain.loss) * 6
        for place, has_text in ((1, True), (2, False)):
            pixels = processor([""], [cases.pictures()[place]], [cases.HYPOTHESES[place]])
            pixels["pixel_values"] = blank_attended(model.image_model, pixels["pixel_values"], 0.4)
            total -= float(model(**pixels).logits.log_softmax(1)[0, 0])
            if has_text:
                joint = processor([cases.PREMISES[place]], [cases.pictures()[place]], [cases.HYPOTHESES[place]])
                joint["pixel_values"] = pixels["pixel_values"]
                total -= float(model(**joint).logits.log_softmax(1)[0, 0])
    assert float(found.loss.detach()) == pytest.approx(total / 8, abs=1e-5)
    assert found.logits.shape == (6, 2)
    torch.testing.assert_close(found.logits, plain.logits, atol=1e-5, rtol=0)


@pytest.mark.parametrize(("share", "wanted"), [(0, 0), (0.06, 0), (0.0625, 1), (0.25, 2), (0.5, 4), (1, 6)])
def test_masking_affects_a_share_of_entailed_images(share, wanted, monkeypatch):
    """Nothing is masked in evaluation or without labels."""
    model, processor = still(mask_share=share)
    masked = []
    monkeypatch.setattr(classifier, "blank_attended", lambda _, kept, ratio: masked.append((len(kept), ratio)) or kept)
    images = [tiny_models.picture(place) for place in range(8)]
    # Pairs of text alone do not count.
    batch = processor(["a dog"] * 12, [*images, *[None] * 4], ["a cat"] * 12, [1, 1, 0, 1, 1, 0.5, 0.9, 0, *[1] * 4])
    model(**batch)
    assert masked == ([(wanted, 0.4)] if wanted else [])
    masked.clear()
    model.eval()(**batch)
    assert masked == []
    del batch["labels"]
    model.train()(**batch)
    assert masked == []


def test_masked_images_follow_the_seed(monkeypatch):
    model, processor = still(mask_share=0.25)
    drawn = []
    monkeypatch.setattr(classifier, "blank_attended", lambda _model, pixels, _ratio: drawn.append(pixels) or pixels)
    batch = processor(["a dog"] * 8, [tiny_models.picture(place) for place in range(8)], ["a cat"] * 8, [1] * 8)
    for seed in (0, 1, 2, 0):
        torch.manual_seed(seed)
        model(**batch)
    assert torch.equal(drawn[0], drawn[3])
    assert not all(torch.equal(drawn[0], other) for other in drawn[1:3])


def test_masking_a_copy_keeps_the_shared_image():
    model, processor = still(mask_share=0.5)
    picture = tiny_models.picture(1)
    batch = processor(["a dog"] * 2, [picture, picture], ["a cat", "a"], [1, 0])
    found = model(**batch)
    torch.testing.assert_close(found.logits, model.eval()(**batch).logits, atol=1e-5, rtol=0)


def test_patches_need_not_be_square():
    config = transformers.ViTConfig(**{**SIZES, "patch_size": (16, 8)})
    model = tiny_models.seeded(lambda: transformers.ViTModel(config))
    pixels = noise(1)
    first = int(first_token_attention(model, pixels).argmax())
    row, column = divmod(first, 4)  # two rows of four patches
    expected = torch.zeros(32, 32, dtype=torch.bool)
    expected[16 * row : 16 * row + 16, 8 * column : 8 * column + 8] = True
    assert torch.equal((blank_attended(model, pixels, 1 / 8) == 0).all(1)[0], expected)
