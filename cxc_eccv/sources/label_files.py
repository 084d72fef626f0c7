"""Label files where a caller says that they are: a file, a folder of them, or a dataset on the Hugging Face Hub."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from cxc_eccv.errors import DownloadFailed, SourceMissing
from cxc_eccv.sources.readers import LabelFile, read_labels

__all__ = ["find_label_files"]

REPOSITORY = re.compile(r"(?P<id>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w./-]+))?", re.ASCII)

ENDING = ".parquet"


def find_label_files(named: str | Path, *, offline: str = "") -> list[LabelFile]:
    """The label files of one place, read: a file, a folder of them, or a dataset on the Hub (``user/name@revision``).

    Of a folder its own Parquet files are label files, those of folders in it are not, so that it may be an annotation
    project. ``offline`` says why nothing is downloaded; a dataset is then taken from the cache of huggingface_hub.
    """
    path = Path(named).expanduser()
    if path.is_dir():
        return _read_folder(path, str(named))
    repository = REPOSITORY.fullmatch(str(named))
    if path.exists() or repository is None or path.suffix == ENDING:
        return [read_labels(path)]
    folder = _download(repository["id"], repository["revision"], offline)
    origin = {"repository": repository["id"], "revision": folder.name}
    return [replace(found, origin=origin) for found in _read_folder(folder, f"the dataset {named} on the Hub")]


def _read_folder(folder: Path, place: str) -> list[LabelFile]:
    files = sorted(folder.glob(f"*{ENDING}"))
    if not files:
        raise SourceMissing(f"{place} holds no label file (*{ENDING}); cxc-eccv annotate merge writes one")
    return [read_labels(path) for path in files]


def _download(repository: str, revision: str | None, offline: str) -> Path:
    """The folder of one commit of a dataset in the cache of huggingface_hub, named after it."""
    from huggingface_hub import errors, snapshot_download

    name = f"{repository}@{revision}" if revision else repository
    try:
        folder = snapshot_download(
            repository,
            repo_type="dataset",
            revision=revision,
            allow_patterns=f"*{ENDING}",
            ignore_patterns="*/*",
            local_files_only=bool(offline),
            library_name="cxc_eccv",
        )
    except errors.LocalEntryNotFoundError:
        why = f"downloads are off ({offline})" if offline else "the Hugging Face Hub does not answer"
        raise SourceMissing(
            f"labels {name}: no file or folder has this name, no dataset of it is in the cache, and {why}. "
            "Check the path; or allow downloads once, and the dataset is kept."
        ) from None
    except errors.RepositoryNotFoundError:
        raise SourceMissing(
            f"labels {name}: no file or folder has this name, and neither has a dataset on the Hugging Face Hub that "
            "you may see. Check the name; for a private dataset run `hf auth login`, or set HF_TOKEN."
        ) from None
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        told = str(error).strip().partition("\n")[0]
        raise DownloadFailed(f"labels {name}: the Hugging Face Hub did not deliver them: {told}") from None
    return Path(folder)
