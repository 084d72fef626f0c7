"""Batches that are encoded in chunks: gradients, dropout, memory, BatchNorm, and whole steps of the Trainer."""

import copy
import weakref

import pytest
import tiny_models
import torch
import transformers
from dual_encoder_models import config, inputs, model, pixels, text_pairs, text_trainer
from scipy.sparse import csr_matrix

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.dual_encoder.chunks import encode_in_chunks
from cxc_eccv.studies.baselines.dual_encoder.data import WeakPositives
from cxc_eccv.studies.baselines.dual_encoder.loss import SOFTMAXES, TRIPLETS, Objective
from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderConfig, DualEncoderModel, DualEncoderOutput
from cxc_eccv.studies.baselines.dual_encoder.options import TrainingOptions

pytestmark = pytest.mark.thorough

PAIRS = 10


def batch(mode, dtype=torch.float32):
    """Ten pairs of a mode."""
    images = {} if mode == "t2t" else {"pixel_values": pixels(PAIRS).to(dtype)}
    return inputs(2 * PAIRS if "t2t" in mode else PAIRS) | images


def gradients(built, mode, loss="softmax", forward=None, factor=1.0):
    """Gradients of every weight of a model, of a loss times a factor."""
    built.zero_grad()
    tensors = batch(mode, built.dtype)
    out = (forward or built)(**tensors)
    rows = torch.arange(len(tensors["input_ids"]))
    value = Objective(mode, loss, 0.5, margin=2.0)(
        out.text_embeds, out.image_embeds, out.scale, rows, torch.arange(PAIRS)
    )
    (factor * value).backward()
    return {name: weight.grad / factor for name, weight in built.named_parameters() if weight.grad is not None}


def chunked(built, size):
    copied = copy.deepcopy(built)
    encode_in_chunks(copied, size)
    return copied


@pytest.mark.parametrize("size", [3, 100])
@pytest.mark.parametrize("mode", ["t2t", "i2t", "t2t+i2t"])
@pytest.mark.parametrize("loss", [*SOFTMAXES, *TRIPLETS])
def test_chunks_have_the_gradients_of_the_batch(loss, mode, size):
    # In float32 sums of another order differ by about 1e-6, depending on the processor.
    built = model(images="i2t" in mode, freeze_text=False, scale=2.0, learned_scale=True).double().train()
    expected = gradients(built, mode, loss)
    computed = gradients(chunked(built, size), mode, loss, factor=1024.0)  # as fp16 scales the loss
    assert ("log_scale" in expected) == (loss in SOFTMAXES)
    assert computed.keys() >= expected.keys()
    for name, gradient in computed.items():
        other = expected.get(name, torch.zeros_like(gradient))
        torch.testing.assert_close(gradient, other, rtol=0, atol=1e-11, msg=name)


def dropping(images):
    """A model with dropout in both text models."""
    text = transformers.BertConfig(**{**config().text_config.to_dict(), "hidden_dropout_prob": 0.4})
    torch.manual_seed(0)
    image = config(images=True).image_config if images else None
    options = {"extra_layers": 1, "extra_heads": 2, "extra_feed_forward": 16, "extra_dropout": 0.4}
    return DualEncoderModel(DualEncoderConfig(text, image, freeze_text=False, learned_scale=True, **options)).train()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("mode", ["t2t", "t2t+i2t"])
