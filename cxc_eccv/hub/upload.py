"""Upload: compare a built dataset, labels, or a metric's Space with a repository on the Hub, and send the changes.

A file that is a link, changes during the upload, or contains the token is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from huggingface_hub import CommitOperationAdd, CommitOperationDelete
from huggingface_hub.constants import SPACES_SDK_TYPES

import cxc_eccv
from cxc_eccv.builders.cards import point_examples
from cxc_eccv.builders.output import FORMAT, MANIFEST_NAME
from cxc_eccv.errors import HubError, InvalidOption
from cxc_eccv.hub import leaderboard
from cxc_eccv.hub.card import CARD, is_marked, merge_card, read_matter, split_card
from cxc_eccv.hub.client import Access, Repository, repeat, text_diff, wrap
from cxc_eccv.hub.leaderboard import PATH as EVAL_YAML
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import MIXED

Kind = Literal["new", "changed", "unchanged", "removed"]
KINDS: tuple[Kind, ...] = ("new", "changed", "removed", "unchanged")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one path in the repository; ``size`` in bytes is that of the new file, or of the removed one."""

    path: str
    kind: Kind
    size: int
    file: LocalFile | None = None


@dataclass(frozen=True, slots=True)
class Push:
    """A planned upload on the commit ``parent``; ``dropped`` are ids of tasks that ``eval.yaml`` loses."""

    repository: Repository
    content: UploadContent
    private: bool | None
    parent: str | None
    changes: tuple[Change, ...]
    card_diff: str
    dropped: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[Change, ...]:
        """The changes to make."""
        return tuple(change for change in self.changes if change.kind != "unchanged")

    def __str__(self) -> str:
        lines = [f"{self.repository}" + ("" if self.parent else " (new repository)")]
        lines += [f"  {change.kind:<9}  {change.path}  ({_show_size(change.size)})" for change in self.changes]
        lines += [f"  left out   {path}" for path in self.content.left_out]
        if self.card_diff:
            lines += ["", self.card_diff.rstrip("\n"), ""]
        if self.dropped:
            sentence = f"{EVAL_YAML} drops {len(self.dropped)} tasks of the leaderboard: {_name_some(self.dropped)}. "
            lines += ["", wrap(f"{sentence}--all-tasks keeps those that this folder has labels for.")]
        counts = [f"{sum(change.kind == kind for change in self.changes)} {kind}" for kind in KINDS]
        size = sum(change.size for change in self.pending if change.file)
        return "\n".join([*lines, f"{', '.join(counts)}; {_show_size(size)} to upload"])

    @property
    def next_steps(self) -> str:
        """What people must do before the Hub shows a leaderboard; for labels, how to load them; empty for a Space."""
        if self.content.labels:
            return f"Load these labels with --labels {self.repository.repo_id}"
        if self.repository.repo_type != "dataset":
            return ""
        if self.content.edition != OFFICIAL:
            return wrap(f"This is the edition {self.content.edition!r}: no results can be submitted to it.")
        steps = [
            f"The Hub must know the evaluation_framework {self.content.framework!r}. If its list lacks the name, "
            "add it with a pull request, or push again with --framework and a name from the list:\n"
            + leaderboard.FRAMEWORK_LIST,
            "The Hub's staff must activate the leaderboard. Ask for it in the discussion that collects new benchmarks, "
            f"with the address above:\n{leaderboard.ACTIVATION}",
        ]
        if self.repository.is_private():
            steps.insert(0, "The dataset is private and must be public. Change that in its settings on the Hub.")
        lines = ["To do once before the Hub shows a leaderboard:"]
        for number, step in enumerate(steps, 1):
            text, *addresses = step.split("\n")  # an address has a line of its own
            lines += [wrap(text, f"{number}. ", "   "), *(f"   {address}" for address in addresses)]
        return "\n".join(lines)

    def carry_out(self) -> Push:
        """Upload in one commit, and return the push that was carried out.

        Calling it again is safe: files on the Hub are not sent twice. If a commit may have arrived without its answer,
        or somebody else committed, the push is planned again; the returned push may then have no pending changes.
        """
        self.repository.access.require_token()
        if self.parent is None:
            self.repository.create(private=self.private, space_sdk=self.content.space_sdk)
        return repeat(Push._commit, self if self.parent else self._replan(), self._replan)

    def _replan(self) -> Push:
        return _compare(self.repository, self.content, self.private)

    def _commit(self) -> Push:
        if self.pending and self.parent is None:
            raise HubError(f"{self.repository} has been deleted. Run the command again.")
        if self.pending and self.parent:
            operations = [
                CommitOperationAdd(change.path, change.file.source)
                if change.file
                else CommitOperationDelete(change.path, is_folder=False)
                for change in sorted(self.pending, key=lambda change: change.kind == "removed")
            ]
            message = f"Upload with cxc_eccv {cxc_eccv.__version__}"
            self.repository.commit(operations, message, parent=self.parent, check=self._require_unchanged)
        return self

    def _require_unchanged(self) -> None:
        for change in self.pending:
            if change.file:
                change.file.require_unchanged()


