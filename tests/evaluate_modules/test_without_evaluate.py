"""Hugging Face's ``evaluate`` is an extra: the modules alone need it, and say so where it is missing."""

import json
import tomllib
from pathlib import Path

import pytest

from cxc_eccv.errors import UnknownName
from cxc_eccv.extras import install_line

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
HEAVY = ["accelerate", "matplotlib", "mteb", "nltk", "sentence_transformers", "spacy", "torch", "transformers"]
"""Other extras, which are absent too: importing them takes longer than all the rest."""
SCRIPT = """
import importlib.util, json, pkgutil, sys
heavy = sys.argv.pop().split()
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in heavy:
            raise ModuleNotFoundError(name, name=name)
sys.meta_path.insert(0, Absent())
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *package: None if name.partition(".")[0] in heavy else find(name, *package)
sys.modules["evaluate"] = None  # what an import of a missing package finds
import cxc_eccv as ce
import cxc_eccv.errors
needed = set()
for module in pkgutil.walk_packages(ce.__path__, "cxc_eccv."):
    try:
        importlib.import_module(module.name)
    except ImportError as error:
        needed.add((error.name or str(error).split(",")[0].split()[-1]).partition(".")[0])
try:
    ce.metric("map_at_r")
except ce.errors.InvalidOption as error:
    message = str(error)
from cxc_eccv.cli.app import main
try:
    main(["demo", "--output", "demo"])
except SystemExit as ended:
    print(json.dumps({"needed": sorted(needed), "message": message, "status": ended.code}))
"""


def test_only_metric_modules_need_the_evaluate_package(run_python, monkeypatch, tmp_path):
    """Their error names the extra that installs it."""
    monkeypatch.chdir(tmp_path)
    printed = json.loads(run_python(SCRIPT, " ".join(HEAVY), with_package=True).splitlines()[-1])
    assert printed == {
        "needed": sorted({*HEAVY} & {*printed["needed"]}),
        "message": "the module of the metric 'map_at_r' needs evaluate, which is not installed: "
        + install_line("metrics"),
        "status": 0,
    }
    assert (tmp_path / "demo").is_dir()


def test_only_the_metrics_extra_installs_evaluate():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [pin for pin in project["dependencies"] if pin.startswith("evaluate")]
    assert [pin.partition(">")[0] for pin in project["optional-dependencies"]["metrics"]] == ["evaluate"]


def test_an_unknown_metric_gets_a_suggestion():
    import cxc_eccv as ce

    with pytest.raises(UnknownName, match="unknown metric 'map_at'; did you mean 'map_at_r'"):
        ce.metric("map_at")
