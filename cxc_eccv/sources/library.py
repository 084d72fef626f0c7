"""The raw sources of one data location; each is downloaded, verified, read and cross-checked once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.sources import readers
from cxc_eccv.sources.catalog import RAW_SPLIT, Catalog, fingerprint_files
from cxc_eccv.sources.download import catalog_of, fetch, locate, mirror_folder, offline_reason, sha256_of, where_from
from cxc_eccv.sources.readers import CategorySets, EntailmentPairs, Instances, KarpathySplit, LabelFile, MinedPairs
from cxc_eccv.sources.reading import read_ids, require_known
from cxc_eccv.types import IntArray

COCO_IMAGES = "http://images.cocodataset.org"  # address of COCO's images, by folder and file name
COCO_BUCKET = "https://s3.amazonaws.com/images.cocodataset.org"  # the same files; that host has no certificate

Content = TypeVar("Content")

FLICKR8K_LISTS = {
    "train": "flickr8k_train_images",
    "validation": "flickr8k_dev_images",
    "test": "flickr8k_test_images",
}
"""Split of Flickr8k to the name of its list in the catalog."""


class Library:
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
        >>> library.captions("test").column_names
        ['caption_id', 'image_id', 'text']
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
        if data_dir is not None:
            mirror_folder(data_dir)  # refuses a folder that does not exist
        self.data_dir, self.restval_in_train = data_dir, restval_in_train
        self._offline, self._allow_modified, self._progress = offline, allow_modified, progress
        self._mined = tuple(map(Path, mined))
        self._labels = (labels,) if isinstance(labels, str | Path) else tuple(labels)
        self._contents: dict[object, object] = {}
        self._files: dict[str, str] = {}

    @property
    def catalog(self) -> Catalog:
        """The catalog of the mirror folder, if it has one, else the official catalog."""
        return catalog_of(self.data_dir)

    @property
    def edition(self) -> str:
        """``official``, ``sample``, or the name in the catalog of the mirror folder."""
        return self.catalog.edition

    @property
    def offline_reason(self) -> str:
        """Why downloads are off; empty if they are on."""
        return offline_reason(self._offline)

    @property
    def splits(self) -> tuple[str, ...]:
        """Splits that the available Karpathy files hold."""
        return tuple(self._karpathy())

    def karpathy(self, split: str) -> KarpathySplit:
        """Images and captions of a COCO split.

        Raises:
            UnknownName: there is no split of this name.
            DataError: the available raw files do not hold it; the message says which file does and where to get it.
        """
        return self._pick_split(self._karpathy(), split, "karpathy_coco")

    def images(self, split: str) -> pa.Table:
        """``image_id``, ``file_name``, ``folder`` of a split, in Karpathy order."""
        return self.karpathy(split).images

    def captions(self, split: str) -> pa.Table:
        """``caption_id``, ``image_id``, ``text`` of a split, in Karpathy order."""
        return self.karpathy(split).captions

    @property
    def has_flickr30k(self) -> bool:
        """Whether a file of the Flickr30k splits is on this machine."""
        names = ["flickr30k", *(f"karpathy_f30k_{raw}" for raw in RAW_SPLIT.values())]
        return any(self.has([name]) for name in names)

    @property
    def flickr30k_splits(self) -> tuple[str, ...]:
        """Splits that the available Flickr30k files hold."""
        return tuple(self._flickr30k())

    def flickr30k(self, split: str) -> KarpathySplit:
        """Images and captions of a Flickr30k split; errors are those of :meth:`karpathy`."""
        return self._pick_split(self._flickr30k(), split, "flickr30k")

    def flickr8k(self) -> pa.Table:
        """``caption_id``, ``image_id``, ``text`` of all of Flickr8k."""
        return self.once("flickr8k", lambda: readers.read_flickr8k(self._path("flickr8k_tokens")))

    @property
    def has_flickr8k(self) -> bool:
        """Whether the captions and split lists of Flickr8k are on this machine."""
        return self.has(("flickr8k_tokens", *FLICKR8K_LISTS.values()))

    @property
    def has_flickr8k_judged(self) -> bool:
        """Whether the human judgments of Flickr8k's test split are on this machine too."""
        return self.has_flickr8k and self.has(("flickr8k_crowd", "flickr8k_experts"))

    def flickr8k_split(self, split: str) -> KarpathySplit:
        """Images and captions of a Flickr8k split: 6,000 images in ``train``, 1,000 in ``validation`` and ``test``.

        Raises:
            DataError: there is no such split.
        """
        names = "flickr8k_tokens", *FLICKR8K_LISTS.values()
        splits = self.once(
            "flickr8k splits", lambda: readers.split_flickr8k([*map(self._path, names)], *FLICKR8K_LISTS)
        )
        if split not in splits:
            raise DataError(f"split {split!r} is not one of Flickr8k, which has {', '.join(splits)}")
        return splits[split]

    def flickr8k_votes(self) -> pa.Table:
        """``image_id``, ``caption_id``, ``yes``, ``no``: the crowd's votes on pairs of Flickr8k's test split.

        Raises:
            MalformedSource: among others, a pair outside the test split.
        """
        return self._read_people("flickr8k_crowd", readers.read_flickr8k_crowd)

    def flickr8k_ratings(self) -> pa.Table:
        """``image_id``, ``caption_id``, ``rating1``, ``rating2``, ``rating3``: experts' ratings from 1 to 4."""
        return self._read_people("flickr8k_experts", readers.read_flickr8k_experts)

    def _read_people(self, name: str, read: Callable[[Path], pa.Table]) -> pa.Table:
        def read_checked() -> pa.Table:
            path, content = self._path(name), self.flickr8k_split("test")
            table: pa.Table = read(path)
            for column, known in (("image_id", content.image_ids), ("caption_id", content.caption_ids)):
                what = "an id of Flickr8k's test split"
                require_known(path, np.asarray(table[column]), known, "line {line}", column, what)
            return table

        return self.once(name, read_checked)

    def cxc(self, kind: str, split: str) -> pa.Table:
        """CxC ratings of a split: ``left_id``, ``right_id``, ``rating``, ``sampling_method``.

        Raises:
            MalformedSource: the file is malformed, or has an id outside the split.
        """
        return self.once(("cxc", kind, split), lambda: self._read_ratings(kind, split))

    def annotators(self, kind: str, split: str) -> pa.Table | None:
        """CxC's ratings by single annotators; None if the file (``_raw.csv``) is missing, as it is never downloaded.

        Returns:
            ``left_id``, ``right_id``, ``rating``: one row per rating.
        """
        name = f"{kind}_{RAW_SPLIT[split]}_raw"
        return self._read_optional(name, lambda path: readers.read_annotators(path, kind))

    def eccv(self, labels: str, direction: str) -> pa.Table:
        """One of the six files of ECCV Caption: ``query_id``, ``item_id``.

        Args:
            labels: ``eccv``, ``cxc`` or ``original``.
            direction: ``i2t`` or ``t2i``.
        """
        return self.once(("eccv", labels, direction), lambda: self._read_positives(labels, direction))

    def fold_order(self) -> IntArray:
        """(25,000,) caption ids in the order from which COCO 1K cuts its five folds."""
        return self.once("fold_order", lambda: read_ids(self._path("coco_test_ids")))

    def categories(self, split: str) -> CategorySets:
        """Category presence of a split's images, in Karpathy order."""
        return self.once(("categories", split), lambda: self._read_categories(split))

    def instances(self, split: str, path: Path | None = None) -> Instances:
        """Annotations of COCO's images, with boxes if the full files are available, else as category sets.

        Args:
            split: the files that list its images are read; they may list images of other splits too.
            path: an annotation file of the user to read instead.
        """
        paths = self._coco_files(split) if path is None else [self._own_file("instances", path)]
        parts = [self.once(("instances", file), partial(readers.read_instances, file)) for file in paths]
        images, annotations = ([getattr(part, name) for part in parts] for name in ("images", "annotations"))
        return Instances(pa.concat_tables(images), pa.concat_tables(annotations))

    def visual_genome(self, objects: Path | None = None, image_data: Path | None = None) -> Instances:
        """Objects in the images that Visual Genome shares with COCO, by COCO's ids, from the user's files if named."""
        named = {"visual_genome_objects": objects, "visual_genome_image_data": image_data}
        files = [self._own_file(name, path) if path else self._path(name) for name, path in named.items()]
        return self.once(("visual_genome", *files), lambda: readers.read_visual_genome(files))

    def entailment(self, split: str) -> EntailmentPairs | None:
        """The user's entailment labels of a split, or None; the paper's labels were never released."""
        return self._read_optional(f"entailment_{RAW_SPLIT[split]}", readers.read_entailment)

    def flickr30k_entailment(self, split: str) -> EntailmentPairs | None:
        """The user's entailment labels of a Flickr30k split, or None."""
        return self._read_optional(f"entailment_f30k_{RAW_SPLIT[split]}", readers.read_entailment)

    def mined(self, split: str, collection: str = "coco") -> MinedPairs | None:
        """The weak positives of a split, or None if the library was opened without a file of them.

        Args:
            split: split of the collection.
            collection: ``coco`` or ``flickr30k``.

        Raises:
            DataError: two files are of one split, or a file was mined from other images or captions.
        """
        file = self.once("mined", self._read_mined).get((collection, split))
        if file is None:
            return None
        path, pairs = file
        remedy = "mine again with cxc-eccv mine"
        check = partial(self._check_pairs, path, pairs.table, pairs.facts, "mined from", remedy)
        self.once(("mined", collection, split), check)
        self._files[_name_mined(collection, split)] = sha256_of(path)
        return pairs

    @property
    def mined_files(self) -> dict[str, tuple[Path, MinedPairs]]:
        """Path and pairs of the files of weak positives, under their names in :meth:`files_used`."""
        return {_name_mined(*part): file for part, file in self.once("mined", self._read_mined).items()}

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the labels that the library was opened with, in their order.

        Raises:
            DataError: a file is missing or malformed, or two files hold labels of the same name and split.
        """
        return tuple(self.once("labels", self._read_labels))

    @property
    def table_names(self) -> tuple[str, ...]:
        """Those of them that are plain tables."""
        files = self.label_files.values()
        return tuple(name for name in self.label_names if any(file.is_plain and file.name == name for file in files))

    @property
    def label_files(self) -> dict[str, LabelFile]:
        """The label files that the library was opened with, under their names in :meth:`files_used`."""
        return {
            f"labels_{name}_{RAW_SPLIT[split]}": file
            for name, by_split in self.once("labels", self._read_labels).items()
            for split, file in by_split.items()
        }

    def labels(self, name: str, split: str) -> LabelFile | None:
        """The labels of a name for a split, or None if they are only of other splits.

        Raises:
            UnknownName: the library was opened without labels of this name.
            DataError: the labels are of other images or captions.
        """
        files = self.once("labels", self._read_labels)
        if name not in files:
            raise UnknownName("name of labels", name, files)
        file = files[name].get(split)
        if file is None:
            return None
        self.once(("labels", name, split), lambda: self.check_labels(file))
        self._files[f"labels_{name}_{RAW_SPLIT[split]}"] = sha256_of(file.path)
        return file

    def simplifications(self) -> pa.Table:
        """``normal``, ``simple``: sentences of English Wikipedia and their simplifications."""
        names = ("simplification_normal", "simplification_simple")
        return self.once("simplifications", lambda: readers.read_aligned([self._path(name) for name in names]))

    def invalid_ids(self, kind: str) -> IntArray:
        """Ids of the ``caption`` or ``image`` items that ECCV Caption removed as invalid."""
        table = self.once("invalid", readers.invalid_items)
        return np.array([row["id"] for row in table.to_pylist() if row["kind"] == kind], dtype=np.int64)

    def read(self, name: str, reader: Callable[[Path], Content]) -> Content:
        """Read a raw file of the catalog, downloaded and verified, once; for sources without their own method.

        Args:
            name: name in the catalog.
            reader: function from the path to the content.

        Raises:
            UnknownName: the catalog has no such file.
            DataError: the file is missing, modified or malformed.

        Example:
            >>> from cxc_eccv.sources.readers import read_positives
            >>> Library("sample").read("eccv_image_to_caption", read_positives).column_names
            ['query_id', 'item_id']
        """
        return self.once((name, reader), lambda: reader(self._path(name)))

    def has(self, names: Iterable[str]) -> bool:
        """Whether all these raw files are in the catalog and on this machine."""
        return all(name in self.catalog and self._locate(name) is not None for name in names)

    def files_used(self) -> dict[str, str]:
        """Catalog name to sha256 of every raw file read so far."""
        return dict(sorted(self._files.items()))

    def modified_files(self) -> dict[str, dict[str, str]]:
        """The raw files read so far that differ from the catalog, which only ``allow_modified`` permits.

        Returns:
            Catalog name to ``expected`` and ``found``, both sha256.
        """
        return self.catalog.modified(self._files)

    def fingerprint(self) -> str:
        """Hex sha256 over names and hashes of the raw files read so far."""
        return fingerprint_files(self._files)

    def once(self, key: object, read: Callable[[], Content]) -> Content:
        """Call ``read`` once for each key and keep the result, which must depend only on raw files.

        Example:
            >>> library = Library("sample")
            >>> library.once("answer", lambda: 42), library.once("answer", lambda: 43)
            (42, 42)
        """
        if key not in self._contents:
            self._contents[key] = read()
        return self._contents[key]  # type: ignore[return-value] # the key determines the type

    def _read_mined(self) -> dict[tuple[str, str], tuple[Path, MinedPairs]]:
        files: dict[tuple[str, str], tuple[Path, MinedPairs]] = {}
        for path in self._mined:
            pairs = readers.read_mined(path)
            part = pairs.collection, pairs.split
            if part in files:
                raise DataError(f"{files[part][0]} and {path} both hold weak positives of {pairs.split}: name only one")
            files[part] = path, pairs
        return files

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
        return {split: (content.image_ids, content.caption_ids) for split, content in self._karpathy().items()}

    def check_labels(self, file: LabelFile) -> None:
        """Refuse labels of other images or captions than those of this library with a DataError."""
        if file.is_plain:
            return
        remedy = "label the pairs of this data in a new project"
        self._check_pairs(file.path, file.table, file.facts, "labels of", remedy)

    def _check_pairs(self, path: Path, table: pa.Table, facts: Mapping[str, Any], what: str, remedy: str) -> None:
        """Refuse pairs of other images and captions than those of the split."""
        split, data = facts["split"], facts["data"]
        content = self.flickr30k(split) if facts["collection"] == "flickr30k" else self.karpathy(split)
        if data.get("content") != content.fingerprint:
            raise DataError(
                f"{path}: {what} the split {split!r} of edition {data.get('edition')}, with "
                f"{data.get('images')} images and {data.get('captions')} captions, but the data is of edition "
                f"{self.edition}, with {content.image_ids.size} images and {content.caption_ids.size} captions in that "
                "split. Choose the data that the file was made from (--data-dir), with restval folded into train or "
                f"not as before; or {remedy}."
            )
        for name, ids in (("image_id", content.image_ids), ("caption_id", content.caption_ids)):
            require_known(path, np.asarray(table[name]), ids, "row {row}", name, f"an id of the {split} split")

    def _own_file(self, name: str, path: Path) -> Path:
        """A file of the user, recorded under ``name`` as one that was read."""
        if not path.is_file():
            raise SourceMissing(f"{path} is not a file. Name the file with the annotations.")
        self._files[name] = sha256_of(path)
        return path

    def _read_optional(self, name: str, read: Callable[[Path], Content]) -> Content | None:
        """The content of a file that is never downloaded; None if it is missing."""
        return self.once(name, lambda: read(self._path(name))) if self.has([name]) else None

    def _locate(self, name: str) -> Path | None:
        return locate(name, self.data_dir, allow_modified=self._allow_modified)

    def _path(self, name: str) -> Path:
        path = fetch(
            name,
            self.data_dir,
            offline=self._offline,
            allow_modified=self._allow_modified,
            progress=self._progress,
        )
        self._files[name] = sha256_of(path)
        return path

    def _split_files(self, whole: str, parts: str) -> list[Path]:
        """The file with all splits if it is on this machine, else the files of single splits, else the download."""
        names = [whole] if self.has([whole]) else [f"{parts}_{raw}" for raw in RAW_SPLIT.values()]
        return [self._path(name) for name in names if self.has([name])] or [self._path(whole)]

    def _pick_split(self, splits: Mapping[str, KarpathySplit], split: str, whole: str) -> KarpathySplit:
        if split in splits:
            return splits[split]
        if split not in RAW_SPLIT:
            raise UnknownName("split", split, splits)
        if split == "restval" and self.restval_in_train:
            raise DataError(f"split 'restval' is folded into train; the splits are {', '.join(splits)}")
        entry, path = self.catalog.entry(whole), self._locate(whole)
        lacking = f"{entry.path}, which holds every split, is missing" if path is None else f"{path} is not complete"
        raise DataError(
            f"split {split!r} is not in the available files, which hold {', '.join(splits)}. {lacking}.\n"
            f"{where_from(entry, self.data_dir)}"
        )

    def _karpathy(self) -> dict[str, KarpathySplit]:
        splits = self.once("karpathy", lambda: readers.read_karpathy(self._split_files("karpathy_coco", "karpathy")))
        return self.once("folded", lambda: readers.fold_restval(splits)) if self.restval_in_train else splits

    def _flickr30k(self) -> dict[str, KarpathySplit]:
        return self.once("flickr30k", lambda: readers.read_karpathy(self._split_files("flickr30k", "karpathy_f30k")))

    def _ids(self, modality: str, split: str) -> IntArray:
        content = self.karpathy(split)
        return content.caption_ids if modality == "caption" else content.image_ids

    def _read_ratings(self, kind: str, split: str) -> pa.Table:
        path = self._path(f"{kind}_{RAW_SPLIT[split]}")
        table = readers.read_ratings(path, kind)
        for side, (name, modality) in zip(("left_id", "right_id"), readers.KINDS[kind], strict=True):
            place, expected = f"line {{line}}, column {name!r}", f"a {modality} of the {split} split"
            require_known(path, np.asarray(table[side]), self._ids(modality, split), place, "unknown id", expected)
        return table

    def _read_positives(self, labels: str, direction: str) -> pa.Table:
        names = ("image", "caption") if direction == "i2t" else ("caption", "image")
        path = self._path(f"{labels}_{names[0]}_to_{names[1]}")
        table = readers.read_positives(path)
        for column, modality in zip(("query_id", "item_id"), names, strict=True):
            known = self._ids(modality, "test")
            if column == "item_id" and modality == "caption":
                known = np.concatenate([known, self.karpathy("test").cut_caption_ids, readers.UNREACHABLE_CAPTIONS])
            what, expected = f"unknown {modality} id", f"a {modality} of the test split"
            require_known(path, np.asarray(table[column]), np.unique(known), column, what, expected)
        return table

    def _coco_files(self, split: str) -> list[Path]:
        """Full annotations of the folders with images of the split, or the split's category sets without them."""
        whole = [f"instances_{folder}" for folder in pc.unique(self.images(split)["folder"]).to_pylist()]
        derived = f"instances_karpathy_{RAW_SPLIT[split]}"
        use_derived = not self.has(whole) and self.has([derived])
        return [self._path(name) for name in ([derived] if use_derived else whole)]

    def _read_categories(self, split: str) -> CategorySets:
        images, paths = self.karpathy(split), self._coco_files(split)
        try:
            return CategorySets.join([readers.read_category_sets(path) for path in paths]).of(images.image_ids)
        except KeyError as error:
            files = ", ".join(map(str, paths))
            raise MalformedSource(files, "images", f"no image {error}", f"every image of the {split} split") from None


def _name_mined(collection: str, split: str) -> str:
    prefix = "mined" if collection == "coco" else f"mined_{collection}"
    return f"{prefix}_{RAW_SPLIT[split]}"
