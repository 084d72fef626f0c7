"""What was pushed loads by its name on the Hub, as everybody else loads it."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import yaml
from owner_addresses import ADDRESSES, REPOSITORY

from cxc_eccv.evaluate_modules import MODULES_FOLDER
from cxc_eccv.evaluate_modules.module_cards import GRADIO_VERSION

ROOT = Path(__file__).parents[2]
LOAD = """
import datasets
repo, told = given, {}
for config in datasets.get_dataset_config_names(repo):
    streams = datasets.load_dataset(repo, config, streaming=True)
    for split, rows in datasets.load_dataset(repo, config).items():
        streamed = streams[split]
        assert list(streamed) == list(rows)
        assert streamed.features == rows.features
        told[config + "/" + split] = list(rows)
"""

EVALUATE = """
import evaluate
metric = evaluate.load("org/map_at_r")
told = metric.compute(predictions=[[10, 30, 20, 40], [20, 10, 40, 30]], references=[[30, 20], [20]], gallery_size=4)
"""


def test_a_pushed_dataset_loads_by_name_also_streaming(hub, client, built):
    client.command("push", built, "org/loads", "--yes")
    answer = client.code(LOAD, "org/loads")
    assert answer.status == 0, answer.err
    local = {
        f"{path.parent.name}/{path.name.partition('-')[0]}": pq.read_table(path).to_pylist()
        for path in built.rglob("*.parquet")
    }
    assert answer.told == json.loads(json.dumps(local))
    assert hub.seen("GET /datasets/org/loads/resolve/.*parquet")


def test_a_pushed_metric_space_loads_with_evaluate(hub, client):
    client.set_addresses(ADDRESSES)
    text = client.command("push", "map_at_r", "org/map_at_r", "--type", "space", "--yes").out
    assert "uploaded to" in text
    space = hub.store.repositories["space", "org/map_at_r"]
    assert "A new Space." not in space.files()["README.md"].decode()  # the Hub's own words are no hand-writing
    assert f"cxc_eccv[metrics] @ git+{REPOSITORY}\n" in space.files()["requirements.txt"].decode()
    card = space.files()["README.md"].decode()
    assert 'import evaluate\n\nmetric = evaluate.load("org/map_at_r")\n' in card
    assert "ce." not in card
    assert len(yaml.safe_load(card.split("---\n")[1])["short_description"]) <= 60
    assert space.files()["map_at_r.py"] == (MODULES_FOLDER / "map_at_r" / "map_at_r.py").read_bytes()
    answer = client.code(EVALUATE)
    assert answer.status == 0, answer.err
    assert math.isclose(answer.told["map_at_r"], 0.625)  # (1/2 * 1/2 + 1) / 2 over R = 2 and R = 1
    assert hub.seen("/spaces/org/map_at_r/resolve/main/map_at_r.py")


def test_space_without_address_is_the_exported_one(hub, client, tmp_path):
    told = client.command("push", "map_at_r", "org/map_at_r", "--type", "space", "--yes", status=2).err
    assert "`python tools/export_metric.py map_at_r --output exported`" in told
    assert not hub.requests
    export = [sys.executable, ROOT / "tools" / "export_metric.py", "map_at_r", "--output", "exported"]
    subprocess.run(export, cwd=tmp_path, check=True)
    (tmp_path / "exported" / "map_at_r" / ".written.sha256").write_text("x")
    client.command("push", tmp_path / "exported" / "map_at_r", "org/map_at_r", "--type", "space", "--yes")
    assert ".written.sha256" not in hub.store.repositories["space", "org/map_at_r"].files()
    files = hub.store.repositories["space", "org/map_at_r"].files()
    assert "cxc_eccv" not in files["requirements.txt"].decode()
    assert 'import evaluate\n\nmetric = evaluate.load("org/map_at_r")\n' in files["README.md"].decode()
    answer = client.code(EVALUATE)
    assert answer.status == 0, answer.err
    assert math.isclose(answer.told["map_at_r"], 0.625)


def test_a_space_keeps_what_people_changed_in_it(hub, client):
    client.set_addresses(ADDRESSES)
    client.command("push", "map_at_r", "org/kept", "--type", "space", "--yes")
    space = hub.store.repositories["space", "org/kept"]
    card = (
        space.files()["README.md"].decode().replace("emoji: 📐", "emoji: 🐙").replace("sdk_version: ", "sdk_version: 1")
    )
    hub.store.write(space, {"README.md": card.encode(), "extra.txt": b"x"})
    client.command("push", "map_at_r", "org/kept", "--type", "space", "--yes")
    after = space.files()["README.md"].decode()
    assert "emoji: 🐙" in after
    assert f"sdk_version: {GRADIO_VERSION}\n" in after
    assert "extra.txt" in space.files()
