"""The modules as Hub Spaces: started as the Hub starts them, and called once."""

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import yaml

from cxc_eccv import registry
from cxc_eccv.evaluate_modules.module_cards import write_space

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
CALL = """
import json, sys
from gradio_client import Client
client = Client(sys.argv[1], verbose=False)
told = []
for arguments in json.loads(sys.argv[2]):
    try:
        told.append(client.predict(*arguments, api_name="/compute"))
    except Exception as error:
        told.append(str(error))
print(json.dumps(told))
"""
CALLS = [
    ["[[10, 30, 20, 40], [20, 10, 40, 30]]", "[[30, 20], [20]]", "{}"],
    ["[[10, 30, 20, 40], [20, 10, 40, 30]]", "[[30, 20], [20]]", '{"per_query": true}'],
    ["[[10], [20]]", "[[30, 20], [20]]", "{}"],
    ["[[10]", "[[30]]", "{}"],
]


@contextlib.contextmanager
def started(python, folder, home):
    """The Space's address, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = {"HF_HOME": str(home), "HF_HUB_OFFLINE": "1", "GRADIO_ANALYTICS_ENABLED": "False"}
    environment = {"PATH": os.environ["PATH"], "GRADIO_SERVER_PORT": str(port), **settings}
    with subprocess.Popen([python, folder / "app.py"], env=environment, cwd=home) as process:
        try:
            address = f"http://127.0.0.1:{port}"
            wait_for(address, process)
            yield address
        finally:
            process.terminate()


def wait_for(address, process, seconds=120):
    for _ in range(2 * seconds):
        assert process.poll() is None, "the app ended"
        with contextlib.suppress(OSError), urllib.request.urlopen(address):
            return
        time.sleep(0.5)
    pytest.fail(f"no answer from {address}")


def exported(folder):
    tool = ROOT / "tools" / "export_metric.py"
    subprocess.run([sys.executable, tool, "map_at_r", "--output", folder], check=True, stdout=subprocess.DEVNULL)
    return folder / "map_at_r"


@pytest.mark.slow
@pytest.mark.network
@pytest.mark.usefixtures("repository_address")
@pytest.mark.parametrize("self_contained", [False, True])
def test_a_space_starts_and_answers(run_python, environment, tmp_path, self_contained):
    """The exported one in an environment made from its own requirements, without this package."""
    folder = exported(tmp_path) if self_contained else write_space("map_at_r", tmp_path)
    required = (folder / "requirements.txt").read_text(encoding="utf-8").splitlines()
    python = environment(*[f"{ROOT}[metrics]" if line.startswith("cxc_eccv[metrics]") else line for line in required])
    with started(python, folder, tmp_path) as address:
        told = json.loads(run_python(CALL, address, json.dumps(CALLS), python=python))
    assert told[0] == {"map_at_r": 0.625}
    assert told[1] == {"map_at_r": 0.625, "map_at_r_per_query": [0.25, 1.0]}
    assert told[2].startswith("RunTooShallow: map_at_r of query 0 (R = 2) looks at the top 2")
    assert told[3].startswith("JSONDecodeError")


@pytest.mark.parametrize("name", registry.metric_functions())
def test_card_starts_with_the_settings_of_its_space(spaces, name):
    _, head, body = (spaces / name / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    settings = yaml.safe_load(head)
    assert {key: settings[key] for key in ("sdk", "app_file", "license")} == {
        "sdk": "gradio",
        "app_file": "app.py",
        "license": "apache-2.0",
    }
    required = (spaces / name / "requirements.txt").read_text(encoding="utf-8").splitlines()
    assert f"gradio=={settings['sdk_version']}" in required
    assert {"evaluate", "metric"} <= set(settings["tags"])
    assert body.startswith(f"\n# {settings['title']}\n\n{settings['description'][:40]}")


@pytest.mark.parametrize("name", registry.metric_functions())
def test_an_app_needs_nothing_but_gradio_and_evaluate(spaces, name):
    text = (spaces / name / "app.py").read_text(encoding="utf-8")
    imports = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert imports == ["json", "pathlib", "evaluate", "gradio"]
