"""CxC and ECCV Caption as mteb's retrieval datasets: configs, and the files of tasks and benchmark beside them.

mteb reads the configs ``<subset>-corpus``, ``<subset>-queries`` and ``<subset>-qrels``; a subset is a source and a
direction. All corpora and queries are two configs under several names, so that no caption or photograph is written
twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pyarrow as pa
import yaml
from datasets import Value

from cxc_eccv.builders.dataset_cards import TEMPLATES
from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, Rows
from cxc_eccv.judgments.merging import merged_qrels
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL, DIRECTIONS
from cxc_eccv.types.judgments import find_sides

MTEB_LAYOUT = "mteb"
"""Name of the layout."""

MTEB_SPLIT = "test"

SUBSETS = {f"eccv_caption-{direction}": f"ECCVCaption{direction.upper()}Retrieval" for direction in CROSS_MODAL}
SUBSETS |= {f"cxc-{direction}": f"CxC{direction.upper()}Retrieval" for direction in DIRECTIONS}
"""Subset to the name of its task in mteb, the one to look at first first."""

TASKS_FILE = "mteb_tasks.py"


def mteb_configs() -> list[DatasetConfig]:
    """Captions, images, and the positive pairs of every subset."""
    captions = DatasetConfig(
        name="captions",
        title="MS-COCO captions of the Karpathy test split",
        description="One row per caption: corpus or queries, exactly as COCO has them.",
        collection="MS-COCO, in the split of Karpathy and Li (2015).",
        columns={"id": (Value("string"), "COCO caption id"), "text": (Value("string"), "its text")},
        splits=(MTEB_SPLIT,),
        rows=_caption_rows,
        sources=("karpathy",),
        aliases=tuple(_list_names("captions")),
    )
    images = DatasetConfig(
        name="images",
        title="MS-COCO images of the Karpathy test split",
        description="One row per image: corpus or queries. mteb runs the tasks of images only with the photographs.",
        collection="MS-COCO, in the split of Karpathy and Li (2015).",
        columns={"id": (Value("string"), "COCO image id"), "file_name": (Value("string"), "COCO 2014 file name")},
        splits=(MTEB_SPLIT,),
        rows=_image_rows,
        sources=("karpathy",),
        aliases=tuple(_list_names("images")),
        photographs=True,
    )
    return [captions, images, *(_qrels(subset) for subset in SUBSETS)]


def _list_names(side: str) -> Iterator[str]:
    """The names under which mteb reads the queries and corpora of a modality."""
    for subset in SUBSETS:
        for part, modality in zip(("queries", "corpus"), find_sides(subset[-3:]), strict=True):
            if modality == side:
                yield f"{subset}-{part}"


def _qrels(subset: str) -> DatasetConfig:
    source, direction = subset.rsplit("-", 1)
    is_cxc = source == "cxc"
    return DatasetConfig(
        name=f"{subset}-qrels",
        title=f"Positive pairs of {'Crisscrossed Captions' if is_cxc else 'ECCV Caption'}, {direction}",
        description="One row per query and item of the corpus that is positive for it. Other pairs are unjudged or "
        "negative. Queries without a positive have no row."
        + (" A query is no candidate for itself." if direction in ("t2t", "i2i") else ""),
        collection="Original COCO links, and pairs rated 3 or higher (image pairs 2.5) by the annotators of "
        "Crisscrossed Captions (Parekh et al., 2021)."
        if is_cxc
        else "Pairs that models proposed and people verified (Chun et al., 2022).",
        columns={
            "query-id": (Value("string"), "id of the query"),
            "corpus-id": (Value("string"), "id of the item"),
            "score": (Value("int32"), "1"),
        },
        splits=(MTEB_SPLIT,),
        rows=partial(_cxc_rows if is_cxc else _eccv_rows, direction),
        sources=("karpathy", source),
        defects=() if is_cxc else ("Two positive captions are not in the corpus. They count towards R.",),
    )


def _caption_rows(split: Split, options: BuildOptions) -> Rows:
    return Rows(pa.table({"id": _text(split.caption_ids), "text": split.captions["text"]}))


def _image_rows(split: Split, options: BuildOptions) -> Rows:
    return Rows(pa.table({"id": _text(split.image_ids), "file_name": split.images["file_name"]}))


def _cxc_rows(direction: str, split: Split, options: BuildOptions) -> Rows:
    judged = merged_qrels(split, direction, policy=options.policy, thresholds=options.thresholds)
    return _pairs(judged.query_ids[judged.rows], judged.gallery_ids[judged.indices])


def _eccv_rows(direction: str, split: Split, options: BuildOptions) -> Rows:
    table = split.eccv("eccv", direction)
    return _pairs(np.asarray(table["query_id"]), np.asarray(table["item_id"]))


def _pairs(queries: np.ndarray, items: np.ndarray) -> Rows:
    scores = np.ones(queries.size, dtype=np.int32)
    return Rows(pa.table({"query-id": _text(queries), "corpus-id": _text(items), "score": scores}))


def _text(ids: np.ndarray) -> pa.Array:
    return pa.array(ids).cast(pa.string())


DESCRIPTION = (
    "Image-caption retrieval on MS-COCO with the labels that correct its false negatives. ECCV Caption is ranked by "
    "mAP@R, Crisscrossed Captions by recall at 1 (hit_rate_at_1 in mteb); both are fractions."
)


TEXT_TASKS = [name for subset, name in SUBSETS.items() if subset.endswith("t2t")]

WITHOUT_PHOTOGRAPHS = (
    f"without photographs, mteb can run {' and '.join(TEXT_TASKS)} only; for the other tasks build again with --images "
    "FOLDER"
)


def mteb_files(*, is_benchmark: bool) -> dict[str, str]:
    """File name to text: the tasks in Python for mteb, and of a benchmark its ``eval.yaml`` for the Hub."""
    files = {TASKS_FILE: (TEMPLATES / TASKS_FILE).read_text(encoding="utf-8")}
    if not is_benchmark:
        return files
    benchmark = {
        "name": "CxC and ECCV Caption",
        "description": DESCRIPTION,
        "evaluation_framework": "mteb",
        "tasks": [{"id": name, "config": f"{subset}-qrels", "split": MTEB_SPLIT} for subset, name in SUBSETS.items()],
    }
    return files | {"eval.yaml": str(yaml.safe_dump(benchmark, sort_keys=False, width=100))}
