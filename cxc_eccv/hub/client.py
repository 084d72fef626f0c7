"""One repository on the Hub: with which token, what it holds, and how it is changed.

Every request passes :meth:`Repository._ask_once`, which tells what the Hub, its client and the network answer as errors
of this package, and hides secrets wherever they would be shown.
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
    """Which Hub, with which token, which is never shown, logged or written; None for what the environment says."""

    token: str | None = field(default=None, repr=False)
    endpoint: str | None = None
    timeout: float = 120.0

    def __post_init__(self) -> None:
        if not self.timeout > 0:
            raise InvalidOption(f"timeout is {self.timeout}, expected a number of seconds above 0")
        object.__setattr__(self, "token", self.token or huggingface_hub.get_token())
        object.__setattr__(self, "endpoint", (self.endpoint or huggingface_hub.constants.ENDPOINT).rstrip("/"))

    @property
    def told(self) -> str:
        """Whether a token was found, in a sentence that does not show it."""
        if self.token:
            return f"A token for {self.endpoint} was found."
        return f"No token for {self.endpoint} was found. {LOG_IN}"

    def require_token(self) -> None:
        """Refuse early what only a token allows."""
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
        """Where it is on the web."""
        kind = "" if self.repo_type == "model" else f"{self.repo_type}s/"
        return f"{self.access.endpoint}/{kind}{self.repo_id}"

    def head(self, revision: str | None = None) -> str | None:
        """The commit at the tip of ``main`` or another branch; None where there is no such repository one may see."""

        def look_up(api: HfApi, repo_id: str, repo_type: str) -> str | None:
            try:
                return str(api.repo_info(repo_id, repo_type=repo_type, revision=revision).sha)
            except RepositoryNotFoundError:
                return None

        return self._ask("look up", look_up)

    def is_private(self) -> bool:
        """Whether only those it belongs to see it, and no leaderboard does."""
        return bool(self._ask("look up", HfApi.repo_info).private)

    def files(self, revision: str) -> dict[str, RepoFile]:
        """Path to file of everything the repository holds at a revision."""
        entries = self._ask("list the files of", _all_of(HfApi.list_repo_tree), recursive=True, revision=revision)
        return {entry.path: entry for entry in entries if isinstance(entry, RepoFile)}

    def text(self, path: str, revision: str) -> str:
        """Content of a text file at a revision."""

        def read(api: HfApi, repo_id: str, **options: Any) -> str:  # noqa: ANN401 - as of the client
            with tempfile.TemporaryDirectory() as folder, explained(Path(folder)):
                file = api.hf_hub_download(repo_id, path, local_dir=folder, **options)
                return Path(file).read_text(encoding="utf-8")

        return self._ask(f"read {path} of", read, revision=revision, etag_timeout=self.access.timeout)

    def is_untouched(self) -> bool:
        """Whether nothing was committed since the Hub made the repository."""
        return len(self._ask("read the history of", HfApi.list_repo_commits)) <= 1

    def create(self, *, private: bool | None = None, space_sdk: str | None = None) -> None:
        """Make the repository; that it is there already is no error."""
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
        """Apply all operations at once, or none; asked once, for a lost answer does not mean a lost commit.

        With the description of a ``pull_request`` the commit is proposed instead of made. ``check`` is called once the
        content is sent; what it raises keeps the commit from being made.
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
        held = self.files(done.oid)
        lost = [addition.path_in_repo for addition in additions if addition.path_in_repo not in held]
        if lost:
            raise HubError(
                f"{self} left out {', '.join(lost[:3])}; its .gitignore may name it. Change that, and repeat."
            )
        return done

    def pull_requests(self, title: str, *, closed: bool = False) -> list[Discussion]:
        """Open pull requests of a title, newest first; or those that were closed without being merged."""
        status = "closed" if closed else "open"
        wanted = {"discussion_type": "pull_request", "discussion_status": status}
        discussions = self._ask("list the pull requests of", _all_of(HfApi.get_repo_discussions), **wanted)
        # The Hub counts merged ones among the closed.
        titled = (discussion for discussion in discussions if (discussion.title, discussion.status) == (title, status))
        return sorted(titled, key=lambda discussion: discussion.num, reverse=True)

    def account(self) -> str | None:
        """Name of the token's account on the Hub; None without a token."""
        if not self.access.token:
            return None
        return str(self._ask("ask whose token may change", lambda api, *_, **__: api.whoami())["name"])

    def _ask(self, doing: str, call: Callable[..., Answer], **options: object) -> Answer:
        """For requests that change nothing, or the same however often they are made."""
        return repeat(lambda call: self._ask_once(doing, call, **options), call)

    def _ask_once(self, doing: str, call: Callable[..., Answer], **options: object) -> Answer:
        """Call a method of the client; whatever it raises becomes an error of this package, without secrets."""
        token = self.access.token
        api = HfApi(endpoint=self.access.endpoint, token=token or False, library_name="cxc_eccv")
        try:
            with hide_secrets(token), _limit_silence(self.access.timeout):
                return call(api, self.repo_id, repo_type=self.repo_type, **options)
        except CxcEccvError:
            raise
        except Exception as error:
            translated = _translate(f"{doing} {self}", error, token)
        # Raised out here so that it does not carry the client's error, which holds the request and its headers.
        raise translated


