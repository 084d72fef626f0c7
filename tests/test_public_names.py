"""The public namespace: what it holds, and that importing it stays light."""

import subprocess
import sys

import pytest

import cxc_eccv

pytestmark = pytest.mark.thorough

PUBLIC = [
    "Library",
    "MultiPositiveCollator",
    "attach_images",
    "build_folder",
    "collect_positives",
    "compare",
    "evaluate",
    "evaluate_model",
    "evaluate_rankings",
    "load",
    "load_embeddings",
    "load_report",
    "load_reports",
    "load_run",
    "metric",
    "multi_positive_loss",
    "save_embeddings",
]


def test_members_are_pinned():
    assert cxc_eccv.__all__ == PUBLIC
    for name in PUBLIC:
        assert getattr(cxc_eccv, name).__module__.startswith("cxc_eccv.")
    assert set(PUBLIC) <= set(dir(cxc_eccv))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'evaluat'"):
        cxc_eccv.evaluat  # noqa: B018


def test_import_loads_nothing_heavy():
    code = "import sys, cxc_eccv; print([m for m in ('numpy', 'pyarrow', 'datasets', 'torch') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_core_and_a_report_need_nothing_heavy():
    heavy = ("datasets", "evaluate", "typer", "torch", "scipy.optimize", "scipy.stats")
    code = "import sys, cxc_eccv.registry, cxc_eccv.evaluation, cxc_eccv.report.page, cxc_eccv.report.console\n"
    code += f"print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
