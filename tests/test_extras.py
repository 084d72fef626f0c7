"""The command that installs an extra, and the error that gives it."""

import re
import shlex
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from owner_addresses import ADDRESSES, REPOSITORY, write_metadata

from cxc_eccv import extras
from cxc_eccv.errors import SourceMissing
from cxc_eccv.extras import find_address, install_line, name_requirement, require

ROOT = Path(__file__).parents[1]


def make_clone(folder, monkeypatch, facts='{{"url": "{url}", "dir_info": {{}}}}'):
    """A folder that pip says it installed the package from."""
    folder.mkdir()
    (folder / "pyproject.toml").touch()
    texts = [None, facts.format(url=folder.as_uri())]  # the first is that of setuptools' egg-info
    found = [SimpleNamespace(read_text=lambda file, text=text: text) for text in texts]
    monkeypatch.setattr(extras, "distributions", lambda name: found)
    return folder


@pytest.fixture
def set_addresses(monkeypatch, tmp_path):
    """Sets those of the installed package's metadata."""
    monkeypatch.syspath_prepend(tmp_path / "metadata")
    return lambda addresses: write_metadata(tmp_path / "metadata", addresses)


def test_address_is_read_from_the_metadata(set_addresses):
    set_addresses(ADDRESSES)
    assert find_address("Repository") == REPOSITORY
    assert name_requirement("train") == f"cxc_eccv[train] @ git+{REPOSITORY}"
    set_addresses({})
    assert find_address("Repository") is None
    assert name_requirement("train") is None


def test_package_without_metadata_has_no_address(monkeypatch):
    def fail(name):
        raise extras.PackageNotFoundError(name)

    monkeypatch.setattr(extras, "metadata", fail)
    assert find_address("Repository") is None


def test_command_installs_from_the_clone(monkeypatch, tmp_path):
    clone = make_clone(tmp_path / "a clone", monkeypatch)
    assert shlex.split(install_line("train"))[-2:] == ["install", f"{clone}[train]"]


def test_command_is_short_in_the_clone(monkeypatch, tmp_path):
    monkeypatch.chdir(make_clone(tmp_path / "clone", monkeypatch))
    assert install_line("train").endswith("install '.[train]'")


def test_command_uses_the_repository_without_clone(monkeypatch, tmp_path, set_addresses):
    set_addresses(ADDRESSES)
    (make_clone(tmp_path / "clone", monkeypatch) / "pyproject.toml").unlink()
    assert install_line("st").endswith(f"install 'cxc_eccv[st] @ git+{REPOSITORY}'")


@pytest.mark.parametrize("facts", ["", '{{"url": "{url}", "archive_info": {{}}}}'])
def test_wheel_is_no_clone(monkeypatch, tmp_path, set_addresses, facts):
    set_addresses(ADDRESSES)
    make_clone(tmp_path / "clone", monkeypatch, facts)
    assert REPOSITORY in install_line("st")


def test_command_without_address_runs_in_the_clone(monkeypatch, tmp_path, set_addresses):
    set_addresses({})
    make_clone(tmp_path / "clone", monkeypatch, "")
    monkeypatch.setattr(extras.shutil, "which", lambda name: str(Path(sys.executable).with_name(name)))
    assert install_line("train") == "in your clone: pip install '.[train]'"
    assert install_line("explain").startswith("in your clone: pip install '.[explain]' && python -m spacy download")


def test_command_names_the_python_that_runs(monkeypatch):
    beside = Path(sys.executable).parent
    monkeypatch.setattr(extras.shutil, "which", lambda name: "/usr/bin/pip")
    assert shlex.split(install_line("train"))[:3] == [extras._shorten(Path(sys.executable)), "-m", "pip"]
    monkeypatch.setattr(extras.shutil, "which", lambda name: str(beside / name))
    assert install_line("train").startswith("pip install ")


def test_one_command_gets_all_of_explain():
    parts = install_line("explain").split(" && ")
    assert [part.split()[-2:] for part in parts[1:]] == [["download", "en_core_web_sm"], ["nltk.downloader", "wordnet"]]


def test_missing_package_is_named_with_the_command(monkeypatch):
    require("numpy", "train", "sums need")
    monkeypatch.setitem(sys.modules, "nltk", None)
    message = f"sums need nltk, which is not installed: {install_line('explain')}"
    with pytest.raises(SourceMissing, match=re.escape(message)):
        require("nltk", "explain", "sums need", SourceMissing)


def test_no_text_installs_a_release():
    """None stands on PyPI, so ``pip install cxc_eccv`` fails."""
    release = re.compile(r"pip install ([\"']|--?\w+ )*cxc[_-]eccv(\[[\w,]+\])?[\"'`\n]")
    folders = [ROOT / name for name in ("cxc_eccv", "metrics", "dataset_cards", "docs", "examples")]
    files = [path for folder in folders for path in folder.rglob("*") if path.suffix in (".py", ".md", ".ipynb", ".j2")]
    texts = {path.name: path.read_text(encoding="utf-8") for path in [ROOT / "README.md", *files]}
    assert [name for name, text in texts.items() if release.search(text)] == []
    assert release.search("pip install 'cxc_eccv[train]'")
