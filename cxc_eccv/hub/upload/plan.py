"""What a push would change: every file of the folder compared with the repository on the Hub, cards merged."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from huggingface_hub.constants import SPACES_SDK_TYPES

from cxc_eccv.builders.writing import MANIFEST_NAME
from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub import front_matter, leaderboard
from cxc_eccv.hub.client import RemoteFile, Repository
from cxc_eccv.hub.upload.card_merge import is_marked, merged_card
from cxc_eccv.hub.upload.local_file import LocalFile, checked_manifest, folder_files, local_text

__all__ = [
    "CARD",
    "Change",
    "UploadContent",
    "UploadPlan",
    "dataset_content",
    "space_content",
    "text_diff",
    "upload_plan",
]

Kind = Literal["new", "changed", "unchanged", "removed"]
KINDS: tuple[Kind, ...] = ("new", "changed", "removed", "unchanged")


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one path.

    Attributes:
        path: place in the repository.
        kind: ``new``, ``changed``, ``removed`` or ``unchanged``.
        size: bytes.
        file: what is uploaded; None where the path is removed.
    """

    path: str
    kind: Kind
    size: int
    file: LocalFile | None


@dataclass(frozen=True, slots=True)
class UploadPlan:
    """What a push would do.

    Attributes:
        repository: where to.
        parent: commit it was made for; None where the repository does not exist yet.
        changes: one per path, sorted.
        card_diff: unified diff of the card, empty where it stays as it is.
        left_out: paths of the folder that are not uploaded.
    """

    repository: Repository
    parent: str | None
    changes: tuple[Change, ...]
    card_diff: str
    left_out: tuple[str, ...] = ()

    @property
    def pending(self) -> tuple[Change, ...]:
        """Changes that are to be made."""
        return tuple(change for change in self.changes if change.kind != "unchanged")

    def __str__(self) -> str:
        lines = [f"{self.repository}" + ("" if self.parent else " (new repository)")]
        lines += [f"  {one.kind:<9}  {one.path}  ({_bytes(one.size)})" for one in self.changes]
        lines += [f"  left out   {path}" for path in self.left_out]
        if self.card_diff:
            lines += ["", self.card_diff.rstrip("\n"), ""]
        counts = [f"{sum(one.kind == kind for one in self.changes)} {kind}" for kind in KINDS]
        size = sum(one.size for one in self.pending if one.file)
        return "\n".join([*lines, f"{', '.join(counts)}; {_bytes(size)} to upload"])


def upload_plan(repository: Repository, content: UploadContent) -> UploadPlan:
    """Compare what shall be there with what is there.

    Args:
        repository: looked at, not changed.
        content: what it shall hold.

    Raises:
        HubConflict: the card's generated part was edited on the Hub.
        HubError: the Hub, or the way to it, failed.
    """
    parent = repository.head()
    remote = repository.files(parent) if parent else {}
    before = repository.text(CARD, parent) if parent and CARD in remote else None
    card = _card(repository, content.card, before, content.owned)
    files = (*content.files, local_text(CARD, card))
    changes = [_change(file, remote.get(file.path)) for file in files]
    built = _formerly_built(repository, parent, remote) if parent and content.configs else frozenset()
    changes += [
        Change(path, "removed", file.size, None) for path, file in remote.items() if content.makes_stale(path, built)
    ]
    diff = text_diff(before or "", card, CARD) if parent else ""
    ordered = tuple(sorted(changes, key=lambda one: one.path))
    return UploadPlan(repository, parent, ordered, diff, content.left_out)


def text_diff(before: str, after: str, path: str) -> str:
    r"""Unified diff of a text file; empty where nothing changes.

    Example:
        >>> print(text_diff("a\n", "b\n", "x.yaml"), end="")
        --- x.yaml (on the Hub)
        +++ x.yaml (new)
        @@ -1 +1 @@
        -a
        +b
    """
    names = f"{path} (on the Hub)", f"{path} (new)"
    return "".join(_lines(difflib.unified_diff(before.splitlines(True), after.splitlines(True), *names, n=2)))


def _lines(diff: Iterator[str]) -> Iterator[str]:
    for line in diff:
        yield line if line.endswith("\n") else f"{line}\n"


def _card(repository: Repository, generated: str, theirs: str | None, owned: tuple[str, ...]) -> str:
    if theirs is not None and not is_marked(theirs) and repository.is_untouched():
        # The Hub writes a card of its own into a new Space: nobody's hand-writing.
        theirs = None
    return merged_card(generated, theirs, owned, f"{CARD} of {repository}")


