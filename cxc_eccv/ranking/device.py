"""Opens a torch device for exact products; torch is imported only when a device is named."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from cxc_eccv.errors import InvalidOption


def torch_on(device: str) -> Any:  # noqa: ANN401 - the torch module
    """The torch module; raises InvalidOption if the ``device`` (``cuda``, ``cuda:1``, ``cpu``) cannot be used."""
    if importlib.util.find_spec("torch") is None:
        raise InvalidOption(
            f"device {device!r} needs torch, which is not installed: pip install torch; or leave the device out"
        )
    torch = importlib.import_module("torch")
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        if reason.startswith("Expected one of "):  # a list of 20 kinds
            reason = "there is no such kind of device; give cpu, cuda, cuda:1, mps or xpu"
        raise InvalidOption(f"device {device!r} cannot be used: {reason}; leave it out to use the CPU") from None
    return torch


@contextmanager
def full_precision(torch: Any, device: str) -> Iterator[None]:  # noqa: ANN401 - the torch module
    """A context with true float32 products: no TF32, no bfloat16, no autocast, no gradients.

    TF32 keeps 10 bits of the mantissa, so hundreds of items would falsely tie with a positive.
    """
    with ExitStack() as stack:
        for settings in (torch.backends.cuda.matmul, getattr(torch.backends.mkldnn, "matmul", None)):
            stack.enter_context(_exact(settings))
        stack.enter_context(torch.autocast(torch.device(device).type, enabled=False))
        stack.enter_context(torch.inference_mode())
        yield


@contextmanager
def _exact(settings: Any) -> Iterator[None]:  # noqa: ANN401 - a settings object of torch
    """Set exact products: newer versions of torch name a precision, older ones have a flag for TF32."""
    name, exact = ("fp32_precision", "ieee") if hasattr(settings, "fp32_precision") else ("allow_tf32", False)
    if not hasattr(settings, name):
        yield
        return
    before = getattr(settings, name)
    setattr(settings, name, exact)
    try:
        yield
    finally:
        setattr(settings, name, before)
