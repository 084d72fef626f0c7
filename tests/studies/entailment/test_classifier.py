"""The entailment classifier: its branches, gate, heads and loss, against NumPy and against what must not change."""

import numpy as np
import pytest
import tiny_models
import torch
import transformers
from entailment_models import (
    HYPOTHESES,
    LABELS,
    OF_KIND,
    PREMISES,
    WITH_BOTH,
    batch_of,
    classifier,
    pictures,
)
from transformers import AutoConfig, AutoModel, AutoProcessor

from cxc_eccv.errors import CheckpointMismatch, InvalidOption, ModelError, TowerMissing
from cxc_eccv.studies.entailment.classifier import PAIR_KINDS, EntailmentClassifier, EntailmentConfig
from cxc_eccv.studies.entailment.processing import EntailmentProcessor

pytestmark = pytest.mark.thorough


def logits_apart(model, processor, place):
    """The logits of a pair by each head that the paper counts for its kind, from passes of this pair alone."""
    premise = [PREMISES[place]]
    picture = [pictures()[place]]
    hypothesis = [HYPOTHESES[place]]
    found = {}
    with torch.no_grad():
        if premise[0]:
            found["text"] = model(**processor(premise, None, hypothesis)).logits[0]
        if picture[0] is not None:
            found["visual"] = model(**processor([""], picture, hypothesis)).logits[0]
        if premise[0] and picture[0] is not None:
            found["joint"] = model(**processor(premise, picture, hypothesis)).logits[0]
    return {name: logits.double().numpy() for name, logits in found.items()}


@pytest.mark.parametrize(("name", "head"), [*((name, "softmax") for name in WITH_BOTH), ("bert over vit", "sigmoid")])
def test_mixed_batch_loss_equals_a_loop_over_pairs(name, head):
    """Equations 9 to 12, pair by pair: the losses of the heads that count for its kind, over the number of pairs."""
    model, processor = classifier(name, head=head)
    with torch.no_grad():
        found = model(**batch_of(processor))
    total = 0.0
    last = []
    for place, label in enumerate(LABELS):
        by_head = logits_apart(model, processor, place)
        assert list(by_head) == {0: ["text"], 1: ["visual"], 2: ["text", "visual", "joint"]}[OF_KIND[place]]
        for two in by_head.values():
            chances = np.exp(two) / np.exp(two).sum()
            total -= (1 - label) * np.log(chances[0]) + label * np.log(chances[1])
        last.append(two)
    assert found.loss.item() == pytest.approx(total / len(LABELS), abs=2e-6)
    np.testing.assert_allclose(found.logits.numpy(), last, atol=2e-6)


def test_joint_states_follow_equations_5_to_8():
    model, processor = classifier("bert with blip")
    seen = {}
    for name in ("text", "visual", "joint"):
        getattr(model, f"{name}_head").register_forward_hook(
            lambda _module, given, made, name=name: seen.update({name: (given[0], made)})
        )
    with torch.no_grad():
        model(**processor([PREMISES[1]], [tiny_models.picture(1)], [HYPOTHESES[1]]))
    text, visual = (seen[name][0].numpy() for name in ("text", "visual"))
    weights = {name: parameter.detach().numpy() for name, parameter in model.named_parameters()}

    def gate(name, state):
        return 1 / (1 + np.exp(-(state @ weights[f"{name}_gate.weight"].T + weights[f"{name}_gate.bias"])))

    joint = gate("text", text) * text + gate("visual", visual) * visual
    np.testing.assert_allclose(seen["joint"][0].numpy(), joint, atol=1e-6)
    for name, state in (("text", text), ("visual", visual), ("joint", joint)):
        layers = [layer for layer in getattr(model, f"{name}_head") if isinstance(layer, torch.nn.Linear)]
        assert len(layers) == 3  # two hidden ones and the output
        for layer in layers[:2]:
            state = np.maximum(state @ layer.weight.detach().numpy().T + layer.bias.detach().numpy(), 0)
        state = state @ layers[2].weight.detach().numpy().T + layers[2].bias.detach().numpy()
        np.testing.assert_allclose(seen[name][1].numpy(), state, atol=1e-6)


