"""What holds before any test is imported: one thread per worker, no modules of extras that are not installed.

And for every test and example: no download and no table goes to the user's cache.
"""

import functools
import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest
import typer.main

# Workers beside each other whose libraries start a thread per core each wait for one another several times as long as
# they compute. The package's own threads are counted by cores, not by this.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
HELPERS = ("tests/materials/models/*", "tests/studies/materials/models/*", "tests/studies/materials/workers/*")
PARTS = (
    "encoding/*",
    "studies/baselines/*",
    "studies/entailment/classifier/*",
    "studies/entailment/mining.py",
    "studies/entailment/processing.py",
    "studies/entailment/scoring.py",
    "studies/explain/summaries.py",
    "studies/trainers/*",
    "training/contrastive.py",
    "training/retrieval_callback.py",
)
MODULES = tuple(f"cxc_eccv/{part}" for part in PARTS)
INTEGRATIONS = {
    "scoring": HAS_TRAIN,
    "sentence_transformers": HAS_TRAIN and find_spec("sentence_transformers"),
    "mteb": HAS_TRAIN and find_spec("mteb"),
}
HAS_TORCHMETRICS = HAS_TRAIN and find_spec("torchmetrics")
collect_ignore_glob = [] if HAS_TRAIN else [*HELPERS, *MODULES]
collect_ignore_glob += [] if HAS_TORCHMETRICS else ["cxc_eccv/training/retrieval_scores.py"]
collect_ignore_glob += [f"cxc_eccv/integrations/{name}.py" for name, there in INTEGRATIONS.items() if not there]
if not INTEGRATIONS["mteb"]:
    collect_ignore_glob += ["cxc_eccv/integrations/mteb_command.py", "cxc_eccv/builders/templates/mteb_tasks.py"]


def pytest_collection_finish() -> None:
    """Take what was collected, with all its imports, out of the garbage collector's rounds."""
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """The same for what the tests of a file leave, such as real data: every training collects garbage often."""
    if nextitem is not None and nextitem.path != item.path:
        gc.collect()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _tree_of_commands() -> Iterator[None]:
    """The command line makes its tree of commands once: each time takes as long as most commands."""
    made = functools.cache(typer.main.get_command)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("typer.main.get_command", made)
        patch.setattr("typer.testing._get_command", made)
        yield


@pytest.fixture(autouse=True)
def _pipe_without_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is printed to a pipe is as wide as it is, whatever the terminal of the tests."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture(scope="session", autouse=True)
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    folder = tmp_path_factory.getbasetemp()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(
            "CXC_ECCV_CACHE", str((folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "cache")
        )
        yield
