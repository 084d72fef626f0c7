"""The real test split on the labels of COCO, CxC, ECCV Caption and a file together, by dicts and sets."""

from collections import defaultdict

import numpy as np
import pytest
from label_files import label_facts, label_table

import cxc_eccv as ce
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import write_labels
from cxc_eccv.types import Embeddings

SOURCES = ("coco", "cxc", "eccv", "mine")
METRICS = ("recall_at_1", "recall_at_5", "recall_at_10", "r_precision", "map_at_r")
DEPTH = 400
"""More than the largest R under all labels."""


@pytest.fixture(scope="module")
def data(real_library, tmp_path_factory):
    """A library with a made label file, a run that is neither right nor wrong everywhere, and its scores."""
    random, content = np.random.default_rng(0), real_library.karpathy("test")
    images = random.standard_normal((content.image_ids.size, 24))
    owner = np.searchsorted(np.sort(content.image_ids), content.caption_image_ids)
    captions = images[np.argsort(content.image_ids)[owner]] + 1.5 * random.standard_normal(
        (content.caption_ids.size, 24)
    )
    unit = [vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (images, captions)]
    scores = (unit[0] @ unit[1].T).astype(np.float32)
    # People are asked about what stands high, as well as about what does not.
    high = np.argpartition(-scores, 12, axis=1)[::3, :12]
    rows = np.repeat(np.arange(0, len(scores), 3), 12)
    drawn = random.integers(0, len(scores), 4_000), random.integers(0, scores.shape[1], 4_000)
    pairs = np.unique(np.stack([np.append(rows, drawn[0]), np.append(high.ravel(), drawn[1])], axis=1), axis=0)
    table = label_table(
        np.stack([content.image_ids[pairs[:, 0]], content.caption_ids[pairs[:, 1]]], axis=1),
        random.choice([0, 0.5, 1], len(pairs), p=[0.7, 0.1, 0.2]),
    )
    file = tmp_path_factory.mktemp("labels") / "mine.parquet"
    write_labels(file, table, label_facts(real_library))
    run = EmbeddingsRun(Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions))
    return Library(real_library.data_dir, offline=True, labels=[file]), run, scores