def plan_push(
    folder: str | Path,
    repo_id: str,
    repo_type: str = "dataset",
    *,
    access: Access | None = None,
    private: bool | None = None,
    framework: str = leaderboard.FRAMEWORK,
    all_tasks: bool = False,
) -> Push:
    """Compare a folder of a dataset, of labels or of a Space with the repository on the Hub; change nothing."""
    if repo_type not in ("dataset", "space"):
        raise InvalidOption(f"repository type {repo_type!r}: expected 'dataset' or 'space'")
    access = access or Access()
    read = _read_space if repo_type == "space" else partial(_read_dataset, framework=framework, all_tasks=all_tasks)
    content = read(Path(folder), access.token)
    return _compare(Repository(repo_id, repo_type, access), content, private)


def _compare(repository: Repository, content: UploadContent, private: bool | None) -> Push:
    """Compare the content to upload with the repository; change nothing."""
    parent = repository.head()
    remote = repository.files(parent) if parent else {}
    before = repository.text(CARD, parent) if parent and CARD in remote else None
    # The Hub writes a card into a new Space; nobody wrote it by hand.
    is_default = before is not None and not is_marked(before) and repository.is_untouched()
    generated, theirs = content.card, None if is_default else before
    if content.configs:
        generated = point_examples(generated, repository.repo_id)
        if theirs is not None and not is_marked(theirs):  # perhaps a built card, uploaded by other means
            theirs = point_examples(theirs, repository.repo_id)
    card = merge_card(generated, theirs, content.owned, f"{CARD} of {repository}")
    changes = []
    for file in (*content.files, _hash_file(CARD, card.encode())):
        old = remote.get(file.path)
        if old is None:
            kind: Kind = "new"
        else:
            same = old.lfs.sha256 == file.sha256 if old.lfs else old.blob_id == file.git_oid
            kind = "unchanged" if same else "changed"
        changes.append(Change(file.path, kind, file.size, file))
    built: set[str] = set()
    dropped: list[str] = []
    if parent and content.configs and MANIFEST_NAME in remote:
        text = repository.text(MANIFEST_NAME, parent)
        with suppress(ValueError, KeyError, TypeError):  # not our manifest
            built = set(json.loads(text)["files"])
    if parent and content.configs and EVAL_YAML in remote:
        text = repository.text(EVAL_YAML, parent)
        with suppress(HubError):  # not our eval.yaml
            dropped = sorted(leaderboard.read_task_ids(text, EVAL_YAML).difference(content.task_ids))
    changes += [Change(path, "removed", file.size) for path, file in remote.items() if content.makes_stale(path, built)]
    diff = text_diff(before or "", card, CARD) if parent else ""
    changes.sort(key=lambda change: change.path)
    return Push(repository, content, private, parent, tuple(changes), diff, tuple(dropped))


