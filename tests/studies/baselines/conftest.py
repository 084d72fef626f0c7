"""Tests that train need the extra; one thread computes, as tiny models gain nothing by more."""

from importlib.util import find_spec

import pytest
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


@pytest.fixture(scope="package", autouse=HAS_TRAIN)
def one_thread():
    """More threads than cores, as with several test processes, are up to thirty times as slow."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
