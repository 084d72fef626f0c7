"""A module whose extra is not installed says what installs it."""

import subprocess
import sys
from importlib.util import find_spec

import pytest

CODE = """
import sys
sys.modules[{package!r}] = None
try:
    from cxc_eccv.{module} import *
except ImportError as error:
    print(type(error).__name__, error)
"""


@pytest.mark.parametrize(
    ("module", "package", "extra"),
    [
        ("integrations.mteb", "mteb", "mteb"),
        ("integrations.mteb_command", "mteb", "mteb"),
        ("integrations.sentence_transformers", "sentence_transformers", "st"),
        ("encoding", "torch", "train"),
        ("training.retrieval_callback", "transformers", "train"),
        ("training.retrieval_scores", "torchmetrics", "torchmetrics"),
    ],
)
def test_missing_package_is_named_with_its_extra(module, package, extra):
    if package == "torchmetrics" and find_spec("torch") is None:
        pytest.skip("torch is not installed, which is named first")
    command = [sys.executable, "-c", CODE.format(package=package, module=module)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("ExtraMissing ")
    assert f" needs {package}, which is not installed: " in done.stdout
    assert f"[{extra}]" in done.stdout
