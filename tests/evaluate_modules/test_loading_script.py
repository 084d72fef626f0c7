"""The loading script: a script for datasets < 4, an importable class from 4 on."""

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from sample_configs import sample_configs

from cxc_eccv.builders.dataset_config import BuildOptions
from cxc_eccv.builders.output import conform

pytestmark = pytest.mark.thorough

SCRIPT = Path(__file__).parents[2] / "loading_scripts" / "cxc_eccv"

IMPORT = """
import importlib.util, json, sys
import datasets
datasets.disable_progress_bars()
specification = importlib.util.spec_from_file_location("script", sys.argv[1] + "/cxc_eccv.py")
script = importlib.util.module_from_spec(specification)
sys.modules["script"] = script
specification.loader.exec_module(script)
told = {}
for name in set(script.CxcEccv.builder_configs) & set(sys.argv[2:]):
    builder = script.CxcEccv(config_name=name, data_dir="sample")
    builder.download_and_prepare()
    told[name] = {split: list(rows) for split, rows in builder.as_dataset().items()}
print(json.dumps(told))
"""

LOAD = """
import json, sys
import datasets
datasets.disable_progress_bars()
arguments = {"trust_remote_code": True, "data_dir": "sample"}
told = {}
for name in set(datasets.get_dataset_config_names(sys.argv[1], trust_remote_code=True)) & set(sys.argv[2:]):
    loaded = datasets.load_dataset(sys.argv[1], name, **arguments)
    told[name] = {split: list(rows) for split, rows in loaded.items()}
    streamed = datasets.load_dataset(sys.argv[1], name, split="test", streaming=True, **arguments)
    assert list(streamed) == told[name]["test"]
assert datasets.load_dataset(sys.argv[1], split="test", **arguments)[0] == told["captions"]["test"][0]
print(json.dumps(told))
"""

REQUIRED = ("markupsafe", "pillow", "pooch", "safetensors", "scipy")
"""What the package needs beside ``datasets`` to read the sample."""


@pytest.fixture(scope="module")
def find_declared(sample_library):
    told = {}
    for name, config in sample_configs().items():
        tables = {
            split: conform(config.rows(sample_library.split(split), BuildOptions()).table, config.features, name)
            for split in config.splits
            if split in sample_library.splits
        }
        told[name] = {split: table.to_pylist() for split, table in tables.items() if table.num_rows}
    return told


def test_the_class_is_importable(find_declared, tmp_path, monkeypatch):
    specification = importlib.util.spec_from_file_location("script", SCRIPT / "cxc_eccv.py")
    script = importlib.util.module_from_spec(specification)
    monkeypatch.setitem(sys.modules, "script", script)
    specification.loader.exec_module(script)
    for name, declared in find_declared.items():
        builder = script.CxcEccv(config_name=name, data_dir="sample", cache_dir=str(tmp_path))
        builder.download_and_prepare()
        assert {split: list(rows) for split, rows in builder.as_dataset().items()} == declared


@pytest.mark.slow
@pytest.mark.network
def test_the_class_is_importable_with_datasets_4_0(run_python, environment, find_declared):
    python = environment("datasets==4.0.0", *REQUIRED)
    assert json.loads(run_python(IMPORT, SCRIPT, *find_declared, python=python, with_package=True)) == find_declared


@pytest.mark.slow
@pytest.mark.network
def test_the_script_loads_with_datasets_3_6(run_python, environment, find_declared):
    python = environment("datasets==3.6.0", *REQUIRED)
    assert json.loads(run_python(LOAD, SCRIPT, *find_declared, python=python, with_package=True)) == find_declared


def test_script_has_a_single_import():
    text = (SCRIPT / "cxc_eccv.py").read_text(encoding="utf-8")
    imports = [line for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert imports == ["from cxc_eccv.builders import load"]
    assert len(text.splitlines()) < 30
