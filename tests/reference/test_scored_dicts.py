"""Dicts of scores are scored as ir_measures scores them once ties are broken by our rule, and as plain loops do."""

import gzip
import json

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.runs import RankingsRun
from cxc_eccv.runs.rankings import write_rankings
from cxc_eccv.types import find_sides

pytestmark = pytest.mark.reference

ir_measures = pytest.importorskip("ir_measures", reason="the ir_measures package is not installed")

SHALLOW = ("recall_at_1", "recall_at_5", "recall_at_10")
DEEPEST_R = 48


def find_positives(split, task, direction):
    """Query to its positives, from the raw links or the raw labels of ECCV Caption."""
    positives = {}
    if task == "coco_5k":
        pairs = zip(split.caption_image_ids.tolist(), split.caption_ids.tolist(), strict=True)
        for image, caption in pairs:
            query, item = (image, caption) if direction == "i2t" else (caption, image)
            positives.setdefault(query, set()).add(item)
        return positives
    for row in split.eccv("eccv", direction).to_pylist():
        positives.setdefault(row["query_id"], set()).add(row["item_id"])
    return positives


def draw_run(split, direction, seed, depth, queries=None):
    """Scores of two digits of ``depth`` random items and of most links, in random order; many tie."""
    random = np.random.default_rng(seed)
    every_query, items = (split.ids(side).tolist() for side in find_sides(direction))
    links = find_positives(split, "coco_5k", direction)
    run = {}
    for query in every_query if queries is None else queries:
        drawn = random.choice(items, depth, replace=False).tolist()
        found = [item for item in sorted(links[query]) if item not in drawn and random.random() < 0.7]
        drawn[: len(found)] = found
        row = {}
        for item in random.permutation(drawn).tolist():
            row[item] = round(random.random() + 0.3 * (item in links[query]), 2)
        run[query] = row
    return run


def order_by_our_rule(row, positives):
    """Score descending; of equal scores, positives last."""
    return sorted(row, key=lambda item: (-row[item], item in positives))


def find_map_at_r(ordered, positives):
    """mAP@R in a plain loop."""
    total = 0.0
    found = 0
    for rank, item in enumerate(ordered[: len(positives)], 1):
        if item in positives:
            found += 1
            total += found / rank
    return total / len(positives)


def score_with_peers(run, positives):
    """Recalls and R-Precision by ir_measures, mAP@R by a loop: means over the queries with positives."""
    ordered = {query: order_by_our_rule(run[query], own) for query, own in positives.items()}
    qrels = [ir_measures.Qrel(str(query), str(item), 1) for query, own in positives.items() for item in own]
    docs = [
        ir_measures.ScoredDoc(str(query), str(item), float(-rank))
        for query, row in ordered.items()
        for rank, item in enumerate(row)
    ]
    measures = {label: ir_measures.Success @ int(label.rpartition("_")[2]) for label in SHALLOW}
    measures["r_precision"] = ir_measures.Rprec
    theirs = ir_measures.calc_aggregate(measures.values(), qrels, docs)
    values = {label: theirs[measure] for label, measure in measures.items()}
    values["map_at_r"] = float(np.mean([find_map_at_r(ordered[query], own) for query, own in positives.items()]))
    return values


def assert_equal_to_peers(report, run, split, direction, task):
    values = score_with_peers(run, find_positives(split, task, direction))
    expected = {f"{task}/{direction}/{label}": value for label, value in values.items()}
    ours = {key: value for key, value in report.scores.items() if key in expected}
    assert len(ours) >= len(SHALLOW)
    assert ours == pytest.approx({key: expected[key] for key in ours}, abs=1e-12)


OPTIONS = {"confidence": None, "progress": False}
METRICS = [*SHALLOW, "r_precision", "map_at_r"]


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("seed", range(4))
def test_scored_dicts_equal_ir_measures(seed, direction, sample_library):
    split = sample_library.split("test")
    run = draw_run(split, direction, seed, depth=40 if seed else 60)
    tasks = ["coco_5k", "eccv_caption"]
    report = ce.evaluate(run, tasks, direction=direction, data_dir=sample_library, metrics=METRICS, **OPTIONS)
    for task in tasks:
        assert_equal_to_peers(report, run, split, direction, task)


@pytest.mark.parametrize(
    ("task", "depth", "metrics"),
    [pytest.param("coco_5k", 10, SHALLOW, marks=pytest.mark.slow), ("eccv_caption", DEEPEST_R, tuple(METRICS))],
)
def test_forms_of_real_runs_equal_ir_measures(task, depth, metrics, real_library, tmp_path):
    """Cut dicts with many ties, as JSON, gzipped JSON and Parquet too, on the official labels."""
    split = real_library.split("test")
    dicts = {}
    for direction in ("i2t", "t2i"):
        dicts[direction] = draw_run(split, direction, 7, depth, find_positives(split, task, direction))
    text = json.dumps(dicts)
    (tmp_path / "run.json").write_text(text)
    (tmp_path / "run.json.gz").write_bytes(gzip.compress(text.encode(), 1))
    write_rankings(tmp_path / "run.parquet", RankingsRun.from_dicts(**dicts))
    options = {"data_dir": real_library, "metrics": metrics, **OPTIONS}
    report = ce.evaluate(**dicts, tasks=task, **options)
    for direction, run in dicts.items():
        assert_equal_to_peers(report, run, split, direction, task)
    for name in ("run.json", "run.json.gz", "run.parquet"):
        other = ce.evaluate(tmp_path / name, task, **options)
        assert (other.scores, other.skipped) == (report.scores, report.skipped)
        assert [row.ties for row in other.results] == [row.ties for row in report.results]
    assert max(row.ties for row in report.results) > 100
