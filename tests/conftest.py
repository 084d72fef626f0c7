"""Fixtures that all tests share; the slow oracles are importable as ``oracles``, strategies as ``strategies``."""

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from cxc_eccv.ranking import kernels
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def sample_library():
    """The embedded sample."""
    return Library("sample")


@pytest.fixture(scope="session")
def real_library():
    """The real files, where CXC_ECCV_DATA points at them."""
    if not os.environ.get("CXC_ECCV_DATA"):
        pytest.skip("CXC_ECCV_DATA does not point at the real files")
    return Library(os.environ["CXC_ECCV_DATA"], offline=True)


@pytest.fixture(params=["compiled", "numpy"])
def counted_by(request, monkeypatch):
    """Who counts in blocks of scores: the compiled kernels where the package has them, then NumPy."""
    if request.param == "compiled" and not kernels.COMPILED:
        pytest.skip("the package was built without a compiler")
    monkeypatch.setattr(kernels, "COMPILED", request.param == "compiled")


@pytest.fixture
def make_run():
    """Random vectors for the ids of a library's split; equal seeds give equal runs."""

    def make(library, seed=0, split="test", width=16):
        random = np.random.default_rng(seed)
        sides = library.images(split)["image_id"], library.captions(split)["caption_id"]
        return EmbeddingsRun(*(Embeddings(ids.to_numpy(), random.standard_normal((len(ids), width))) for ids in sides))

    return make
