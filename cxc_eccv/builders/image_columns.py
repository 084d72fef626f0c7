"""Image files of a folder: find them by name, embed them into tables, attach them to a dataset."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar

import pyarrow as pa
from PIL import Image

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.sources.download import image_folder, sample_images

if TYPE_CHECKING:
    import datasets

AnyDataset = TypeVar(
    "AnyDataset",
    "datasets.Dataset",
    "datasets.IterableDataset",
    "datasets.DatasetDict",
    "datasets.IterableDatasetDict",
)

MISSING_POLICIES = ("error", "null", "drop")

COCO_FILE_NAME = re.compile(r"(COCO_(?:train|val)2014_)?([0-9]{12}\.jpg)")
"""COCO's releases of 2014 and 2017 give an image different names."""

IMAGES_AT_ONCE = 100  # Rows whose photographs are read at once, about 16 MB


class ImageCell(TypedDict):
    """An image as datasets stores it."""

    path: str
    bytes: bytes


class ImageFolder:
    """The files below a folder by name, at any depth; links are followed.

    Endings are compared in lower case, and ``.jpeg`` is ``.jpg``; a file of the very name comes before such others. A
    ``.png`` is another file than a ``.jpg``: masks of COCO's photographs have these names.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = image_folder(folder)
        self._places: dict[str, list[Path]] = {}
        for path in _files_below(self.folder):
            self._places.setdefault(_fold_ending(path.name), []).append(path)

    def find(self, file_name: str) -> Path | None:
        """The file of that name, or None; a file directly in the folder comes before those in subfolders."""
        places = next((places for name in _list_names(file_name) if (places := self._find_places(name))), [])
        direct = [path for path in places if path.parent == self.folder]
        chosen = direct or places
        if len(chosen) < 2:
            return next(iter(chosen), None)
        if chosen[0].parent == chosen[1].parent:
            raise DataError(f"{file_name} may be {chosen[0]} or {chosen[1]}. Keep one of these.")
        raise DataError(f"{file_name} is in {chosen[0].parent} and in {chosen[1].parent}. Name one of these.")

    def _find_places(self, file_name: str) -> list[Path]:
        """The files of this very name, else those whose endings mean the same."""
        alike = self._places.get(_fold_ending(file_name), [])
        return [path for path in alike if path.name == file_name] or alike

    def find_all(self, file_names: Iterable[str], split: str = "all", advice: str = "") -> dict[str, Path]:
        """The file of every name, each once; raises SourceMissing, with the advice, if one is missing."""
        names = list(dict.fromkeys(file_names))
        files = {name: file for name in names if (file := self.find(name)) is not None}
        if missing := [name for name in names if name not in files]:
            remedy = self._describe_remedy(missing[0], split) + (advice if files else "")
            if (other := self._find_other_format(missing[0])) is not None:
                remedy = (
                    f"{other} may be a mask of it; if it is the photograph, save it under the name {missing[0]}. "
                    f"{remedy}"
                )
            raise SourceMissing(
                f"{len(files):,} of the {len(names):,} photographs found in {self.folder} and the folders in it; the "
                f"first missing one is {missing[0]}. {remedy}."
            )
        return files

    def _find_other_format(self, file_name: str) -> Path | None:
        """A file that differs from one of this name in its ending alone."""
        stems = {Path(name).stem for name in _list_names(file_name)}
        paths = itertools.chain.from_iterable(self._places.values())
        return next((path for path in paths if path.stem in stems), None)

    def _describe_remedy(self, file_name: str, split: str) -> str:
        if any(path.name == file_name for path in _files_below(sample_images())):
            return "Name those of the embedded sample with --images sample"
        folder = next((name for name in ("val2014", "train2014") if file_name.startswith(f"COCO_{name}_")), None)
        if folder is None:
            return "Add the files, or name the folder that holds all of them"
        split = "" if folder == "train2014" else f" --split {split}"
        return f"Download them with cxc-eccv images {folder}{split} --output {shlex.quote(str(self.folder))}"

    def read(self, file_name: str) -> ImageCell | None:
        """Bytes and name of an image, which is decoded as a check; None if the file is missing."""
        path = self.find(file_name)
        if path is None:
            return None
        content = path.read_bytes()
        try:
            with Image.open(BytesIO(content)) as image:
                image.load()
        except Exception as error:  # Pillow's decoders raise errors of many unrelated kinds.
            raise MalformedSource(path, "", error, "a complete image; download the file again") from None
        return {"bytes": content, "path": file_name}


def _fold_ending(file_name: str) -> str:
    """The name with its ending in lower case, and ``.jpg`` for ``.jpeg``."""
    stem, _, ending = file_name.rpartition(".")
    if not stem:
        return file_name
    folded = ending.lower()
    if folded == "jpeg":
        folded = "jpg"
    return f"{stem}.{folded}"


def _list_names(file_name: str) -> tuple[str, ...]:
    """The names that a file may have, ``file_name`` first."""
    coco = COCO_FILE_NAME.fullmatch(file_name)
    if coco is None:
        return (file_name,)
    prefix, number = coco.groups()
    return (file_name, number) if prefix else (file_name, f"COCO_val2014_{number}", f"COCO_train2014_{number}")


def embed_images(table: pa.Table, folder: ImageFolder, schema: pa.Schema) -> Iterator[pa.Table]:
    """``table`` in slices of 100 rows, with the images of its column ``file_name``; null for missing files."""
    with ThreadPoolExecutor() as threads:
        for start in range(0, table.num_rows, IMAGES_AT_ONCE):
            rows = table.slice(start, IMAGES_AT_ONCE)
            names = rows["file_name"].to_pylist()
            distinct = list(dict.fromkeys(names))
            images = dict(zip(distinct, threads.map(folder.read, distinct), strict=True))
            column = pa.chunked_array([pa.array([images[name] for name in names], schema.types[-1])])
            yield pa.Table.from_arrays([*rows.columns, column], schema=schema)


def _files_below(folder: Path) -> Iterator[Path]:
    seen = set()
    for place, subfolders, names in os.walk(folder, followlinks=True):
        # A link may lead back up.
        real = os.path.realpath(place)
        if real in seen:
            subfolders.clear()
            continue
        seen.add(real)
        subfolders.sort()
        for name in sorted(names):
            yield Path(place) / name


def attach_images(
    dataset: AnyDataset, folder: str | Path, column: str = "image", *, missing: str = "error"
) -> AnyDataset:
    """Add a ``datasets.Image`` column for every column of file names.

    ``file_name`` gives ``column``; ``left_file_name`` gives ``left_image``. The files stay where they are: the column
    holds their paths, and an image is decoded when its row is read.

    Args:
        dataset: a dataset, a streamed one, or a dictionary of splits.
        folder: folder with the images, at any depth.
        column: name of the new column.
        missing: what to do with a row whose file is missing: ``error``, ``null`` (an empty image) or ``drop`` (no row).
            ``null`` and ``drop`` warn with the number of such rows; a streamed dataset warns at each of them. A row
            without a file name, such as ``query_file_name`` of a caption query, has a null image and is not counted.

    Raises:
        SourceMissing: a file is missing and ``missing`` is ``error``; a streamed dataset raises it at the row.
        InvalidOption: the folder does not exist, the dataset has no column of file names, the new column exists, or
            ``missing`` is unknown.

    Example:
        >>> import tempfile
        >>> from PIL import Image
        >>> Image.new("RGB", (8, 6)).save(Path(folder := tempfile.mkdtemp()) / "a.png")
        >>> import datasets
        >>> dataset = datasets.Dataset.from_dict({"file_name": ["a.png"]})
        >>> attach_images(dataset, folder)[0]["image"].size
        (8, 6)
    """
    if missing not in MISSING_POLICIES:
        raise InvalidOption(f"missing={missing!r}: choose one of {', '.join(MISSING_POLICIES)}")
    return _attach(dataset, ImageFolder(folder), column, missing)


def _attach(dataset: Any, files: ImageFolder, column: str, missing: str) -> Any:  # noqa: ANN401 - one of four kinds
    import datasets  # not at the top: thumbnails of a report need no datasets

    if isinstance(dataset, datasets.DatasetDict | datasets.IterableDatasetDict):
        return type(dataset)({split: _attach(part, files, column, missing) for split, part in dataset.items()})
    names = _name_columns(dataset.column_names, column)
    attach = _attach_to_stream if isinstance(dataset, datasets.IterableDataset) else _attach_to_table
    return attach(dataset, files, names, missing)


def _name_columns(columns: list[str], column: str) -> dict[str, str]:
    names = {name: name.replace("file_name", column) for name in columns if "file_name" in name}
    if not names:
        raise InvalidOption(f"the dataset has no column of file names, only {', '.join(columns)}")
    taken = sorted(set(names.values()) & set(columns))
    if taken:
        raise InvalidOption(f"the dataset already has a column {taken[0]!r}. Choose another name with column=...")
    return names


def _attach_to_table(
    dataset: datasets.Dataset, files: ImageFolder, names: dict[str, str], missing: str
) -> datasets.Dataset:
    from datasets import Image

    absent: dict[int, str] = {}
    for name in names:
        rows = enumerate(dataset[name])
        named = {row: file_name for row, file_name in rows if file_name is not None}
        absent |= {row: file_name for row, file_name in named.items() if files.find(file_name) is None}
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
        dataset = dataset.add_column(new, cells, feature=Image())
    return dataset


def _attach_to_stream(
    dataset: datasets.IterableDataset, files: ImageFolder, names: dict[str, str], missing: str
) -> datasets.IterableDataset:
    from datasets import Features, Image

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

    features = Features({**dataset.features, **dict.fromkeys(names.values(), Image())})
    # With features passed to map, datasets would not decode the images.
    return dataset.filter(complete).map(attach).cast(features)


def _cell(files: ImageFolder, file_name: str | None) -> dict[str, str | None] | None:
    path = None if file_name is None else files.find(file_name)
    return None if path is None else {"bytes": None, "path": str(path)}
