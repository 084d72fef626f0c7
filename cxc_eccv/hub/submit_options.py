"""What a submission says beside the numbers."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from urllib.parse import urlsplit

from cxc_eccv.errors import InvalidOption

__all__ = ["SubmitOptions"]

LONGEST_NOTES = 300
FARTHEST_EAST = datetime.timedelta(hours=14)


@dataclass(frozen=True, slots=True)
class SubmitOptions:
    """What a submission says beside the numbers.

    Attributes:
        dataset: the benchmark, ``owner/name``: the released dataset that ``cxc-eccv push`` uploaded.
        date: when the report was computed, ISO-8601; today for None.
        notes: about the setting, in a line, as ``zero-shot``.
        source: address of logs or a paper.
        model_index: write the results into the model's card too.

    Raises:
        InvalidOption: an impossible date, notes of several lines, a source that is no address.

    Example:
        >>> SubmitOptions("org/cxc_eccv", date="2026-02-30")
        Traceback (most recent call last):
        cxc_eccv.errors.InvalidOption: date '2026-02-30': expected a day of the calendar, as 2026-11-20
    """

    dataset: str
    date: str | None = None
    notes: str | None = None
    source: str | None = None
    model_index: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "date", _checked_date(self.date))
        _check_source(self.source)
        notes = self.notes or ""
        if len(notes) > LONGEST_NOTES or not (notes or " ").isprintable():
            raise InvalidOption(f"notes: expected one line of at most {LONGEST_NOTES} characters")

    def require_no_secret(self, token: str | None) -> None:
        """Make sure that the token is in none of the texts, which will be public.

        Raises:
            InvalidOption: it is.
        """
        if token and any(token in text for text in (self.notes or "", self.source or "")):
            raise InvalidOption("the notes or the source hold your access token, and would be public. Revoke it.")


def _checked_date(date: str | None) -> str:
    """Today for None."""
    now = datetime.datetime.now(datetime.UTC)
    if date is None:
        return now.date().isoformat()
    try:
        moment = datetime.datetime.fromisoformat(date)
    except ValueError:
        raise InvalidOption(f"date {date!r}: expected a day of the calendar, as 2026-11-20") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)
    if moment > now + FARTHEST_EAST:
        raise InvalidOption(f"date {date!r} is in the future")
    return date


def _check_source(url: str | None) -> None:
    if url is None:
        return
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidOption("the source is no address on the web; expected https://...")
    if parts.username or parts.password:
        raise InvalidOption("the source holds a user name or a password, and would be public. Leave them out.")
