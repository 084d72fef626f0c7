"""The real test split on the labels of COCO, CxC, ECCV Caption and a file together, by dicts and sets."""

from collections import defaultdict

import numpy as np
import pyarrow.compute as pc
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


def expected_values(order, positives, gallery):
    """(query, metric) to its value, of queries that have a positive."""
    values = {}
    for query, ranking in order.items():
        right = positives[query] & gallery
        if not right:
            continue
        hits = [item in right for item in ranking[: max(10, len(right))]]
        for k in (1, 5, 10):
            values[query, f"recall_at_{k}"] = float(any(hits[:k]))
        within = hits[: len(right)]
        precisions = [sum(within[:place]) / place for place in range(1, len(within) + 1) if within[place - 1]]
        values[query, "r_precision"] = sum(within) / len(right)
        values[query, "map_at_r"] = sum(precisions) / len(right)
    return values


def reported_values(report, task, direction):
    """(query, metric) to its value in a report."""
    rows = report.per_query.filter((pc.field("task") == task) & (pc.field("direction") == direction))
    names = zip(rows["query_id"].to_pylist(), rows["metric"].to_pylist(), strict=True)
    return dict(zip(names, rows["value"].to_pylist(), strict=True))


def mean_of(values, metric):
    return np.mean([value for (_, name), value in values.items() if name == metric])


@pytest.fixture(scope="module")
def orders(data):
    """Direction to the first items among the whole gallery of the queries that ECCV Caption verified."""
    library, _, scores = data
    content = library.karpathy("test")
    images, captions = content.image_ids, content.caption_ids
    verified = {d: library.eccv("eccv", d)["query_id"].to_numpy() for d in ("i2t", "t2i")}
    rows = np.flatnonzero(np.isin(images, verified["i2t"])), np.flatnonzero(np.isin(captions, verified["t2i"]))
    return {
        "i2t": tops(scores, rows[0], np.arange(captions.size), images, captions),
        "t2i": tops(scores.T, rows[1], np.arange(images.size), captions, images),
    }


def evaluate(run, data, tasks, metrics=("recall_at_k", "r_precision", "map_at_r")):
    options = {"metrics": metrics, "sources": SOURCES, "progress": False, "confidence": None, "per_query": True}
    return ce.evaluate(run, tasks, data_dir=data[0], **options)


@pytest.mark.parametrize("kind", ["embeddings", "scores", "rankings"])
def test_coco_5k_cxc_and_eccv_caption(data, positives, orders, kind):
    library, run, scores = data
    content = library.karpathy("test")
    sizes = {"coco_5k": (5_000, 25_000), "cxc": (5_000, 25_000), "eccv_caption": (1_261, 1_332)}
    if kind == "scores":
        run = ScoresRun(content.image_ids, content.caption_ids, scores)
    if kind == "rankings":  # of the verified queries alone
        run, sizes = RankingsRun.from_dicts(orders["i2t"], orders["t2i"]), {"eccv_caption": sizes["eccv_caption"]}
    report = evaluate(run, data, [f"{task}/{direction}" for task in sizes for direction in orders])
    galleries = {"i2t": set(content.caption_ids.tolist()), "t2i": set(content.image_ids.tolist())}
    for side, (direction, order) in enumerate(orders.items()):
        reachable = expected_values(order, positives[direction], galleries[direction])
        # What ECCV Caption verified counts though it is not in the gallery.
        verified = expected_values(order, positives[direction], set().union(*positives[direction].values()))
        assert len(reachable) == len(order) * len(METRICS)
        for task, queries in sizes.items():
            values = reported_values(report, task, direction)
            expected = verified if task == "eccv_caption" else reachable
            assert len(values) == queries[side] * len(METRICS)
            assert {key: values[key] for key in expected} == pytest.approx(expected, abs=1e-9), (task, direction)
            for metric in METRICS:
                mean = report.scores[f"{task}/{direction}/{metric}"]
                assert mean == pytest.approx(mean_of(values, metric), abs=1e-9)
                assert 0.001 < mean < 0.999


@pytest.mark.parametrize("kind", ["embeddings", "scores"])
def test_coco_1k_keeps_positives_of_a_query_s_own_fold(data, positives, kind):
    library, run, scores = data
    content, order = library.karpathy("test"), library.fold_order()
    if kind == "scores":
        run = ScoresRun(content.image_ids, content.caption_ids, scores)
    report = evaluate(run, data, "coco_1k", ["recall_at_k", "r_precision", "map_at_r"])
    row_of = {caption: row for row, caption in enumerate(content.caption_ids.tolist())}
    place_of = {image: row for row, image in enumerate(content.image_ids.tolist())}
    reported = {direction: reported_values(report, "coco_1k", direction) for direction in ("i2t", "t2i")}
    means = {direction: {metric: [] for metric in METRICS} for direction in reported}
    for fold in np.split(order, 5):
        columns = np.array([row_of[caption] for caption in fold.tolist()])
        rows = np.array(sorted({place_of[image] for image in content.caption_image_ids[columns].tolist()}))
        assert (rows.size, columns.size) == (1_000, 5_000)
        images, captions = content.image_ids, content.caption_ids
        for direction, asked, ranked, gallery in (
            ("i2t", images[rows], tops(scores, rows[::5], columns, images, captions), captions[columns]),
            ("t2i", captions[columns], tops(scores.T, columns[::25], rows, captions, images), images[rows]),
        ):
            values = reported[direction]
            expected = expected_values(ranked, positives[direction], set(gallery.tolist()))
            assert {key: values[key] for key in expected} == pytest.approx(expected, abs=1e-9)
            for metric, of_folds in means[direction].items():
                of_folds.append(np.mean([values[query, metric] for query in asked.tolist()]))
    for direction, of_metrics in means.items():
        for metric, folds in of_metrics.items():
            assert report.scores[f"coco_1k/{direction}/{metric}"] == pytest.approx(np.mean(folds), abs=1e-9)
