"""The pairs of an evaluation that have no label: what a judge elsewhere must answer."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.builders.lookup import caption_texts, file_names
from cxc_eccv.errors import DataError
from cxc_eccv.evaluation import evaluate
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.types import IntArray
from cxc_eccv.writing import replaced_file, write_rows


def list_unjudged(runs: Iterable[Run], library: Library, split: str = "test") -> pa.Table:
    """Every pair that Entail@K of these runs needs and that no source labels, once, by image and caption.

    With a ``probability`` for each row, the table is the value of ``unjudged`` of :func:`cxc_eccv.evaluate`.

    Returns:
        A table of ``image_id``, ``caption_id``, ``file_name``, ``captions`` (the image's own, joined by spaces) and
        ``caption``.
    """
    asked = [np.empty((0, 2), dtype=np.int64)]

    def note(image_ids: IntArray, caption_ids: IntArray) -> NDArray[np.int64]:
        asked.append(np.stack([image_ids, caption_ids], axis=1).astype(np.int64))
        return np.zeros(image_ids.size, dtype=np.int64)

    for run in runs:
        evaluate(run, "entailment", data_dir=library, split=split, unjudged=note, confidence=None, progress=False)
    images, captions = np.unique(np.concatenate(asked), axis=0).T
    return pa.table(
        {
            "image_id": images,
            "caption_id": captions,
            "file_name": file_names(library, split, images),
            "captions": pa.array(premises_of(library.karpathy(split), images), pa.string()),
            "caption": caption_texts(library, split, captions),
        }
    )


def write_unjudged(path: Path, pairs: pa.Table) -> Path:
    """Write pairs as Parquet, CSV or JSON lines; DataError if there are none."""
    if not pairs.num_rows:
        raise DataError("every pair that the runs retrieve has a label: nothing is to judge")
    if path.suffix != ".parquet":
        return write_rows(path, pairs.to_pylist())
    with replaced_file(path) as part:
        write_parquet(pairs, part)
    return path
