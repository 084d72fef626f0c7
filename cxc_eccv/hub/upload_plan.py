"""What a push would change: every file of the folder compared with the repository on the Hub."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from cxc_eccv.builders.manifest import MANIFEST_NAME
from cxc_eccv.hub.card_merge import is_marked, merged_card
from cxc_eccv.hub.local_file import LocalFile, local_text
from cxc_eccv.hub.repository import RemoteFile, Repository
from cxc_eccv.hub.upload_content import CARD, UploadContent

__all__ = ["Change", "UploadPlan", "text_diff", "upload_plan"]

Kind = Literal["new", "changed", "unchanged", "removed"]
KINDS: tuple[Kind, ...] = ("new", "changed", "removed", "unchanged")


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one path.

    Attributes:
        path: place in the repository.
        kind: ``new``, ``changed``, ``removed`` or ``unchanged``.
        size: bytes.
        file: what is uploaded; None where the path is removed.
    """

    path: str
    kind: Kind
    size: int
    file: LocalFile | None


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What a push would do.

    Attributes:
        repository: where to.
        parent: commit it was made for; None where the repository does not exist yet.
        changes: one per path, sorted.
        card_diff: unified diff of the card, empty where it stays as it is.
        left_out: paths of the folder that are not uploaded.
    """

    repository: Repository
    parent: str | None
    changes: tuple[Change, ...]
    card_diff: str
    left_out: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[Change, ...]:
        """Changes that are to be made."""
        return tuple(change for change in self.changes if change.kind != "unchanged")

    def __str__(self) -> str:
        lines = [f"{self.repository}" + ("" if self.parent else " (new repository)")]
        lines += [f"  {one.kind:<9}  {one.path}  ({_bytes(one.size)})" for one in self.changes]
        lines += [f"  left out   {path}" for path in self.left_out]
        if self.card_diff:
            lines += ["", self.card_diff.rstrip("\n"), ""]
        counts = [f"{sum(one.kind == kind for one in self.changes)} {kind}" for kind in KINDS]
        size = sum(one.size for one in self.pending if one.file)
        return "\n".join([*lines, f"{', '.join(counts)}; {_bytes(size)} to upload"])


def upload_plan(repository: Repository, content: UploadContent) -> UploadPlan:
    """Compare what shall be there with what is there.

    Args:
        repository: looked at, not changed.
        content: what it shall hold.

    Raises:
        HubConflict: the card's generated part was edited on the Hub.
        HubError: the Hub, or the way to it, failed.
    """
    parent = repository.head()
    remote = repository.files(parent) if parent else {}
    before = repository.text(CARD, parent) if parent and CARD in remote else None
    card = _card(repository, content.card, before, content.owned)
    files = (*content.files, local_text(CARD, card))
    changes = [_change(file, remote.get(file.path)) for file in files]
    built = _formerly_built(repository, parent, remote) if parent and content.configs else frozenset()
    changes += [
        Change(path, "removed", file.size, None) for path, file in remote.items() if content.makes_stale(path, built)
    ]
    diff = text_diff(before or "", card, CARD) if parent else ""
    ordered = tuple(sorted(changes, key=lambda one: one.path))
    return UploadPlan(repository, parent, ordered, diff, content.left_out)


def text_diff(before: str, after: str, path: str) -> str:
    r"""Unified diff of a text file; empty where nothing changes.

    Example:
        >>> print(text_diff("a\n", "b\n", "x.yaml"), end="")
        --- x.yaml (on the Hub)
        +++ x.yaml (new)
        @@ -1 +1 @@
        -a
        +b
    """
    names = f"{path} (on the Hub)", f"{path} (new)"
    return "".join(_lines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names, n=2)))


def _lines(diff: Iterator[str]) -> Iterator[str]:
    for line in diff:
        yield line if line.endswith("\n") else f"{line}\n"


def _card(repository: Repository, generated: str, theirs: str | None, owned: tuple[str, ...]) -> str:
    if theirs is not None and not is_marked(theirs) and repository.is_untouched():
        # The Hub writes a card of its own into a new Space: nobody's hand-writing.
        theirs = None
    return merged_card(generated, theirs, owned, f"{CARD} of {repository}")


def _change(file: LocalFile, there: RemoteFile | None) -> Change:
    if there is None:
        return Change(file.path, "new", file.size, file)
    same = there.sha256 == file.sha256 if there.sha256 else there.git_oid == file.git_oid
    return Change(file.path, "unchanged" if same else "changed", file.size, file)


def _formerly_built(repository: Repository, parent: str, remote: Mapping[str, RemoteFile]) -> frozenset[str]:
    """Paths that the manifest on the Hub lists."""
    if MANIFEST_NAME not in remote:
        return frozenset()
    try:
        return frozenset(json.loads(repository.text(MANIFEST_NAME, parent))["files"])
    except (ValueError, KeyError, TypeError):  # not of our making: nothing follows from it
        return frozenset()


def _bytes(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1e3:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"
