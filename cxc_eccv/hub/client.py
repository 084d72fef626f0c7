"""One repository on the Hub: access, content and changes.

Every request goes through :meth:`Repository._ask_once`, which turns the errors of the Hub, its client and the network
into errors of this package, and hides secrets wherever they would be shown.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
import tempfile
import textwrap
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import huggingface_hub
from huggingface_hub import CommitInfo, CommitOperationAdd, CommitOperationDelete, Discussion, HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, RepositoryNotFoundError
from huggingface_hub.hf_api import RepoFile

from cxc_eccv.errors import CxcEccvError, HubAccessDenied, HubConflict, HubError, HubUnavailable, InvalidOption
from cxc_eccv.writing import explained

Answer = TypeVar("Answer")
Entry = TypeVar("Entry")
Subject = TypeVar("Subject")

LOG_IN = "Run `hf auth login`, or set HF_TOKEN, with a token of the role `write`."


@dataclass(frozen=True, slots=True)
class Access:
    """The Hub and the token to use, None for those of the environment; the token is never shown, logged or written."""

    token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    timeout: float = 120.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InvalidOption(f"timeout is {self.timeout}, expected more than 0 seconds")
        object.__setattr__(self, "token", self.token or huggingface_hub.get_token())
        object.__setattr__(self, "endpoint", (self.endpoint or huggingface_hub.constants.ENDPOINT).rstrip("/"))

    @property
    def token_line(self) -> str:
        """A sentence that says whether there is a token, without showing it."""
        if self.token:
            return f"A token for {self.endpoint} was found."
        return f"No token for {self.endpoint} was found. {LOG_IN}"

    def require_token(self) -> None:
        """Raise if there is no token."""
        if not self.token:
            raise HubAccessDenied(f"there is no token for {self.endpoint}. {LOG_IN}")


@dataclass(frozen=True, slots=True)
class Repository:
    """A ``dataset``, ``space`` or ``model`` on the Hub, ``owner/name``, which need not exist yet."""

    repo_id: str
    repo_type: str
    access: Access = field(default_factory=Access)

    def __post_init__(self) -> None:
        owner, _, name = self.repo_id.partition("/")
        if not owner or not name or "/" in name:
            raise InvalidOption(f"{self.repo_id!r} is not the name of a repository; write owner/name, as org/cxc_eccv")

    def __str__(self) -> str:
        return f"{self.repo_type} {self.repo_id} on {self.access.endpoint}"

    @property
    def url(self) -> str:
        """Address on the web."""
        kind = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        return f"{self.access.endpoint}/{kind}{self.repo_id}"

    def head(self, revision: str | None = None) -> str | None:
        """The last commit of ``main`` or another branch; None if the repository does not exist or may not be read."""

        def look_up(api: HfApi, repo_id: str, repo_type: str) -> str | None:
            try:
                return str(api.repo_info(repo_id, repo_type=repo_type, revision=revision).sha)
            except RepositoryNotFoundError:
                return None

        return self._ask("look up", look_up)

    def is_private(self) -> bool:
        """Whether the repository is private, and so on no leaderboard."""
        return bool(self._ask("look up", HfApi.repo_info).private)

    def files(self, revision: str) -> dict[str, RepoFile]:
        """All files at a revision, by path."""
        entries = self._ask("list the files of", _all_of(HfApi.list_repo_tree), recursive=True, revision=revision)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def text(self, path: str, revision: str) -> str:
        """Content of a text file at a revision."""
        with tempfile.TemporaryDirectory() as folder:
            return self.fetch(path, revision, Path(folder)).read_text(encoding="utf-8")

    def fetch(self, path: str, revision: str, folder: Path) -> Path:
        """A file at a revision, downloaded to a folder."""

        def read(api: HfApi, repo_id: str, **options: Any) -> Path:  # noqa: ANN401 - as of the client
            with explained(folder):
                return Path(api.hf_hub_download(repo_id, path, local_dir=folder, **options))

        return self._ask(f"read {path} of", read, revision=revision, etag_timeout=self.access.timeout)

    def is_untouched(self) -> bool:
        """Whether the Hub's first commit is the only one."""
        return len(self._ask("read the history of", HfApi.list_repo_commits)) <= 1

    def create(self, *, private: bool | None = None, space_sdk: str | None = None) -> None:
        """Create the repository unless it exists."""
        self._ask("create", HfApi.create_repo, private=private, space_sdk=space_sdk, exist_ok=True)

    def commit(
        self,
        operations: Sequence[CommitOperationAdd | CommitOperationDelete],
        message: str,
        *,
        parent: str,
        branch: str | None = None,
        pull_request: str | None = None,
        check: Callable[[], object] = lambda: None,
    ) -> CommitInfo:
        """Apply all operations in one commit, with one request: a lost answer does not mean a lost commit.

        With ``pull_request``, its description, the commit becomes a new pull request. ``check`` is called after the
        files are sent; if it raises, nothing is committed.
        """
        additions = [operation for operation in operations if isinstance(operation, CommitOperationAdd)]
        place = {"revision": branch, "create_pr": pull_request is not None}
        self._ask_once("send files to", HfApi.preupload_lfs_files, additions=additions, free_memory=False, **place)
        check()
        done = self._ask_once(
            "commit to",
            HfApi.create_commit,
            operations=operations,
            commit_message=message,
            commit_description=pull_request,
            parent_commit=parent,
            **place,
        )
        committed = self.files(done.oid)
        missing = [addition.path_in_repo for addition in additions if addition.path_in_repo not in committed]
        if missing:
            raise HubError(
                f"{self} left out {', '.join(missing[:3])}; its .gitignore may exclude it. Change that, then run the "
                "command again."
            )
        return done

    def pull_requests(self, title: str, *, closed: bool = False) -> list[Discussion]:
        """Pull requests of a title, newest first: the open ones, or those closed without being merged."""
        status = "closed" if closed else "open"
        wanted = {"discussion_type": "pull_request", "discussion_status": status}
        discussions = self._ask("list the pull requests of", _all_of(HfApi.get_repo_discussions), **wanted)
        # The Hub lists merged pull requests among the closed.
        titled = (discussion for discussion in discussions if (discussion.title, discussion.status) == (title, status))
        return sorted(titled, key=lambda discussion: discussion.num, reverse=True)

    def account(self) -> str | None:
        """Account that the token belongs to; None without a token."""
        if not self.access.token:
            return None
        return str(self._ask("look up the account for", lambda api, *_, **__: api.whoami())["name"])

    def _ask(self, doing: str, call: Callable[..., Answer], **options: object) -> Answer:
        """Send a request that is safe to repeat, and repeat it until the Hub answers."""
        return repeat(lambda call: self._ask_once(doing, call, **options), call)

    def _ask_once(self, doing: str, call: Callable[..., Answer], **options: object) -> Answer:
        """Call a method of the client; its errors become errors of this package, without secrets."""
        token = self.access.token
        api = HfApi(endpoint=self.access.endpoint, token=token or False, library_name="cxc_eccv")
        try:
            with hide_secrets(token), _limit_silence(self.access.timeout):
                return call(api, self.repo_id, repo_type=self.repo_type, **options)
        except CxcEccvError:
            raise
        except Exception as error:
            translated = _translate(f"{doing} {self}", error, token)
        # Raised outside the block, without the client's error, which holds the request and its headers.
        raise translated


