"""Tests that train need the extra."""

from importlib.util import find_spec

from full_disk import told

__all__ = ["told"]

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
NEED_TRAIN = [
    "char_gru/*",
    "dual_encoder/*",
    "entailment_classifier/*",
    "test_dev*",
    "test_features*",
    "test_sts_c*",
    "test_tr*",
]
collect_ignore_glob = [] if HAS_TRAIN else [*NEED_TRAIN, "test_two*", "test_untrained_image*"]
