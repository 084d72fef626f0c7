"""The released dataset on the Hub: the benchmark that a submission names."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from cxc_eccv.builders.writing import MANIFEST_NAME
from cxc_eccv.errors import HubError, ReportRefused
from cxc_eccv.hub import leaderboard
from cxc_eccv.hub.client import Repository
from cxc_eccv.sources.catalog import OFFICIAL, load_catalog

__all__ = ["ReleasedData", "released_data"]


@dataclass(frozen=True, slots=True)
class ReleasedData:
    """A dataset repository that is a benchmark.

    Attributes:
        repo_id: ``owner/name``.
        revision: commit that was looked at.
        task_ids: of its ``eval.yaml``.
        sources: catalog name to sha256 of the raw files it was built from.
    """

    repo_id: str
    revision: str
    task_ids: frozenset[str]
    sources: Mapping[str, str]

    def require_same(self, files: Mapping[str, str]) -> None:
        """Make sure that a report's raw files are those of the released data.

        Raises:
            ReportRefused: a file of both has different content.

        Example:
            >>> released = ReleasedData("org/data", "0" * 40, frozenset(), {"sts_test": "aa"})
            >>> released.require_same({"sts_test": "bb"})
            Traceback (most recent call last):
            cxc_eccv.errors.ReportRefused: sts_test is not the file org/data was built from: sha256 bb there aa
        """
        for name, digest in files.items():
            if self.sources.get(name, digest) != digest:
                raise ReportRefused(
                    f"{name} is not the file {self.repo_id} was built from: sha256 {digest} there {self.sources[name]}"
                )

    def require_tasks(self, task_ids: Collection[str]) -> None:
        """Make sure that the benchmark has these tasks.

        Raises:
            ReportRefused: it lacks one.

        Example:
            >>> ReleasedData("org/data", "0" * 40, frozenset(["a"]), {}).require_tasks(["a"])
        """
        lacking = [one for one in task_ids if one not in self.task_ids]
        if lacking:
            raise ReportRefused(f"{self.repo_id} has no task {', '.join(lacking[:3])}. Is it the released dataset?")


def released_data(repository: Repository) -> ReleasedData:
    """What the benchmark's repository says about itself.

    Raises:
        HubError: no such repository, or no dataset that ``cxc-eccv push`` uploaded.
        ReportRefused: it does not hold the official data of this version.
    """
    revision = repository.head()
    if revision is None:
        raise HubError(f"there is no {repository}, or it may not be read. Name the released dataset with --dataset.")
    present = repository.files(revision)
    for name in (leaderboard.PATH, MANIFEST_NAME):
        if name not in present:
            raise HubError(f"{repository} has no {name}, so it is no benchmark that `cxc-eccv push` uploaded")
    task_ids = leaderboard.task_ids_of(
        repository.text(leaderboard.PATH, revision), f"{leaderboard.PATH} of {repository}"
    )
    manifest = _manifest(repository.text(MANIFEST_NAME, revision), f"{MANIFEST_NAME} of {repository}")
    catalog = load_catalog()
    found = manifest["edition"], manifest["data_version"]
    if found != (OFFICIAL, catalog.version):
        raise ReportRefused(f"{repository} holds edition {found[0]!r} {found[1]}, not {OFFICIAL!r} {catalog.version}")
    if manifest.get("modified"):
        names = ", ".join(manifest["modified"])
        raise ReportRefused(f"{repository} was built from modified raw files ({names}), so it is no benchmark")
    return ReleasedData(repository.repo_id, revision, task_ids, manifest["sources"])


def _manifest(text: str, where: str) -> dict[str, Any]:
    try:
        manifest = json.loads(text)
        if {"edition", "data_version"} <= set(manifest) and isinstance(manifest["sources"], dict):
            return dict(manifest)
    except (ValueError, KeyError, TypeError):
        pass
    raise HubError(f"{where} is not one that `cxc-eccv build` wrote")
