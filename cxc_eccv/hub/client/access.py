"""Which Hub, with which token."""

from __future__ import annotations

from dataclasses import dataclass, field

from huggingface_hub import constants, get_token

from cxc_eccv.errors import HubAccessDenied, InvalidOption
from cxc_eccv.hub.client.answers import LOG_IN

__all__ = ["Access"]

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