@pytest.fixture(scope="module")
def positives(data):
    """Direction to query to its positives, as sets."""
    library, content = data[0], data[0].karpathy("test")
    mine = [row for row in library.labels("mine", "test").table.to_pylist() if row["positive"]]
    rated = [row for row in library.cxc("sits", "test").to_pylist() if row["rating"] >= 3]
    pairs = list(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    pairs += [(row["right_id"], row["left_id"]) for row in rated]
    pairs += [(row["image_id"], row["caption_id"]) for row in mine]
    found = {"i2t": defaultdict(set), "t2i": defaultdict(set)}
    for image, caption in pairs:
        found["i2t"][image].add(caption)
        found["t2i"][caption].add(image)
    for direction, own in found.items():
        for row in library.eccv("eccv", direction).to_pylist():
            own[row["query_id"]].add(row["item_id"])
    return found


def tops(scores, rows, columns, query_ids, item_ids):
    """Query to its items of some columns in their order, the first ones alone."""
    found = {}
    for row in rows:
        own = scores[row, columns]
        first = np.argpartition(-own, min(DEPTH, own.size - 1))[:DEPTH]
        order = first[np.argsort(-own[first], kind="stable")]
        found[int(query_ids[row])] = item_ids[columns[order]].tolist()
    return found


def means(order, positives, gallery, *, unreachable=False):
    """Metric to the list of its values over queries that have a positive."""
    values = {metric: [] for metric in METRICS}
    for query, ranking in order.items():
        right = positives[query] if unreachable else positives[query] & gallery
        if not right:
            continue
        hits = [item in right for item in ranking[: max(10, len(right))]]
        for k in (1, 5, 10):
            values[f"recall_at_{k}"].append(float(any(hits[:k])))
        within = hits[: len(right)]
        found = [sum(within[:place]) / place for place in range(1, len(within) + 1) if within[place - 1]]
        values["r_precision"].append(sum(within) / len(right))
        values["map_at_r"].append(sum(found) / len(right))
    return values


@pytest.fixture(scope="module")
def orders(data):
    """Direction to every query's first items among the whole gallery."""
    library, _, scores = data
    content = library.karpathy("test")
    images, captions = content.image_ids, content.caption_ids
    return {
        "i2t": tops(scores, range(images.size), np.arange(captions.size), images, captions),
        "t2i": tops(scores.T, range(captions.size), np.arange(images.size), captions, images),
    }


def evaluate(run, data, tasks, metrics=("recall_at_k", "r_precision", "map_at_r")):
    options = {"metrics": metrics, "sources": SOURCES, "progress": False, "confidence": None}
    return ce.evaluate(run, tasks, data_dir=data[0], **options)


@pytest.mark.parametrize("kind", ["embeddings", "scores", "rankings"])
def test_coco_5k_cxc_and_eccv_caption(data, positives, orders, kind):
    library, run, scores = data
    content = library.karpathy("test")
    if kind == "scores":
        run = ScoresRun(content.image_ids, content.caption_ids, scores)
    if kind == "rankings":
        run = RankingsRun.from_dicts(orders["i2t"], orders["t2i"])
    report = evaluate(run, data, ["coco_5k", "cxc/i2t", "cxc/t2i", "eccv_caption"])
    galleries = {"i2t": set(content.caption_ids.tolist()), "t2i": set(content.image_ids.tolist())}
    for direction, order in orders.items():
        whole = means(order, positives[direction], galleries[direction])
        asked = set(library.eccv("eccv", direction)["query_id"].to_pylist())
        of_eccv = {query: ranking for query, ranking in order.items() if query in asked}
        verified = means(of_eccv, positives[direction], galleries[direction], unreachable=True)
        assert len(whole["map_at_r"]) == len(order)
        for name, values in (("coco_5k", whole), ("cxc", whole), ("eccv_caption", verified)):
            for metric, own in values.items():
                found = report.scores[f"{name}/{direction}/{metric}"]
                assert found == pytest.approx(np.mean(own), abs=1e-9), (name, direction, metric)
                assert 0.001 < found < 0.999
    sizes = {(row.task, row.direction): row.n_queries for row in report.results}
    assert (sizes["eccv_caption", "i2t"], sizes["eccv_caption", "t2i"]) == (1_261, 1_332)


@pytest.mark.parametrize("kind", ["embeddings", "scores"])
def test_coco_1k_keeps_positives_of_a_query_s_own_fold(data, positives, kind):
    library, run, scores = data
    content, order = library.karpathy("test"), library.fold_order()
    if kind == "scores":
        run = ScoresRun(content.image_ids, content.caption_ids, scores)
    report = evaluate(run, data, "coco_1k", ["recall_at_k", "r_precision", "map_at_r"])
    row_of = {caption: row for row, caption in enumerate(content.caption_ids.tolist())}
    place_of = {image: row for row, image in enumerate(content.image_ids.tolist())}
    values = {direction: {metric: [] for metric in METRICS} for direction in ("i2t", "t2i")}
    for fold in np.split(order, 5):
        columns = np.array([row_of[caption] for caption in fold.tolist()])
        rows = np.array(sorted({place_of[image] for image in content.caption_image_ids[columns].tolist()}))
        assert (rows.size, columns.size) == (1_000, 5_000)
        images, captions = content.image_ids, content.caption_ids
        for direction, ranked, gallery in (
            ("i2t", tops(scores, rows, columns, images, captions), set(captions[columns].tolist())),
            ("t2i", tops(scores.T, columns, rows, captions, images), set(images[rows].tolist())),
        ):
            for metric, own in means(ranked, positives[direction], gallery).items():
                values[direction][metric].append(np.mean(own))
    for direction, of_metrics in values.items():
        for metric, folds in of_metrics.items():
            assert report.scores[f"coco_1k/{direction}/{metric}"] == pytest.approx(np.mean(folds), abs=1e-9)
