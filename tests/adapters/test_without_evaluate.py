"""Hugging Face's ``evaluate`` is an extra: the modules alone need it, and say so where it is missing."""

import tomllib
from pathlib import Path

import pytest

from cxc_eccv.errors import UnknownName

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
ABSENT = """
import sys
sys.modules["evaluate"] = None  # what an import of a missing package finds
import cxc_eccv as ce
"""
IMPORTS = """
import importlib, pkgutil
for name in ce.__all__:
    getattr(ce, name)
needed = set()
for module in pkgutil.walk_packages(ce.__path__, "cxc_eccv."):
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as error:
        needed.add(error.name.partition(".")[0])
print(sorted(needed - {"torch", "transformers", "accelerate", "sentence_transformers", "matplotlib"}))
"""
DEMO = """
from cxc_eccv.cli import main
sys.argv = ["cxc-eccv", "demo", "--output", "demo"]
try:
    main()
except SystemExit as done:
    print("status", done.code)
"""
ASK = """
try:
    ce.metric("map_at_r")
except ce.errors.InvalidOption as error:
    print(error)
"""


def test_everything_imports_without_evaluate(run_python):
    assert run_python(ABSENT + IMPORTS, with_package=True) == "[]\n"


def test_the_demo_runs_without_evaluate(run_python, tmp_path):
    assert run_python(ABSENT + DEMO, with_package=True).splitlines()[-1] in ("status 0", "status None")
    assert (tmp_path / "demo").is_dir()


def test_a_metric_s_module_names_the_extra_it_needs(run_python):
    told = run_python(ABSENT + "import cxc_eccv.errors\n" + ASK, with_package=True)
    assert told == (
        "the module of the metric 'map_at_r' needs evaluate, which is not installed: pip install 'cxc_eccv[metrics]'\n"
    )


def test_the_extra_brings_it_and_the_package_alone_does_not():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert not [pin for pin in project["dependencies"] if pin.startswith("evaluate")]
    assert [pin.partition(">")[0] for pin in project["optional-dependencies"]["metrics"]] == ["evaluate"]


def test_an_unknown_metric_gets_a_suggestion():
    import cxc_eccv as ce

    with pytest.raises(UnknownName, match="unknown metric 'map_at'; did you mean 'map_at_r'"):
        ce.metric("map_at")
