"""This project's addresses as other files need them; its owner sets them in ``[project.urls]`` of pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

__all__ = ["citation_addresses", "read_addresses", "site_addresses"]


def read_addresses(root: Path) -> dict[str, str]:
    """Label to address; empty until the owner sets some."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return dict(project.get("urls", {}))


def citation_addresses(addresses: dict[str, str]) -> str:
    """The lines of CITATION.cff.

    Example:
        >>> citation_addresses({"Repository": "https://example.org/us/cxc_eccv"})
        'repository-code: https://example.org/us/cxc_eccv'
    """
    labels = {"repository-code": "Repository", "url": "Documentation"}
    return _write_lines((key, addresses.get(label)) for key, label in labels.items())


def site_addresses(addresses: dict[str, str]) -> str:
    """The lines of mkdocs.yml; the site links to a page's source only where there is a repository."""
    repository = addresses.get("Repository")
    lines = [("site_url", addresses.get("Documentation")), ("repo_url", repository)]
    if repository is not None:
        lines += [("repo_name", urlsplit(repository).path.strip("/")), ("edit_uri", "blob/main/docs/")]
    return _write_lines(lines)


def _write_lines(lines: Iterable[tuple[str, str | None]]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in lines if value is not None)
