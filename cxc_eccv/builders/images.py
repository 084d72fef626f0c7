"""Image columns for a loaded dataset, from its file names."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any, TypeVar

import datasets

from cxc_eccv.builders.image_files import ImageFolder
from cxc_eccv.errors import InvalidOption, SourceMissing

__all__ = ["attach_images"]

AnyDataset = TypeVar(
    "AnyDataset",
    datasets.Dataset,
    datasets.IterableDataset,
    datasets.DatasetDict,
    datasets.IterableDatasetDict,
)

MISSING = ("error", "null", "drop")


def attach_images(
    dataset: AnyDataset,
    folder: str | Path,
    column: str = "image",
    *,
    missing: str = "error",
) -> AnyDataset:
    """Add a ``datasets.Image`` column for every column of file names.

    ``file_name`` gives ``column``; ``left_file_name`` gives ``left_image``. The files stay where they are: the column
    holds their paths, and an image is decoded when its row is read.

    Args:
        dataset: a dataset, a streamed one, or a dictionary of splits.
        folder: folder with the images, at any depth.
        column: name of the new column.
        missing: what becomes of a row whose file is not there: ``error``, ``null`` (an empty image) or ``drop`` (no
            row). The last two report how many in a warning; a streamed dataset reports every file as it comes. A row
            without a file name (``query_file_name`` of a caption query) has a null image and is not counted.

    Raises:
        SourceMissing: a file is not there and ``missing`` is ``error``; a streamed dataset raises it at the row.
        InvalidOption: no such folder, no column of file names, the new column exists, or an unknown ``missing``.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> Image.new("RGB", (8, 6)).save(Path(folder := tempfile.mkdtemp()) / "a.png")
        >>> dataset = datasets.Dataset.from_dict({"file_name": ["a.png"]})
        >>> attach_images(dataset, folder)[0]["image"].size
        (8, 6)
    """
    if missing not in MISSING:
        raise InvalidOption(f"missing={missing!r}: choose one of {', '.join(MISSING)}")
    return _attached(dataset, ImageFolder(folder), column, missing)


def _attached(dataset: Any, files: ImageFolder, column: str, missing: str) -> Any:  # noqa: ANN401 - one of four kinds
    if isinstance(dataset, datasets.DatasetDict | datasets.IterableDatasetDict):
        return type(dataset)({split: _attached(part, files, column, missing) for split, part in dataset.items()})
    names = _name_columns(dataset.column_names, column)
    attach = _attached_stream if isinstance(dataset, datasets.IterableDataset) else _attached_table
    return attach(dataset, files, names, missing)


def _name_columns(columns: list[str], column: str) -> dict[str, str]:
    names = {name: name.replace("file_name", column) for name in columns if "file_name" in name}
    if not names:
        raise InvalidOption(f"the dataset has no column of file names, only {', '.join(columns)}")
    taken = sorted(set(names.values()) & set(columns))
    if taken:
        raise InvalidOption(f"the dataset already has a column {taken[0]!r}. Choose another name with column=...")
    return names


def _attached_table(
    dataset: datasets.Dataset, files: ImageFolder, names: dict[str, str], missing: str
) -> datasets.Dataset:
    absent = {
        row: file_name
        for name in names
        for row, file_name in enumerate(dataset[name])
        if file_name is not None and files.find(file_name) is None
    }
    if absent:
        first = absent[min(absent)]
        text = f"{len(absent)} of {len(dataset)} rows have no image below {files.folder}, first {first}"
        if missing == "error":
            raise SourceMissing(f"{text}. Add the files, or choose missing='null' or missing='drop'.")
        warnings.warn(f"{text}; missing={missing!r}", stacklevel=4)
    if missing == "drop":
        dataset = dataset.select([row for row in range(len(dataset)) if row not in absent])
    for name, new in names.items():
        cells = [_cell(files, file_name) for file_name in dataset[name]]
        dataset = dataset.add_column(new, cells, feature=datasets.Image())
    return dataset


def _attached_stream(
    dataset: datasets.IterableDataset, files: ImageFolder, names: dict[str, str], missing: str
) -> datasets.IterableDataset:
    def complete(row: dict[str, Any]) -> bool:
        absent = [row[name] for name in names if row[name] is not None and files.find(row[name]) is None]
        if absent and missing == "error":
            text = f"no image {absent[0]} below {files.folder}"
            raise SourceMissing(f"{text}. Add the file, or choose missing='null' or missing='drop'.")
        for file_name in absent:
            warnings.warn(f"no image {file_name} below {files.folder}; missing={missing!r}", stacklevel=2)
        return missing == "null" or not absent

    def attach(row: dict[str, Any]) -> dict[str, Any]:
        return {new: _cell(files, row[name]) for name, new in names.items()}

    features = datasets.Features({**dataset.features, **dict.fromkeys(names.values(), datasets.Image())})
    # Features given to map would count as applied already, and the images would stay undecoded.
    return dataset.filter(complete).map(attach).cast(features)


def _cell(files: ImageFolder, file_name: str | None) -> dict[str, Any] | None:
    path = None if file_name is None else files.find(file_name)
    return None if path is None else {"bytes": None, "path": str(path)}
