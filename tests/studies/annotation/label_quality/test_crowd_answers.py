"""ECCV Caption's raw answers, in a file of their form: labels, judged items, label quality, and models' lists."""

import csv

import numpy as np
import pytest

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.evaluation import evaluate
from cxc_eccv.evaluation.relabelling import relabel
from cxc_eccv.judgments.merging import merge
from cxc_eccv.registry import task
from cxc_eccv.runs import ScoresRun
from cxc_eccv.runs.eccv_model_rankings import read_machine_lists
from cxc_eccv.runs.rankings import write_rankings
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import UNREACHABLE_CAPTIONS
from cxc_eccv.studies.annotation.label_quality.appraisal import AppraisalRequest, appraise
from cxc_eccv.tasks.task import NotApplicable

HEADER = "model,ranking,score,cid,iid,annotation,shortcoming,shortcoming2"
MODELS = ("PVSE", "VSRN", "PCME", "ViLT", "CLIP")
DEPTH = 25
QUIET = {"intervals": "none", "progress": False}


@pytest.fixture(scope="module")
def split(sample_library):
    return sample_library.split("test")


def queries_of(split, direction):
    return sorted(set(split.eccv("eccv", direction)["query_id"].to_pylist()))


@pytest.fixture(scope="module")
def lists(split):
    """Model and direction to the ranked items of every query of ECCV Caption."""
    rng = np.random.default_rng(0)
    galleries = {"i2t": split.caption_ids, "t2i": split.image_ids}
    return {
        (model, way): {query: rng.permutation(galleries[way])[:DEPTH].tolist() for query in queries_of(split, way)}
        for model in MODELS
        for way in galleries
    }


@pytest.fixture(scope="module")
def rows(lists):
    """Rows of one file: a pair has one annotation, but for every 40th row, which contradicts an earlier one."""
    rng = np.random.default_rng(1)
    answers = {}
    rows = []
    for (model, way), ranked in lists.items():
        for query, items in ranked.items():
            for rank, item in enumerate(items, start=1):
                image, caption = (query, item) if way == "i2t" else (item, query)
                said = answers.setdefault((image, caption), int(rng.integers(1, 5)))
                said = 5 - said if len(rows) % 40 == 39 else said
                rows.append([model, rank, 0.5, caption, image, said, "", ""])
    return rows


def write(path, rows, header=HEADER):
    with path.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([header.split(","), *rows])
    return path


