"""Fixtures that all tests share; modules of ``materials`` are importable by name, as ``oracles`` and ``strategies``."""

import gc
import os
import shutil
import socket
import subprocess
import sys
from collections import Counter
from pathlib import Path

# Tiny models gain nothing by more threads, which wait for each other by spinning where several processes share the
# cores. NumPy and PyTorch read this when they are imported; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from cxc_eccv import kernels
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings
from cxc_eccv.writing import locked

MATERIALS = Path(__file__).parent / "materials"
sys.path[:0] = [str(MATERIALS), *(str(MATERIALS / room) for room in ("damage", "hub", "models", "samples"))]

MIRROR = os.environ.get("CXC_ECCV_DATA") or "sample"
"""Folder of the real data; ``sample`` where the tests that need it are skipped."""

THOROUGH_ROOMS = {"browser", "data", "docs", "experiments", "hub", "property", "reference", "release"}
DEAR_PROCESSES = {"browser", "client", "environment", "run_python", "warm_python"}
THOROUGH_FIXTURES = {*DEAR_PROCESSES, "module_caches", "real_library", "wordnet_folder"}
"""What reads the real data, starts processes, imports ``evaluate`` or searches long is not in the fast lane."""

os.environ.pop("NLTK_DATA", None)  # a test that needs WordNet asks for it: the fixture below

# No time decides whether a test passes, and CI draws the same examples every time. --hypothesis-profile=long searches.
PROFILE = settings(deadline=None, derandomize=bool(os.environ.get("CI")), suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("long", PROFILE, max_examples=500)
settings.register_profile("tests", PROFILE, max_examples=20)
settings.load_profile("tests")


ON_REQUEST = ("network", "gpu")
"""Markers of tests that need what a machine may lack: without -m they are left out."""
WHERE_NAMED = ("slow", "thorough")
"""Markers of tests that run without -m in files and thorough rooms that the command line names."""
LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""Marker, or path of a thorough room, to the number of tests left out: 0 for a room, which was not read."""


def pytest_configure(config):
    """The fast lane is a run without -m."""
    config.stash[LEFT_OUT] = {}


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collection makes a million objects that stay: the garbage collector never looks at them, now or in the tests."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path, config):
    """The fast lane does not import rooms of which it runs no test, unless they are named."""
    if config.option.markexpr or collection_path.name not in THOROUGH_ROOMS:
        return None
    if any(path in collection_path.parents for path in _arguments(config)):
        config.stash[LEFT_OUT][str(collection_path.relative_to(config.rootpath))] = 0
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark as thorough the tests of these rooms and those with these fixtures; leave out what is not asked for.

    Files with thorough tests come first: a worker that ends with short files does not keep the other waiting.
    """
    for item in items:
        if _is_thorough(config, item.path) or THOROUGH_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.thorough)
    dear = {item.path for item in items if item.get_closest_marker("thorough")}
    items.sort(key=lambda item: item.path not in dear)
    if config.option.markexpr:
        return
    named = [path for path in _arguments(config) if path.is_file() or _is_thorough(config, path)]
    reasons = [_why_left_out(item, named) for item in items]
    config.stash[LEFT_OUT] |= Counter(filter(None, reasons))
    config.hook.pytest_deselected(items=[item for item, reason in zip(items, reasons, strict=True) if reason])
    items[:] = [item for item, reason in zip(items, reasons, strict=True) if not reason]


def _arguments(config):
    """The files and folders that the command line names."""
    return [(config.invocation_params.dir / argument.partition("::")[0]).resolve() for argument in config.args]


def _is_thorough(config, path):
    """Whether a path is, or is in, a thorough room."""
    return path.is_relative_to(config.rootpath) and bool(THOROUGH_ROOMS & set(path.relative_to(config.rootpath).parts))


def _why_left_out(item, named):
    """The marker for which a test is left out, or None."""
    is_named = any(path == item.path or path in item.path.parents for path in named)
    markers = ON_REQUEST if is_named else (*ON_REQUEST, *WHERE_NAMED)
    return next((marker for marker in markers if item.get_closest_marker(marker)), None)


def pytest_runtest_setup(item):
    """A test of a GPU skips where there is none."""
    if item.get_closest_marker("gpu"):
        torch = pytest.importorskip("torch")
        if not torch.cuda.is_available():
            pytest.skip("torch finds no CUDA device")


def pytest_sessionfinish(session):
    """Every worker sends what it left out: all the same."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash[LEFT_OUT]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """The controller, which collects nothing, shows what a worker sent."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", {})


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter, config):
    """Say what was left out, and how to run it."""
    left_out = [f"{count} {name}" if count else f"all of {name}" for name, count in config.stash[LEFT_OUT].items()]
    if left_out:
        terminalreporter.write_line(
            f"Left out: {', '.join(sorted(left_out))}. Name a file to run its thorough and slow tests too, pass -m "
            "MARKER for those of a marker, or run tools/check.py --only tests for all but the slow ones."
        )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """A test that skips for want of real data fails where there is real data: nothing is left out silently."""
    report = yield
    if MIRROR != "sample" and report.skipped and "CXC_ECCV_DATA" in (reason := report.longrepr[2]):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} was skipped: {reason}"
    return report


