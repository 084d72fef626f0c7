"""What a push wants a repository to hold: a dataset folder with ``eval.yaml``, or the folder of a metric's Space."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub.constants import SPACES_SDK_TYPES

from cxc_eccv.errors import InvalidOption
from cxc_eccv.hub import eval_yaml, front_matter
from cxc_eccv.hub.dataset_folder import checked_manifest
from cxc_eccv.hub.folder_files import folder_files
from cxc_eccv.hub.local_file import LocalFile, local_text

__all__ = ["CARD", "UploadContent", "dataset_content", "space_content"]

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


def dataset_content(folder: Path, token: str | None = None, framework: str = eval_yaml.FRAMEWORK) -> UploadContent:
    """A folder that ``cxc-eccv build`` wrote, with an ``eval.yaml`` for the configs it holds.

    Raises:
        InvalidOption: not such a folder, or changed since; a link in it, or the token.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.builders.folder import build_folder
        >>> folder = Path(tempfile.mkdtemp()) / "data"
        >>> _ = build_folder(folder, configs=["sts"], splits=["test"], data_dir="sample", progress=False)
        >>> [file.path for file in dataset_content(folder).files]
        ['manifest.json', 'sts/test-00000-of-00001.parquet', 'eval.yaml']
    """
    files, left_out = folder_files(folder, token)
    manifest = checked_manifest(folder, files)
    configs = tuple(manifest["configs"])
    declared = local_text(eval_yaml.PATH, eval_yaml.eval_yaml(configs, framework))
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
