"""Upload: a built dataset folder, or the folder of a metric's Space, compared with a repository on the Hub and sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete
from huggingface_hub.hf_api import RepoFile

import cxc_eccv
from cxc_eccv.builders.writing import MANIFEST_NAME
from cxc_eccv.errors import HubError, InvalidOption
from cxc_eccv.hub.card import CARD, is_marked, merge_card
from cxc_eccv.hub.client import Access, Repository, repeat, text_diff
from cxc_eccv.hub.content import LocalFile, UploadContent, hash_file, read_content
from cxc_eccv.hub.leaderboard import FRAMEWORK

__all__ = ["Change", "Push", "plan_push"]

Kind = Literal["new", "changed", "unchanged", "removed"]
KINDS: tuple[Kind, ...] = ("new", "changed", "removed", "unchanged")


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one path in the repository; of a removed one, ``size`` in bytes is that of what was there."""

    path: str
    kind: Kind
    size: int
    file: LocalFile | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """An upload that was looked at and not made yet; print it to see what it would change.

    Attributes:
        repository: where to.
        content: what it shall hold.
        private: visibility of a repository that is made for it; None for the owner's default.
        parent: commit that was looked at; None where the repository does not exist yet.
        changes: one per path, sorted.
        card_diff: unified diff of the card, empty where it stays as it is.
    """

    repository: Repository
    content: UploadContent
    private: bool | None
    parent: str | None
    changes: tuple[Change, ...]
    card_diff: str

    @property
    def pending(self) -> tuple[Change, ...]:
        """Changes that are to be made."""
        return tuple(change for change in self.changes if change.kind != "unchanged")

    @property
    def url(self) -> str:
        """Where the repository is on the web."""
        return f"{self.repository.access.endpoint}/{self.repository.repo_type}s/{self.repository.repo_id}"

    def __str__(self) -> str:
        lines = [f"{self.repository}" + ("" if self.parent else " (new repository)")]
        lines += [f"  {change.kind:<9}  {change.path}  ({_show_size(change.size)})" for change in self.changes]
        lines += [f"  left out   {path}" for path in self.content.left_out]
        if self.card_diff:
            lines += ["", self.card_diff.rstrip("\n"), ""]
        counts = [f"{sum(change.kind == kind for change in self.changes)} {kind}" for kind in KINDS]
        size = sum(change.size for change in self.pending if change.file)
        return "\n".join([*lines, f"{', '.join(counts)}; {_show_size(size)} to upload"])

    def carry_out(self) -> Push:
        """Upload, in one commit: the repository holds either what it held, or everything new.

        Interrupted or failed, call it again: what the Hub has is not sent twice. A commit whose answer is lost may have
        arrived, and somebody else may have committed meanwhile: then the push is planned anew from what the Hub holds.
        Gives the push that was carried out, which has no pending changes where the commit had arrived.
        """
        self.repository.access.require_token()
        if self.parent is None:
            self.repository.create(private=self.private, space_sdk=self.content.space_sdk)
        return repeat(Push._commit, self if self.parent else self._plan_anew(), self._plan_anew)

    def _plan_anew(self) -> Push:
        return _compare(self.repository, self.content, self.private)

    def _commit(self) -> Push:
        if self.pending and self.parent is None:
            raise HubError(f"{self.repository} is not there any more. Run the command again.")
        if self.pending and self.parent:
            operations = [
                CommitOperationAdd(change.path, change.file.source)
                if change.file
                else CommitOperationDelete(change.path, is_folder=False)
                for change in sorted(self.pending, key=lambda change: change.kind == "removed")
            ]
            message = f"Upload with cxc_eccv {cxc_eccv.__version__}"
            self.repository.commit(operations, message, parent=self.parent, check=self._require_unchanged)
        return self

    def _require_unchanged(self) -> None:
        for change in self.pending:
            if change.file:
                change.file.require_unchanged()


def plan_push(
    folder: str | Path,
    repo_id: str,
    repo_type: str = "dataset",
    *,
    access: Access | None = None,
    private: bool | None = None,
    framework: str = FRAMEWORK,
) -> Push:
    """Look at a folder and at the repository on the Hub, and plan the upload; changes nothing.

    Args:
        folder: what ``build_folder`` wrote, or the folder of a Space such as ``metrics/map_at_r``.
        repo_id: ``owner/name``.
        repo_type: ``dataset`` or ``space``.
        access: which Hub, with which token; by default as ``hf auth login`` or ``HF_TOKEN`` and ``HF_ENDPOINT`` say.
        private: visibility of a repository that is made; None for the owner's default.
        framework: name of the evaluation in ``eval.yaml``, from the Hub's own list.

    Raises:
        InvalidOption: the folder is not such a one, changed since it was built, or holds a link or the token.
        HubConflict: somebody edited the generated part of the card.
        HubError: the Hub, or the way to it, failed.
    """
    if repo_type not in ("dataset", "space"):
        raise InvalidOption(f"repository type {repo_type!r}: this package pushes 'dataset' and 'space'")
    access = access or Access()
    content = read_content(Path(folder), repo_type, access.token, framework)
    return _compare(Repository(repo_id, repo_type, access), content, private)


def _compare(repository: Repository, content: UploadContent, private: bool | None) -> Push:
    """Compare what shall be there with what is there; changes nothing."""
    parent = repository.head()
    remote = repository.files(parent) if parent else {}
    before = repository.text(CARD, parent) if parent and CARD in remote else None
    # The Hub writes a card of its own into a new Space: nobody's hand-writing.
    is_the_hubs = before is not None and not is_marked(before) and repository.is_untouched()
    card = merge_card(content.card, None if is_the_hubs else before, content.owned, f"{CARD} of {repository}")
    changes = [_classify(file, remote.get(file.path)) for file in (*content.files, hash_file(CARD, card.encode()))]
    built = _list_formerly_built(repository, parent, remote) if parent and content.configs else frozenset()
    changes += [Change(path, "removed", file.size) for path, file in remote.items() if content.makes_stale(path, built)]
    diff = text_diff(before or "", card, CARD) if parent else ""
    return Push(repository, content, private, parent, tuple(sorted(changes, key=lambda change: change.path)), diff)


def _classify(file: LocalFile, there: RepoFile | None) -> Change:
    if there is None:
        return Change(file.path, "new", file.size, file)
    same = there.lfs.sha256 == file.sha256 if there.lfs else there.blob_id == file.git_oid
    return Change(file.path, "unchanged" if same else "changed", file.size, file)


def _list_formerly_built(repository: Repository, parent: str, remote: Mapping[str, RepoFile]) -> frozenset[str]:
    """Paths that the manifest on the Hub lists."""
    if MANIFEST_NAME not in remote:
        return frozenset()
    try:
        return frozenset(json.loads(repository.text(MANIFEST_NAME, parent))["files"])
    except (ValueError, KeyError, TypeError):  # not of our making: nothing follows from it
        return frozenset()


def _show_size(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1e3:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"
