"""The whole loop of ECCV Caption, ``examples/new_benchmark.sh``, in a shell of its own."""

import json
import os
import re
import subprocess
import sys

import pyarrow.parquet as pq
import pytest
from datasets import load_dataset
from pages import PAGES, ROOT
from scipy.stats import kendalltau

from cxc_eccv.sources.readers import read_positives

SCRIPT = "examples/new_benchmark.sh"
ERROR_RATE = 0.1
"""Of the simulated people who do not guess."""

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def loop(tmp_path_factory):
    """The folder that the script fills, and what it printed."""
    folder = tmp_path_factory.mktemp("loop")
    commands = {"cxc-eccv": f'"{sys.executable}" -c "from cxc_eccv.cli.app import main; main()"'}
    commands["python"] = f'"{sys.executable}"'
    for name, command in commands.items():
        (folder / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
        (folder / name).chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("CXC_ECCV")}
    environment |= {"HF_HOME": str(folder), "PYTHONPATH": str(ROOT), "PATH": f"{folder}:{environment['PATH']}"}
    done = subprocess.run(
        ["bash", str(ROOT / SCRIPT)], capture_output=True, text=True, check=False, env=environment, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return folder / "new_benchmark", done.stdout


@pytest.fixture(scope="module")
def truth(sample_library):
    table = sample_library.read("truth", read_positives)
    return set(zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True))


@pytest.fixture(scope="module")
def labels(loop):
    """(image id, caption id) of each labelled pair to whether it is positive."""
    table = pq.read_table(loop[0] / "hub" / "labels.parquet")
    columns = (table[name].to_pylist() for name in ("image_id", "caption_id", "positive"))
    return {(image, caption): positive for image, caption, positive in zip(*columns, strict=True)}


def test_script_is_named_on_a_page():
    assert f"bash {SCRIPT}" in "".join(path.read_text(encoding="utf-8") for path in PAGES)


def test_labels_recover_proposed_positives(labels, truth, sample_library):
    split = sample_library.split("test")
    links = set(zip(split.caption_image_ids.tolist(), split.caption_ids.tolist(), strict=True))
    hidden = (labels.keys() & truth) - links
    assert len(hidden) > 50
    recovered = {pair for pair in hidden if labels[pair]}
    assert len(recovered) > 0.9 * len(hidden)
    # Two of three err together on 2.8% of the pairs.
    assert sum(positive != (pair in truth) for pair, positive in labels.items()) < 0.05 * len(labels)


def test_error_rate_lies_in_the_cards_interval(loop):
    card = (loop[0] / "hub" / "README.md").read_text(encoding="utf-8")
    low, high = re.search(r"answered \d+ of \d+ \[(\d+)%, (\d+)%\] of the known pairs", card).groups()
    assert int(low) <= 100 * (1 - ERROR_RATE) <= int(high)


def test_check_turns_out_the_person_who_guesses(loop):
    folder, printed = loop
    assert re.search(r"dora answered .* of the known pairs correctly, no better than chance", printed)
    assert not re.search(r"(ann|ben|cleo) answered", printed)
    people = pq.read_table(folder / "hub" / "labels.parquet")["said"].combine_chunks().flatten().field("person")
    assert len(set(people.to_pylist())) == 3


def test_agreement_equals_tau_of_the_two_columns(loop):
    agreement = json.loads((loop[0] / "table" / "compare.json").read_text())["agreement"]
    scores, (old, new) = agreement["scores"], agreement["labels"]
    for metric in ("annotated/recall_at_1", "annotated/map_at_r"):
        of_labels = [
            [each["value"] for each in scores if (each["metric"], each["labels"]) == (metric, labels)]
            for labels in (old, new)
        ]
        assert [len(column) for column in of_labels] == [5, 5]
        names = ("metric", "other_metric", "labels", "other_labels")
        (row,) = (row for row in agreement["rows"] if [row[name] for name in names] == [metric, metric, old, new])
        assert row["tau"] == pytest.approx(kendalltau(*of_labels).statistic)
        assert row["low"] <= row["tau"] <= row["high"]
    page = (loop[0] / "table" / "compare.md").read_text(encoding="utf-8")
    for each in scores:
        assert f"{100 * each['value']:.1f} [{100 * each['low']:.1f}, {100 * each['high']:.1f}]" in page


def test_card_names_models_and_sources(loop):
    card = (loop[0] / "hub" / "README.md").read_text(encoding="utf-8")
    for name in ("whole", "grey", "half", "coarse", "shapes"):
        assert f"`{name}`" in card
    assert "Known labels: `coco`; positives of these sources were asked about too." in card


def test_hub_folder_loads_without_peoples_names(loop, labels, tmp_path):
    folder = loop[0] / "hub"
    assert {path.name for path in folder.iterdir() if path.name[0] != "."} == {"README.md", "labels.parquet"}
    dataset = load_dataset(str(folder), split="test", cache_dir=str(tmp_path))
    assert dataset.num_rows == len(labels)
    assert "dora" not in json.dumps(dataset[:])