def _all_of(method: Callable[..., Iterable[Entry]]) -> Callable[..., list[Entry]]:
    """Pages are asked for while one reads, which must happen where errors are translated."""
    return lambda *place, **options: list(method(*place, **options))


def text_diff(before: str, after: str, path: str) -> str:
    """Unified diff of a text file; empty where nothing changes."""
    names = f"{path} (on the Hub)", f"{path} (new)"
    lines = difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names, n=2)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def wrap(text: str, first: str = "", rest: str = "") -> str:
    """Break a message into lines that fit a terminal, after words alone; the first line and the rest are indented."""
    return textwrap.fill(
        text, 80, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False
    )


TRIES = 5
LONGEST_WAIT = 60.0
"""Seconds; a Hub that asks for more gets no second request, the user an error that says when."""


def repeat(call: Callable[[Subject], Answer], subject: Subject, renew: Callable[[], Subject] | None = None) -> Answer:
    """Call until the Hub answers, at most five times; the pause is what the Hub asks for, else 1, 2, 4, 8 seconds.

    ``renew`` makes the subject anew before each repetition, after a conflict too; without it a conflict is raised.
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
    """Bound every wait of a request; the client's own timeout loses to calls that ask for none by name."""

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
        return HubError(f"{doing}: HF_HUB_OFFLINE is set, so the Hub is not asked. Unset it.")
    # httpx in release 1 of the client, httpx2 in release 2; the base class of the client's own error is either's.
    if _find_cause(error, HfHubHTTPError.__mro__[1], ConnectionError, TimeoutError):
        return HubUnavailable(f"{doing}: no answer ({detail}). Check the connection and run the command again.")
    if isinstance(error, json.JSONDecodeError):  # a page of something between here and the Hub
        return HubUnavailable(f"{doing}: the answer is not the Hub's ({detail}). Run the command again later.")
    return HubError(f"{doing}: {detail}")


def _find_cause(error: BaseException | None, *kinds: type) -> BaseException | None:
    """What lies behind an error: uploads wrap it once, downloads twice."""
    while error is not None and not isinstance(error, kinds):
        error = error.__cause__
    return error


PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may be gone when the request is repeated."""


def _translate_status(doing: str, error: HfHubHTTPError, token: str | None) -> HubError:
    status = error.response.status_code
    said = redact(" ".join((error.server_message or "").split())[:300], token).rstrip(".")
    what = f"{doing}: HTTP {status}" + (f", {said}" if said else "")
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
        return HubUnavailable(f"{what}. {hint} What has arrived is not sent again.", wait)
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
    """Take the token out of a text, and whatever else looks like a secret."""
    if token:
        text = text.replace(token, HIDDEN)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@contextmanager
def hide_secrets(token: str | None) -> Iterator[None]:
    """While inside, log records and warnings of every library lose what :func:`redact` removes."""

    def redact_record(record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage(), token), ()
        if record.exc_info and record.exc_info[0]:
            record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)), token)
        return True

    # Handlers, since the filter of a logger does not see what the loggers below it log.
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
