"""The local Hub, and a client process that knows no other; both are shared, the Hub is emptied for every test."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent / "local_hub"))

from hub_client import Client
from hub_endpoints import WRITER
from hub_server import Hub

from cxc_eccv.builders.writing.folder import build_folder


@pytest.fixture(scope="session")
def running_hub():
    with Hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def running_client(running_hub, tmp_path_factory):
    client = Client(running_hub.url, tmp_path_factory.mktemp("client"), WRITER)
    yield client
    client.close()


@pytest.fixture
def hub(running_hub):
    running_hub.reset()
    return running_hub


@pytest.fixture
def client(hub, running_client):
    return running_client


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """A dataset folder of the sample; read only."""
    folder = tmp_path_factory.mktemp("built") / "data"
    build_folder(folder, configs=["sts", "eccv_caption", "sits"], data_dir="sample", progress=False)
    return folder
