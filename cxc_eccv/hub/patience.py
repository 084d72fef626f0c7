"""How often, and after which pauses, a request to the Hub is repeated."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from cxc_eccv.errors import HubUnavailable

__all__ = ["TRIES", "repeated", "wait_before_next"]

Answer = TypeVar("Answer")

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
