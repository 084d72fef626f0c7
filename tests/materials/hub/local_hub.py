"""The local Hub, and a client process that knows no other; both are shared, the Hub is emptied for every test."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hub_endpoints import WRITER
from hub_server import Hub
from owner_addresses import write_metadata

WORKER = Path(__file__).with_name("hub_worker.py")
ROOT = Path(__file__).parents[3]
PATIENCE = 120


class Client:
    """Runs commands and code with ``HF_ENDPOINT`` and caches of its own."""

    def __init__(self, url, folder, token):
        settings = {
            name: value for name, value in os.environ.items() if not name.startswith(("HF_", "CXC_ECCV", "HUGG"))
        }
        settings |= {"HF_ENDPOINT": url, "HF_HOME": str(folder / "hf"), "HF_HUB_DISABLE_XET": "1"}
        settings |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_UPDATE_DOWNLOAD_COUNTS": "0"}
        settings |= {"HF_HUB_DISABLE_TELEMETRY": "1", "COLUMNS": "200"}
        self.metadata = folder / "metadata"
        self.set_addresses({})
        settings["PYTHONPATH"] = os.pathsep.join([str(self.metadata), str(ROOT)])
        self.token = token
        self.secrets = {token}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, str(WORKER)], env=settings, cwd=folder, **pipes)

    def command(self, *arguments, status=0, token="same", folder=None, settings=(), typed=""):
        """``cxc-eccv ...``; fails unless the exit status is the expected one.

        It runs where the command before did, unless a ``folder`` is named, with further environment ``settings``, and
        reads what is ``typed``.
        """
        asked = {"command": [str(one) for one in arguments], "folder": folder and str(folder), "input": typed}
        answer = self._asked(asked | {"environment": dict(settings)}, token)
        assert answer.status == status, answer.err or answer.out
        assert "Traceback" not in answer.err, answer.err
        return answer

    def code(self, code, given=None, token="same"):
        """Python code that may read ``given`` and write ``told``."""
        return self._asked({"code": code, "given": given}, token)

    def set_addresses(self, addresses):
        """What the package's owner set in ``[project.urls]``, by label."""
        write_metadata(self.metadata, addresses)

    def close(self):
        self.process.stdin.close()
        self.process.wait(60)
        self.process.stdout.close()

    def _asked(self, request, token):
        token = self.token if token == "same" else token
        request["environment"] = {"HF_TOKEN": token} | request.get("environment", {})
        timer = threading.Timer(PATIENCE, self.process.kill)
        timer.start()
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        timer.cancel()
        assert line, "the client died or took too long"
        answer = SimpleNamespace(**{"told": None, "error": None, "message": None, **json.loads(line)})
        for secret in {token, *self.secrets} - {None}:
            assert secret not in line, f"the token was shown: {line}"
        return answer


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
    running_client.set_addresses({})
    return running_client
