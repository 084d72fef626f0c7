"""What goes wrong on the local Hub, on request."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

SILENCE = 600.0


@dataclass
class Fault:
    """What goes wrong with requests that match.

    Attributes:
        request: pattern of ``METHOD path``.
        times: how often; the requests after that are answered well.
        status: of the answer instead; 0 to hang up without one.
        headers: of that answer.
        message: error that it tells; ``{authorization}`` becomes what the client sent.
        acts: do what was asked all the same, so that only the answer is lost.
        seconds: to wait before the answer; ``SILENCE`` outlasts the patience of the tests' client.
        reads: bytes of the body to read before; None for all.
        skip: matching requests that are answered well before.
        happens: called before anything else, as when somebody else commits just then.
        page: body of the answer instead of a JSON error.
    """

    request: str
    times: int = 1
    status: int = 500
    headers: dict = field(default_factory=dict)
    message: str = "internal error"
    acts: bool = False
    seconds: float = 0.0
    reads: int | None = None
    skip: int = 0
    happens: Callable | None = None
    page: bytes | None = None


def next_fault(faults, request):
    """The fault that a request meets, or None; each is used up after its times."""
    for fault in faults:
        if fault.times and re.search(fault.request, request):
            if fault.skip:
                fault.skip -= 1
                return None
            fault.times -= 1
            return fault
    return None