def _change(file: LocalFile, there: RemoteFile | None) -> Change:
    if there is None:
        return Change(file.path, "new", file.size, file)
    same = there.sha256 == file.sha256 if there.sha256 else there.git_oid == file.git_oid
    return Change(file.path, "unchanged" if same else "changed", file.size, file)


def _formerly_built(repository: Repository, parent: str, remote: Mapping[str, RemoteFile]) -> frozenset[str]:
    """Paths that the manifest on the Hub lists."""
    if MANIFEST_NAME not in remote:
        return frozenset()
    try:
        return frozenset(json.loads(repository.text(MANIFEST_NAME, parent))["files"])
    except (ValueError, KeyError, TypeError):  # not of our making: nothing follows from it
        return frozenset()


def _bytes(size: int) -> str:
    return f"{size:,} B" if size < 10_000 else f"{size / 1e3:,.0f} kB" if size < 10_000_000 else f"{size / 1e6:,.0f} MB"


CARD = "README.md"

DATASET_KEYS = ("configs", "dataset_info", "size_categories", "modified_data")
SPACE_KEYS = ("sdk", "sdk_version", "python_version", "app_file")


@dataclass(frozen=True, slots=True)
class UploadContent:
    """What a repository shall hold after a push.

    Attributes:
        files: everything but the card.
        card: the generated card.
        owned: keys of the card's front matter that describe the files.
        configs: dataset configs; other Parquet files in their folders would be loaded with them, and are removed.
        space_sdk: of a Space, else None.
        left_out: paths in the folder that are not uploaded.
    """

    files: tuple[LocalFile, ...]
    card: str
    owned: tuple[str, ...]
    configs: tuple[str, ...] = ()
    space_sdk: str | None = None
    left_out: tuple[str, ...] = ()

    def makes_stale(self, path: str, formerly_built: Collection[str]) -> bool:
        """Whether a file on the Hub must go: a shard of ours, or a file that an earlier build wrote, not in this one.

        Example:
            >>> content = UploadContent((), "", (), configs=("sts",))
            >>> [content.makes_stale(path, ["old/a"]) for path in ("sts/test-00001-of-00002.parquet", "old/a", "notes")]
            [True, True, False]
        """
        if path in (CARD, *(file.path for file in self.files)):
            return False
        of_config = any(re.fullmatch(rf"{re.escape(config)}/[^/]+\.parquet", path) for config in self.configs)
        return of_config or path in formerly_built


def dataset_content(folder: Path, token: str | None = None, framework: str = leaderboard.FRAMEWORK) -> UploadContent:
    """A folder that ``cxc-eccv build`` wrote, with an ``eval.yaml`` for the configs it holds.

    Raises:
        InvalidOption: not such a folder, or changed since; a link in it, or the token.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.builders.writing.folder import build_folder
        >>> folder = Path(tempfile.mkdtemp()) / "data"
        >>> _ = build_folder(folder, configs=["sts"], splits=["test"], data_dir="sample", progress=False)
        >>> [file.path for file in dataset_content(folder).files]
        ['manifest.json', 'sts/test-00000-of-00001.parquet', 'eval.yaml']
    """
    files, left_out = folder_files(folder, token)
    manifest = checked_manifest(folder, files)
    configs = tuple(manifest["configs"])
    declared = local_text(leaderboard.PATH, leaderboard.eval_yaml(configs, framework))
    others = (*(file for file in files if file.path != CARD), declared)
    card = (folder / CARD).read_text(encoding="utf-8")
    return UploadContent(others, card, DATASET_KEYS, configs, left_out=tuple(left_out))


def space_content(folder: Path, token: str | None = None) -> UploadContent:
    r"""The folder of a Space, as those in ``metrics/``.

    Raises:
        InvalidOption: it has no card, or one that does not say which SDK runs it; a link in it, or the token.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "README.md").write_text("---\nsdk: gradio\n---\n")
        >>> _ = (folder / "app.py").write_text("")
        >>> content = space_content(folder)
        >>> content.space_sdk, [file.path for file in content.files]
        ('gradio', ['app.py'])
    """
    files, left_out = folder_files(folder, token)
    if CARD not in [file.path for file in files]:
        raise InvalidOption(f"{folder} has no {CARD}. A Space needs one, whose front matter says `sdk: gradio`.")
    card = (folder / CARD).read_text(encoding="utf-8")
    sdk = front_matter.parsed(front_matter.split(card)[0], str(folder / CARD)).get("sdk")
    if sdk not in SPACES_SDK_TYPES:
        raise InvalidOption(f"{folder / CARD}: sdk is {sdk!r}, expected one of {', '.join(SPACES_SDK_TYPES)}")
    others = tuple(file for file in files if file.path != CARD)
    return UploadContent(others, card, SPACE_KEYS, space_sdk=sdk, left_out=tuple(left_out))
