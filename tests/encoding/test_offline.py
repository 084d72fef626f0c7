"""Models of the Hub without a connection: one request, then the cache."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from huggingface_hub import constants

from cxc_eccv.encoding import checkpoints, load_model
from cxc_eccv.errors import ModelError


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(checkpoints, "SECONDS", 0.3)
        monkeypatch.setattr(checkpoints, "_answer", ("", float("-inf")))
        yield server


def test_silent_hub_is_asked_once(silent: socket.socket) -> None:
    with pytest.raises(ModelError, match="cannot be reached") as caught:
        load_model("org/absent")
    silent.setblocking(False)
    silent.accept()[0].close()
    with pytest.raises(BlockingIOError):
        silent.accept()
    assert "HTTPS_PROXY" in str(caught.value)
    assert not constants.HF_HUB_OFFLINE


def test_offline_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ModelError, match="org/absent: no model found: HF_HUB_OFFLINE is set"):
        load_model("org/absent")
