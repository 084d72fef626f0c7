"""What the local Hub keeps: repositories with commits, content stored apart, pull requests."""

import base64
import hashlib
import itertools
from dataclasses import dataclass, field

import yaml

STORED_APART = (".parquet", ".jpg", ".bin")


@dataclass(frozen=True)
class Blob:
    content: bytes
    apart: bool

    @property
    def sha256(self):
        return hashlib.sha256(self.content).hexdigest()

    @property
    def git_oid(self):
        """Of the content, or of the pointer that git holds where the content is stored apart."""
        content = self.content
        if self.apart:
            lines = "version https://git-lfs.github.com/spec/v1", f"oid sha256:{self.sha256}", f"size {len(content)}"
            content = "".join(f"{line}\n" for line in lines).encode()
        return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()

    @property
    def etag(self):
        return self.sha256 if self.apart else self.git_oid


@dataclass
class Commit:
    oid: str
    files: dict[str, Blob]
    title: str


@dataclass
class PullRequest:
    number: int
    title: str
    description: str
    author: str
    status: str = "open"


@dataclass
class Repository:
    kind: str
    name: str
    private: bool = False
    branches: dict[str, list[Commit]] = field(default_factory=dict)
    pull_requests: list[PullRequest] = field(default_factory=list)
    results: list[dict] = field(default_factory=list)

    @property
    def main(self):
        return self.branches["main"][-1]

    @property
    def listed_results(self):
        """Those that a test sets, those of files, and those that open pull requests add, as the Hub lists them."""
        merged = list(self._read_results("main"))
        opened = [one.number for one in self.pull_requests if one.status == "open"]
        proposed = [
            item | {"pullRequest": number}
            for number in opened
            for item in self._read_results(f"refs/pr/{number}")
            if item not in merged
        ]
        return [*self.results, *merged, *proposed]

    def _read_results(self, branch):
        for path, content in self.files(branch).items():
            if path.startswith(".eval_results/"):
                try:
                    rows = yaml.safe_load(content)
                    yield from ({"filename": path, "verified": False, "data": row} for row in rows)
                except yaml.YAMLError as error:
                    yield {"filename": path, "error": str(error).partition("\n")[0]}

    def files(self, branch="main"):
        return {path: blob.content for path, blob in self.branches[branch][-1].files.items()}

    def at(self, revision):
        """The commit of a branch or an oid, or None."""
        if revision in self.branches:
            return self.branches[revision][-1]
        commits = (commit for branch in self.branches.values() for commit in branch)
        return next((commit for commit in commits if commit.oid == revision), None)


class Conflict(Exception):
    pass


class BadRequest(Exception):
    pass


COMMITS = itertools.count(1)
"""Never the same again, whatever is reset: clients cache files by commit."""


class Store:
    """All repositories of one Hub."""

    def __init__(self):
        self.repositories = {}
        self.objects = {}

    def create(self, kind, name, files=None, private=False, sdk=None):
        """A repository as the Hub makes it, with a card of its own in a Space; then one commit with ``files``."""
        repository = self.repositories[kind, name] = Repository(kind, name, private)
        first = {".gitattributes": b"*.parquet filter=lfs\n"}
        if sdk:
            first["README.md"] = f"---\ntitle: Template\nemoji: X\nsdk: {sdk}\n---\n\nA new Space.\n".encode()
        self._append(repository, "main", first, "initial commit")
        if files:
            self.write(repository, files)
        return repository

    def write(self, repository, files, title="by hand"):
        """Commit files, as somebody does in the browser."""
        self._append(repository, "main", {**repository.files(), **files}, title)

    def propose(self, repository, files, author="somebody"):
        """Open a pull request with ``files``, as somebody does in the browser."""
        number = len(repository.pull_requests) + 1
        repository.pull_requests.append(PullRequest(number, "by hand", "", author))
        self._append(repository, f"refs/pr/{number}", {**repository.files(), **files}, "by hand")

    def merge(self, repository, number):
        pull_request = repository.pull_requests[number - 1]
        pull_request.status = "merged"
        self._append(repository, "main", repository.files(f"refs/pr/{number}"), pull_request.title)

    def close(self, repository, number):
        repository.pull_requests[number - 1].status = "closed"

    def commit(self, repository, branch, items, author=None):
        """Apply the lines of a commit request, to a new pull request of an author; the commit, and its number."""
        header = next(item["value"] for item in items if item["key"] == "header")
        tip = repository.branches[branch][-1]
        if header.get("parentCommit") not in (None, tip.oid):
            raise Conflict("A commit has happened since. Please refresh and try again.")
        files = {path: blob.content for path, blob in tip.files.items()}
        for item in items:
            self._apply(files, item["key"], item["value"])
        self._validate(files)
        if not author:
            return self._append(repository, branch, files, header["summary"]), None
        number = len(repository.pull_requests) + 1
        repository.pull_requests.append(PullRequest(number, header["summary"], header["description"], author))
        repository.branches[f"refs/pr/{number}"] = [tip]
        return self._append(repository, f"refs/pr/{number}", files, header["summary"]), number

    def _apply(self, files, key, value):
        if key == "file":
            files[value["path"]] = base64.b64decode(value["content"])
        elif key == "lfsFile":
            if value["oid"] not in self.objects:
                raise BadRequest(f"the content of {value['path']} was never uploaded")
            files[value["path"]] = self.objects[value["oid"]]
        elif key == "deletedFile":
            del files[value["path"]]
        elif key != "header":
            raise BadRequest(f"unknown operation {key}")

    def _validate(self, files):
        """As the Hub does when a benchmark or results are pushed."""
        if "eval.yaml" in files:
            declared = yaml.safe_load(files["eval.yaml"])
            ids = [task["id"] for task in declared["tasks"]]
            if len(set(ids)) != len(ids) or not all(
                set(task) == {"id", "config", "split"} for task in declared["tasks"]
            ):
                raise BadRequest("eval.yaml: duplicated or malformed tasks")
        for path, content in files.items():
            if path.startswith(".eval_results/") and not isinstance(yaml.safe_load(content), list):
                raise BadRequest(f"{path} is not a list")

    def _append(self, repository, branch, files, title):
        blobs = {path: Blob(content, path.endswith(STORED_APART)) for path, content in sorted(files.items())}
        for blob in blobs.values():
            if blob.apart:
                self.objects[blob.sha256] = blob.content
        oid = hashlib.sha1(f"{repository.kind}/{repository.name} {next(COMMITS)}".encode()).hexdigest()
        commit = Commit(oid, blobs, title)
        repository.branches.setdefault(branch, []).append(commit)
        return commit
