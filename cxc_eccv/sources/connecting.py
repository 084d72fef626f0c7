"""Whether a server can be reached, known after seconds, where a download would wait and retry for minutes."""

from __future__ import annotations

import socket
from functools import cache
from queue import Empty, SimpleQueue
from threading import Thread
from urllib.parse import urlsplit

from cxc_eccv.errors import ServerUnreachable

CONNECT_SECONDS = 3.0
"""Seconds to look up a server's name and to connect to it."""

PORTS = {"http": 80, "https": 443}
SOCKS_PORT = 1080


def refuse_unreachable(url: str) -> None:
    """Raise ServerUnreachable unless the server of an address, or the proxy to it, takes a connection.

    Example:
        >>> refuse_unreachable("http://127.0.0.1:9")
        Traceback (most recent call last):
        cxc_eccv.errors.ServerUnreachable: 127.0.0.1 cannot be reached
    """
    from requests.utils import get_environ_proxies, prepend_scheme_if_needed, select_proxy

    proxy = select_proxy(url, get_environ_proxies(url))
    server = urlsplit(prepend_scheme_if_needed(proxy, "http") if proxy else url)
    if server.hostname:
        _connect_once(server.hostname, server.port or PORTS.get(server.scheme, SOCKS_PORT))


@cache  # which keeps no errors, so that only servers that were reached are not asked again
def _connect_once(host: str, port: int) -> None:
    outcome: SimpleQueue[Exception | None] = SimpleQueue()
    # A thread, because looking up a name has no time limit of its own.
    Thread(target=_connect, args=(host, port, outcome), daemon=True).start()
    try:
        error = outcome.get(timeout=CONNECT_SECONDS)
    except Empty:
        error = TimeoutError()
    if error is not None:
        raise ServerUnreachable(f"{host} cannot be reached")


def _connect(host: str, port: int, outcome: SimpleQueue[Exception | None]) -> None:
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        outcome.put(error)
    else:
        outcome.put(None)
