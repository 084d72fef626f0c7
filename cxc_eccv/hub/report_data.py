"""Whether a report was computed from the official data, unmodified, by this release."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import cxc_eccv
from cxc_eccv.errors import ReportRefused
from cxc_eccv.hub.leaderboard import SPLIT
from cxc_eccv.registry import task
from cxc_eccv.sources.catalog import OFFICIAL, Entry, load_catalog
from cxc_eccv.types import Report

__all__ = ["checked_data", "fingerprint_of"]

EVALUATE = "Evaluate again with `cxc-eccv evaluate FILE --split test` on the official data."


def fingerprint_of(files: Mapping[str, str]) -> str:
    """Hex sha256 over names and hashes of raw files, as :meth:`Library.fingerprint` gives it.

    Example:
        >>> from cxc_eccv.sources.library import Library
        >>> library = Library("sample")
        >>> _ = library.splits
        >>> fingerprint_of(library.files_used()) == library.fingerprint()
        True
    """
    lines = "".join(f"{name} {digest}\n" for name, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


def checked_data(report: Report) -> Mapping[str, str]:
    """The raw files that a report was computed from, catalog name to sha256, all of them official.

    The official catalog is meant, whatever a mirror folder's own one says. Files whose authors publish no hash are
    accepted; :func:`cxc_eccv.hub.released_data.released_data` compares them with those of the released dataset.

    Raises:
        ReportRefused: another edition, version, package or split; a modified file, a file of the user's own, or none
            at all; says which.

    Example:
        >>> checked_data(Report((), {}, {}))  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        cxc_eccv.errors.ReportRefused: its provenance does not name this package and its data. Evaluate again with ...
    """
    facts = _facts(report.provenance)
    catalog = load_catalog()
    if facts["edition"] != OFFICIAL:
        raise ReportRefused(f"it was computed from the edition {facts['edition']!r}, not the official data. {EVALUATE}")
    if facts["version"] != catalog.version:
        found, ours = facts["version"], catalog.version
        raise ReportRefused(f"it was computed from version {found} of the data; this package knows {ours}. {EVALUATE}")
    for name, digest in facts["files"].items():
        _check_file(name, digest, catalog.entries.get(name))
    if facts["fingerprint"] != fingerprint_of(facts["files"]):
        raise ReportRefused(f"its data fingerprint is not that of the files it lists; it was edited. {EVALUATE}")
    groups = {catalog.entry(name).group for name in facts["files"]}
    for name in dict.fromkeys(result.task for result in report.results):
        lacking = [group for group in task(name).sources if group not in groups]
        if lacking:
            raise ReportRefused(
                f"it has results of {name} but lists no file of {lacking[0]}; it was edited. {EVALUATE}"
            )
    return dict(facts["files"])


def _facts(provenance: Mapping[str, Any]) -> dict[str, Any]:
    """``edition``, ``version``, ``fingerprint`` and ``files``, after a look at the package and the split."""
    package, data = provenance.get("package"), provenance.get("data")
    if not isinstance(package, dict) or package.get("name") != "cxc_eccv" or not isinstance(data, dict):
        raise ReportRefused(f"its provenance does not name this package and its data. {EVALUATE}")
    if package.get("version") != cxc_eccv.__version__:
        found, ours = package.get("version"), cxc_eccv.__version__
        raise ReportRefused(f"it was made by cxc_eccv {found}, this is {ours}. {EVALUATE}")
    if provenance.get("split") != SPLIT:
        raise ReportRefused(f"it covers the split {provenance.get('split')!r}, the leaderboard {SPLIT!r}. {EVALUATE}")
    for name in ("edition", "version", "fingerprint"):
        if not isinstance(data.get(name), str):
            raise ReportRefused(f"its provenance has no {name} of the data. {EVALUATE}")
    if data.get("modified"):
        raise ReportRefused(f"it was computed from modified raw files: {', '.join(data['modified'])}. {EVALUATE}")
    if not isinstance(data.get("files"), dict) or not data["files"]:
        raise ReportRefused(f"its provenance lists no data files. {EVALUATE}")
    return data


def _check_file(name: str, digest: object, entry: Entry | None) -> None:
    if entry is None:
        raise ReportRefused(f"it lists the data file {name!r}, which the official catalog does not have. {EVALUATE}")
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise ReportRefused(f"the sha256 of {name} is {digest!r}, not 64 hexadecimal digits; it was edited")
    if entry.sha256 is not None and digest != entry.sha256:
        raise ReportRefused(
            f"{name} was modified: its sha256 is {digest}, that of the official file {entry.sha256}. {EVALUATE}"
        )
    if entry.sha256 is None and entry.url is None:
        raise ReportRefused(f"it uses {name}, a file of your own, which nobody else has. Evaluate again without it.")
