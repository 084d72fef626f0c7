"""Models of the Hub without a connection: one request, then the cache."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Iterator

import pytest
from huggingface_hub import constants

from cxc_eccv.encoding import checkpoints, load_model
from cxc_eccv.encoding.checkpoints import explain_damage
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


class RefusingHub(http.server.BaseHTTPRequestHandler):
    """Refuses as the real one does: a gated repository with 403, a private or unknown one with 401."""

    def do_HEAD(self) -> None:
        codes = {"gated": (403, "GatedRepo"), "private": (401, "RepoNotFound")}
        code, name = next((found for word, found in codes.items() if word in self.path), (200, ""))
        self.send_response(code)
        if name:
            self.send_header("X-Error-Code", name)
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_HEAD  # noqa: N815 - of http.server

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), RefusingHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        monkeypatch.setattr(constants, "ENDPOINT", endpoint)
        template = f"{endpoint}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(checkpoints, "_answer", ("", float("-inf")))
        yield
        server.shutdown()


@pytest.mark.parametrize("name", ["org/gated", "org/private"])
def test_refused_repository_names_the_login(name: str, refusing: None) -> None:
    with pytest.raises(ModelError, match=f"{name}: no model found") as caught:
        load_model(name)
    lines = str(caught.value).splitlines()
    assert any("hf auth login" in line for line in lines)
    assert len(lines) <= checkpoints.MOST_LINES


def test_long_errors_are_shortened() -> None:
    with pytest.raises(ModelError) as caught, explain_damage(lambda reason: f"m: cannot load ({reason})"):
        raise ValueError("first\n\n" + "k" * 1000 + "\nthird\nfourth\nfifth\nsixth")
    lines = str(caught.value).splitlines()
    assert lines == ["m: cannot load (first)", "  " + "k" * 300 + " ...", "  third", "  fourth", "  fifth"]
