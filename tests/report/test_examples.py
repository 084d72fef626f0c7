"""The shown queries against loops over the raw files: order of the items, provenance, texts."""

import numpy as np
import oracles
import pytest
from report_samples import near_run, sample_report

from cxc_eccv.evaluation.examples import find_sources_read
from cxc_eccv.registry import tasks
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA
from cxc_eccv.report.query_cards import reason_of
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.types import Embeddings


@pytest.fixture
def run(sample_library):
    return near_run(sample_library)


@pytest.fixture
def table(sample_content):
    return sample_content[1]


def cards(table):
    """(direction, query id) to the rows of its items."""
    found = {}
    for row in table.to_pylist():
        found.setdefault((row["direction"], row["query_id"]), []).append(row)
    return found


def links(library):
    """(direction, query, item) of all original links."""
    captions = library.split("test").captions.to_pylist()
    found = set()
    for one in captions:
        found |= {("i2t", one["image_id"], one["caption_id"]), ("t2i", one["caption_id"], one["image_id"])}
        found |= {
            ("t2t", one["caption_id"], other["caption_id"])
            for other in captions
            if other["image_id"] == one["image_id"] and other is not one
        }
    return found


def ratings(library):
    """(direction, query, item) to its CxC rating in this order."""
    found = {}
    for row in library.split("test").ratings("sits").to_pylist():
        found["t2i", row["left_id"], row["right_id"]] = found["i2t", row["right_id"], row["left_id"]] = row["rating"]
    for kind, direction in (("sts", "t2t"), ("sis", "i2i")):
        for row in library.split("test").ratings(kind).to_pylist():
            found[direction, row["left_id"], row["right_id"]] = row["rating"]
    return found


def verified(library):
    """(direction, query, item) of all ECCV Caption positives, and (direction, query) of its queries."""
    positives = set()
    queries = set()
    for direction, other in (("i2t", "t2i"), ("t2i", "i2t")):
        for row in library.split("test").eccv("eccv", direction).to_pylist():
            positives |= {(direction, row["query_id"], row["item_id"]), (other, row["item_id"], row["query_id"])}
            queries.add((direction, row["query_id"]))
    return positives, queries


def test_all_directions_are_shown_ten_items_each(table):
    assert table.schema.equals(EXAMPLES_SCHEMA)
    assert {direction for direction, _ in cards(table)} == {"i2t", "t2i", "t2t", "i2i"}
    for rows in cards(table).values():
        assert [row["rank"] for row in rows] == list(range(1, 11))


def test_items_are_the_best_of_the_whole_gallery(run, table):
    vectors = {"i": run.images, "t": run.captions}
    for (direction, query), rows in cards(table).items():
        asked = vectors[direction[0]]
        ranked = vectors[direction[2]]
        vector = asked.vectors[asked.ids.tolist().index(query)].astype(float)
        gallery = ranked.vectors.astype(float)
        scores = gallery @ vector / np.linalg.norm(gallery, axis=1) / np.linalg.norm(vector)
        by_item = dict(zip(ranked.ids.tolist(), scores.tolist(), strict=True))
        if direction[0] == direction[2]:
            del by_item[query]
        best = sorted(by_item.values(), reverse=True)[:10]
        assert [row["score"] for row in rows] == pytest.approx(best, abs=1e-6)
        assert [by_item[row["item_id"]] for row in rows] == pytest.approx(best, abs=1e-6)


def test_provenance_is_that_of_the_raw_files(table, sample_library):
    coco = links(sample_library)
    rated = ratings(sample_library)
    eccv, searched_by_eccv = verified(sample_library)
    threshold = {"i2t": 3, "t2i": 3, "t2t": 3, "i2i": 2.5}
    counts = dict.fromkeys(("coco", "cxc", "eccv", "rating"), 0)
    for row in table.to_pylist():
        pair = row["direction"], row["query_id"], row["item_id"]
        turned = row["direction"], row["item_id"], row["query_id"]
        assert row["coco"] == (None if row["direction"] == "i2i" else pair in coco)
        both = [rated[one] for one in (pair, turned) if one in rated]
        assert row["cxc"] == (max(both) >= threshold[row["direction"]] if both else None)
        assert row["cxc_rating"] == rated.get(pair)
        assert row["cxc_reverse"] == (rated.get(turned) if row["direction"] in ("t2t", "i2i") else None)
        assert row["eccv"] == (True if pair in eccv else False if pair[:2] in searched_by_eccv else None)
        assert row["positive"] == any(row[name] for name in ("coco", "cxc", "eccv", "entailment"))
        for name in ("coco", "cxc", "eccv"):
            counts[name] += bool(row[name])
        counts["rating"] += bool(both)
    assert min(counts.values()) >= 5, counts


def test_plausible_matches_share_all_categories(table, sample_library):
    sets = sample_library.split("test").categories()
    own = {image: present.tolist() for image, present in zip(sets.image_ids.tolist(), sets.present, strict=True)}
    behind = {row["caption_id"]: row["image_id"] for row in sample_library.split("test").captions.to_pylist()}
    for row in table.to_pylist():
        left, right = (
            own[row[f"{side}_id"] if modality == "i" else behind[row[f"{side}_id"]]]
            for side, modality in (("query", row["direction"][0]), ("item", row["direction"][2]))
        )
        assert row["same_categories"] == (left == right if any(left) and any(right) else None)


