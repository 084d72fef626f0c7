"""Keeping tokens and signed addresses out of everything that is shown, logged or uploaded."""

from __future__ import annotations

import logging
import re
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["redacted", "redacting"]

HIDDEN = "<hidden>"

PATTERNS = (
    (re.compile(r"\bhf_[A-Za-z0-9_-]{8,}"), HIDDEN),
    (re.compile(r"(?i)\b(bearer|basic)\s+[^\s'\",]+"), rf"\1 {HIDDEN}"),
    (re.compile(r"(://)[^/@\s]+@"), rf"\1{HIDDEN}@"),
    (re.compile(r"(?i)([?&][a-z-]*(?:signature|token|credential|policy|key-pair-id|sig)=)[^&\s'\"]+"), rf"\1{HIDDEN}"),
)
"""What a secret looks like: a Hub token, an authorization header, a password or a signature in an address."""


def redacted(text: str, token: str | None = None) -> str:
    """The text without the token, and without whatever else looks like a secret.

    Args:
        text: a message, possibly of someone else's making.
        token: the token in use, whatever it looks like.

    Example:
        >>> redacted("PUT https://s3/x?part=1&X-Amz-Signature=abc failed for Bearer s3cr3t", "s3cr3t")
        'PUT https://s3/x?part=1&X-Amz-Signature=<hidden> failed for Bearer <hidden>'
    """
    if token:
        text = text.replace(token, HIDDEN)
    for pattern, replacement in PATTERNS:
        text = pattern.sub(replacement, text)
    return text


@contextmanager
def redacting(token: str | None) -> Iterator[None]:
    """While inside, log records and warnings of every library lose what :func:`redacted` removes.

    Libraries log addresses, headers and what servers answer; none of them knows all that is secret.

    Args:
        token: the token in use, or None.

    Example:
        >>> with redacting("s3cr3t"):
        ...     record = logging.getLogger("any").makeRecord("any", 30, "f", 1, "sent %s", ("s3cr3t",), None)
        >>> record.getMessage()
        'sent <hidden>'
    """
    make = logging.getLogRecordFactory()

    def make_redacted(*args: object, **options: object) -> logging.LogRecord:
        record = make(*args, **options)
        record.msg, record.args = redacted(record.getMessage(), token), ()
        if record.exc_info and record.exc_info[0]:
            record.exc_text = redacted("".join(traceback.format_exception(*record.exc_info)), token)
        return record

    logging.setLogRecordFactory(make_redacted)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
    finally:
        logging.setLogRecordFactory(make)
        for warning in caught:
            warnings.warn_explicit(
                redacted(str(warning.message), token), warning.category, warning.filename, warning.lineno
            )
