"""A part of a split is scored as if the rest had never been, and every form of the report says so."""

import csv
import json
import re
import shutil
from dataclasses import replace

import numpy as np
import oracles
import pytest
from folded_judgments import in_folds
from plain_ranks import slow_scores
from report_samples import near_run, sample_report

from cxc_eccv.cli.app import main
from cxc_eccv.comparison import ScoredReport, compare, join, published_tables
from cxc_eccv.errors import InvalidOption, MissingIds
from cxc_eccv.evaluation import evaluate
from cxc_eccv.registry import task
from cxc_eccv.report import Report
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun, load_run, save_embeddings
from cxc_eccv.runs.run import write_record
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, Judgments, Result
from cxc_eccv.types.json_records import from_json, to_json
from cxc_eccv.types.provenance import Provenance, SideShare

pytestmark = pytest.mark.thorough

METRICS = ["recall_at_k", "median_rank", "map_at_r", "r_precision", "ndcg_at_k", "mrr", "rsum", "entail_at_k"]
METRICS += ["pmrp", "pmrp_at_50", "spearman_all_pairs", "bootstrap_spearman"]
NUMBER = re.compile(r"(\d+)(\.jpg)?$")


def without(run, images=(), captions=()):
    """The run, less these items."""
    sides = []
    for embeddings, out in ((run.images, images), (run.captions, captions)):
        kept = ~np.isin(embeddings.ids, list(out))
        sides.append(Embeddings(embeddings.ids[kept], embeddings.vectors[kept]))
    return EmbeddingsRun(*sides)


def write_world(folder, images, captions):
    """The raw files of the sample's test split, less these images and captions, wherever a file names them."""
    shutil.copytree(mirror_folder("sample"), folder)

    def edit(path, change):
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    def cut_split(content):
        for image in content["images"]:
            image["sentences"] = [own for own in image["sentences"] if own["sentid"] not in captions]
            image["sentids"] = [own["sentid"] for own in image["sentences"]]
        return content | {"images": [image for image in content["images"] if image["cocoid"] not in images]}

    edit(folder / "coco/dataset_coco.json", cut_split)
    for path in (folder / "cxc").glob("*_test.csv"):
        with path.open() as file:
            head, *rows = csv.reader(file)
        found = [[NUMBER.search(cell) for cell in row[:2]] for row in rows]
        named = [[(int(cell[1]), images if cell[2] else captions) for cell in row] for row in found]
        kept = [row for row, cells in zip(rows, named, strict=True) if not any(one in out for one, out in cells)]
        path.write_text("\n".join(map(",".join, [head, *kept])) + "\n")
    for path in (folder / "eccv").glob("*.json"):
        queries, items = (captions, images) if path.stem.endswith("caption_to_image") else (images, captions)
        lists = {query: [i for i in own if i not in items] for query, own in json.loads(path.read_text()).items()}
        path.write_text(json.dumps({query: own for query, own in lists.items() if own and int(query) not in queries}))
    path = folder / "entailment/entailment_test.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [row for row in rows if row["image_id"] not in images and row["caption_id"] not in captions]
    path.write_text("\n".join(map(json.dumps, rows)))
    for path in (folder / "coco").glob("instances_*.json"):
        edit(
            path,
            lambda content: (
                content
                | {"images": [own for own in content["images"] if own["id"] not in images]}
                | {"annotations": [own for own in content["annotations"] if own["image_id"] not in images]}
            ),
        )
    return Library(folder, offline=True, allow_modified=True)


@pytest.fixture
def half(sample_library):
    """Images 0, 2, 4 and so on of the sample with their captions, and some captions more: what is left out."""
    content = sample_library.split("test")
    images = set(content.image_ids[::2].tolist())
    captions = {c for c, i in zip(content.caption_ids.tolist(), content.caption_image_ids, strict=True) if i in images}
    return images, captions | set(content.caption_ids[5::31].tolist())


def test_part_scores_like_a_smaller_dataset(sample_library, report_of, half, tmp_path):
    part = without(near_run(sample_library, noise=2), *half)
    world = write_world(tmp_path / "world", *half)
    restricted = report_of(part, metrics=METRICS, allow_missing=True)
    whole = evaluate(part, metrics=METRICS, data_dir=world)
    assert len(restricted.results) > 80
    assert restricted.results == whole.results
    assert restricted.provenance.restriction.images == SideShare(30, 60)
    assert whole.restriction == ""


