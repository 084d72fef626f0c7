"""What goes wrong on the local Hub, on request."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field

SILENCE = 600.0


@dataclass
class Fault:
    """What goes wrong with requests that match."""

    request: str  # pattern of METHOD path
    times: int = 1
    status: int = 500  # of the answer instead; 0 to hang up without one
    headers: dict = field(default_factory=dict)
    message: str = "internal error"  # {authorization} becomes what the client sent
    acts: bool = False  # do what was asked all the same, so that only the answer is lost
    seconds: float = 0.0  # to wait before the answer; SILENCE outlasts the patience of the tests' client
    reads: int | None = None  # bytes of the body to read before
    skip: int = 0  # matching requests that are answered well before
    happens: Callable | None = None  # called before anything else
    page: bytes | None = None  # body of the answer instead of a JSON error


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
