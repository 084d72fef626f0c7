"""One repository on the Hub: what it holds, and how it is changed; every request goes through here."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    Discussion,
    HfApi,
)
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from cxc_eccv.errors import HubError, InvalidOption
from cxc_eccv.hub.client.access import Access
from cxc_eccv.hub.client.answers import answered, repeated
from cxc_eccv.writing import explained

__all__ = ["RemoteFile", "RepoType", "Repository"]

Answer = TypeVar("Answer")
RepoType = Literal["dataset", "space", "model"]


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on the Hub.

    Attributes:
        size: bytes.
        git_oid: git's sha1 of the content, or of the pointer where the content is stored apart.
        sha256: of the content where it is stored apart (LFS, Xet), else None.
    """

    size: int
    git_oid: str
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Repository:
    """A repository on the Hub, which need not exist yet.

    Attributes:
        repo_id: ``owner/name``.
        repo_type: ``dataset``, ``space`` or ``model``.
        access: which Hub, with which token.

    Raises:
        InvalidOption: ``repo_id`` is not of the form ``owner/name``.

    Example:
        >>> print(Repository("org/cxc_eccv", "dataset", Access(endpoint="https://hub.example")))
        dataset org/cxc_eccv on https://hub.example
    """

    repo_id: str
    repo_type: RepoType
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        owner, _, name = self.repo_id.partition("/")
        if not owner or not name or "/" in name:
            raise InvalidOption(f"{self.repo_id!r} is not the name of a repository; write owner/name, as org/cxc_eccv")

    def __str__(self) -> str:
        return f"{self.repo_type} {self.repo_id} on {self.access.endpoint}"

    def head(self) -> str | None:
        """The commit at the tip of ``main``, or None where there is no such repository, or none one may see."""

        def ask(api: HfApi) -> str | None:
            try:
                return str(api.repo_info(self.repo_id, repo_type=self.repo_type).sha)
            except RepositoryNotFoundError:
                return None

        return repeated(lambda: self._asked("look up", ask))

    def files(self, revision: str) -> dict[str, RemoteFile]:
        """Path to file of everything the repository holds at a revision."""

        def ask(api: HfApi) -> dict[str, RemoteFile]:
            tree = api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type=self.repo_type)
            files = [entry for entry in tree if isinstance(entry, RepoFile)]
            return {
                file.path: RemoteFile(file.size, file.blob_id, file.lfs.sha256 if file.lfs else None) for file in files
            }

        return repeated(lambda: self._asked("list the files of", ask))

    def text(self, path: str, revision: str) -> str:
        """Content of a text file at a revision."""

        def ask(api: HfApi) -> str:
            with tempfile.TemporaryDirectory() as folder, explained(Path(folder)):
                file = api.hf_hub_download(
                    self.repo_id,
                    path,
                    revision=revision,
                    repo_type=self.repo_type,
                    local_dir=folder,
                    etag_timeout=self.access.timeout,
                )
                return Path(file).read_text(encoding="utf-8")

        return repeated(lambda: self._asked(f"read {path} of", ask))

    def is_untouched(self) -> bool:
        """Whether nothing was committed since the Hub made the repository."""

        def ask(api: HfApi) -> bool:
            return len(api.list_repo_commits(self.repo_id, repo_type=self.repo_type)) <= 1

        return repeated(lambda: self._asked("read the history of", ask))

    def create(self, *, private: bool | None = None, space_sdk: str | None = None) -> None:
        """Make the repository; that it is there already is no error."""

        def ask(api: HfApi) -> None:
            api.create_repo(self.repo_id, repo_type=self.repo_type, private=private, space_sdk=space_sdk, exist_ok=True)

        repeated(lambda: self._asked("create", ask))

    def send(self, additions: Sequence[CommitOperationAdd], *, pull_request: bool = False) -> None:
        """Send the content that the Hub stores apart from git and does not have yet; part of no commit so far."""

        def ask(api: HfApi) -> None:
            api.preupload_lfs_files(
                self.repo_id, additions, repo_type=self.repo_type, free_memory=False, create_pr=pull_request
            )

        self._asked("send files to", ask)

    def commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        message: str,
        *,
        parent: str,
        pull_request: str | None = None,
    ) -> CommitInfo:
        """Apply all operations at once, or none; asked once, for a lost answer does not mean a lost commit.

        Args:
            operations: additions were sent before.
            message: title of the commit, and of the pull request.
            parent: commit that the operations were made for.
            pull_request: its description, to propose the commit instead of making it.

        Raises:
            HubConflict: ``main`` is not at ``parent`` any more.
            HubUnavailable: it may or may not have been applied.
            HubError: the Hub left a file out.
        """

        def ask(api: HfApi) -> CommitInfo:
            return api.create_commit(
                self.repo_id,
                operations,
                commit_message=message,
                commit_description=pull_request,
                repo_type=self.repo_type,
                create_pr=pull_request is not None,
                parent_commit=parent,
            )

        done = self._asked("commit to", ask)
        self._require_held(done.oid, operations)
        return done

    def _require_held(self, revision: str, operations: Sequence[CommitOperationAdd | CommitOperationDelete]) -> None:
        held = self.files(revision)
        added = [one.path_in_repo for one in operations if isinstance(one, CommitOperationAdd)]
        lost = [path for path in added if path not in held]
        if lost:
            raise HubError(
                f"{self} left out {', '.join(lost[:3])}; its .gitignore may name it. Change that, and repeat."
            )

    def open_pull_requests(self) -> list[Discussion]:
        """Pull requests that are neither merged nor closed, newest first."""

        def ask(api: HfApi) -> list[Discussion]:
            found = api.get_repo_discussions(
                self.repo_id, repo_type=self.repo_type, discussion_type="pull_request", discussion_status="open"
            )
            return sorted(found, key=lambda one: one.num, reverse=True)

        return repeated(lambda: self._asked("list the pull requests of", ask))

    def _asked(self, doing: str, ask: Callable[[HfApi], Answer]) -> Answer:
        token, endpoint = self.access.token, self.access.endpoint
        api = HfApi(endpoint=endpoint, token=token or False, library_name="cxc_eccv")
        return answered(f"{doing} {self}", lambda: ask(api), token, self.access.timeout)
