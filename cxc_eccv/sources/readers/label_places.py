"""Where labels lie: a file, the files of a folder, or a dataset on the Hugging Face Hub."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from cxc_eccv.errors import DownloadFailed, SourceMissing
from cxc_eccv.sources.columns import TABLES

REPOSITORY = re.compile(r"(?P<id>[\w.-]+/[\w.-]+?)(@(?P<revision>[\w./-]+))?", re.ASCII)


def find_labels(named: str | Path, *, offline: str = "") -> tuple[list[Path], Mapping[str, str]]:
    """Paths of the label files of one place, and repository and revision if it is on the Hub.

    Args:
        named: a file, a folder, or a dataset on the Hub (``user/name`` or ``user/name@revision``). The Parquet files of
            a folder count, and only without any its other tables: it may be an annotation project. Subfolders are not
            searched.
        offline: reason why downloads are off; a dataset is then taken from the cache of huggingface_hub.
    """
    path = Path(named).expanduser()
    if path.is_dir():
        return _list_files(path, str(named)), {}
    repository = REPOSITORY.fullmatch(str(named))
    if path.exists() or repository is None or path.suffix in TABLES:
        return [path], {}
    folder = _download(repository["id"], repository["revision"], offline)
    origin = {"repository": repository["id"], "revision": folder.name}
    return _list_files(folder, f"the dataset {named} on the Hub"), origin


def _list_files(folder: Path, place: str) -> list[Path]:
    paths = sorted(folder.glob("*.parquet")) or sorted(path for path in folder.glob("*") if path.suffix in TABLES)
    if not paths:
        raise SourceMissing(
            f"{place} holds no label file ({', '.join(TABLES)}). Give a table of image_id and caption_id, or what "
            "cxc-eccv annotate merge writes."
        )
    return paths


def _download(repository: str, revision: str | None, offline: str) -> Path:
    """The folder of a commit of a dataset in the cache of huggingface_hub; it is named after the commit."""
    from huggingface_hub import errors, snapshot_download

    name = f"{repository}@{revision}" if revision else repository
    try:
        folder = snapshot_download(
            repository,
            repo_type="dataset",
            revision=revision,
            allow_patterns=[f"*{ending}" for ending in TABLES],
            ignore_patterns="*/*",
            local_files_only=bool(offline),
            library_name="cxc_eccv",
        )
    except errors.LocalEntryNotFoundError:
        why = f"downloads are off ({offline})" if offline else "the Hugging Face Hub does not answer"
        raise SourceMissing(
            f"labels {name}: there is no such file or folder, no such dataset is in the cache, and {why}. Check the "
            "path, or allow downloads once; the dataset is then cached."
        ) from None
    except errors.RepositoryNotFoundError:
        raise SourceMissing(
            f"labels {name}: there is no such file or folder, and no such dataset on the Hugging Face Hub that you may "
            "see. Check the name; for a private dataset, run `hf auth login` or set HF_TOKEN."
        ) from None
    except (errors.HfHubHTTPError, errors.HFValidationError, OSError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise DownloadFailed(f"labels {name}: the Hugging Face Hub did not deliver them: {reason}") from None
    return Path(folder)
