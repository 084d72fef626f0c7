"""Mean vectors of an image's captions."""

import numpy as np
import pytest

from cxc_eccv.runs.caption_means import average_captions, average_groups


@pytest.fixture
def vectors(sample_library):
    split = sample_library.split("test")
    return np.random.default_rng(0).normal(size=(split.caption_ids.size, 5)).astype(np.float32)


@pytest.mark.parametrize("normalize", [False, True])
def test_image_gets_mean_of_its_captions(normalize, vectors, sample_library):
    split = sample_library.split("test")
    means = average_captions(vectors, split, normalize=normalize)
    scaled = vectors / np.linalg.norm(vectors, axis=1, keepdims=True) if normalize else vectors
    for image, mean in zip(split.image_ids, means.vectors, strict=True):
        np.testing.assert_allclose(mean, scaled[split.caption_image_ids == image].mean(axis=0), rtol=1e-5, atol=1e-7)


def test_order_of_captions_changes_no_bit(vectors):
    starts = np.arange(0, len(vectors) + 1, 5)
    rows = np.arange(len(vectors))
    turned = rows.reshape(-1, 5)[:, ::-1].ravel()
    once, again = (average_groups(vectors.__getitem__, each, starts, normalize=False) for each in (rows, turned))
    np.testing.assert_array_equal(once, again)


def test_groups_of_several_sizes_keep_their_order(vectors):
    starts = np.array([0, 2, 3, 5])
    means = average_groups(vectors.__getitem__, np.arange(5), starts, normalize=False)
    expected = [vectors[:2].mean(axis=0), vectors[2], vectors[3:5].mean(axis=0)]
    np.testing.assert_allclose(means, expected, rtol=1e-6)
