"""The quick way to pixel values gives those of the model's processor, and is taken where that is sure."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transformers
from PIL import Image

from cxc_eccv.encoding.images import PlainSteps, plain_steps

PLAIN = ("BlipImageProcessorPil", "CLIPImageProcessorPil", "SiglipImageProcessorPil", "ViTImageProcessorPil")
OTHER = (
    "ConvNextImageProcessorPil",
    "EfficientNetImageProcessorPil",
    "Siglip2ImageProcessorPil",
    "ViltImageProcessorPil",
)
SETTINGS = (
    {},
    {"do_resize": False},
    {"do_rescale": False},
    {"do_normalize": False},
    {"do_rescale": False, "do_normalize": False},
    {"do_center_crop": True, "crop_size": {"height": 400, "width": 31}},
    {"size": {"shortest_edge": 41}},
    {"size": {"height": 40, "width": 50}, "resample": 0},
    {"rescale_factor": 1 / 127.5, "image_mean": [0.1, 0.2, 0.3], "image_std": [0.7, 0.8, 0.9]},
)
SIZES = ((640, 480), (480, 640), (640, 426), (224, 224), (37, 500), (7, 5), (1, 1))


def make_processor(name, settings=None):
    kind = getattr(transformers, name, None)
    if kind is None:
        pytest.skip(f"this transformers has no {name}")
    return kind(**(settings or {}))


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("name", PLAIN)
def test_same_bits_as_the_processor(name, settings):
    processor = make_processor(name, settings)
    steps, random = plain_steps(processor), np.random.default_rng(1)
    assert isinstance(steps, PlainSteps)
    for width, height in SIZES:
        picture = Image.fromarray(random.integers(0, 256, (height, width, 3), dtype=np.uint8))
        wanted, found = processor(images=[picture], return_tensors="pt"), steps(picture)
        assert found.keys() == wanted.keys() == {"pixel_values"}
        assert found["pixel_values"].dtype == wanted["pixel_values"].dtype
        assert torch.equal(found["pixel_values"], wanted["pixel_values"])


@pytest.mark.parametrize("name", PLAIN)
def test_every_value_of_every_channel(name):
    levels = np.arange(256, dtype=np.uint8)
    picture = Image.fromarray(np.stack([levels, levels[::-1], np.roll(levels, 100)], axis=-1).reshape(16, 16, 3))
    processor = make_processor(name, {"do_resize": False, "do_center_crop": False})
    wanted = processor(images=[picture], return_tensors="np")["pixel_values"]
    found = plain_steps(processor)(picture)["pixel_values"].numpy()
    assert (found.view(np.uint32) == wanted.view(np.uint32)).all()


@pytest.mark.parametrize("name", OTHER)
def test_a_processor_with_steps_of_its_own_is_left_alone(name):
    assert plain_steps(make_processor(name)) is None


@pytest.mark.parametrize(
    "settings",
    [{"do_pad": True, "pad_size": {"height": 300, "width": 300}}, {"size": {"shortest_edge": 40, "longest_edge": 50}}],
)
def test_other_settings_are_left_to_the_processor(settings):
    assert plain_steps(make_processor("ViTImageProcessorPil", settings)) is None


def test_a_step_that_was_replaced_is_kept():
    processor = make_processor("ViTImageProcessorPil")
    processor.rescale = lambda image, scale, **_: image
    assert plain_steps(processor) is None


def test_a_backend_that_does_more_is_found_out(monkeypatch):
    processor = make_processor("ViTImageProcessorPil")
    backend = next(kind for kind in type(processor).__mro__ if kind.__name__ == "PilBackend")
    whole = backend.resize
    monkeypatch.setattr(backend, "resize", lambda self, *args, **options: whole(self, *args, **options)[:, ::-1])
    assert plain_steps(processor) is None
