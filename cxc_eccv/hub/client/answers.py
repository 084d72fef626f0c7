"""What the Hub, its client and the network answer, told as errors of this package and without secrets."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from huggingface_hub import get_session
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

from cxc_eccv.errors import CxcEccvError, HubAccessDenied, HubConflict, HubError, HubUnavailable, InvalidOption

__all__ = ["LOG_IN", "ask", "hide_secrets", "redact", "repeat"]

Answer = TypeVar("Answer")
Given = TypeVar("Given")

CONFLICT = (409, 412)
PASSING = (408, 425, 429, 500, 502, 503, 504)
"""Statuses that may be gone when the request is repeated."""

LOG_IN = "Run `hf auth login`, or set HF_TOKEN, with a token that may write to it."


def ask(doing: str, call: Callable[[], Answer], token: str | None, timeout: float) -> Answer:
    """Give what ``call`` returns; whatever it raises becomes an error of this package, without secrets.

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
        >>> ask("count", lambda: 3, None, 60)
        3
    """
    try:
        with hide_secrets(token), _limit_silence(timeout):
            return call()
    except CxcEccvError:
        raise
    except Exception as error:
        told = _translate(doing, error, token)
    # Raised out here so that it does not carry the client's error, which holds the request and its headers.
    raise told


@contextmanager
def _limit_silence(timeout: float) -> Iterator[None]:
    """Bound every wait of a request that has no bound.

    A client with a timeout of its own would not do: most calls of the Hub's library ask for none by name, which wins.
    """

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


def _translate(doing: str, error: Exception, token: str | None) -> CxcEccvError:
    http = _find_http_error(error)
    if http is not None:
        return _translate_status(doing, http, token)
    detail = redact(" ".join(f"{type(error).__name__}: {error}".split()), token)
    if isinstance(error, HFValidationError):
        return InvalidOption(detail)
    if isinstance(error, OfflineModeIsEnabled):
        return HubError(f"{doing}: HF_HUB_OFFLINE is set, so the Hub is not asked. Unset it.")
    if _is_of_the_network(error):
        return HubUnavailable(f"{doing}: no answer ({detail}). Check the connection and run the command again.")
    if isinstance(error, json.JSONDecodeError):  # a page of something between here and the Hub
        return HubUnavailable(f"{doing}: the answer is not the Hub's ({detail}). Run the command again later.")
    return HubError(f"{doing}: {detail}")


def _find_http_error(error: BaseException | None) -> HfHubHTTPError | None:
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


def _translate_status(doing: str, error: HfHubHTTPError, token: str | None) -> HubError:
    status = error.response.status_code
    said = redact(" ".join((error.server_message or "").split())[:300], token).rstrip(".")
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


def repeat(call: Callable[[Given], Answer], given: Given, renew: Callable[[], Given] | None = None) -> Answer:
    """Call until the Hub answers, at most five times.

    While it is unavailable the pause is what it asks for, else 1, 2, 4, 8 seconds.

    Args:
        call: changes nothing on the Hub, or is safe to repeat with what ``renew`` gives.
        given: what ``call`` takes first.
        renew: makes ``given`` anew before each repetition, after a conflict too; None to repeat with the same, and to
            give up on a conflict.

    Raises:
        HubUnavailable: the last attempt failed, or the Hub asks to wait for more than a minute.
        HubConflict: somebody else keeps changing the repository.

    Example:
        >>> repeat(str.upper, "sha")
        'SHA'
    """
    for attempt in range(TRIES):
        is_last = attempt + 1 == TRIES
        try:
            return call(given)
        except HubUnavailable as error:
            wait = float(2**attempt) if error.retry_after is None else float(error.retry_after)
            if is_last or wait > LONGEST_WAIT:
                raise
            time.sleep(wait)
        except HubConflict:
            if is_last or renew is None:
                raise
        given = renew() if renew else given
    raise AssertionError("the last attempt returns or raises")


HIDDEN = "<hidden>"

PATTERNS = (
    (re.compile(r"\bhf_[A-Za-z0-9_-]{8,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://)[^/@\s]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)([?&][a-z-]*(?:signature|token|credential|policy|key-pair-id|sig)=)[^&\s'\"]+"), rf"\1{HIDDEN}"),
)
"""What a secret looks like: a Hub token, an authorization header, a password or a signature in an address."""


def redact(text: str, token: str | None = None) -> str:
    """Take the token out of a text, and whatever else looks like a secret.

    Args:
        text: a message, possibly of someone else's making.
        token: the token in use, whatever it looks like.

    Example:
        >>> redact("PUT https://s3/x?part=1&X-Amz-Signature=abc failed for Bearer s3cr3t", "s3cr3t")
        'PUT https://s3/x?part=1&X-Amz-Signature=<hidden> failed for Bearer <hidden>'
    """
    if token:
        text = text.replace(token, HIDDEN)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


class _Redaction(logging.Filter):
    """Takes secrets out of the records that a handler is given."""

    def __init__(self, token: str | None) -> None:
        super().__init__()
        self.token = token

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = redact(record.getMessage(), self.token), ()
        if record.exc_info and record.exc_info[0]:
            record.exc_text = redact("".join(traceback.format_exception(*record.exc_info)), self.token)
        return True


@contextmanager
def hide_secrets(token: str | None) -> Iterator[None]:
    """While inside, log records and warnings of every library lose what :func:`redact` removes.

    Libraries log addresses, headers and what servers answer; none of them knows all that is secret.

    Args:
        token: the token in use, or None.

    Example:
        >>> import sys
        >>> handler = logging.StreamHandler(sys.stdout)
        >>> logging.root.addHandler(handler)
        >>> with hide_secrets("s3cr3t"):
        ...     logging.getLogger("any").warning("sent %s", "s3cr3t")
        sent <hidden>
        >>> logging.root.removeHandler(handler)
    """
    # Handlers, since the filter of a logger does not see what the loggers below it log.
    loggers = [logging.root, *logging.root.manager.loggerDict.values()]
    handlers = {handler for logger in loggers if isinstance(logger, logging.Logger) for handler in logger.handlers}
    handlers |= {logging.lastResort} if logging.lastResort else set()
    redaction = _Redaction(token)
    for handler in handlers:
        handler.addFilter(redaction)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        for handler in handlers:
            handler.removeFilter(redaction)
        for warning in caught:
            text = redact(str(warning.message), token)
            warnings.warn_explicit(text, warning.category, warning.filename, warning.lineno)
