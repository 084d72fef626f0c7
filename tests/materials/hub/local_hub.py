"""The local Hub, and a client process that knows no other; both are shared, the Hub is emptied for every test."""

import pytest
from hub_client import Client
from hub_endpoints import WRITER
from hub_server import Hub


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
