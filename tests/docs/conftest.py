"""The workplace of the documentation's code, caches of its own, and the local Hub of ``tests/materials/hub``."""

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "hub"))
sys.path.insert(0, str(Path(__file__).parent))

from commands import KEPT, LocalHub
from local_hub import client, hub, running_client, running_hub
from workplace import make_official_workplace, make_workplace

__all__ = ["client", "hub", "running_client", "running_hub"]


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
    if importlib.util.find_spec("torch") is not None:
        monkeypatch.setitem(sys.modules, "open_clip", importlib.import_module("open_clip_stand_in"))
    return folder


@pytest.fixture
def official_workplace(real_library, module_caches, tmp_path, monkeypatch):
    """The current folder, offline, with the real data."""
    make_official_workplace(tmp_path / "workplace", real_library)
    monkeypatch.chdir(tmp_path / "workplace")
    monkeypatch.setenv("CXC_ECCV_OFFLINE", "1")
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "downloads"))


@pytest.fixture
def local_hub(client):
    return LocalHub(client)
