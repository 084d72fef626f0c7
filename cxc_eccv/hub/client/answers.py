"""What the Hub, its client and the network answer, told as errors of this package; and how long to wait for it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from huggingface_hub import get_session
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from cxc_eccv.errors import CxcEccvError, HubAccessDenied, HubConflict, HubError, HubUnavailable, InvalidOption
from cxc_eccv.hub.client.redaction import redacted, redacting

__all__ = ["TRIES", "answered", "repeated", "wait_before_next"]

Answer = TypeVar("Answer")

CONFLICT = (409, 412)
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may be gone when the request is repeated."""

LOG_IN = "Run `hf auth login`, or set HF_TOKEN, with a token that may write to it."


def answered(doing: str, call: Callable[[], Answer], token: str | None, timeout: float) -> Answer:
    """What ``call`` returns; whatever it raises becomes an error of this package, without secrets.

    Args:
        doing: what is being done, for the message.
        call: uses the Hub's client.
        token: the token in use, or None.
        timeout: seconds without a byte after which the Hub is taken to be silent; the client itself waits for ever.

    Raises:
        HubUnavailable: no answer, too many requests, a fault of the server.
        HubAccessDenied: HTTP 401 and 403.
        HubConflict: HTTP 409 and 412.
        HubError: anything else.
        InvalidOption: the client refuses the name of a repository.

    Example:
        >>> answered("count", lambda: 3, None, 60)
        3
    """
    try:
        with redacting(token), _bounded_wait(timeout):
            return call()
    except CxcEccvError:
        raise
    except Exception as error:
        told = _translated(doing, error, token)
    # Raised out here so that it does not carry the client's error, which holds the request and its headers.
    raise told


@contextmanager
def _bounded_wait(timeout: float) -> Iterator[None]:
    """Bound every wait of a request that has no bound; some calls of the client ask for none by name."""

    def bound(request: Any) -> None:  # noqa: ANN401 - httpx in release 1 of the client, httpx2 in release 2
        waits = request.extensions.get("timeout", {})
        named = {name: waits.get(name) or timeout for name in ("connect", "read", "write", "pool")}
        request.extensions["timeout"] = named

    session = get_session()
    before = session.event_hooks
    session.event_hooks = {**before, "request": [*before["request"], bound]}
    try:
        yield
    finally:
        session.event_hooks = before


def _translated(doing: str, error: Exception, token: str | None) -> CxcEccvError:
    http = _http_error(error)
    if http is not None:
        return _of_status(doing, http, token)
    detail = redacted(" ".join(f"{type(error).__name__}: {error}".split()), token)
    if isinstance(error, HFValidationError):
        return InvalidOption(detail)
    if isinstance(error, OfflineModeIsEnabled):
        return HubError(f"{doing}: HF_HUB_OFFLINE is set, so the Hub is not asked. Unset it.")
    if _is_of_the_network(error):
        return HubUnavailable(f"{doing}: no answer ({detail}). Check the connection and run the command again.")
    if isinstance(error, json.JSONDecodeError):  # a page of something between here and the Hub
        return HubUnavailable(f"{doing}: the answer is not the Hub's ({detail}). Run the command again later.")
    return HubError(f"{doing}: {detail}")


def _http_error(error: BaseException | None) -> HfHubHTTPError | None:
    """The answer behind an error: uploads wrap it once, downloads twice."""
    while error is not None and not isinstance(error, HfHubHTTPError):
        error = error.__cause__
    return error


def _is_of_the_network(error: BaseException | None) -> bool:
    # httpx in release 1 of the client, httpx2 in release 2; the base class of the client's own error is either's.
    transport = (HfHubHTTPError.__mro__[1], ConnectionError, TimeoutError)
    while error is not None and not isinstance(error, transport):
        error = error.__cause__
    return error is not None


def _of_status(doing: str, error: HfHubHTTPError, token: str | None) -> HubError:
    status = error.response.status_code
    said = redacted(" ".join((error.server_message or "").split())[:300], token).rstrip(".")
    what = f"{doing}: HTTP {status}" + (f", {said}" if said else "")
    if status == 401:
        return HubAccessDenied(f"{what}. The Hub does not accept the token. {LOG_IN}")
    if status == 403:
        return HubAccessDenied(f"{what}. The token may not do this. {LOG_IN}")
    if status in CONFLICT:
        return HubConflict(f"{what}. Somebody else may be changing the repository; run the command again.")
    if status in PASSING:
        after = error.response.headers.get("retry-after", "").strip()
        wait = int(after) if after.isdecimal() else None
        hint = f"Run the command again in {wait} seconds." if wait else "Run the command again later."
        return HubUnavailable(f"{what}. {hint} What has arrived is not sent again.", wait)
    return HubError(f"{what}.")


TRIES = 5
LONGEST_WAIT = 60.0
"""Seconds; a Hub that asks for more gets no second request, the user an error that says when."""


def wait_before_next(attempt: int, error: HubUnavailable) -> None:
    """Sleep before the next attempt: what the Hub asks for, else 1, 2, 4, 8 seconds.

    Args:
        attempt: number of the attempt that failed, from 0.
        error: what it failed with.

    Raises:
        HubUnavailable: ``error``, when it was the last attempt or the Hub asks to wait for more than a minute.

    Example:
        >>> wait_before_next(4, HubUnavailable("commit: HTTP 503"))
        Traceback (most recent call last):
        cxc_eccv.errors.HubUnavailable: commit: HTTP 503
    """
    wait = float(2**attempt) if error.retry_after is None else float(error.retry_after)
    if attempt + 1 >= TRIES or wait > LONGEST_WAIT:
        raise error
    time.sleep(wait)


def repeated(call: Callable[[], Answer]) -> Answer:
    """What ``call`` returns, repeated while the Hub is unavailable; for requests that change nothing.

    Raises:
        HubUnavailable: after the last attempt.

    Example:
        >>> repeated(lambda: "sha")
        'sha'
    """
    for attempt in range(TRIES):
        try:
            return call()
        except HubUnavailable as error:
            wait_before_next(attempt, error)
    raise AssertionError("the last attempt returns or raises")
