"""Pairs without a label that a number of some runs needs, for a judge of the user's own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.calls import measure_request, split_key
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.writing import replaced_file, write_rows


def list_unjudged(runs: Iterable[Run], library: Library, *, number: str | None = None) -> pa.Table:
    """Every pair of test that Entail@K of these runs needs and that no source labels, once, by image and caption.

    With a ``probability`` for each row, the table is the value of ``judge`` of :func:`cxc_eccv.evaluate`.

    Args:
        runs: the runs.
        library: the raw sources.
        number: another number ``task/direction/metric``, such as ``coco_5k/t2i/recall_at_1``, whose pairs are listed.

    Returns:
        A table of ``image_id``, ``caption_id``, ``file_name``, ``captions`` (the image's own, joined by spaces) and
        ``caption``.
    """
    content = library.split("test")
    part, metric = split_key(number or "entailment/i2t/entail_at_k")
    request = Request(tasks=part, metrics=metric, bounds=True)
    needed = []
    for run in runs:
        for variant, measured in measure_request(run, request, library):
            unjudged = measured.find_unjudged(variant)
            needed.append((unjudged.images, unjudged.captions))
    images, captions = np.unique(np.concatenate(needed, axis=1), axis=1)
    return pa.table(
        {
            "image_id": images,
            "caption_id": captions,
            "file_name": content.files_of(images),
            "captions": pa.array(premises_of(content, images), pa.string()),
            "caption": content.texts_of(captions),
        }
    )


def write_unjudged(path: Path, pairs: pa.Table) -> Path:
    """Write pairs as Parquet, CSV or JSON lines; DataError if there are none."""
    if not pairs.num_rows:
        raise DataError("every pair that the runs retrieve has a label: there is nothing to judge")
    if path.suffix != ".parquet":
        return write_rows(path, pairs.to_pylist())
    with replaced_file(path) as part:
        write_parquet(pairs, part)
    return path