def _show_size(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1e3:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"


LABELS_KEYS = ("configs", "dataset_info", "size_categories")
DATASET_KEYS = (*LABELS_KEYS, "modified_data")
SPACE_KEYS = ("sdk", "sdk_version", "python_version", "app_file")


@dataclass(frozen=True, slots=True)
class UploadContent:
    """What a repository holds after a push; ``owned`` are the keys of the card that describe the files.

    Other Parquet files in the configs' folders (for labels, beside the card) would be loaded too and are removed.
    """

    files: tuple[LocalFile, ...]
    card: str
    owned: tuple[str, ...]
    configs: tuple[str, ...] = ()
    space_sdk: str | None = None
    left_out: tuple[str, ...] = ()
    edition: str = ""
    framework: str = ""
    task_ids: frozenset[str] = frozenset()
    labels: bool = False

    @property
    def paths(self) -> set[str]:
        """The paths of the files, without the card."""
        return {file.path for file in self.files}

    def makes_stale(self, path: str, formerly_built: Collection[str]) -> bool:
        """Whether to remove a file on the Hub: a shard or a file of an earlier build that this build lacks."""
        if path in {CARD, *self.paths}:
            return False
        places = [*(f"{re.escape(config)}/" for config in self.configs), *(["", "mixed/"] if self.labels else [])]
        return any(re.fullmatch(rf"{place}[^/]+\.parquet", path) for place in places) or path in formerly_built


def _read_dataset(folder: Path, token: str | None, framework: str, all_tasks: bool) -> UploadContent:
    """Read a folder of ``cxc-eccv build``, with an ``eval.yaml`` for its configs; or of labels."""
    files, left_out = read_folder(folder, token)
    by_path = {file.path: file for file in files}
    if MANIFEST_NAME not in by_path and (labels := [name for name in by_path if re.fullmatch(r"[^/]+\.parquet", name)]):
        # Other files of an annotation project, above all people's answers, are not uploaded.
        sent = {path: file for path, file in by_path.items() if path in (*labels, MIXED, CARD)}
        kept = [*left_out, *(path for path in by_path if path not in sent)]
        Library(labels=[folder.resolve()]).label_files  # noqa: B018 - raises the errors of loading them
        if CARD not in by_path:
            raise InvalidOption(f"{folder} has labels but no {CARD}; cxc-eccv annotate merge writes both")
        return replace(_gather(folder, sent, LABELS_KEYS, kept), labels=True)
    manifest = _check_manifest(folder, by_path)
    configs = tuple(manifest["configs"])
    declared = leaderboard.eval_yaml(configs, framework, all_tasks=all_tasks)
    by_path[EVAL_YAML] = _hash_file(EVAL_YAML, declared.encode())
    content = _gather(folder, by_path, DATASET_KEYS, left_out)
    task_ids = leaderboard.read_task_ids(declared, EVAL_YAML)
    return replace(content, configs=configs, edition=manifest["edition"], framework=framework, task_ids=task_ids)


def _read_space(folder: Path, token: str | None) -> UploadContent:
    """Read the folder of a Space; its card must name the SDK."""
    files, left_out = read_folder(folder, token)
    by_path = {file.path: file for file in files}
    if CARD not in by_path:
        raise InvalidOption(f"{folder} has no {CARD}. A Space needs one with `sdk: gradio` in its front matter.")
    content = _gather(folder, by_path, SPACE_KEYS, left_out)
    sdk = read_matter(split_card(content.card)[0], str(folder / CARD)).get("sdk")
    if sdk not in SPACES_SDK_TYPES:
        raise InvalidOption(f"{folder / CARD}: sdk is {sdk!r}, expected one of {', '.join(SPACES_SDK_TYPES)}")
    return replace(content, space_sdk=str(sdk))


def _gather(
    folder: Path, by_path: Mapping[str, LocalFile], owned: tuple[str, ...], left_out: Sequence[str]
) -> UploadContent:
    card = (folder / CARD).read_text(encoding="utf-8")
    others = tuple(file for path, file in by_path.items() if path != CARD)
    return UploadContent(others, card, owned, left_out=tuple(left_out))


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file, or bytes, to upload to ``path``; ``size`` and ``modified``, in ns, tell whether it changed since."""

    path: str
    source: Path | bytes
    size: int
    sha256: str
    git_oid: str
    modified: int = 0

    def require_unchanged(self) -> None:
        """Raise if the file changed since it was hashed."""
        if isinstance(self.source, Path):
            now = _check_plain(self.source, self.path)
            if (now.st_size, now.st_mtime_ns) != (self.size, self.modified):
                raise InvalidOption(f"{self.source} changed during the upload. Run the command again.")


def _hash_file(name: str, source: Path | bytes, token: str | None = None) -> LocalFile:
    """Hash a file, or bytes, as the Hub and git do; refuse it if it contains the token."""
    size, modified = len(source) if isinstance(source, bytes) else 0, 0
    if isinstance(source, Path):
        status = _check_plain(source, name)
        size, modified = status.st_size, status.st_mtime_ns
    secret, tail = (token or "").encode(), b""
    sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
    with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
        for block in iter(lambda: stream.read(1 << 20), b""):
            if secret and secret in tail + block:
                raise InvalidOption(f"{name} contains your access token. Remove it from the file and revoke it.")
            tail = (tail + block)[-len(secret) :] if secret else b""
            sha256.update(block)
            git.update(block)
    return LocalFile(name, source, size, sha256.hexdigest(), git.hexdigest(), modified)


def _check_plain(path: Path, name: str) -> os.stat_result:
    try:
        status = path.lstat()
    except FileNotFoundError:
        raise InvalidOption(f"{path} was deleted. Run the command again.") from None
    if stat.S_ISLNK(status.st_mode):
        raise InvalidOption(
            f"{path} is a symbolic link to {path.readlink()}; an upload takes only files of its folder. "
            "Replace the link by the file, or remove it."
        )
    if not stat.S_ISREG(status.st_mode):
        raise InvalidOption(f"{path} is not a regular file. Remove it from the folder.")
    if any(ord(letter) < 32 or letter == "\\" for letter in name):
        raise InvalidOption(f"the name of {path!r} has a backslash or a control character. Rename it.")
    return status


LEFT_OUT = ("__pycache__", ".git", ".cache", ".DS_Store", ".gitattributes")
"""Names that are not uploaded, at any depth; the Hub has its own .gitattributes."""


def read_folder(folder: Path, token: str | None = None) -> tuple[list[LocalFile], list[str]]:
    """Hash every file below a folder, refusing links and special files; return them and the paths left out."""
    if not folder.is_dir():
        raise InvalidOption(f"{folder} is not a folder")
    root = folder.resolve()
    left_out: list[Path] = []
    files = [_hash_file(path.relative_to(root).as_posix(), path, token) for path in _walk(root, left_out)]
    return files, [path.relative_to(root).as_posix() for path in left_out]


def _walk(folder: Path, left_out: list[Path]) -> Iterator[Path]:
    """Yield files and links; a link to a folder is not followed."""
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        if entry.name in LEFT_OUT:
            left_out.append(Path(entry.path))
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), left_out)
        else:
            yield Path(entry.path)


REBUILD = "Build the folder again with `cxc-eccv build`."


def _check_manifest(folder: Path, by_path: Mapping[str, LocalFile]) -> dict[str, Any]:
    """Read the manifest of ``cxc-eccv build``; refuse a folder with missing, edited or other files."""
    if MANIFEST_NAME not in by_path:
        raise InvalidOption(
            f"{folder} has no {MANIFEST_NAME}, so `cxc-eccv build` did not write it. Name a folder that it wrote, a "
            "folder of labels, or the folder of a metric with --type space."
        )
    try:
        manifest: dict[str, Any] = json.loads((folder / MANIFEST_NAME).read_text(encoding="utf-8"))
        hashes = {path: file["sha256"] for path, file in manifest["files"].items()}
        is_ours = manifest["format"] == FORMAT and manifest["configs"]
    except (ValueError, KeyError, TypeError, AttributeError):
        is_ours = False
    if not is_ours:
        raise InvalidOption(f"{folder / MANIFEST_NAME} does not have the format {FORMAT!r}. {REBUILD}")
    foreign = [path for path in by_path if path not in hashes and path != MANIFEST_NAME]
    if foreign:
        raise InvalidOption(f"{folder} has {_name_some(foreign)}, which the build did not write. Move them elsewhere.")
    missing = [path for path in hashes if path not in by_path]
    if missing:
        raise InvalidOption(f"{folder} lacks {_name_some(missing)}, which its {MANIFEST_NAME} lists. {REBUILD}")
    edited = [path for path, sha256 in hashes.items() if by_path[path].sha256 != sha256]
    if CARD in edited:
        raise InvalidOption(
            f"{folder / CARD} was edited after the build, and the next build would replace it. Edit the "
            f"card on the Hub instead: a push keeps every text outside the generated part. {REBUILD}"
        )
    if edited:
        raise InvalidOption(f"{_name_some(edited)} in {folder} changed after the build. {REBUILD}")
    return manifest


def _name_some(paths: Sequence[str]) -> str:
    return ", ".join(sorted(paths)[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