@pytest.mark.parametrize("name", WITH_BOTH)
def test_both_first_tokens_see_text_and_image(name):
    model, processor = classifier(name, mask_share=0)
    one = tiny_models.picture(1)
    other = tiny_models.picture(2)
    for pairs in (
        (("a dog", None, "a man rides"), ("a dog", None, "a man on")),
        (("a dog", None, "a man"), ("a cat", None, "a man")),
        (("", one, "a man rides"), ("", one, "a man on")),
        (("", one, "a man rides"), ("", other, "a man rides")),
    ):
        with torch.no_grad():
            logits = [model(**processor(*([part] for part in pair))).logits for pair in pairs]
        assert not torch.allclose(*logits, atol=1e-7, rtol=0)


def test_bert_with_cross_attention_reads_as_bert_does():
    """Built as a decoder, it must not read from left to right: alone, it gives what the encoder gives."""
    bert, tokenizer, _ = tiny_models.bert()
    model, processor = classifier("bert shared")
    tokens = tokenizer(["a dog", "the woman with a ball"], ["a cat", "a"], padding=True, return_tensors="pt")
    wanted = bert(**tokens).last_hidden_state[:, 0]
    seen = []
    model.text_head.register_forward_hook(lambda _module, given, _made: seen.append(given[0]))
    with torch.no_grad():
        model(**processor(["a dog", "the woman with a ball"], None, ["a cat", "a"]))
    torch.testing.assert_close(seen[0], wanted, atol=1e-6, rtol=1e-6)


def moved(model, batch):
    """Parts with a gradient other than 0."""
    model.zero_grad()
    model(**batch).loss.backward()
    with_gradient = [
        name for name, one in model.named_parameters() if one.grad is not None and one.grad.abs().sum() > 0
    ]
    return {name.partition(".")[0] for name in with_gradient}


@pytest.mark.parametrize("train", [True, False])
def test_each_kind_of_data_trains_its_branch(train):
    model, processor = classifier("bert over vit")
    model.train(train)
    text = processor(["a dog"] * 2, None, ["a cat", "a man"], [0, 1])
    visual = processor(["", ""], [tiny_models.picture(1), tiny_models.picture(2)], ["a cat", "a man"], [0, 1])
    both = processor(["a dog"] * 2, [tiny_models.picture(1), tiny_models.picture(2)], ["a cat", "a man"], [0, 1])
    seen_by_visual = {"image_model", "visual_text_model", "visual_head"}
    assert moved(model, text) == {"text_model", "text_head"}
    assert moved(model, visual) == seen_by_visual
    assert moved(model, both) == seen_by_visual | {"text_model", "text_head", "text_gate", "visual_gate", "joint_head"}


def test_the_joint_loss_reaches_both_branches():
    model, processor = classifier("bert over vit")
    for head in (model.text_head, model.visual_head):
        for parameter in head.parameters():
            parameter.data.zero_()  # their losses then have no gradient below them
    both = processor(["a dog"], [tiny_models.picture(1)], ["a cat"], [0])
    assert {"text_model", "image_model", "visual_text_model"} <= moved(model, both)


def test_shared_image_counts_once_per_pair():
    model, processor = classifier("bert over vit")
    first = tiny_models.picture(1)
    second = tiny_models.picture(2)
    shared = processor(["a dog"] * 3, [first, second, first], ["a cat", "a", "a man"], [1, 0, 1])
    apart = processor(["a dog"] * 3, [first, second, first.copy()], ["a cat", "a", "a man"], [1, 0, 1])
    assert (len(shared["pixel_values"]), len(apart["pixel_values"])) == (2, 3)
    del apart["image_index"]  # each is its own pair's
    torch.testing.assert_close(model(**shared).logits, model(**apart).logits)
    torch.testing.assert_close(model(**shared).loss, model(**apart).loss)


