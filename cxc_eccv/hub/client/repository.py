"""One repository on the Hub: with which token, what it holds, and how it is changed; every request passes here."""

from __future__ import annotations

import difflib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from huggingface_hub import (
    CommitInfo,
    CommitOperationAdd,
    CommitOperationDelete,
    Discussion,
    HfApi,
    constants,
    get_token,
)
from huggingface_hub.errors import RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from cxc_eccv.errors import HubAccessDenied, HubError, InvalidOption
from cxc_eccv.hub.client.answers import LOG_IN, ask, repeat
from cxc_eccv.writing import explained

__all__ = ["Access", "RepoType", "Repository", "text_diff"]

Answer = TypeVar("Answer")
RepoType = Literal["dataset", "space", "model"]

TIMEOUT = 120.0


@dataclass(frozen=True, slots=True)
class Access:
    """Which Hub, with which token.

    Attributes:
        token: None for the one of ``HF_TOKEN`` or ``hf auth login``; never shown, logged or written.
        endpoint: address; None for ``HF_ENDPOINT``, else https://huggingface.co.
        timeout: seconds without a byte after which an answer is given up.
    """

    token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    timeout: float = TIMEOUT

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InvalidOption(f"timeout is {self.timeout}, expected a number of seconds above 0")
        object.__setattr__(self, "token", self.token or get_token())
        object.__setattr__(self, "endpoint", (self.endpoint or constants.ENDPOINT).rstrip("/"))

    @property
    def told(self) -> str:
        """Whether a token was found, in a sentence that does not show it.

        Example:
            >>> Access("hf_secret", "https://hub").told
            'A token for https://hub was found.'
        """
        if self.token:
            return f"A token for {self.endpoint} was found."
        return f"No token for {self.endpoint} was found. {LOG_IN}"

    def require_token(self) -> None:
        """Refuse early what only a token allows.

        Raises:
            HubAccessDenied: there is none.
        """
        if not self.token:
            raise HubAccessDenied(f"there is no token for {self.endpoint}. {LOG_IN}")


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

        def look_up(api: HfApi) -> str | None:
            try:
                return str(api.repo_info(self.repo_id, repo_type=self.repo_type).sha)
            except RepositoryNotFoundError:
                return None

        return self._ask("look up", look_up)

    def files(self, revision: str) -> dict[str, RepoFile]:
        """Path to file of everything the repository holds at a revision."""
        entries = self._ask(
            "list the files of",
            lambda api: list(
                api.list_repo_tree(self.repo_id, recursive=True, revision=revision, repo_type=self.repo_type)
            ),
        )
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def text(self, path: str, revision: str) -> str:
        """Content of a text file at a revision."""

        def read(api: HfApi) -> str:
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

        return self._ask(f"read {path} of", read)

    def is_untouched(self) -> bool:
        """Whether nothing was committed since the Hub made the repository."""
        commits = self._ask(
            "read the history of", lambda api: api.list_repo_commits(self.repo_id, repo_type=self.repo_type)
        )
        return len(commits) <= 1

    def create(self, *, private: bool | None = None, space_sdk: str | None = None) -> None:
        """Make the repository; that it is there already is no error."""
        self._ask(
            "create",
            lambda api: api.create_repo(
                self.repo_id, repo_type=self.repo_type, private=private, space_sdk=space_sdk, exist_ok=True
            ),
        )

    def commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        message: str,
        *,
        parent: str,
        pull_request: str | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> CommitInfo:
        """Apply all operations at once, or none; asked once, for a lost answer does not mean a lost commit.

        Args:
            operations: content that the Hub stores apart from git and does not have yet is sent first.
            message: title of the commit, and of the pull request.
            parent: commit that the operations were made for.
            pull_request: its description, to propose the commit instead of making it.
            check: called once the content is sent; what it raises keeps the commit from being made.

        Raises:
            HubConflict: ``main`` is not at ``parent`` any more.
            HubUnavailable: it may or may not have been applied.
            HubError: the Hub left a file out.
        """
        additions = [operation for operation in operations if isinstance(operation, CommitOperationAdd)]
        proposes = pull_request is not None
        self._ask_once(
            "send files to",
            lambda api: api.preupload_lfs_files(
                self.repo_id, additions, repo_type=self.repo_type, free_memory=False, create_pr=proposes
            ),
        )
        check()
        done = self._ask_once(
            "commit to",
            lambda api: api.create_commit(
                self.repo_id,
                operations,
                commit_message=message,
                commit_description=pull_request,
                repo_type=self.repo_type,
                create_pr=proposes,
                parent_commit=parent,
            ),
        )
        held = self.files(done.oid)
        lost = [addition.path_in_repo for addition in additions if addition.path_in_repo not in held]
        if lost:
            raise HubError(
                f"{self} left out {', '.join(lost[:3])}; its .gitignore may name it. Change that, and repeat."
            )
        return done

    def open_pull_requests(self) -> list[Discussion]:
        """Pull requests that are neither merged nor closed, newest first."""
        found = self._ask(
            "list the pull requests of",
            lambda api: list(
                api.get_repo_discussions(
                    self.repo_id, repo_type=self.repo_type, discussion_type="pull_request", discussion_status="open"
                )
            ),
        )
        return sorted(found, key=lambda discussion: discussion.num, reverse=True)

    def _ask(self, doing: str, call: Callable[[HfApi], Answer]) -> Answer:
        """For requests that change nothing, or the same however often they are made."""
        return repeat(lambda call: self._ask_once(doing, call), call)

    def _ask_once(self, doing: str, call: Callable[[HfApi], Answer]) -> Answer:
        token, endpoint = self.access.token, self.access.endpoint
        api = HfApi(endpoint=endpoint, token=token or False, library_name="cxc_eccv")
        return ask(f"{doing} {self}", lambda: call(api), token, self.access.timeout)


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
