"""A small Hub on the loopback address, and what goes wrong on it on request."""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

from hub_endpoints import ROUTES, Endpoints, Refused
from hub_store import BadRequest, Conflict, Store


@dataclass
class Fault:
    """What goes wrong with requests that match."""

    request: str  # pattern of METHOD path
    times: int = 1
    status: int = 500  # of the answer instead; 0 to hang up without one, 200 to answer well
    message: str = "internal error"  # {authorization} becomes what the client sent
    code: str = ""  # of the Hub, such as GatedRepo
    happens: Callable | None = None  # called before anything else


def next_fault(faults, request):
    """The fault that a request meets, or None; each is used up after its times."""
    for fault in faults:
        if fault.times and re.search(fault.request, request):
            fault.times -= 1
            return fault
    return None


class Hub(ThreadingHTTPServer):
    """``with Hub() as hub``: listens on ``hub.url`` until the end."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.reset()

    def reset(self):
        """Empty it."""
        self.store = Store()
        self.faults = []
        self.requests = []
        self.lock = threading.RLock()

    def __enter__(self):
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def handle_error(self, request, client_address):
        """A client that hangs up is part of the tests."""

    def seen(self, pattern):
        """Requests so far, as ``METHOD path``."""
        return [request for request in self.requests if re.search(pattern, request)]


class Handler(Endpoints, BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.handle_request
        raise AttributeError(name)

    def handle_request(self):
        url = urlsplit(self.path)
        self.query = parse_qs(url.query)
        self.place = unquote(url.path)
        request = f"{self.command} {self.path}"
        self.server.requests.append(request)
        with self.server.lock:
            fault = next_fault(self.server.faults, request)
        length = int(self.headers.get("Content-Length") or 0)
        self.body = self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self.rfile.read(length)
        if fault and self._goes_wrong(fault):
            return
        try:
            with self.server.lock:
                answer = self._answer()
        except Refused as refused:
            headers = {"X-Error-Code": refused.code} if refused.code else {}
            self._error(refused.status, refused.message, headers, **refused.told)
        except Conflict as conflict:
            self._error(412, str(conflict))
        except BadRequest as bad:
            self._error(400, str(bad))
        else:
            self._send(*answer)

    def _chunks(self):
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _goes_wrong(self, fault):
        with self.server.lock:
            if fault.happens:
                fault.happens()
        if fault.status == 0:
            self.close_connection = True
            self.connection.close()
        elif fault.status != 200:
            message = fault.message.replace("{authorization}", self.headers.get("Authorization", ""))
            self._error(fault.status, message, {"X-Error-Code": fault.code} if fault.code else {})
        return fault.status != 200

    def _error(self, status, message, headers=None, **told):
        body = json.dumps({"error": message, **told}).encode()
        self._send(status, body, {"X-Error-Message": message, **(headers or {})})

    def _send(self, status, body=b"", headers=None):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def _answer(self):
        for pattern, method in ROUTES:
            match = re.fullmatch(pattern, f"{self.command} {self.place}")
            if match:
                return method(self, **match.groupdict())
        raise Refused(404, "EntryNotFound")
