"""The local Hub, which the tests of studies share, and a dataset to push."""

import sys
from pathlib import Path

import pytest
from local_hub import client, hub, running_client, running_hub

from cxc_eccv.builders.folder_writing import build_folder

__all__ = ["built", "client", "hub", "running_client", "running_hub"]

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A dataset folder of the sample; read only."""
    folder = tmp_path_factory.mktemp("built") / "data"
    build_folder(folder, configs=["sts", "eccv_caption", "sits"], data_dir="sample", progress=False)
    return folder
