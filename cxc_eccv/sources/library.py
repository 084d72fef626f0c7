"""The raw sources of one data location, and their splits: images and captions with their labels, read once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, MalformedSource, UnknownName
from cxc_eccv.sources import readers
from cxc_eccv.sources.catalog import ALL_SPLITS, RAW_SPLIT
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.collections.collection import Collection, find_collection
from cxc_eccv.sources.download import Content, RawFiles, where_from
from cxc_eccv.sources.readers import CategorySets, EntailmentPairs, Instances, LabelFile, MinedPairs, SplitTables
from cxc_eccv.sources.reading import require_known
from cxc_eccv.types import IntArray, find_positions, find_sides

COCO_IMAGES = "http://images.cocodataset.org"  # address of COCO's images, by folder and file name
COCO_BUCKET = "https://s3.amazonaws.com/images.cocodataset.org"  # the same files; that host has no certificate


class HasItems(Protocol):
    """Judgments of queries and gallery items."""

    def without(self, query_ids: IntArray, gallery_ids: IntArray, /) -> Self:
        """Those of the other queries and items."""


Judged = TypeVar("Judged", bound=HasItems)


class Library(RawFiles):
    """The raw sources, read when they are needed and then kept.

    Args:
        data_dir: local mirror folder, or ``"sample"`` for the embedded sample; None for ``CXC_ECCV_DATA``, else the
            download cache.
        offline: never download; None follows ``CXC_ECCV_OFFLINE`` and ``HF_HUB_OFFLINE``.
        allow_modified: use mirror files whose hash differs from the catalog's; :meth:`modified_files` lists them.
        restval_in_train: fold ``restval`` into ``train``.
        progress: show download bars.
        mined: files of weak positives, at most one for each split; no task reads them.
        labels: labels by people, each a source of labels under its name: tables (``.csv``, ``.jsonl``, ``.parquet``)
            with ``image_id``, ``caption_id`` and, unless all pairs match, ``positive`` or ``gain``; files that
            ``cxc-eccv annotate merge`` wrote; folders of such files, or datasets of them on the Hugging Face Hub
            (``user/name`` or ``user/name@revision``).

    Raises:
        InvalidOption: ``data_dir`` is not a folder.

    Example:
        >>> library = Library("sample")
        >>> library.splits
        ('train', 'restval', 'validation', 'test')
        >>> library.split("test").image_ids.size
        60
    """

    def __init__(
        self,
        data_dir: str | Path | None = None,
        *,
        offline: bool | None = None,
        allow_modified: bool = False,
        restval_in_train: bool = False,
        progress: bool = True,
        mined: Sequence[str | Path] = (),
        labels: str | Path | Sequence[str | Path] = (),
    ) -> None:
        super().__init__(data_dir, offline=offline, allow_modified=allow_modified, progress=progress)
        self.restval_in_train = restval_in_train
        self._mined = tuple(map(Path, mined))
        self._labels = (labels,) if isinstance(labels, str | Path) else tuple(labels)

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits of COCO that the available files hold."""
        return tuple(self.read_splits(COCO))

    def split(self, name: str = "test", collection: str | Collection = COCO) -> Split:
        """The images, captions and labels of a split.

        Args:
            name: ``train``, ``restval``, ``validation`` or ``test``; or ``all``, those that the available files hold.
            collection: a collection or its name: ``coco``, ``flickr30k``, ``flickr8k`` or ``visual_genome``.

        Raises:
            UnknownName: there is no split or no collection of this name.
            DataError: the available raw files do not hold it; the message says which file does and where to get it.
        """
        declared = find_collection(collection) if isinstance(collection, str) else collection
        return self.cached(("split", declared, name), lambda: self._open_split(declared, name))

    def has_collection(self, collection: Collection) -> bool:
        """Whether the raw files of a collection are on this machine; the default one is downloaded when it is read."""
        parts = collection.is_default or any(self.has([name]) for name in collection.parts)
        return self.has(collection.labels) and (parts or self.has(collection.files))

    def read_splits(self, collection: Collection) -> Mapping[str, SplitTables]:
        """Images and captions of the splits of a collection that the available files hold, by name."""
        splits = self.cached(("collection", collection.name), lambda: self._read_collection(collection))
        if not self.restval_in_train:
            return splits
        return self.cached(("folded", collection.name), lambda: readers.fold_restval(splits))

    def descriptions(self, collection: Collection) -> pa.Table | None:
        """Texts that represent the images of a collection, as captions of these; None if its captions do."""
        if collection.descriptions is None:
            return None
        names, read = collection.descriptions
        return self.cached(("descriptions", collection.name), lambda: read([self.path(name) for name in names]))

    def _read_collection(self, collection: Collection) -> Mapping[str, SplitTables]:
        splits = collection.read(self._find_files(collection))
        described = self.descriptions(collection)
        if described is None:
            return splits
        image_ids = np.unique(described["image_id"])
        return {name: tables.among(image_ids) for name, tables in splits.items()}

    def visual_genome(self, objects: Path | None = None, image_data: Path | None = None) -> Instances:
        """Objects in the images that Visual Genome shares with COCO, by COCO's ids, from the user's files if named."""
        named = {"visual_genome_objects": objects, "visual_genome_image_data": image_data}
        files = [self.record(name, path) if path else self.path(name) for name, path in named.items()]
        return self.cached(("visual_genome", *files), lambda: readers.read_visual_genome(files))

    @property
    def mined_files(self) -> dict[str, tuple[Path, MinedPairs]]:
        """Path and pairs of the files of weak positives, under their names in :meth:`files_used`."""
        return self.cached("mined", self._read_mined)

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels that the library was opened with, in their order.

        Raises:
            DataError: a file is missing or malformed, or two files hold labels of the same name and split.
        """
        return tuple(self.cached("labels", self._read_labels))

    @property
    def table_names(self) -> tuple[str, ...]:
        """Those of them that are plain tables."""
        plain_names = {file.name for file in self.label_files.values() if file.is_plain}
        return tuple(name for name in self.label_names if name in plain_names)

    @property
    def label_files(self) -> dict[str, LabelFile]:
        """The label files that the library was opened with, under their names in :meth:`files_used`."""
        files = {}
        for name, by_split in self.cached("labels", self._read_labels).items():
            for split, file in by_split.items():
                files[f"labels_{name}_{RAW_SPLIT[split]}"] = file
        return files

    def invalid_ids(self, kind: str) -> IntArray:
        """Ids of the ``caption`` or ``image`` items that ECCV Caption removed as invalid."""
        table = self.cached("invalid", readers.invalid_items)
        return np.array([row["id"] for row in table.to_pylist() if row["kind"] == kind], dtype=np.int64)

    def _read_mined(self) -> dict[str, tuple[Path, MinedPairs]]:
        files: dict[str, tuple[Path, MinedPairs]] = {}
        for path in self._mined:
            pairs = readers.read_mined(path)
            name = f"{find_collection(pairs.collection).mined}_{RAW_SPLIT[pairs.split]}"
            if name in files:
                raise DataError(f"{files[name][0]} and {path} both hold weak positives of {pairs.split}: name only one")
            files[name] = path, pairs
        return files

    def find_label_names(self, named: str | Path) -> tuple[str, ...]:
        """Names of the labels in one file, folder or dataset that the library was opened with."""
        paths, _ = readers.find_labels(named, offline=self.offline_reason)
        return tuple(dict.fromkeys(file.name for file in self.label_files.values() if file.path in paths))

    def _read_labels(self) -> dict[str, dict[str, LabelFile]]:
        files: dict[str, dict[str, LabelFile]] = {}
        for named in self._labels:
            for file in self._read_label_place(named):
                by_split = files.setdefault(file.name, {})
                if file.split in by_split:
                    raise DataError(
                        f"{by_split[file.split].path} and {file.path} both hold labels {file.name!r} of {file.split}: "
                        "name only one, or merge one of them under another name"
                    )
                by_split[file.split] = file
        return files

    def _read_label_place(self, named: str | Path) -> Iterator[LabelFile]:
        """The labels of a file, a folder or a dataset on the Hub."""
        paths, origin = readers.find_labels(named, offline=self.offline_reason)
        for path in paths:
            for file in readers.read_label_files(path, self._read_ids):
                yield replace(file, origin=origin)

    def _read_ids(self) -> dict[str, tuple[IntArray, IntArray]]:
        """Image ids and caption ids of the splits of COCO."""
        splits = [self.split(name) for name in self.splits]
        return {split.name: (split.image_ids, split.caption_ids) for split in splits}

    def check_labels(self, file: LabelFile) -> None:
        """Refuse labels of other images or captions than those of this library with a DataError."""
        if file.is_plain:
            return
        remedy = "label the pairs of this data in a new project"
        self.split(file.split).check_pairs(file.path, file.table, file.facts["data"], "labels of", remedy)

    def _open_split(self, collection: Collection, name: str) -> Split:
        tables = self._find_tables(collection, name)
        if collection.descriptions is not None and not tables.images.num_rows:
            texts, images = (self.path(file) for file in collection.descriptions[0])
            where = "any split" if name == ALL_SPLITS else f"the split {name!r}"
            raise DataError(
                f"{texts} describes no image of {where}, going by the coco_id of images in {images}. Use both files of "
                "one release of Visual Genome" + ("." if name == ALL_SPLITS else ", or another split.")
            )
        return Split(self, collection, name, tables.images, tables.captions, tables.cut_caption_ids)

    def _find_files(self, collection: Collection) -> list[Path]:
        """The files with all splits if they are on this machine, else those of single splits, else the downloads."""
        names = collection.files
        if collection.parts and not self.has(names):
            names = tuple(name for name in collection.parts if self.has([name])) or names
        return [self.path(name) for name in names]

    def _find_tables(self, collection: Collection, name: str) -> SplitTables:
        splits = self.read_splits(collection)
        if name in splits:
            return splits[name]
        if name == ALL_SPLITS:
            return SplitTables.join(list(splits.values()))
        if name not in RAW_SPLIT:
            raise UnknownName("split", name, splits)
        if name == "restval" and self.restval_in_train:
            raise DataError(f"split 'restval' is folded into train; the splits are {', '.join(splits)}")
        if not collection.parts:
            raise DataError(f"split {name!r} is not one of {collection.title}, which has {', '.join(splits)}")
        whole = collection.files[0]
        entry = self.catalog.entry(whole)
        path = self.locate(whole)
        lacking = f"{entry.path}, which holds every split, is missing" if path is None else f"{path} is not complete"
        raise DataError(
            f"split {name!r} is not in the available files, which hold {', '.join(splits)}. {lacking}.\n"
            f"{where_from(entry, self.data_dir)}"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Split:
    """Images and captions of one split of a collection, in the order of the raw file, and the labels of its pairs.

    Attributes:
        library: the raw sources that it was read from.
        collection: the declaration of the collection.
        name: ``train``, ``restval``, ``validation`` or ``test``.
        images: ``image_id``, ``file_name``, ``folder``; the folder is ``val2014``, for example, and empty for Flickr.
        captions: ``caption_id``, ``image_id``, ``text``; texts as in the file.
        cut_caption_ids: captions beyond five per image, which are in no table.
        part_of: the whole split, if this is a part of it.

    Example:
        >>> split = Library("sample").split("test")
        >>> split.captions.column_names, split.image_ids.size
        (['caption_id', 'image_id', 'text'], 60)
    """

    library: Library
    collection: Collection
    name: str
    images: pa.Table
    captions: pa.Table
    cut_caption_ids: IntArray = field(repr=False)
    part_of: Split | None = field(default=None, repr=False)

    @property
    def whole(self) -> Split:
        """The split that this is a part of, or this split itself; labels are read for it."""
        return self.part_of or self

    @property
    def image_ids(self) -> IntArray:
        """(images,) int64."""
        return np.asarray(self.images["image_id"], dtype=np.int64)

    @property
    def caption_ids(self) -> IntArray:
        """(captions,) int64."""
        return np.asarray(self.captions["caption_id"], dtype=np.int64)

    @property
    def caption_image_ids(self) -> IntArray:
        """(captions,) int64: the image that each caption describes."""
        return np.asarray(self.captions["image_id"], dtype=np.int64)

    def ids(self, side: str) -> IntArray:
        """The ids of a side, ``images`` or ``captions``."""
        return self.image_ids if side == "images" else self.caption_ids

    def first(self, limit: int | None) -> Split:
        """The first ``limit`` images by id, with their captions; None keeps all."""
        others = np.sort(self.image_ids)[self.image_ids.size if limit is None else limit :]
        return self.without(others, self.caption_ids[np.isin(self.caption_image_ids, others)])

    def without(self, image_ids: IntArray, caption_ids: IntArray) -> Split:
        """The part of the split without these images and captions."""
        images = ~np.isin(self.image_ids, image_ids)
        captions = ~np.isin(self.caption_ids, caption_ids)
        if images.all() and captions.all():
            return self
        return replace(
            self, images=self.images.filter(images), captions=self.captions.filter(captions), part_of=self.whole
        )

    def left_out(self, side: str) -> IntArray:
        """The ids of a side of the whole split that are not in this part of it, ascending."""
        return np.setdiff1d(self.whole.ids(side), self.ids(side))

    def cut(self, judged: Judged, direction: str) -> Judged:
        """Judgments of the whole split without what is left out here, possibly without any query."""
        if self.part_of is None:
            return judged
        query_side, gallery_side = find_sides(direction)
        return judged.without(self.left_out(query_side), self.left_out(gallery_side))

    def texts_of(self, caption_ids: IntArray) -> pa.Array:
        """The captions' raw texts; null for ids outside the split."""
        return _look_up(self.captions, "caption_id", "text", caption_ids)

    def files_of(self, image_ids: IntArray) -> pa.Array:
        """The images' file names; null for ids outside the split."""
        return _look_up(self.images, "image_id", "file_name", image_ids)

    def captions_of(self, image_ids: IntArray) -> pa.ListArray:
        """The raw texts of each image's captions, in the order of the raw file; every id must be in the split.

        Example:
            >>> split = Library("sample").split("test")
            >>> [len(captions) for captions in split.captions_of(split.image_ids[:2])]
            [5, 5]
        """
        owners = find_positions(self.caption_image_ids, self.image_ids)[0]
        counts = np.bincount(owners, minlength=self.image_ids.size)
        offsets = np.append(0, np.cumsum(counts)).astype(np.int32)
        texts = self.captions["text"].combine_chunks().take(pa.array(np.argsort(owners, kind="stable")))
        rows = find_positions(image_ids, self.image_ids)[0]
        return pa.ListArray.from_arrays(offsets, texts).take(pa.array(rows))

    def owners_of(self, caption_ids: IntArray) -> IntArray:
        """The image that each caption was written for; every id must be in the split."""
        return self.caption_image_ids[find_positions(caption_ids, self.caption_ids)[0]]

    @property
    def fingerprint(self) -> str:
        """Hex sha256 over all ids, file names and texts, regardless of the raw files."""
        digest = hashlib.sha256()
        for table in (self.images.drop_columns(["folder"]), self.captions):
            for column in table.columns:
                content = json.dumps(column.to_pylist(), ensure_ascii=False)
                digest.update(content.encode(errors="surrogatepass"))
        return digest.hexdigest()

    def cached(self, key: object, read: Callable[[], Content]) -> Content:
        """Call ``read`` once for each key of this split, as :meth:`Library.cached` does."""
        return self.library.cached((self.collection.name, self.name, key), read)

    def ratings(self, kind: str) -> pa.Table:
        """CxC ratings: ``left_id``, ``right_id``, ``rating``, ``sampling_method``.

        Raises:
            MalformedSource: the file is malformed, or has an id outside the split.
        """
        return self.cached(("cxc", kind), lambda: self._read_ratings(kind))

    def annotators(self, kind: str) -> pa.Table | None:
        """CxC's ratings by single annotators; None if the file (``_raw.csv``) is missing, as it is never downloaded.

        Returns:
            ``left_id``, ``right_id``, ``rating``: one row per rating.
        """
        name = f"{kind}_{RAW_SPLIT[self.name]}_raw"
        return self.library.read_optional(name, partial(readers.read_annotators, kind=kind))

    def eccv(self, labels: str, direction: str) -> pa.Table:
        """One of the six files of ECCV Caption, which are of the test split: ``query_id``, ``item_id``.

        Args:
            labels: ``eccv``, ``cxc`` or ``original``.
            direction: ``i2t`` or ``t2i``.
        """
        return self.cached(("eccv", labels, direction), lambda: self._read_positives(labels, direction))

    def categories(self) -> CategorySets:
        """Category presence of the images, in Karpathy order."""
        return self.cached("categories", self._read_categories)

    def instances(self, path: Path | None = None) -> Instances:
        """Annotations of COCO's images, with boxes if the full files are available, else as category sets.

        Args:
            path: an annotation file of the user to read instead of those that list the images of the split; all of
                them may list images of other splits too.
        """
        paths = self._category_files() if path is None else [self.library.record("instances", path)]
        parts = [self.library.cached(("instances", file), partial(readers.read_instances, file)) for file in paths]
        images = pa.concat_tables([part.images for part in parts])
        annotations = pa.concat_tables([part.annotations for part in parts])
        return Instances(images, annotations)

    def entailment(self) -> EntailmentPairs | None:
        """The user's entailment labels, or None; no release of the paper's labels is known."""
        name = f"{self.collection.entailment}_{RAW_SPLIT[self.name]}"
        return self.library.read_optional(name, readers.read_entailment)

    def mined(self) -> MinedPairs | None:
        """The weak positives, or None if the library was opened without a file of them.

        Raises:
            DataError: two files are of one split, or a file was mined from other images or captions.
        """
        name = f"{self.collection.mined}_{RAW_SPLIT[self.name]}"
        path, pairs = self.library.mined_files.get(name, (None, None))
        if path is None or pairs is None:
            return None
        check = partial(self.check_pairs, path, pairs.table, pairs.facts["data"], "mined from")
        self.cached("mined", partial(check, "mine again with cxc-eccv mine"))
        self.library.record(name, path)
        return pairs

    def labels(self, name: str) -> LabelFile | None:
        """The labels of a name, or None if they are only of other splits.

        Raises:
            UnknownName: the library was opened without labels of this name.
            DataError: the labels are of other images or captions.
        """
        if name not in self.library.label_names:
            raise UnknownName("name of labels", name, self.library.label_names)
        recorded = f"labels_{name}_{RAW_SPLIT[self.name]}"
        file = self.library.label_files.get(recorded)
        if file is None or not self.collection.is_default:
            return None
        self.cached(("labels", name), lambda: self.library.check_labels(file))
        self.library.record(recorded, file.path)
        return file

    def check_pairs(self, path: Path, table: pa.Table, data: Mapping[str, object], what: str, remedy: str) -> None:
        """Refuse pairs that were made from other images and captions, as the facts ``data`` of their file say."""
        if data.get("content") != self.fingerprint:
            raise DataError(
                f"{path}: {what} the split {self.name!r} of edition {data.get('edition')}, with "
                f"{data.get('images')} images and {data.get('captions')} captions, but the data is of edition "
                f"{self.library.edition}, with {self.image_ids.size} images and {self.caption_ids.size} captions in "
                "that split. Choose the data that the file was made from (--data-dir), with restval folded into train "
                f"or not as before; or {remedy}."
            )
        for name, ids in (("image_id", self.image_ids), ("caption_id", self.caption_ids)):
            require_known(path, np.asarray(table[name]), ids, "row {row}", name, f"an id of the {self.name} split")

    def _read_ratings(self, kind: str) -> pa.Table:
        path = self.library.path(f"{kind}_{RAW_SPLIT[self.name]}")
        table = readers.read_ratings(path, kind)
        for side, (name, modality) in zip(("left_id", "right_id"), readers.RATING_COLUMNS[kind], strict=True):
            place = f"line {{line}}, column {name!r}"
            expected = f"a {modality} of the {self.name} split"
            require_known(path, np.asarray(table[side]), self.ids(f"{modality}s"), place, "unknown id", expected)
        return table

    def _read_positives(self, labels: str, direction: str) -> pa.Table:
        names = ("image", "caption") if direction == "i2t" else ("caption", "image")
        path = self.library.path(f"{labels}_{names[0]}_to_{names[1]}")
        table = readers.read_positives(path)
        for column, modality in zip(("query_id", "item_id"), names, strict=True):
            known = self.ids(f"{modality}s")
            if column == "item_id" and modality == "caption":
                known = np.concatenate([known, self.cut_caption_ids, readers.UNREACHABLE_CAPTIONS])
            what = f"unknown {modality} id"
            expected = f"a {modality} of the test split"
            require_known(path, np.asarray(table[column]), np.unique(known), column, what, expected)
        return table

    def _category_files(self) -> list[Path]:
        """Full annotations of the folders with images of the split, or the split's category sets without them."""
        whole = [f"instances_{folder}" for folder in pc.unique(self.images["folder"]).to_pylist()]
        derived = [f"instances_karpathy_{raw}" for name, raw in RAW_SPLIT.items() if self.name in (name, ALL_SPLITS)]
        use_derived = not self.library.has(whole) and self.library.has(derived)
        return [self.library.path(name) for name in (derived if use_derived else whole)]

    def _read_categories(self) -> CategorySets:
        paths = self._category_files()
        try:
            return CategorySets.join([readers.read_category_sets(path) for path in paths]).of(self.image_ids)
        except KeyError as error:
            files = ", ".join(map(str, paths))
            raise MalformedSource(
                files, "images", f"no image {error}", f"every image of the {self.name} split"
            ) from None


def _look_up(table: pa.Table, key: str, value: str, ids: IntArray) -> pa.Array:
    indices, inside = find_positions(ids, np.asarray(table[key]))
    return table[value].combine_chunks().take(pa.array(indices, mask=~inside))
