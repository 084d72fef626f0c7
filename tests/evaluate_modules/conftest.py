"""Python environments with other releases of ``datasets``, and clean processes to run them in."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from owner_addresses import ADDRESSES, write_metadata

from cxc_eccv import registry
from cxc_eccv.evaluate_modules import module_folder
from cxc_eccv.evaluate_modules.module_cards import write_space

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def environment(tmp_path_factory):
    """Gives the Python of a new environment with the named packages; made once per set of packages."""
    made = {}

    def make(*packages):
        if packages not in made:
            folder = tmp_path_factory.mktemp("environment")
            subprocess.run([sys.executable, "-m", "venv", folder], check=True)
            made[packages] = folder / "bin" / "python"
            install = [made[packages], "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages]
            subprocess.run(install, check=True)
        return made[packages]

    return make


@pytest.fixture
def run_python(tmp_path):
    """Runs code in a process that shares neither caches nor settings with this one, and gives its output."""

    def run(code, *arguments, python=sys.executable, with_package=False):
        settings = {"PATH": os.environ["PATH"], "HF_HOME": str(tmp_path / "hf"), "HF_HUB_OFFLINE": "1"}
        if with_package:
            settings["PYTHONPATH"] = str(ROOT)
        command = [python, "-c", code, *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=settings, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def load_metric(module_caches):
    """``evaluate.load`` on a module of the package, with caches of its own."""
    from evaluate import load

    return lambda name, **options: load(str(module_folder(name)), **options)


@pytest.fixture
def repository_address(tmp_path, monkeypatch):
    """The address that the Spaces install this package from."""
    write_metadata(tmp_path / "metadata", ADDRESSES)
    monkeypatch.syspath_prepend(tmp_path / "metadata")


@pytest.fixture(scope="session")
def spaces(tmp_path_factory):
    """Folder with the Space of every metric."""
    folder = tmp_path_factory.mktemp("spaces")
    write_metadata(folder / "metadata", ADDRESSES)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder / "metadata")
        for name in registry.metric_functions():
            write_space(name, folder)
    return folder