@pytest.mark.parametrize(("name", "premise", "seen"), [("bert alone", "a dog", None), ("blip alone", "", [1])])
def test_single_branch_classifier_accepts_multimodal_pairs(name, premise, seen):
    model, processor = classifier(name)
    images = [tiny_models.picture(1)]
    whole = model(**processor(["a dog"], images, ["a cat"], [1]))
    part = model(**processor([premise], seen and images, ["a cat"], [1]))
    assert torch.equal(whole.logits, part.logits)
    assert torch.equal(whole.loss, part.loss)


def test_what_a_missing_branch_would_read_is_refused():
    of_text = classifier("bert alone")[1]
    of_visual = classifier("blip alone")[1]
    mixed = ["a dog", ""], [None, tiny_models.picture(1)], ["a", "a"]
    with pytest.raises(TowerMissing, match=r"pair 1 has only an image as premise, .* no visual branch"):
        of_text(*mixed)
    with pytest.raises(TowerMissing, match=r"pair 0 has only text as premise, .* no text branch"):
        of_visual(["a dog"], None, ["a"])


def test_batch_without_inputs_is_refused():
    model, _ = classifier("bert with blip")
    with pytest.raises(InvalidOption, match="give input_ids, or pixel_values with visual_input_ids"):
        model()


@pytest.mark.parametrize("wrong", [-1.0, 1.5, float("nan"), 2.0])
def test_labels_outside_0_and_1_are_refused(wrong):
    model, processor = classifier("bert alone")
    with pytest.raises(InvalidOption, match="give a number from 0 to 1"):
        model(**processor(["a dog"] * 2, None, ["a", "a"], [1.0, wrong]))


def test_sigmoid_head_uses_binary_cross_entropy():
    model, processor = classifier("bert alone", head="sigmoid")
    batch = processor(["a dog"] * 3, None, ["a cat", "a", "a man"], [0, 1, 0.25])
    seen = []
    model.text_head.register_forward_hook(lambda _module, _given, made: seen.append(made[:, 0]))
    found = model(**batch)
    wanted = torch.nn.functional.binary_cross_entropy_with_logits(seen[0], batch["labels"])
    torch.testing.assert_close(found.loss, wanted)
    torch.testing.assert_close(model.probabilities(found.logits), seen[0].double().sigmoid(), atol=1e-7, rtol=1e-6)


@pytest.mark.parametrize("name", [*WITH_BOTH, "bert alone", "blip alone"])
def test_saved_and_loaded_it_is_the_same(name, tmp_path):
    numbers = {"threshold": 0.7, "calibration_scale": 1.5, "calibration_offset": 0.25}
    model, processor = classifier(name, head_widths=(8, 6), **numbers)
    model.save_pretrained(tmp_path)
    processor.save_pretrained(tmp_path)
    again = AutoModel.from_pretrained(tmp_path).eval()
    of_it = AutoProcessor.from_pretrained(tmp_path)
    assert type(again) is EntailmentClassifier
    assert type(of_it) is EntailmentProcessor
    names = (*numbers, "head_widths", "shared_text", "mask_share", "mask_ratio", "head", "widths")
    assert [getattr(again.config, one) for one in names] == [getattr(model.config, one) for one in names]
    pair = ([PREMISES[1]], None if name == "bert alone" else [tiny_models.picture(1)], [HYPOTHESES[1]])
    batch = processor(*pair)
    assert batch.keys() == of_it(*pair).keys()
    assert all(torch.equal(batch[name], tensor) for name, tensor in of_it(*pair).items())
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits, atol=1e-6, rtol=0)
    assert (of_it.tokenizer is None, of_it.image_processor is None) == (name == "blip alone", name == "bert alone")


