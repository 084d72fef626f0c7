"""What a report was computed from, as rows to show: data hashes, versions, run, command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from cxc_eccv.shown import visible
from cxc_eccv.types import Report

__all__ = ["facts", "files", "modified", "run_name"]

TITLES = {
    "command": "Command",
    "model": "Model",
    "run file": "Run file",
    "run sha256": "Run file, sha256",
    "run kind": "Run",
    "split": "Split",
    "similarity": "Similarity",
    "similarity from": "Similarity, said by",
    "data edition": "Data edition",
    "data version": "Data version",
    "data fingerprint": "Data, sha256 over all raw files",
    "package name": "Package",
    "package version": "Package version",
    "numpy": "NumPy version",
    "seed": "Seed",
    "confidence": "Confidence of the intervals",
}
"""Entries that have a name of their own, in the order shown; others follow under their names."""


def facts(report: Report) -> list[tuple[str, str]]:
    """Every entry of the provenance but the raw files (see :func:`files`, :func:`modified`), as title and text.

    Example:
        >>> facts(Report((), {}, {"seed": 0, "split": "test", "run": {"images": {"count": 5}}}))
        [('Split', 'test'), ('Seed', '0'), ('Run images count', '5')]
    """
    entries = dict(_flattened(report.provenance))
    for name in [name for name in entries if name.startswith(("data files ", "data modified "))]:
        del entries[name]
    known = [(title, entries.pop(name)) for name, title in TITLES.items() if name in entries]
    return known + [(name[0].upper() + name[1:], text) for name, text in entries.items()]


def files(report: Report) -> list[tuple[str, str]]:
    """Catalog name and sha256 of every raw file.

    Example:
        >>> files(Report((), {}, {"data": {"files": {"sts_test": "ab12"}}}))
        [('sts_test', 'ab12')]
    """
    found = (report.provenance.get("data") or {}).get("files") or {}
    return [(str(name), str(digest)) for name, digest in found.items()]


def modified(report: Report) -> list[tuple[str, str, str]]:
    """Raw files that are not the catalog's: name, the sha256 expected and the one found.

    Example:
        >>> modified(Report((), {}, {"data": {"modified": {"sts_test": {"expected": "ab", "found": "cd"}}}}))
        [('sts_test', 'ab', 'cd')]
    """
    found = (report.provenance.get("data") or {}).get("modified") or {}
    return [(str(name), str(hashes["expected"]), str(hashes["found"])) for name, hashes in found.items()]


def run_name(report: Report) -> str:
    """What the report is about: the model's name, else the run file's, else nothing.

    Example:
        >>> run_name(Report((), {}, {"run": {"file": "clip.npz"}}))
        'clip.npz'
    """
    run = report.provenance.get("run") or {}
    return visible(report.provenance.get("model") or run.get("file") or "")


def _flattened(entries: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    for name, value in entries.items():
        place = f"{path} {name}".strip().replace("_", " ")
        if isinstance(value, Mapping):
            yield from _flattened(value, place)
        elif value is not None:
            yield visible(place), visible(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)