def test_both_passes_of_chunk_share_dropout(mode, precision):
    built = dropping(images="i2t" in mode)

    def keep_graph(**tensors):
        count = -(-len(tensors["input_ids"]) // 6)
        splits = zip(*(tensor.tensor_split(count) for tensor in tensors.values()), strict=True)
        outputs = [built(**dict(zip(tensors, part, strict=True))) for part in splits]
        texts, images = (
            torch.cat([out[name] for out in outputs]) if name in outputs[0] else None
            for name in ("text_embeds", "image_embeds")
        )
        return DualEncoderOutput(text_embeds=texts, image_embeds=images, scale=outputs[0].scale)

    def autocast(forward):
        def inner(**tensors):
            with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
                return forward(**tensors)

        return inner

    in_chunks = chunked(built, 6)
    torch.manual_seed(5)
    expected = gradients(built, mode, forward=autocast(keep_graph))
    torch.manual_seed(5)
    computed = gradients(in_chunks, mode, forward=autocast(in_chunks))
    after = torch.rand(1)
    for name, gradient in expected.items():
        torch.testing.assert_close(computed[name], gradient, rtol=1e-6, atol=1e-6, msg=name)
    torch.manual_seed(6)
    other = gradients(built, mode, forward=autocast(keep_graph))
    assert any((other[name] - gradient).abs().max() > 1e-2 for name, gradient in expected.items())
    torch.manual_seed(5)
    autocast(keep_graph)(**batch(mode))
    assert torch.equal(after, torch.rand(1))  # the backward pass leaves the random state as it is


def test_activations_of_one_chunk_are_alive():
    built = model(freeze_text=False).train()
    alive = weakref.WeakSet()
    most = []

    def watch(_module, _inputs, output):
        alive.add(output)
        most.append(sum(len(states) for states in alive))

    built.text_layers.layers[0].linear1.register_forward_hook(watch)
    expected = gradients(built, "t2t")
    assert most == [2 * PAIRS]
    most.clear()
    encode_in_chunks(built, 4)
    assert gradients(built, "t2t").keys() == expected.keys()
    assert most == [4] * 10  # five chunks, twice


def test_batch_norm_counts_a_chunk_once():
    sizes = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "layer_type": "basic"}
    torch.manual_seed(0)
    options = {"extra_layers": 0, "freeze_text": False}
    built = DualEncoderModel(DualEncoderConfig(config().text_config, transformers.ResNetConfig(**sizes), **options))
    built.train()
    in_chunks = chunked(built, 5)
    with torch.no_grad():
        for images in pixels(PAIRS).split(5):
            built.get_image_features(images)
    gradients(in_chunks, "i2t")
    statistics = dict(built.named_buffers())
    changed = [name for name, _ in in_chunks.named_buffers() if name.endswith("running_mean")]
    assert changed
    for name in changed:
        torch.testing.assert_close(in_chunks.get_buffer(name), statistics[name], msg=name)


@pytest.mark.parametrize("use", [None, "extra_batch", "weight", "multi_positive"])
def test_a_run_in_chunks_takes_the_same_steps(tmp_path, use):
    def train(**options):
        dataset = text_pairs(12)
        images = torch.arange(12).numpy()
        objective = Objective("t2t", "softmax")
        weak = None
        if use is not None:
            matrix = csr_matrix(([True] * 12, (images, (2 * images + 5) % 24)), shape=(12, 24))
            weak = WeakPositives(matrix, dataset.groups)
            objective = objective.spare(weak, use)
        options |= {"max_steps": 3, "gradient_accumulation_steps": 2, "learning_rate": 0.1}
        trainer = text_trainer(tmp_path, dataset, objective, weak, use=use, alpha=0.4, **options)
        start = {name: weight.clone() for name, weight in trainer.model.state_dict().items()}
        trainer.train()
        return start, trainer.model.state_dict()

    (start, expected), (_, computed) = train(), train(chunk_size=3)
    assert any((start[name] - weight).abs().max() > 1e-2 for name, weight in expected.items())
    for name, weight in expected.items():
        torch.testing.assert_close(computed[name], weight, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    ("options", "words"),
    [({"chunk_size": 1}, "give at least 2"), ({"chunk_size": 2, "torch_compile": True}, "leave one of them out")],
)
def test_chunks_that_cannot_work_are_refused(tmp_path, options, words):
    with pytest.raises(InvalidOption, match=words):
        TrainingOptions(output_dir=str(tmp_path), use_cpu=True, **options).check()


def test_clip_is_encoded_in_chunks():
    built = tiny_models.clip()[0].train()
    images = torch.rand(6, 3, built.config.vision_config.image_size, built.config.vision_config.image_size)
    ids = torch.randint(1, 9, (12, 5), generator=torch.Generator().manual_seed(0))
    whole = built(input_ids=ids, pixel_values=images)
    encode_in_chunks(built, 5)
    parts = built(input_ids=ids, pixel_values=images)
    torch.testing.assert_close(parts.text_embeds, whole.text_embeds)
    torch.testing.assert_close(parts.image_embeds, whole.image_embeds)
    assert "scale" not in parts
