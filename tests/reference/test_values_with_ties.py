"""Every value of every query of a run full of ties, on the official test split, computed again from the raw files.

Nothing of the package takes part in the second computation: the labels are read from the raw files, a query's items are
sorted by falling score with tied positives last, and the values are read off the places of the positives.
"""

import csv
import json
import re
from collections import defaultdict

import numpy as np
import pyarrow.parquet as pq
import pytest

import cxc_eccv as ce
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

pytestmark = [pytest.mark.reference, pytest.mark.slow]

BETWEEN = ("i2t", "t2i")
PARTS = {
    "co_captions": ("t2t",),
    "coco_1k": BETWEEN,
    "coco_5k": BETWEEN,
    "cxc": (*BETWEEN, "t2t", "i2i"),
    "cxc_rated": BETWEEN,
    "eccv_caption": BETWEEN,
}
N_VALUES = 652_045
"""Values of these tasks in a report on the test split; docs/trust.md names it."""


class RawFiles:
    """The labels as the raw files have them, by task and direction: query to positives."""

    def __init__(self, library):
        self.path = library.path
        splits = "karpathy_test" if library.has(["karpathy_test"]) else "karpathy_coco"
        images = json.loads(self.path(splits).read_text())["images"]
        tested = [image for image in images if image["split"] == "test"]
        self.captions_of = {image["cocoid"]: image["sentids"][:5] for image in tested}
        self.image_of = {caption: image for image, captions in self.captions_of.items() for caption in captions}
        self.ids = {"i": np.array([*self.captions_of]), "t": np.array([*self.image_of])}

    def rated(self, kind, threshold):
        """Pairs of a file of Crisscrossed Captions that are rated as high as this."""
        with self.path(f"{kind}_test").open() as file:
            for left, right, rating, _ in list(csv.reader(file))[1:]:
                if float(rating) >= threshold:
                    yield (int(re.search(r"(\d+)(\.jpg)?$", side)[1]) for side in (left, right))

    def links(self, direction):
        if direction == "i2t":
            return {image: set(captions) for image, captions in self.captions_of.items()}
        if direction == "t2i":
            return {caption: {image} for caption, image in self.image_of.items()}
        if direction == "t2t":
            return {one: set(self.captions_of[image]) - {one} for one, image in self.image_of.items()}
        return {}

    def ratings(self, direction):
        positives = defaultdict(set)
        kind = {"t2t": "sts", "i2i": "sis"}.get(direction, "sits")
        for left, right in self.rated(kind, 2.5 if kind == "sis" else 3):
            if direction != "i2t":
                positives[left].add(right)
            if direction != "t2i":
                positives[right].add(left)
        return positives

    def eccv(self, direction):
        name = {"i2t": "image_to_caption", "t2i": "caption_to_image"}[direction]
        labels = json.loads(self.path(f"eccv_{name}").read_text())
        return {int(query): set(items) for query, items in labels.items()}

    def positives(self, task, direction):
        if task == "eccv_caption":
            return self.eccv(direction)
        if task == "cxc_rated":
            return self.ratings(direction)
        links = self.links(direction)
        if task != "cxc":
            return links
        rated = self.ratings(direction)
        return {query: links.get(query, set()) | rated[query] for query in links.keys() | rated.keys()}

    def folds(self):
        """Side to the fold of each of its ids: five of 5,000 captions in the order of the file."""
        captions = np.load(self.path("coco_test_ids")).tolist()
        of_caption = {caption: place // 5_000 for place, caption in enumerate(captions)}
        of_image = {self.image_of[caption]: fold for caption, fold in of_caption.items()}
        return {"i": of_image, "t": of_caption}


def whole_numbers(raw, seed=0):
    """Vectors of small whole numbers, whose products are exact and tie often; equal captions have equal vectors."""
    random = np.random.default_rng(seed)
    images = random.integers(-2, 3, (raw.ids["i"].size, 12)).astype(np.int16)
    places = {int(image): place for place, image in enumerate(raw.ids["i"])}
    captions = images[[places[raw.image_of[int(caption)]] for caption in raw.ids["t"]]].copy()
    captions += random.integers(-1, 2, captions.shape).astype(np.int16)
    return {"i": images, "t": captions}


def places_of(positives, scores, ids, allowed):
    """Places of the positives among the allowed items: score descending, a tied positive last."""
    items = ids[allowed]
    positive = np.isin(items, list(positives))
    order = np.argsort(-2 * scores[allowed] + positive, kind="stable")
    return np.flatnonzero(positive[order]) + 1


def values_of(places, n_positives):
    """Metric to value from the places of the positives; those outside the gallery count in R."""
    within = places[places <= n_positives]
    precisions = np.arange(1, within.size + 1) / within
    return {
        **{f"recall_at_{k}": float(places[0] <= k) for k in (1, 5, 10)},
        "median_rank": float(places[0]),
        "r_precision": within.size / n_positives,
        "map_at_r": float(precisions.sum() / n_positives),
    }


def values_of_part(raw, vectors, task, direction):
    """Query to metric to value."""
    query_ids, ids = (raw.ids[side] for side in (direction[0], direction[-1]))
    queries, items = (vectors[side] for side in (direction[0], direction[-1]))
    folds = raw.folds() if task == "coco_1k" else {"i": {}, "t": {}}
    item_folds = np.array([folds[direction[-1]].get(item, 0) for item in ids.tolist()])
    positives = raw.positives(task, direction)
    found = {}
    for query, vector in zip(query_ids.tolist(), queries, strict=True):
        if not positives.get(query):
            continue
        allowed = item_folds == folds[direction[0]].get(query, 0)
        if direction in ("t2t", "i2i"):
            allowed &= ids != query
        places = places_of(positives[query], items @ vector, ids, allowed)
        found[query] = values_of(places, len(positives[query]))
    return found


def test_every_value_equals_plain_sorting(real_library, tmp_path):
    raw = RawFiles(real_library)
    vectors = whole_numbers(raw)
    run = EmbeddingsRun(*(Embeddings(raw.ids[side], vectors[side].astype(np.float32)) for side in "it"))
    parts = [f"{task}/{direction}" for task, directions in PARTS.items() for direction in directions]
    report = ce.evaluate(run, parts, data_dir=real_library, similarity="dot", confidence=None, per_query=True)
    assert min(row.ties for row in report.results if row.key.endswith("i2t/recall_at_1")) > 1_000
    report.save(tmp_path)
    table = pq.read_table(tmp_path / "per_query.parquet").to_pandas()
    n_equal = 0
    for (task, direction), part in table.groupby(["task", "direction"], observed=True):
        expected = values_of_part(raw, vectors, task, direction)
        assert set(part["query_id"]) == set(expected)
        for query, metric, value in part[["query_id", "metric", "value"]].itertuples(index=False):
            assert value == pytest.approx(expected[query][metric], rel=0, abs=1e-12), (task, direction, query, metric)
            n_equal += 1
    assert n_equal == N_VALUES
