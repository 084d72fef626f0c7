"""Reports on the sample."""

from functools import partial

import pytest

from cxc_eccv.evaluation import evaluate


@pytest.fixture(scope="session")
def report_of(sample_library):
    """``evaluate`` on the sample."""
    return partial(evaluate, data_dir=sample_library, progress=False)
