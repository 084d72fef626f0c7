"""The workplace of the documentation's code, caches of its own, and the local Hub of ``tests/materials/hub``."""

import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hub"))
sys.path.insert(0, str(Path(__file__).parent))

from commands import KEPT, LocalHub
from hub_client import Client
from hub_endpoints import WRITER
from hub_server import Hub
from workplace import make_workplace


@pytest.fixture(scope="session", autouse=True)
def kept_examples(tmp_path_factory, worker_id):
    """What examples print is kept where all workers find it."""
    own = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEPT, str((own if worker_id == "master" else own.parent) / "examples"))
        yield


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    return make_workplace(tmp_path_factory.mktemp("docs") / "template")


@pytest.fixture
def workplace(template, module_caches, tmp_path, monkeypatch):
    """A copy of the workplace as the current folder, offline, with the embedded sample as the data."""
    folder = shutil.copytree(template, tmp_path / "workplace", symlinks=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    monkeypatch.setenv("CXC_ECCV_OFFLINE", "1")
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "downloads"))
    return folder


@pytest.fixture(scope="session")
def hub_process():
    with Hub() as hub:
        yield hub


@pytest.fixture(scope="session")
def hub_client(hub_process, tmp_path_factory):
    client = Client(hub_process.url, tmp_path_factory.mktemp("client"), WRITER)
    yield client
    client.close()


@pytest.fixture
def local_hub(hub_process, hub_client):
    hub_process.reset()
    return LocalHub(hub_process, hub_client)
