"""Ten crops of an image, whose vectors are averaged."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_models
from PIL import Image, ImageOps

from cxc_eccv.encoding import Encoding, TenCrops, encode
from cxc_eccv.encoding.images import crop_ten
from cxc_eccv.errors import InvalidOption, ModelError

CROPS = TenCrops(40, 32)


def gradient(width, height):
    """An image whose red and green tell the place of a pixel."""
    ys, xs = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([xs, ys, 0 * xs], axis=-1).astype(np.uint8))


@pytest.mark.parametrize("size", [(60, 40), (40, 70), (40, 40)])
def test_ten_crops_are_corners_and_centre_mirrored(size):
    width, height = size
    crops = crop_ten(gradient(width, height), TenCrops(40, 32))
    assert [crop.size for crop in crops] == [(32, 32)] * 10
    right = width - 32
    bottom = height - 32
    places = [(0, 0), (right, 0), (0, bottom), (right, bottom), (right // 2, bottom // 2)]
    assert [crop.getpixel((0, 0))[:2] for crop in crops[:5]] == places
    # Mirrored, a crop's first pixel is as far from the right.
    assert [crop.getpixel((0, 0))[:2] for crop in crops[5:]] == [(width - 1 - left, top) for left, top in places]


@pytest.mark.parametrize(
    ("size", "scaled"), [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((100, 100), (256, 256))]
)
def test_the_shorter_side_is_scaled_to_256(size, scaled):
    image = tiny_models.picture(1, size)
    expected = image.resize(scaled, Image.Resampling.BILINEAR)
    crops = crop_ten(image, TenCrops())
    assert crops[0].tobytes() == expected.crop((0, 0, 224, 224)).tobytes()
    corner = (scaled[0] - 224, scaled[1] - 224, *scaled)
    assert crops[3].tobytes() == expected.crop(corner).tobytes()
    assert crops[8].tobytes() == ImageOps.mirror(expected).crop(corner).tobytes()


@pytest.mark.parametrize("name", ["resnet", "vit", "dinov2", "clip", "siglip"])
def test_a_vector_is_the_mean_over_the_crops(name):
    model, tokenizer, processor = getattr(tiny_models, name)()
    pictures = [(number, tiny_models.picture(number, (50 + number, 44))) for number in (1, 2, 3)]
    options = {"processor": (tokenizer, processor) if tokenizer else processor, "progress": False, "device": "cpu"}
    found = encode(model, images=pictures, encoding=Encoding(ten_crops=CROPS, batch_size=2), **options).images
    assert found.ids.tolist() == [1, 2, 3]
    for (_, image), vector in zip(pictures, found.vectors, strict=True):
        # Crops have the size that the processors of these models scale to, so that they leave them as they are.
        crops = list(enumerate(crop_ten(image, CROPS)))
        alone = encode(model, images=crops, **options).images.vectors
        np.testing.assert_allclose(vector, alone.mean(axis=0), rtol=1e-4, atol=1e-5)
    plain = encode(model, images=pictures, **options).images
    assert np.abs(plain.vectors - found.vectors).max() > 1e-3


@pytest.mark.parametrize(("side", "size"), [(32, 40), (0, 0), (40, 0)])
def test_crops_that_do_not_fit_are_refused(side, size):
    with pytest.raises(InvalidOption, match="do not fit images"):
        TenCrops(side, size)


def test_ten_crops_of_another_size_are_refused():
    pictures = [(1, tiny_models.picture(1, (50, 44)))]
    model, _, processor = tiny_models.vit()
    with pytest.raises(ModelError, match="does not accept"):
        encode(
            model, images=pictures, processor=processor, encoding=Encoding(ten_crops=TenCrops(40, 24)), progress=False
        )
