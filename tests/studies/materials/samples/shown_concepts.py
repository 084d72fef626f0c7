"""Failures and what their images show, small enough to check by hand; no WordNet is needed."""

import numpy as np
import pandas as pd

from cxc_eccv.studies.explain.concepts import ImageConcepts
from cxc_eccv.studies.explain.failed_queries import Failures


def alike(names):
    """Some symmetric similarities, which need no WordNet."""
    lengths = np.array([len(name) for name in names])
    return 1 / (1 + np.abs(lengths[:, None] - lengths))


def failures_of(*rows, rivals=None):
    """Failures of captions 100, 101, ... out of (right image, retrieved image)."""
    truths, tops = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    queries = np.arange(100, 100 + len(rows))
    others = np.full((len(rows), 1), -1) if rivals is None else np.array(rivals)
    asked = pd.DataFrame({"query_id": queries, "truth_id": truths})
    return Failures("t2i", asked, failed_rows(queries, truths, tops), others)


def failed_rows(queries, truths, tops, items=None, ranks=None):
    """The rows of failures; the right item is at rank 2 unless there are ranks."""
    columns = {
        "query_id": queries,
        "truth_id": truths,
        "retrieved_id": tops,
        "item_id": tops if items is None else items,
    }
    ranks = [2] * len(queries) if ranks is None else ranks
    return pd.DataFrame(columns | {"truth_rank": pd.array(ranks, "Int64")})


def concepts_of(images, source="COCO instances", counted=True):
    shown = {
        image: {name: np.array(areas, dtype=float) for name, areas in own.items()} for image, own in images.items()
    }
    return ImageConcepts(source, "test", len(shown), shown, counted, {})


IMAGES = {
    1: {"dog.n.01": [0.2, 0.1], "frisbee.n.01": [0.05], "tree.n.01": [0.5]},
    2: {"dog.n.01": [0.1], "ball.n.01": [0.05]},
    3: {},
    4: {"dog.n.01": [0.4], "frisbee.n.01": [0.01], "tree.n.01": [0.5]},
    5: {"cat.n.01": [0.3]},
}
