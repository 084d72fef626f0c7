"""The client of the Hugging Face Hub; its errors become one line each, without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import huggingface_hub
from huggingface_hub import HfApi
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RemoteEntryNotFoundError,
)
from huggingface_hub.utils._validators import validate_repo_id

from cxc_eccv import version
from cxc_eccv.errors import CxcEccvError, HubAccessDenied, HubConflict, HubError, HubUnavailable, InvalidOption

LOG_IN_TO_WRITE = "Run `hf auth login`, or set HF_TOKEN, with a token of the role `write`."

ASK_FOR_ACCESS = "The repository is gated: ask for access on its page on the Hub, then run the command again."

TRANSPORT: type[Exception] = HfHubHTTPError.__mro__[1]
"""Base of the errors of a connection: that of httpx in release 1 of the client, of httpx2 in release 2."""

LATER = "Run the command again later. Files that arrived are not sent again."
BUSY = "Somebody else may be changing the repository; run the command again."
STATUS_ERRORS: Mapping[int, tuple[type[HubError], str]] = {
    401: (HubAccessDenied, f"The Hub does not accept the token. {LOG_IN_TO_WRITE}"),
    403: (HubAccessDenied, f"The token lacks the permission. {LOG_IN_TO_WRITE}"),
    404: (HubError, "Check the name; a private or gated repository needs a token that may read it."),
    **dict.fromkeys((409, 412), (HubConflict, BUSY)),
    **dict.fromkeys((408, 425, 429, 500, 502, 503, 504), (HubUnavailable, LATER)),
}
"""Status to the error that it becomes, and advice; others become HubError."""


@contextmanager
def hub_client(doing: str) -> Iterator[HfApi]:
    """The client, for requests that ``doing`` names; errors become errors of this package.

    Raises:
        HubAccessDenied: there is no token, or it lacks the permission.
        HubConflict: somebody else changed the repository meanwhile.
        HubUnavailable: the Hub did not answer, or cannot answer now.
        HubError: the Hub refused the request.
        InvalidOption: the name of a repository is malformed.
    """
    api = HfApi(library_name="cxc_eccv", library_version=version.__version__)
    try:
        yield api
    except (TRANSPORT, OSError, RuntimeError, ValueError) as error:
        raise _translate(doing, error) from None


def read_text(api: HfApi, repo_id: str, repo_type: str, path: str, revision: str) -> str | None:
    """A text file of a repository, or None if it has none."""
    try:
        file = api.hf_hub_download(repo_id, path, repo_type=repo_type, revision=revision)
    except RemoteEntryNotFoundError:
        return None
    return Path(file).read_text(encoding="utf-8-sig")


def describe_token() -> str:
    """A sentence that says whether there is a token, without showing it."""
    endpoint = huggingface_hub.constants.ENDPOINT
    if huggingface_hub.get_token():
        return f"A token for {endpoint} was found."
    return f"No token for {endpoint} was found. {LOG_IN_TO_WRITE}"


def require_owner(repo_id: str) -> None:
    """Raise InvalidOption unless a repository's name is well-formed and has an owner."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        raise InvalidOption(str(error)) from None
    if "/" not in repo_id:
        raise InvalidOption(f"{repo_id!r} names no owner. Write OWNER_NAME/{repo_id}, with your account on the Hub.")


def require_token() -> None:
    """Raise HubAccessDenied if there is no token."""
    if not huggingface_hub.get_token():
        raise HubAccessDenied(f"there is no token for {huggingface_hub.constants.ENDPOINT}. {LOG_IN_TO_WRITE}")


def _translate(doing: str, error: Exception) -> CxcEccvError:
    cause: BaseException = error
    while not isinstance(cause, TRANSPORT) and cause.__cause__ is not None:  # the client wraps it in others
        cause = cause.__cause__
    if isinstance(cause, HfHubHTTPError):
        # The client's own message has the address of the request, which may be signed.
        reason = redact(" ".join((cause.server_message or "").split())[:300]).rstrip(".")
        kind, advice = STATUS_ERRORS.get(cause.response.status_code, (HubError, ""))
        if isinstance(cause, GatedRepoError):
            kind = HubAccessDenied
            advice = ASK_FOR_ACCESS
        if cause.response.status_code == 401 and not huggingface_hub.get_token():
            advice = (
                "No token was found, and the repository is private, gated or not there. Check its name. "
                f"{LOG_IN_TO_WRITE}"
            )
        reasons = ", ".join(filter(None, [f"HTTP {cause.response.status_code}", reason]))
        return kind(f"{doing}: {reasons}. {advice}".rstrip())
    detail = redact(" ".join(f"{type(error).__name__}: {error}".split()))
    if isinstance(error, HFValidationError):
        return InvalidOption(detail)
    if isinstance(cause, (TRANSPORT, ConnectionError, TimeoutError, LocalEntryNotFoundError)):
        return HubUnavailable(f"{doing}: no answer ({detail}). Check the connection and run the command again.")
    return HubError(f"{doing}: {detail}")


def redact(text: str) -> str:
    """Hide the token in a text, and the parameters of addresses, which may be signatures.

    Example:
        >>> redact("hf_abcdefghijklmnop at https://s3.example/x?X-Amz-Signature=1f")
        '<hidden> at https://s3.example/x?<hidden>'
    """
    if token := huggingface_hub.get_token():
        text = text.replace(token, "<hidden>")
    return re.sub(r"(://[^\s?'\"]+\?)[^\s'\"]+", r"\1<hidden>", re.sub(r"\bhf_[A-Za-z0-9_-]{8,}", "<hidden>", text))