def _all_of(method: Callable[..., Iterable[Entry]]) -> Callable[..., list[Entry]]:
    """Read all pages within the call, where errors are translated."""
    return lambda *place, **options: list(method(*place, **options))


def text_diff(before: str, after: str, path: str) -> str:
    """Unified diff of a text file; empty if nothing changes."""
    names = f"{path} (on the Hub)", f"{path} (new)"
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names, n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def wrap(text: str, first: str = "", rest: str = "") -> str:
    """Break a message between words into lines that fit a terminal; indent the first line and the rest."""
    return textwrap.fill(
        text, 80, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


TRIES = 5
LONGEST_WAIT = 60.0
"""Seconds. If the Hub asks for a longer pause, the error says how long it is."""


def repeat(call: Callable[[Subject], Answer], subject: Subject, renew: Callable[[], Subject] | None = None) -> Answer:
    """Call until the Hub answers, at most five times; pause as long as the Hub asks, else 1, 2, 4, 8 seconds.

    ``renew`` makes a new subject before each repetition, also after a conflict; without it a conflict is raised.
    """
    for attempt in range(TRIES - 1):
        try:
            return call(subject)
        except HubUnavailable as error:
            wait = float(2**attempt if error.retry_after is None else error.retry_after)
            if wait > LONGEST_WAIT:
                raise
            time.sleep(wait)
        except HubConflict:
            if renew is None:
                raise
        subject = renew() if renew else subject
    return call(subject)


@contextmanager
def _limit_silence(timeout: float) -> Iterator[None]:
    """Bound every wait of a request: the client's own timeout does not apply to calls that set none."""

    def bound(request: Any) -> None:  # noqa: ANN401 - httpx in release 1 of the client, httpx2 in release 2
        waits = request.extensions.get("timeout", {})
        named = {name: waits.get(name) or timeout for name in ("connect", "read", "write", "pool")}
        request.extensions["timeout"] = named

    session = huggingface_hub.get_session()
    before = session.event_hooks
    session.event_hooks = {**before, "request": [*before["request"], bound]}
    try:
        yield
    finally:
        session.event_hooks = before


def _translate(doing: str, error: Exception, token: str | None) -> CxcEccvError:
    answer = _find_cause(error, HfHubHTTPError)
    if isinstance(answer, HfHubHTTPError):
        return _translate_status(doing, answer, token)
    detail = redact(" ".join(f"{type(error).__name__}: {error}".split()), token)
    if isinstance(error, HFValidationError):
        return InvalidOption(detail)
    if isinstance(error, OfflineModeIsEnabled):
        return HubError(f"{doing}: HF_HUB_OFFLINE is set. Unset it to reach the Hub.")
    # httpx in release 1 of the client, httpx2 in release 2; the base class of the client's own error is either's.
    if _find_cause(error, HfHubHTTPError.__mro__[1], ConnectionError, TimeoutError):
        return HubUnavailable(f"{doing}: no answer ({detail}). Check the connection and run the command again.")
    if isinstance(error, json.JSONDecodeError):  # a page of a proxy
        return HubUnavailable(f"{doing}: the answer did not come from the Hub ({detail}). Run the command again later.")
    return HubError(f"{doing}: {detail}")


def _find_cause(error: BaseException | None, *kinds: type) -> BaseException | None:
    """The first cause of these kinds: uploads wrap it once, downloads twice."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses after which a repeated request may succeed."""


def _translate_status(doing: str, error: HfHubHTTPError, token: str | None) -> HubError:
    status = error.response.status_code
    reason = redact(" ".join((error.server_message or "").split())[:300], token).rstrip(".")
    what = f"{doing}: HTTP {status}" + (f", {reason}" if reason else "")
    if status == 401:
        return HubAccessDenied(f"{what}. The Hub does not accept the token. {LOG_IN}")
    if status == 403:
        return HubAccessDenied(f"{what}. The token may not do this. {LOG_IN}")
    if status in (409, 412):
        return HubConflict(f"{what}. Somebody else may be changing the repository; run the command again.")
    if status in PASSING:
        after = error.response.headers.get("retry-after", "").strip()
        wait = int(after) if after.isdecimal() else None
        hint = f"Run the command again in {wait} seconds." if wait else "Run the command again later."
        return HubUnavailable(f"{what}. {hint} Files that arrived are not sent again.", wait)
    return HubError(f"{what}.")


HIDDEN = "<hidden>"

PATTERNS = (
    (re.compile(r"\bhf_[A-Za-z0-9_-]{8,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://)[^/@\s]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)([?&][a-z-]*(?:signature|token|credential|policy|key-pair-id|sig)=)[^&\s'\"]+"), rf"\1{HIDDEN}"),
)
"""What a secret looks like: a Hub token, an authorization header, a password or a signature in an address."""


def redact(text: str, token: str | None = None) -> str:
    """Hide the token in a text, and everything else that looks like a secret."""
    if token:
        text = text.replace(token, HIDDEN)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@contextmanager
def hide_secrets(token: str | None) -> Iterator[None]:
    """Redact the log records and warnings of every library inside the block."""

    def redact_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage(), token), ()
        if record.exc_info and record.exc_info[0]:
            record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)), token)
        return True

    # The filter of a logger does not see records of the loggers below it; handlers do.
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    handlers |= {logging.lastResort} if logging.lastResort else set()
    for handler in handlers:
        handler.addFilter(redact_record)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(redact_record)
        for warning in caught:
            text = redact(str(warning.message), token)
            warnings.warn_explicit(text, warning.category, warning.filename, warning.lineno)
