"""Fixtures shared by all tests."""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def sample():
    """The embedded sample, read once."""
    from cxc_eccv.sources.library import Library

    return Library("sample")


@pytest.fixture(scope="session")
def real():
    """The real raw files in the mirror folder that CXC_ECCV_DATA names."""
    from cxc_eccv.sources.library import Library

    if not os.environ.get("CXC_ECCV_DATA"):
        pytest.skip("CXC_ECCV_DATA does not name a folder with the real raw files")
    return Library(offline=True)