def test_texts_and_files_are_those_of_the_split(table, sample_library):
    files = {row["image_id"]: row["file_name"] for row in sample_library.split("test").images.to_pylist()}
    captions = sample_library.split("test").captions.to_pylist()
    for row in table.to_pylist():
        for side, modality in (("query", row["direction"][0]), ("item", row["direction"][2])):
            key = "image_id" if modality == "i" else "caption_id"
            expected = [one["text"] for one in captions if one[key] == row[f"{side}_id"]]
            assert row[f"{side}_texts"] == expected
            assert row[f"{side}_file"] == (files[row[f"{side}_id"]] if modality == "i" else None)


def test_best_ranks_agree_with_what_is_shown(table):
    for rows in cards(table).values():
        in_sight = [row["rank"] for row in rows if row["positive"]]
        best = rows[0]["best_rank"]
        assert best == in_sight[0] if in_sight else best > 10
        linked = [row["rank"] for row in rows if row["coco"]]
        if rows[0]["coco_rank"] is not None:
            assert rows[0]["coco_rank"] == linked[0] if linked else rows[0]["coco_rank"] > 10


def test_positives_stand_last_among_ties(sample_library):
    content = sample_library.split("test")
    alike = EmbeddingsRun(
        Embeddings(content.image_ids, np.ones((content.image_ids.size, 4))),
        Embeddings(content.caption_ids, np.ones((content.caption_ids.size, 4))),
    )
    _, report = sample_report(sample_library, alike)
    for row in report.examples.to_pylist():
        assert not row["positive"]


def test_scores_and_rankings_show_the_same_items(run, table, sample_library):
    captions = [oracles.score_of(a, b) for a in run.images.vectors for b in run.captions.vectors]
    matrix = np.array(captions).reshape(run.images.ids.size, run.captions.ids.size)
    ids = run.images.ids, run.captions.ids
    rankings = RankingsRun.from_dicts(
        {int(q): ids[1][np.argsort(-row, kind="stable")] for q, row in zip(ids[0], matrix, strict=True)},
        {int(q): ids[0][np.argsort(-row, kind="stable")] for q, row in zip(ids[1], matrix.T, strict=True)},
    )
    expected = [row for row in table.to_pylist() if row["direction"] in ("i2t", "t2i")]
    for other in (ScoresRun(*ids, matrix), rankings):
        _, report = sample_report(sample_library, other)
        rows = report.examples.to_pylist()
        shown = {(row["query_id"], row["item_id"], row["rank"]) for row in rows}
        assert shown == {(row["query_id"], row["item_id"], row["rank"]) for row in expected}
        assert (rows[0]["score"] is None) == (other is rankings)


def test_items_are_ranked_by_the_reports_similarity(run, sample_library):
    lengths = np.random.default_rng(0).uniform(0.5, 2, (run.captions.ids.size, 1))
    long = EmbeddingsRun(run.images, Embeddings(run.captions.ids, run.captions.vectors * lengths))
    scores = run.images.vectors @ long.captions.vectors.T
    best = dict(zip(run.images.ids.tolist(), run.captions.ids[scores.argmax(axis=1)].tolist(), strict=True))
    _, report = sample_report(sample_library, long, similarity="dot")
    rows = report.examples.to_pylist()
    first = [(row["query_id"], row["item_id"]) for row in rows if row["direction"] == "i2t" and row["rank"] == 1]
    assert first
    assert all(best[image] == caption for image, caption in first)


def test_rankings_cut_short_show_what_they_hold(run, sample_library):
    ranked = np.argsort(-(run.captions.vectors @ run.images.vectors.T), axis=1, kind="stable")[:, :6]
    cut = RankingsRun.from_dicts(
        t2i={int(q): run.images.ids[row] for q, row in zip(run.captions.ids, ranked, strict=True)}
    )
    _, report = sample_report(sample_library, cut)
    table = report.examples
    assert set(table["rank"].to_pylist()) == {1, 2, 3, 4, 5, 6}
    assert None in table["coco_rank"].to_pylist()


def test_labels_are_those_that_the_tasks_have_read(sample_library):
    """Entailment takes what CxC rated and ECCV Caption verified for entailed; its examples say so."""
    _, report = sample_report(sample_library, tasks=["coco_5k", "entailment"])
    rows = report.examples.to_pylist()
    assert any(row["cxc_rating"] is not None for row in rows)
    assert {row["same_categories"] for row in rows} == {None}
    read = [tasks()[name] for name in ("coco_5k", "entailment")]
    assert find_sources_read(read) == ("coco", "cxc", "eccv", "entailment")
    _, report = sample_report(sample_library, tasks="coco_5k")
    rows = report.examples.to_pylist()
    assert rows
    for name in ("cxc", "eccv", "entailment", "cxc_rating", "same_categories"):
        assert {row[name] for row in rows} == {None}
    _, report = sample_report(sample_library, tasks="plausible_match")
    table = report.examples
    assert table.num_rows == 0
    assert "whole galleries" in reason_of(table)
