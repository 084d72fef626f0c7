"""Work done ahead by threads, a bounded stretch of it."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

__all__ = ["done_ahead"]

Given = TypeVar("Given")
Made = TypeVar("Made")


def done_ahead(work: Callable[[Given], Made], items: Iterable[Given], window: int) -> Iterator[Made]:
    """``work`` of every item in order; at most ``window`` results wait to be taken.

    Args:
        work: what the threads do.
        items: taken as the work proceeds.
        window: bounds the memory.

    Example:
        >>> list(done_ahead(str, range(3), window=2))
        ['0', '1', '2']
    """
    with ThreadPoolExecutor(min(16, os.cpu_count() or 1)) as pool:
        waiting: deque[Future[Made]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
