"""A small Hub on the loopback address: the endpoints that the clients use, with faults on request."""

import hashlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import yaml
from hub_store import BadRequest, Conflict, Store

WRITER, READER = "hf_writerwriterwriter", "hf_readerreaderreader"
TOKENS = {WRITER: {"org"}, READER: set()}
"""Token to the owners it may write for."""

API = r"/api/(?P<kind>model|dataset|space)s/(?P<name>[^/]+/[^/]+)"
FILE = r"(?:/(?P<kind>dataset|space)s)?/(?P<name>[^/]+/[^/]+)"


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
        seconds: to wait before the answer.
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


class Hub(ThreadingHTTPServer):
    """``with Hub() as hub``: listens on ``hub.url`` until the end."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.reset()

    def reset(self):
        self.store, self.faults, self.requests, self.lock = Store(), [], [], threading.RLock()

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

    def next_fault(self, request):
        with self.lock:
            for fault in self.faults:
                if fault.times and re.search(fault.request, request):
                    if fault.skip:
                        fault.skip -= 1
                        return None
                    fault.times -= 1
                    return fault
        return None


class Refused(Exception):
    def __init__(self, status, code="", message=""):
        self.status, self.code, self.message = status, code, message or code


class Handler(BaseHTTPRequestHandler):
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
        self.query, self.place = parse_qs(url.query), unquote(url.path)
        request = f"{self.command} {self.path}"
        self.server.requests.append(request)
        fault = self.server.next_fault(request)
        length = int(self.headers.get("Content-Length") or 0)
        if fault and fault.reads is not None:
            self.rfile.read(min(length, fault.reads))
            self.close_connection = True
        else:
            self.body = (
                self._chunks() if self.headers.get("Transfer-Encoding") == "chunked" else self.rfile.read(length)
            )
        if fault and self._goes_wrong(fault):
            return
        try:
            with self.server.lock:
                answer = self._answer()
        except Refused as refused:
            self._error(refused.status, refused.message, {"X-Error-Code": refused.code} if refused.code else {})
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
            if fault.acts:
                self._answer()
        time.sleep(fault.seconds)
        if fault.status == 0:
            self.close_connection = True
            self.connection.close()
        elif fault.page is not None:
            self._send(fault.status, fault.page, {"Content-Type": "text/html"})
        elif fault.status != 200:
            said = fault.message.replace("{authorization}", self.headers.get("Authorization", ""))
            self._error(fault.status, said, fault.headers)
        return fault.status != 200

    def _error(self, status, message, headers=None):
        body = json.dumps({"error": message}).encode()
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

    # Who asks, for what.

    def _owners(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in TOKENS:
            raise Refused(401, message="Invalid credentials in Authorization header")
        return TOKENS.get(token)

    def _repository(self, kind, name):
        owners = self._owners()
        repository = self.server.store.repositories.get((kind or "model", name))
        if repository is None or (repository.private and name.partition("/")[0] not in (owners or ())):
            raise Refused(404 if owners is not None else 401, "RepoNotFound", "Repository not found")
        return repository

    def _require_writer(self, name, reader_may=False):
        owners = self._owners()
        if owners is None:
            raise Refused(401, message="Invalid username or password.")
        if name.partition("/")[0] not in owners and not reader_may:
            raise Refused(403, message="You don't have the rights to write here")

    def _commit_at(self, repository, revision):
        commit = repository.at(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    # The endpoints.

    def who(self):
        if self._owners() is None:
            raise Refused(401, message="Invalid username or password.")
        return 200, {"name": "writer", "type": "user", "auth": {"accessToken": {"role": "write"}}}

    def create(self):
        asked = json.loads(self.body)
        name, kind = f"{asked['organization']}/{asked['name']}", asked.get("type") or "model"
        self._require_writer(name)
        if (kind, name) in self.server.store.repositories:
            raise Refused(409, message="You already created this repo")
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.store.create(kind, name, private=private, sdk=asked.get("sdk"))
        return 200, {"url": f"{self.server.url}/{'' if kind == 'model' else kind + 's/'}{name}"}

    def validate_yaml(self):
        content = json.loads(self.body)["content"]
        if not content.startswith("---\n"):
            return 200, {"errors": [], "warnings": [{"message": "empty or missing yaml metadata in repo card"}]}
        return 200, {"errors": [], "warnings": []}

    def info(self, kind, name, revision="main"):
        repository = self._repository(kind, name)
        commit = self._commit_at(repository, revision)
        siblings = [{"rfilename": path} for path in commit.files]
        told = {"id": name, "sha": commit.oid, "siblings": siblings, "tags": [], "private": repository.private}
        told |= {"lastModified": "2026-01-01T00:00:00.000Z", "downloads": 0, "likes": 0, "cardData": {}}
        if "evalResults" in str(self.query.get("expand")):
            told["evalResults"] = self.server.store.results(repository)
        return 200, told

    def tree(self, kind, name, revision, path=None):
        files = self._commit_at(self._repository(kind, name), revision).files
        prefix, recursive = f"{path}/" if path else "", "true" in str(self.query.get("recursive")).lower()
        below = {place: blob for place, blob in files.items() if place.startswith(prefix)}
        if path and not below:
            raise Refused(404, "EntryNotFound", f"{path} does not exist on {revision!r}")
        folders = {prefix + place.removeprefix(prefix).rpartition("/")[0] for place in below} - {prefix}
        entries = [{"type": "directory", "oid": "0" * 40, "size": 0, "path": folder} for folder in sorted(folders)]
        for place, blob in below.items():
            if recursive or "/" not in place.removeprefix(prefix):
                entry = {"type": "file", "oid": blob.git_oid, "size": len(blob.content), "path": place}
                if blob.apart:
                    entry["lfs"] = {"oid": blob.sha256, "size": len(blob.content), "pointerSize": 130}
                entries.append(entry)
        return 200, entries

    def paths_info(self, kind, name, revision):
        asked = json.loads(self.body)["paths"] if self.body.startswith(b"{") else parse_qs(self.body.decode())["paths"]
        wanted = [asked] if isinstance(asked, str) else asked
        return 200, [entry for entry in self.tree(kind, name, revision, "")[1] if entry["path"] in wanted]

    def commits(self, kind, name, revision):
        history = self._repository(kind, name).branches[revision]
        rows = [{"id": one.oid, "title": one.title, "message": "", "authors": []} for one in reversed(history)]
        return 200, [row | {"date": "2026-01-01T00:00:00.000Z"} for row in rows]

    def preupload(self, kind, name, revision):
        repository = self._repository(kind, name)
        self._require_writer(name, reader_may="create_pr" in self.query)
        files, there = [], self._commit_at(repository, revision).files
        for file in json.loads(self.body)["files"]:
            apart = file["path"].endswith((".parquet", ".jpg", ".bin"))
            oid = there[file["path"]].etag if file["path"] in there else None
            mode = "lfs" if apart else "regular"
            files.append({"path": file["path"], "uploadMode": mode, "shouldIgnore": False, "oid": oid})
        return 200, {"files": files}

    def lfs_batch(self, kind, name):
        self._repository(kind, name)
        self._require_writer(name)
        objects = []
        for one in json.loads(self.body)["objects"]:
            entry = {"oid": one["oid"], "size": one["size"]}
            if one["oid"] not in self.server.store.objects:
                href = f"{self.server.url}/lfs-objects/{one['oid']}?X-Amz-Signature=signaturesecret"
                entry["actions"] = {"upload": {"href": href}}
            objects.append(entry)
        return 200, {"transfer": "basic", "objects": objects}

    def lfs_put(self, oid):
        if hashlib.sha256(self.body).hexdigest() != oid:
            raise BadRequest("the content does not have the hash it was announced with")
        self.server.store.objects[oid] = self.body
        return 200, b""

    def commit(self, kind, name, revision):
        repository, proposed = self._repository(kind, name), "create_pr" in self.query
        self._require_writer(name, reader_may=proposed)
        items = [json.loads(line) for line in self.body.decode().splitlines()]
        commit, number = self.server.store.commit(repository, revision, items, proposed)
        told = {"commitOid": commit.oid, "commitUrl": f"{self.server.url}/{name}/commit/{commit.oid}", "success": True}
        if number:
            told["pullRequestUrl"] = f"{self.server.url}/{name}/discussions/{number}"
        return 200, told

    def discussions(self, kind, name):
        found = self._repository(kind, name).pull_requests
        status = self.query.get("status", ["all"])[0]
        rows = [
            {"num": one.number, "title": one.title, "status": one.status, "isPullRequest": True}
            | {"author": {"name": "writer"}, "repo": {"name": name, "type": kind}}
            | {"createdAt": "2026-01-01T00:00:00.000Z"}
            for one in found
            if status in ("all", one.status)
        ]
        return 200, {"discussions": rows, "count": len(rows), "start": 0}

    def leaderboard(self, name):
        files = self._repository("dataset", name).files()
        if "eval.yaml" not in files:
            raise Refused(404, "EntryNotFound", "this dataset is no benchmark")
        first = yaml.safe_load(files["eval.yaml"])["tasks"][0]["id"]
        task_id = self.query.get("task_id", [first])[0]
        rows = self.server.store.leaderboard(name, task_id)
        return 200, [
            {"rank": place, "modelId": model, "value": value, "filename": ".eval_results/cxc_eccv.yaml"}
            | {"verified": False, "source": None, "author": {"name": "writer", "type": "user"}}
            | {"pullRequest": number, "notes": notes}
            for place, (value, model, number, notes) in enumerate(rows, 1)
        ]

    def resolve(self, kind, name, revision, path):
        commit = self._commit_at(self._repository(kind, name), revision)
        blob = commit.files.get(path)
        if blob is None:
            raise Refused(404, "EntryNotFound", f"{path} does not exist")
        headers = {"ETag": f'"{blob.etag}"', "X-Repo-Commit": commit.oid, "Accept-Ranges": "bytes"}
        if blob.apart:
            headers |= {"X-Linked-ETag": f'"{blob.etag}"', "X-Linked-Size": len(blob.content)}
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if not asked:
            return 200, blob.content, headers
        start, end = int(asked[1]), min(int(asked[2] or len(blob.content)), len(blob.content) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(blob.content)}"
        return 206, blob.content[start : end + 1], headers


REVISION = r"(?P<revision>refs/pr/\d+|[^/]+)"
ROUTES = [
    (r"GET /api/whoami-v2", Handler.who),
    (r"POST /api/repos/create", Handler.create),
    (r"POST /api/validate-yaml", Handler.validate_yaml),
    (rf"GET {API}", Handler.info),
    (rf"GET {API}/revision/{REVISION}", Handler.info),
    (rf"GET {API}/tree/{REVISION}(?:/(?P<path>.*))?", Handler.tree),
    (rf"POST {API}/paths-info/{REVISION}", Handler.paths_info),
    (rf"GET {API}/commits/{REVISION}", Handler.commits),
    (rf"POST {API}/preupload/{REVISION}", Handler.preupload),
    (rf"POST {API}/commit/{REVISION}", Handler.commit),
    (rf"GET {API}/discussions", Handler.discussions),
    (r"GET /api/datasets/(?P<name>[^/]+/[^/]+)/leaderboard", Handler.leaderboard),
    (rf"POST {FILE}\.git/info/lfs/objects/batch", Handler.lfs_batch),
    (r"PUT /lfs-objects/(?P<oid>[0-9a-f]{64})", Handler.lfs_put),
    (rf"(?:GET|HEAD) {FILE}/resolve/{REVISION}/(?P<path>.+)", Handler.resolve),
]