@pytest.fixture(scope="session")
def sample_library():
    """The embedded sample."""
    return Library("sample")


@pytest.fixture
def sample_copy(tmp_path):
    """A copy of the embedded sample that a test may edit."""
    return Path(shutil.copytree(mirror_folder("sample"), tmp_path / "mirror"))


@pytest.fixture(scope="session")
def real_library():
    """The real files, where CXC_ECCV_DATA points at them."""
    if MIRROR == "sample":
        pytest.skip("CXC_ECCV_DATA does not point at the real files")
    return Library(MIRROR, offline=True)


@pytest.fixture(scope="session")
def wordnet_folder():
    """What NLTK_DATA names to whoever needs WordNet 3.0; it lies beside the real files."""
    if MIRROR == "sample":
        pytest.skip("CXC_ECCV_DATA does not point at the real files, which WordNet lies beside")
    return str(Path(MIRROR) / "nltk_data")


@pytest.fixture
def wordnet(wordnet_folder, monkeypatch):
    """WordNet 3.0 where nltk finds it: by this test, and by no other that happens to run later."""
    from cxc_eccv.sources.wordnet import load_wordnet

    monkeypatch.setenv("NLTK_DATA", wordnet_folder)
    return load_wordnet()


@pytest.fixture(scope="session")
def module_caches(tmp_path_factory):
    """Caches of ``datasets`` and ``evaluate`` that no user shares.

    One place for all tests of a process: ``evaluate_modules`` is one package of it, and stays where it was imported
    from first.
    """
    import datasets
    import evaluate

    folder = tmp_path_factory.mktemp("caches")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets.config, "HF_DATASETS_CACHE", folder / "datasets")
        patch.setattr(evaluate.config, "HF_MODULES_CACHE", str(folder / "modules"))
        patch.setattr(evaluate.config, "HF_METRICS_CACHE", folder / "metrics")
        patch.syspath_prepend(str(folder / "modules"))
        yield folder


@pytest.fixture(scope="session")
def warm_python(tmp_path_factory):
    """A command that runs Python as ``sys.executable`` does, without seconds of imports; see warm_python.py."""
    if not hasattr(os, "fork"):
        yield [sys.executable]
        return
    script = str(MATERIALS / "warm_python.py")
    folder = tmp_path_factory.getbasetemp()
    address = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "warm"
    with socket.socket(socket.AF_UNIX) as connection:
        with locked(address, 60):
            if not address.exists():
                alone = {"HF_HOME": f"{address}_home", "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": ""}
                subprocess.run([sys.executable, script, address], env=os.environ | alone, check=True)
            connection.connect(str(address))
        yield [sys.executable, "-IS", script, str(address)]


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium without a window; one for all tests of a process."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed; pip install playwright"
    )
    binary = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if binary is None:
        pytest.skip("no Chromium on this machine; install it, on Debian by apt-get install chromium")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=binary, args=["--disable-gpu", "--disable-quic"])
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser, tmp_path):
    """Opens HTML from a file in a new tab; all tabs of a test share their storage, but for those of phones.

    ``before`` is JavaScript that runs before that of the page. Dialogs are errors.
    """
    contexts = {}

    def open_in_tab(html, width=1200, height=900, *, touch=False, before="", query=""):
        if touch not in contexts:
            contexts[touch] = browser.new_context(has_touch=touch, is_mobile=touch)
            contexts[touch].set_default_timeout(20_000)
        page = contexts[touch].new_page()
        page.set_viewport_size({"width": width, "height": height})
        page.on("dialog", refuse)
        page.add_init_script(before)
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        page.goto(path.as_uri() + query)
        return page

    dialogs = []

    def refuse(dialog):
        dialogs.append(dialog.message)
        dialog.dismiss()

    yield open_in_tab
    for context in contexts.values():
        context.close()
    assert dialogs == []


@pytest.fixture(params=["compiled", "numpy"])
def counted_by(request, monkeypatch):
    """Who counts in blocks of scores: the compiled kernels where the package has them, then NumPy."""
    if request.param == "compiled" and not kernels.COMPILED:
        pytest.skip("the package was built without a compiler")
    monkeypatch.setattr(kernels, "COMPILED", request.param == "compiled")


@pytest.fixture
def helped(monkeypatch, capsys):
    """What ``--help`` prints in a terminal of 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(start, *arguments):
        monkeypatch.setattr(sys, "argv", [*map(str, arguments), "--help"])
        with pytest.raises(SystemExit) as ended:
            start()
        shown = capsys.readouterr()
        assert not ended.value.code, shown.err
        return shown.out

    return run


@pytest.fixture(scope="session")
def make_run():
    """Random vectors for the ids of a library's split; equal seeds give equal runs."""

    def make(library, seed=0, split="test", width=16):
        random = np.random.default_rng(seed)
        sides = library.split(split).images["image_id"], library.split(split).captions["caption_id"]
        return EmbeddingsRun(*(Embeddings(ids.to_numpy(), random.standard_normal((len(ids), width))) for ids in sides))

    return make


@pytest.fixture(scope="session")
def sample_content(sample_library):
    """A report of the sample with per-query values, and its example queries."""
    from report_samples import sample_report

    report = sample_report(sample_library)[1]
    return report, report.examples
