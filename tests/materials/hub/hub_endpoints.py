"""The endpoints of the local Hub that its clients use; each answers (status, body) or (status, body, headers)."""

import hashlib
import json
import re
from urllib.parse import parse_qs

from hub_store import BadRequest

WRITER = "hf_writerwriterwriter"
READER = "hf_readerreaderreader"
TOKENS = {WRITER: {"org", "YOUR_NAME"}, READER: set()}
"""Token to the owners it may write for."""
NAMES = {WRITER: "writer", READER: "reader"}
"""Token to its account."""

API = r"/api/(?P<kind>model|dataset|space)s/(?P<name>[^/]+/[^/]+)"
FILE = r"(?:/(?P<kind>dataset|space)s)?/(?P<name>[^/]+/[^/]+)"


class Refused(Exception):
    def __init__(self, status, code="", message="", **told):
        self.status = status
        self.code = code
        self.message = message or code
        self.told = told


class Endpoints:
    """Answers what is asked: ``server``, ``headers``, ``query`` and ``body`` are the request's."""

    # Who asks, for what.

    def _owners(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in TOKENS:
            raise Refused(401, message="Invalid credentials in Authorization header")
        return TOKENS.get(token)

    def _account(self):
        return NAMES.get(self.headers.get("Authorization", "").removeprefix("Bearer "))

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

    def _is_own(self, repository, revision):
        """Whether it is the branch of a pull request of who asks."""
        number = re.fullmatch(r"refs/pr/(\d+)", revision)
        return bool(number) and repository.pull_requests[int(number[1]) - 1].author == self._account()

    def _commit_at(self, repository, revision):
        commit = repository.at(revision)
        if commit is None:
            raise Refused(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        return commit

    # The endpoints.

    def who(self):
        if self._owners() is None:
            raise Refused(401, message="Invalid username or password.")
        return 200, {"name": self._account(), "type": "user", "auth": {"accessToken": {"role": "write"}}}

    def create(self):
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        kind = asked.get("type") or "model"
        self._require_writer(name)
        url = f"{self.server.url}/{'' if kind == 'model' else kind + 's/'}{name}"
        if (kind, name) in self.server.store.repositories:
            raise Refused(409, message="You already created this repo", url=url)
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        self.server.store.create(kind, name, private=private, sdk=asked.get("sdk"))
        return 200, {"url": url}

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
        if "evalResults" in self.query.get("expand", []):
            told["evalResults"] = repository.listed_results
        return 200, told

    def leaderboard(self, kind, name):
        self._repository(kind, name)
        models = [model for model in self.server.store.repositories.values() if model.listed_results]
        facts = {"value": 0.5, "filename": "", "verified": False, "author": {"type": "user", "name": "me"}}
        return 200, [facts | {"rank": rank, "modelId": model.name} for rank, model in enumerate(models, 1)]

    def tree(self, kind, name, revision, path=None):
        files = self._commit_at(self._repository(kind, name), revision).files
        prefix = f"{path}/" if path else ""
        recursive = "true" in str(self.query.get("recursive")).lower()
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
        self._require_writer(name, reader_may="create_pr" in self.query or self._is_own(repository, revision))
        files = []
        there = self._commit_at(repository, revision).files
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
        repository = self._repository(kind, name)
        proposed = "create_pr" in self.query
        self._require_writer(name, reader_may=proposed or self._is_own(repository, revision))
        items = [json.loads(line) for line in self.body.decode().splitlines()]
        commit, number = self.server.store.commit(repository, revision, items, self._account() if proposed else None)
        told = {"commitOid": commit.oid, "commitUrl": f"{self.server.url}/{name}/commit/{commit.oid}", "success": True}
        if number:
            told["pullRequestUrl"] = f"{self.server.url}/{name}/discussions/{number}"
        return 200, told

    def discussions(self, kind, name):
        found = self._repository(kind, name).pull_requests
        status = self.query.get("status", ["all"])[0]
        wanted = {"all": ("open", "closed", "merged"), "open": ("open",), "closed": ("closed", "merged")}[status]
        rows = [
            {"num": one.number, "title": one.title, "status": one.status, "isPullRequest": True}
            | {"author": {"name": one.author}, "repo": {"name": name, "type": kind}}
            | {"createdAt": "2026-01-01T00:00:00.000Z"}
            for one in found
            if one.status in wanted and one.author in self.query.get("author", [one.author])
        ]
        return 200, {"discussions": rows, "count": len(rows), "start": 0}

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
        start = int(asked[1])
        end = min(int(asked[2] or len(blob.content)), len(blob.content) - 1)
        headers["Content-Range"] = f"bytes {start}-{end}/{len(blob.content)}"
        return 206, blob.content[start : end + 1], headers


REVISION = r"(?P<revision>refs/pr/\d+|[^/]+)"
ROUTES = [
    (r"GET /api/whoami-v2", Endpoints.who),
    (r"POST /api/repos/create", Endpoints.create),
    (r"POST /api/validate-yaml", Endpoints.validate_yaml),
    (rf"GET {API}", Endpoints.info),
    (rf"GET {API}/revision/{REVISION}", Endpoints.info),
    (rf"GET {API}/leaderboard", Endpoints.leaderboard),
    (rf"GET {API}/tree/{REVISION}(?:/(?P<path>.*))?", Endpoints.tree),
    (rf"POST {API}/paths-info/{REVISION}", Endpoints.paths_info),
    (rf"GET {API}/commits/{REVISION}", Endpoints.commits),
    (rf"POST {API}/preupload/{REVISION}", Endpoints.preupload),
    (rf"POST {API}/commit/{REVISION}", Endpoints.commit),
    (rf"GET {API}/discussions", Endpoints.discussions),
    (rf"POST {FILE}\.git/info/lfs/objects/batch", Endpoints.lfs_batch),
    (r"PUT /lfs-objects/(?P<oid>[0-9a-f]{64})", Endpoints.lfs_put),
    (rf"(?:GET|HEAD) {FILE}/resolve/{REVISION}/(?P<path>.+)", Endpoints.resolve),
]
