"""A stand-in on the loopback for an endpoint that speaks the OpenAI protocol."""

import json
import math
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(content, tops=None):
    """An answer, with the shares of its likeliest tokens."""
    listed = [{"token": token, "logprob": math.log(share)} for token, share in (tops or {}).items()]
    places = [{**listed[0], "top_logprobs": listed}] if tops else None
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
    choice["logprobs"] = {"content": places} if tops else None
    return {"choices": [choice], "created": 1, "id": "x", "model": "m", "system_fingerprint": "s", "usage": {}}


@contextmanager
def chat_server(answer):
    """The address of a server, and the (headers, body) of its requests; ``answer`` gives (status, JSON or text)."""
    requests = []
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                requests.append((dict(self.headers), body))
                place = len(requests) - 1
            status, content = answer(place, body)
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