@pytest.mark.parametrize("name", ["coco_5k", "cxc", "cxc_rated", "eccv_caption", "co_captions"])
def test_missing_images_leave_every_caption_in_the_galleries(sample_library, report_of, name):
    out = set(sample_library.split("test").image_ids[3::7].tolist())
    run = without(near_run(sample_library, noise=2), images=out)
    metrics = ["recall_at_5", "map_at_r"]
    report = report_of(run, name, metrics=metrics, allow_missing=True)
    assert list(to_json(report.provenance.restriction))[:2] == ["allow_missing", "images"]
    for direction in [part.name for part in task(name).parts_with("ranks")]:
        slow, n_queries = slow_scores(
            run, task(name).judgments(sample_library.split("test"), direction), direction, out
        )
        found = [report.scores[f"{name}/{direction}/{metric}"] for metric in metrics]
        assert found == pytest.approx([slow[metric] for metric in metrics], abs=1e-12)
        assert {row.n_queries for row in report.results if row.direction == direction} == {n_queries}


def test_folds_shrink_to_what_is_left(sample_library):
    judged = in_folds(task("coco_5k").judgments(sample_library.split("test"), "t2i"))
    queries = judged.query_ids[::4]
    items = judged.gallery_ids[1::5]
    rest = judged.without(queries, items)
    expected = {
        query: (
            sorted(set(oracles.gallery_of(judged, query)) - set(items.tolist())),
            positives - set(items.tolist()),
        )
        for query, positives in oracles.positives_of(judged).items()
        if query not in queries and positives - set(items.tolist())
    }
    found = oracles.positives_of(rest)
    assert {query: (sorted(oracles.gallery_of(rest, query)), found[query]) for query in found} == expected


def test_gains_of_zero_keep_no_query():
    judged = Judgments(
        np.array([1, 2]), np.array([7, 8]), [0, 2, 4], [0, 1, 0, 1], [0, 0], gains=np.array([1.0, 0.0, 0.0, 2.0])
    )
    rest = judged.without(np.array([]), np.array([8]))
    assert (rest.query_ids.tolist(), rest.gains.tolist()) == ([1], [1.0])


def test_limit_keeps_the_first_images_and_captions(sample_library, report_of):
    run = near_run(sample_library)
    content = sample_library.split("test")
    first = np.sort(content.image_ids)[:20]
    images = np.setdiff1d(content.image_ids, first)
    captions = content.caption_ids[np.isin(content.caption_image_ids, images)]
    report = report_of(run, limit=20)
    facts = report.provenance.restriction
    assert facts.images == SideShare(20, 60)
    assert facts.captions == SideShare(100, 300)
    part = without(run, images, captions)
    assert report.results == report_of(part, allow_missing=True).results
    assert report.results == report_of(part, limit=20).results
    assert report.name == "20 of 60 images"


def test_a_limit_that_leaves_nothing_out_is_none(sample_library, report_of):
    run = near_run(sample_library)
    assert report_of(run, limit=60) == report_of(run)
    with pytest.raises(InvalidOption, match="limit is 0, expected a whole number of at least 1"):
        report_of(run, limit=0)


def test_metric_with_too_few_items_is_skipped(sample_library, report_of):
    report = report_of(near_run(sample_library), limit=3)
    assert report.skipped["cxc/i2i"] == "none of its judged items is in the part of the split that is scored"
    assert "needs 4" in report.skipped["cxc/sits/bootstrap_spearman"]
    with pytest.raises(InvalidOption, match="cxc cannot be computed: none of its judged items"):
        report_of(near_run(sample_library), "cxc/i2i", limit=3)


def test_missing_items_are_refused_unless_allowed(sample_library, report_of):
    run = near_run(sample_library)
    with pytest.raises(MissingIds, match="--allow-missing"):
        report_of(without(run, images=run.images.ids[:3]))
    with pytest.raises(MissingIds):  # of those that the limit keeps
        report_of(without(run, images=[run.images.ids.min()]), limit=20)


def test_scores_and_rankings(sample_library, report_of):
    run = near_run(sample_library)
    scores = run.images.vectors @ run.captions.vectors.T
    out = run.images.ids[::6]
    kept = ~np.isin(run.images.ids, out)
    part = ScoresRun(run.images.ids[kept], run.captions.ids, scores[kept])
    report = report_of(part, "coco_5k", allow_missing=True)
    vectors = report_of(without(run, images=out), "coco_5k", similarity="dot", allow_missing=True)
    assert report.results == vectors.results
    lists = {int(i): run.captions.ids[np.argsort(-row)] for i, row in zip(run.images.ids, scores, strict=True)}
    ranked = RankingsRun.from_dicts(i2t=lists)
    limited = report_of(ranked, "coco_5k/i2t", limit=20)
    assert limited.scores == {
        key: value
        for key, value in report_of(run, "coco_5k", similarity="dot", limit=20).scores.items()
        if "/i2t/" in key
    }
    both = replace(ranked, lists={**ranked.lists, "t2i": ranked.lists["i2t"]})
    with pytest.raises(InvalidOption, match="rankings do not show which items they lack"):
        report_of(both, allow_missing=True)


