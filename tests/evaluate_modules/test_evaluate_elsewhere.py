"""The ``evaluate`` modules with another release of ``datasets``, and exported, without this package."""

import json
from pathlib import Path

import metric_inputs
import pytest

from cxc_eccv import registry
from cxc_eccv.evaluate_modules import MODULES_FOLDER

pytestmark = pytest.mark.thorough

ROOT = Path(__file__).parents[2]
SPECS = registry.metric_functions()

EVERYWHERE = """
import json, os, sys
import evaluate
arguments, results = json.load(open(sys.argv[2])), {}
for name, given in arguments.items():
    metric = evaluate.load(os.path.join(sys.argv[1], name))
    results[name] = metric.compute(**given)
print(json.dumps(results))
"""
REFUSED = """
try:
    evaluate.load(os.path.join(sys.argv[1], "map_at_r")).compute(predictions=[[1, 2]], references=[[1, 3, 4]])
except Exception as error:
    print(type(error).__name__, error)
"""
BLOCKED = """
import sys
class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("cxc_eccv", "transformers"):  # slow, and not needed
            raise ImportError(name + " is blocked")
sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture(scope="module")
def everything(load_metric, tmp_path_factory):
    """A file of the arguments of every module, and what it gives here."""
    given = {name: metric_inputs.inputs_of(spec, 11) for name, spec in SPECS.items()}
    chosen = {name: {**columns, **options} for name, (columns, options) in given.items()}
    path = tmp_path_factory.mktemp("arguments") / "arguments.json"
    path.write_text(json.dumps(chosen))
    return path, {name: load_metric(name).compute(**given) for name, given in chosen.items()}


@pytest.mark.slow
@pytest.mark.network
def test_modules_work_with_datasets_4_0(run_python, environment, everything):
    arguments, expected = everything
    python = environment("datasets==4.0.0", f"{ROOT}[metrics]")
    assert json.loads(run_python(EVERYWHERE, MODULES_FOLDER, arguments, python=python)) == expected


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """All metrics, exported by the tool."""
    folder = tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        import export_metric

        for name in SPECS:
            patch.setattr("sys.argv", ["export_metric.py", name, "--output", str(folder)])
            export_metric.main()
    return folder


@pytest.mark.slow
def test_exported_modules_run_without_the_package(run_python, exported, everything):
    """They refuse the same inputs as those of the package."""
    arguments, expected = everything
    results, told = run_python(BLOCKED + EVERYWHERE + REFUSED, exported, arguments).splitlines()
    assert json.loads(results) == expected
    assert told.startswith("RunTooShallow map_at_r of query 0 (R = 3) looks at the top 3")