@pytest.fixture(scope="module")
def path(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("crowd")
    extra = [["CLIP", 1, 0.5, "n/a", rows[0][4], 1, "", ""], ["CLIP", 2, 0.5, UNREACHABLE_CAPTIONS[0], 1, 4, "", ""]]
    return write(folder / "mturk_parsed.csv", [*rows, *extra])


@pytest.fixture(scope="module")
def library(path):
    return Library("sample", labels=path)


@pytest.fixture(scope="module")
def said(rows):
    """Pair of image and caption to whether any of its rows is 1 or 2: its authors' reader, by hand."""
    pairs = {}
    for _, _, _, caption, image, annotation, _, _ in rows:
        pairs[image, caption] = pairs.get((image, caption), False) or annotation in (1, 2)
    return pairs


def test_pair_matches_if_any_row_says_so(library, said, split, rows):
    merged = merge(library.split("test"), "i2t", sources=["mturk_parsed"])
    ids = zip(merged.query_ids[merged.queries].tolist(), merged.gallery_ids[merged.items].tolist(), strict=True)
    assert dict(zip(ids, merged.positive.tolist(), strict=True)) == said
    assert merged.rules == (
        "mturk_parsed: ECCV Caption's crowd said 100% YES or partially YES; left out: rows without whole ids: 1 of "
        f"{len(rows) + 2:,}, rows of captions outside the split: 1",
    )
    gains = {row["gain"] for row in library.split("test").labels("mturk_parsed").table.to_pylist()}
    assert gains == {0.0, 0.5, 1.0}


def test_share_of_rows_left_out_is_told(rows, tmp_path):
    """Nine of ten ids with a decimal point, as a table with an empty cell leaves pandas."""
    floats = [[*row[:3], f"{row[3]}.0", *row[4:]] if place % 10 else row for place, row in enumerate(rows[:1000])]
    path = write(tmp_path / "mturk_parsed.csv", floats)
    told = rf"90\.0% of its rows \(900 of 1,000\) are left out.*as '{floats[1][3]}'"
    with pytest.warns(UserWarning, match=told):
        Library("sample", labels=path).split("test").labels("mturk_parsed")


def test_default_merge_is_the_same_without_file(split, sample_library):
    assert "mturk_parsed" not in merge(split, "i2t").sources
    assert sample_library.label_names == ()


def judged_of(split, said, direction):
    """Query to item to whether it matches: ECCV Caption's positives, and what the crowd said, for its queries."""
    judged = {query: {} for query in queries_of(split, direction)}
    table = split.eccv("eccv", direction)
    for query, item in zip(table["query_id"].to_pylist(), table["item_id"].to_pylist(), strict=True):
        judged[query][item] = True
    for (image, caption), match in said.items():
        query, item = (image, caption) if direction == "i2t" else (caption, image)
        if query in judged:
            judged[query][item] = judged[query].get(item, False) or match
    return judged


def slow_bpref(ranking, judged):
    positives = sum(judged.values())
    negatives = len(judged) - positives
    above = 0
    total = 0.0
    for item in ranking:
        if judged.get(item) is False:
            above += 1
        elif judged.get(item):
            total += 1 - min(above, positives) / max(min(negatives, positives), 1)
    return total / positives


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_judged_metrics_of_eccv_equal_slow_counts(library, said, direction):
    split = library.split("test")
    scores = np.random.default_rng(2).permutation(split.image_ids.size * split.caption_ids.size).astype(np.float32)
    scores = scores.reshape(split.image_ids.size, -1)
    run = ScoresRun(split.image_ids, split.caption_ids, scores)
    report = evaluate(
        run,
        f"eccv_caption/{direction}",
        metrics=["bpref", "judged_at_k"],
        sources=["eccv", "mturk_parsed"],
        data_dir=library,
        **QUIET,
    )
    ids = (split.image_ids, split.caption_ids) if direction == "i2t" else (split.caption_ids, split.image_ids)
    matrix = scores if direction == "i2t" else scores.T
    rankings = {int(query): ids[1][np.argsort(-row)].tolist() for query, row in zip(ids[0], matrix, strict=True)}
    judged = judged_of(split, said, direction)
    prefix = f"eccv_caption/{direction}"
    assert report.scores[f"{prefix}/bpref"] == pytest.approx(
        np.mean([slow_bpref(rankings[query], items) for query, items in judged.items()]), abs=1e-12
    )
    shares = [sum(item in items for item in rankings[query][:10]) / 10 for query, items in judged.items()]
    assert report.scores[f"{prefix}/judged_at_10"] == pytest.approx(np.mean(shares), abs=1e-12)


def test_judged_metrics_need_labels_of_sources(sample_library, split):
    run = ScoresRun(split.image_ids, split.caption_ids, np.zeros((split.image_ids.size, split.caption_ids.size)))
    with pytest.raises(InvalidOption, match="bpref"):
        evaluate(run, "eccv_caption", metrics="bpref", data_dir=sample_library, **QUIET)


def test_judged_metrics_refuse_folds(real_library):
    relabelled = relabel(task("coco_1k"), ("coco", "cxc"))
    with pytest.raises(NotApplicable, match="this task has folds"):
        relabelled.read("verdicts", real_library.split("test"), "i2t")


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_precision_and_recall_equal_slow_counts(library, said, direction):
    split = library.split("test")
    request = AppraisalRequest(sets=[["coco"]], queries="eccv")
    appraisal = appraise(library, request)
    assert f"against mturk_parsed, {direction}, queries of eccv" in str(appraisal)
    (row,) = (row for row in appraisal.worth if row.direction == direction)
    links = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
    judged = {query: {} for query in queries_of(split, direction)}
    for (image, caption), match in said.items():
        query = image if direction == "i2t" else caption
        if query in judged:
            judged[query][image, caption] = match
    precision = []
    recall = []
    for pairs in judged.values():
        linked = [match for (image, caption), match in pairs.items() if links[caption] == image]
        if linked:
            precision.append(sum(linked) / len(linked))
            recall += [sum(linked) / sum(pairs.values())] if any(pairs.values()) else []
    assert (row.verified, row.n_precision, row.n_recall) == ("mturk_parsed", len(precision), len(recall))
    assert row.precision.value == pytest.approx(np.mean(precision), abs=1e-12)
    assert row.recall.value == pytest.approx(np.mean(recall), abs=1e-12)


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
@pytest.mark.parametrize("first", [0, 1])
def test_certain_lists_are_those_that_models_made(tmp_path, lists, split, first, direction):
    """Both directions stand in one file, in which a row does not say which side was the query."""
    depth = 4
    rows = []
    for (model, way), ranked in lists.items():
        for query, items in ranked.items():
            pairs = [(query, item) if way == "i2t" else (item, query) for item in items[:depth]]
            rows += [
                [model, rank, 0, caption, image, 4, "", ""] for rank, (image, caption) in enumerate(pairs, start=first)
            ]
    found = read_machine_lists(write(tmp_path / "mturk_parsed.csv", rows), split, direction)
    assert tuple(found.runs) == MODELS
    for model, run in found.runs.items():
        ranked = run.lists[direction]
        assert ranked.query_ids.size + found.n_left_out[model] == len(queries_of(split, direction))
        for query, items in zip(ranked.query_ids.tolist(), ranked.items.reshape(-1, depth).tolist(), strict=True):
            assert items == lists[model, direction][query][:depth]
    assert sum(found.n_left_out.values()) > 0


@pytest.mark.parametrize("direction", ["i2t", "t2i"])
def test_runs_of_certain_lists_score(tmp_path, path, split, lists, sample_library, direction):
    others = set(queries_of(split, "t2i" if direction == "i2t" else "i2t"))
    ranked = {query: items[:5] for query, items in lists["CLIP", direction].items() if not others & set(items[:5])}
    rows = [
        ["CLIP", rank, 0, *((item, query) if direction == "i2t" else (query, item)), 4, "", ""]
        for query, items in ranked.items()
        for rank, item in enumerate(items, start=1)
    ]
    found = read_machine_lists(write(tmp_path / "mturk_parsed.csv", rows), split, direction)
    assert found.n_left_out == {"CLIP": 0}
    write_rankings(tmp_path / "clip.parquet", found.runs["CLIP"])
    run = ce.load_run(tmp_path / "clip.parquet")
    named = {"metrics": "recall_at_5", "data_dir": sample_library, "allow_missing": True}
    report = evaluate(run, f"eccv_caption/{direction}", **named, **QUIET)
    positives = judged_of(split, {}, direction)
    hits = [bool(set(items) & set(positives[query])) for query, items in ranked.items()]
    assert 0 < len(hits) < len(positives)
    assert report.scores[f"eccv_caption/{direction}/recall_at_5"] == np.mean(hits)
    (result,) = report.results
    assert result.n_queries == len(hits)


FAULTS = {
    "no column": (HEADER.replace("annotation", "answer"), {}, "line 1: found .* expected a column 'annotation'"),
    "annotation 5": (HEADER, {"annotation": "5"}, "line 3, column 'annotation': found '5'"),
    "text": (HEADER, {"annotation": "yes"}, "line 3, column 'annotation': found 'yes'"),
    "no annotation": (HEADER, {"annotation": ""}, "line 3, column 'annotation': found ''"),
    "unknown caption": (HEADER, {"cid": "7"}, "line 3, column 'cid': found id 7"),
    "unknown image": (HEADER, {"iid": "7"}, "line 3, column 'iid': found id 7"),
}


@pytest.mark.parametrize(("header", "cells", "message"), FAULTS.values(), ids=FAULTS)
def test_malformed_rows_are_named(tmp_path, rows, header, cells, message):
    bad = {**dict(zip(HEADER.split(","), map(str, rows[1]), strict=True)), **cells}
    path = write(tmp_path / "mturk_parsed.csv", [rows[0], list(bad.values()), rows[2]], header)
    with pytest.raises(MalformedSource, match=message):
        _ = Library("sample", labels=path).label_names


def test_caption_of_another_split_is_named(tmp_path, rows, sample_library):
    other = sample_library.split("validation").caption_ids[0]
    path = write(tmp_path / "mturk_parsed.csv", [rows[0], [*rows[1][:3], other, *rows[1][4:]]])
    with pytest.raises(MalformedSource, match=f"line 3, column 'cid': found id {other}"):
        _ = Library("sample", labels=path).label_names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty file"),
        (HEADER, "a header and no rows"),
        (f"{HEADER}\nCLIP,1,0.5,x,y,1,,", "no row whose iid and cid are whole numbers"),
        (f"{HEADER}\nCLIP,1,0.5", "line 2: found 3 cells"),
    ],
)
def test_incomplete_files_are_refused(tmp_path, text, message):
    path = tmp_path / "mturk_parsed.csv"
    path.write_text(text)
    with pytest.raises(MalformedSource, match=message):
        _ = Library("sample", labels=path).label_names


@pytest.mark.parametrize(
    ("ranks", "message"),
    [
        (["1", "best"], "line 3, column 'ranking': found 'best'"),
        (["1", "26"], "line 3, column 'ranking': found '26'"),
        (["2", "3"], "column 'ranking': found ranks 2 to 3"),
        (["1", "3"], "line 2 on: found no such list of any model, expected a query of t2i with one row for each rank"),
    ],
)
def test_rankings_that_do_not_fit_are_refused(tmp_path, rows, split, ranks, message):
    cut = [[row[0], rank, *row[2:]] for rank, row in zip(ranks, rows, strict=False)]
    with pytest.raises(MalformedSource, match=message):
        read_machine_lists(write(tmp_path / "mturk_parsed.csv", cut), split, "t2i")
