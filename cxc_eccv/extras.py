"""The extras of this package: the command that installs one, and the error where a package of it is missing.

No address of this project stands in the code. Whoever registers a name that nobody owns could serve its users anything.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, distributions, metadata
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from cxc_eccv.errors import CxcEccvError, ExtraMissing

FETCHES = {"explain": ("spacy download en_core_web_sm", "nltk.downloader wordnet")}
"""Extra to the modules that download what its packages read."""


def find_address(label: str) -> str | None:
    """The address that this package's owner set under a label of ``[project.urls]`` in pyproject.toml, or None.

    Example:
        >>> find_address("Moon") is None
        True
    """
    try:
        entries = metadata("cxc_eccv").get_all("Project-URL") or []
    except PackageNotFoundError:
        return None
    addresses = dict(entry.split(", ", 1) for entry in entries)
    return addresses.get(label)


def name_requirement(extra: str) -> str | None:
    """What pip installs where there is no clone: the owner's repository, or None if no address of it is set.

    No release stands on PyPI, so the package's bare name is never installed.
    """
    repository = find_address("Repository")
    return None if repository is None else f"cxc_eccv[{extra}] @ git+{repository}"


def install_line(extra: str) -> str:
    """The command that installs an extra into this environment: from its clone, or else from the owner's repository.

    Where neither is known, it says that the command runs in the user's clone.

    Example:
        >>> install_line("train")  # doctest: +SKIP
        "pip install '.[train]'"
    """
    clone = _find_clone()
    requirement = name_requirement(extra)
    if clone is not None:
        return _install_command(extra, f"{_shorten(clone)}[{extra}]")
    if requirement is not None:
        return _install_command(extra, requirement)
    return f"in your clone: {_install_command(extra, f'.[{extra}]')}"


def _install_command(extra: str, what: str) -> str:
    python = Path(sys.executable)
    pip = shutil.which("pip")
    beside = pip is not None and Path(pip).parent == python.parent
    runs = "python -m" if beside else f"{_shorten(python)} -m"
    fetches = [f"{runs} {fetch}" for fetch in FETCHES.get(extra, ())]
    return " && ".join([f"{'pip' if beside else f'{runs} pip'} install '{what}'", *fetches])


def _find_clone() -> Path | None:
    """The folder that pip installed this package from (PEP 610), if it is still there.

    In the clone itself, setuptools' ``cxc_eccv.egg-info`` may come first, and pip keeps no facts there.
    """
    texts = [found.read_text("direct_url.json") for found in distributions(name="cxc_eccv")]
    facts = json.loads(next(filter(None, texts), "{}"))
    folder = Path(url2pathname(urlsplit(facts.get("url", "")).path)) if "dir_info" in facts else None
    return folder if folder is not None and (folder / "pyproject.toml").is_file() else None


def _shorten(path: Path) -> str:
    """The path, relative to the current folder if it is there or below."""
    here = Path.cwd()
    return os.fspath(path.relative_to(here) if path.is_relative_to(here) else path)


PACKAGES = {
    "train": ("torch", "transformers", "accelerate"),
    "st": ("sentence_transformers",),
    "mteb": ("mteb",),
    "torchmetrics": ("torch", "torchmetrics"),
}
"""Packages of extras that whole modules import."""


@contextmanager
def needs_extra(*extras: str, subject: str = "this command needs") -> Iterator[None]:
    """Turn a missing package of the extras, in imports inside the block, into ExtraMissing; the first has them all."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not any(package in PACKAGES[name] for name in extras):
            raise
        raise ExtraMissing(f"{subject} {package}, which is not installed: {install_line(extras[0])}") from None


def require(package: str, extra: str, subject: str, error: type[CxcEccvError] = ExtraMissing) -> None:
    """Refuse to go on without a package.

    Args:
        package: name by which it is imported.
        extra: extra of this package that installs it.
        subject: what needs it, with the verb, such as ``association rules need``.
        error: kind of the error.

    Raises:
        CxcEccvError: it is not installed; the message has the command that installs it.
    """
    if importlib.util.find_spec(package) is None:
        raise error(f"{subject} {package}, which is not installed: {install_line(extra)}")