def test_images_that_encode_left_out_are_counted(sample_library, report_of, tmp_path):
    run = near_run(sample_library)
    out = run.images.ids[:2].tolist()
    save_embeddings(path := tmp_path / "run.npz", without(run, images=out))
    with pytest.raises(MissingIds):
        report_of(load_run(path))
    write_record(path, {"skipped": {str(number): "no image" for number in out}})
    report = report_of(load_run(path))
    assert report.restriction == "58 of 60 images (without 2 that could not be read)"
    assert report.results == report_of(without(run, images=out), allow_missing=True).results
    # Those of another file, and those that the run has after all, are not left out.
    save_embeddings(path, without(run, images=out[:1]))
    with pytest.raises(MissingIds):
        report_of(load_run(path))
    write_record(path, {"skipped": {str(number): "no image" for number in out}})
    assert report_of(load_run(path)).restriction.startswith("59 of 60 images")
    save_embeddings(path, run)
    write_record(path, {"skipped": {str(number): "no image" for number in out}})
    assert report_of(load_run(path)).restriction == ""


def test_every_form_says_so(sample_library, capsys):
    _, report = sample_report(sample_library, limit=25)
    said = "25 of 60 images and 125 of 300 captions (the first 25 by id)"
    assert report.restriction == said
    report.show()
    console = capsys.readouterr().out
    assert said in " ".join(console.split())
    assert console.count("Scores on a part of the split") == 1
    page = Page(report, report.examples)
    for text in (render_html(page), render_markdown(page)):
        assert "25 of 60 images" in text.partition("captions")[0]
        assert "Part of the split" in text
        assert "Do not compare these numbers with numbers on the whole split." in text


def test_no_query_shows_what_is_left_out(sample_library):
    _, report = sample_report(sample_library, limit=25)
    examples = report.examples
    content = sample_library.split("test")
    first = np.sort(content.image_ids)[:25]
    there = {
        "i": set(first.tolist()),
        "t": set(content.caption_ids[np.isin(content.caption_image_ids, first)].tolist()),
    }
    rows = examples.select(["direction", "query_id", "item_id"]).to_pylist()
    assert len(rows) > 100
    assert all(row["query_id"] in there[row["direction"][0]] for row in rows)
    assert all(row["item_id"] in there[row["direction"][-1]] for row in rows)


def test_compared_with_the_same_part_alone(sample_library):
    runs = [near_run(sample_library, seed=seed) for seed in (0, 1)]
    limited = [sample_report(sample_library, run, limit=25)[1] for run in runs]
    whole = sample_report(sample_library, runs[1])[1]
    named = [ScoredReport.of(name, report) for name, report in zip("ab", limited, strict=True)]
    assert compare(*named, samples=200, progress=False).differences
    for other in (whole, sample_report(sample_library, runs[1], limit=24)[1]):
        with pytest.raises(InvalidOption, match="cannot be compared: what was scored is '25 of 60"):
            compare(named[0], ScoredReport.of("c", other), samples=200, progress=False)


def test_published_models_are_of_the_whole_split():
    facts = {"split": "test", "data": {"edition": "official", "files": {}}}
    row = Result("cxc", "t2t", "recall_at_1", 0.41, 25_000)
    assert any(
        join(table, {"mine": Report((row,), {}, from_json(Provenance, facts))}).keys for table in published_tables()
    )
    part = Report((row,), {}, from_json(Provenance, facts | {"restriction": {"images": {"used": 200, "of": 5_000}}}))
    with pytest.raises(InvalidOption, match="mine cannot be compared with published models: it was scored on a part"):
        join(published_tables()[0], {"mine": part})


def test_a_file_with_a_part(sample_library, tmp_path, capsys):
    run = near_run(sample_library)
    save_embeddings(tmp_path / "run.npz", replace(without(run, images=run.images.ids[:2]), model="part"))
    words = ["evaluate", str(tmp_path / "run.npz"), "--data-dir", "sample", "--tasks", "coco_5k"]
    with pytest.raises(SystemExit):
        main(words)
    assert "--allow-missing" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="0"):
        main([*words, "--allow-missing", "--output", str(tmp_path / "report")])
    facts = json.loads((tmp_path / "report/report.json").read_text())["provenance"]["restriction"]
    assert facts["allow_missing"] is True
    assert facts["images"] == {"used": 58, "of": 60}
