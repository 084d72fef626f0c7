"""Tests of models need the extra ``train``; every test has a cache of its own for answers."""

from importlib.util import find_spec

import pytest

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
NEED_TRAIN = ["classifier", "commands", "enhanced", "masking", "mining", "scoring"]
collect_ignore_glob = [] if HAS_TRAIN else [f"test_{name}.py" for name in NEED_TRAIN]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