def test_classifier_parts_become_float32_without_heads():
    bert = tiny_models.bert()[0].to(torch.bfloat16)
    vit = tiny_models.vit()[0].half()
    matched = transformers.BertForMaskedLM(tiny_models.bert_config())
    model = EntailmentClassifier.from_parts(text_model=bert, image_model=vit, visual_text_model=matched)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    for part, source in ((model.text_model, bert), (model.image_model, vit), (model.visual_text_model, matched.bert)):
        weights = source.state_dict()
        for name, tensor in part.state_dict().items():
            assert "crossattention" in name or torch.equal(tensor, weights[name].float())
    assert not getattr(bert.config, "add_cross_attention", False)


def gpt():
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "vocab_size": 30, "n_positions": 24}
    return transformers.GPT2Model(transformers.GPT2Config(**sizes))


def distilbert():
    return transformers.DistilBertModel(transformers.DistilBertConfig(dim=16, hidden_dim=32, n_layers=1, n_heads=2))


def damaged_bert():
    model = tiny_models.bert()[0]
    del model.encoder.layer[1]
    return model


def first(name):
    return getattr(tiny_models, name)()[0]


@pytest.mark.parametrize(
    ("text", "image", "reader", "message"),
    [
        (gpt, None, None, "reads from left to right"),
        (damaged_bert, None, None, "lacks"),
        ("bert", "vit", None, "give visual_text_config"),
        ("bert", "vit", distilbert, "DistilBertModel cannot attend to an image"),
        ("bert", None, "bert", "is no fusion model .*give image_model as well"),
        ("bert", None, "clip", "is no fusion model .*give image_model as well"),
        (None, "siglip2", "bert", "image_model: Siglip2VisionModel needs .*spatial_shapes, but gets only pixel"),
        (None, "vilt", "bert", "image_model: Vilt.* reads text with the image"),
        ("bert", "align", "bert", "AutoModel cannot build a model of type align_vision_model"),
        ("bert", "vit", "bert", "shared_text"),
        ("bert", None, "vilt", "masking needs a separate image encoder, and vilt has none: give"),
    ],
)
def test_parts_that_do_not_fit_are_refused(text, image, reader, message):
    parts = [part() if callable(part) else part and first(part) for part in (text, image, reader)]
    shared = {"shared_text": True} if message == "shared_text" else {}
    with pytest.raises((InvalidOption, CheckpointMismatch, ModelError), match=message):
        EntailmentClassifier.from_parts(parts[0], image_model=parts[1], visual_text_model=parts[2], **shared)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mask_ratio": 0.0}, "mask_ratio=0.0"),
        ({"mask_ratio": 1.0}, "mask_ratio=1.0"),
        ({"mask_share": -0.1}, "mask_share=-0.1"),
        ({"mask_share": 1.5}, "mask_share=1.5"),
    ],
)
def test_numbers_out_of_range_are_refused(options, message):
    with pytest.raises(InvalidOption, match=message):
        EntailmentConfig(**options)


def test_default_config_is_bert_for_text():
    config = AutoConfig.for_model("cxc_eccv_entailment")
    assert (config.has_text, config.has_visual, config.text_config.model_type) == (True, False, "bert")
    assert PAIR_KINDS == ("text", "visual", "multimodal")


def test_parameters_get_gradients_under_bfloat16_autocast():
    model, processor = classifier("bert over vit")
    model.train()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = model(**batch_of(processor))
    found.loss.backward()
    assert found.loss.dtype == found.logits.dtype == torch.float32
    assert all(one.grad is not None and one.grad.isfinite().all() for one in model.joint_head.parameters())


def test_vision_tower_runs_only_on_given_images():
    model, processor = classifier("bert over vit")
    sizes = []
    model.image_model.register_forward_pre_hook(
        lambda _module, _given, named: sizes.append(len(named["pixel_values"])), with_kwargs=True
    )
    model(**processor(["a dog"], None, ["a cat"]))
    assert not sizes
    batch = batch_of(processor)
    assert len(batch["pixel_values"]) == 5  # four images, and a black one for the two pairs without
    model(**batch)
    assert sizes == [4]
    picture = tiny_models.picture(1)
    model(**processor(["a dog"] * 3, [picture] * 3, ["a cat", "a", "a man"]))
    assert sizes == [4, 1]
