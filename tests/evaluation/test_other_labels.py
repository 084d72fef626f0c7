"""An evaluation on the labels of other sources: its values by dicts and sets, what it skips, and who is told."""

import json
from dataclasses import replace
from io import StringIO

import numpy as np
import oracles
import pyarrow.parquet as pq
import pytest
from label_files import random_pairs, write_label_file
from plain_ranks import forms_of, orders_of
from rich.console import Console

import cxc_eccv as ce
from cxc_eccv.comparison import ScoredReport, compare
from cxc_eccv.comparison.pairing import check_comparable
from cxc_eccv.comparison.paper_tables import PaperTables
from cxc_eccv.comparison.published_join import check_as_published
from cxc_eccv.errors import DataError, InvalidOption, RunTooShallow, UnknownName
from cxc_eccv.evaluation.relabelling import relabel
from cxc_eccv.registry import task, tasks
from cxc_eccv.report.console import render
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.report.query_cards import example_cards
from cxc_eccv.runs import ScoresRun
from cxc_eccv.sources.collections.coco import COLLECTION as COCO
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.reading import read_ids
from cxc_eccv.types.json_records import to_json

pytestmark = pytest.mark.thorough

SOURCES = ("coco", "cxc", "eccv", "mine")
QUIET = {"progress": False, "confidence": None}


@pytest.fixture(scope="module")
def file(tmp_path_factory, sample_library):
    pairs = random_pairs(sample_library, number=400)
    return write_label_file(tmp_path_factory.mktemp("labels") / "mine.parquet", sample_library, *pairs)


@pytest.fixture(scope="module")
def library(file):
    return Library("sample", labels=[file])


def said_positive(library, label_file):
    """Image and caption pairs that a source names, read from its raw files: by hand, without merging."""
    content = library.split("test")
    coco = set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    cxc = {
        (row["right_id"], row["left_id"])
        for row in library.split("test").ratings("sits").to_pylist()
        if row["rating"] >= 3
    }
    verified = {direction: content.eccv("eccv", direction).to_pylist() for direction in ("i2t", "t2i")}
    eccv = {(row["query_id"], row["item_id"]) for row in verified["i2t"]}
    eccv |= {(row["item_id"], row["query_id"]) for row in verified["t2i"]}
    rows = pq.read_table(label_file).to_pylist()
    mine = {(row["image_id"], row["caption_id"]) for row in rows if row["positive"]}
    return {"coco": coco, "cxc": cxc, "eccv": eccv, "mine": mine}


def positives_of(said, sources, direction, queries, gallery, *, unreachable=False):
    """Query to its positives, as sets: among the gallery, or also what no gallery holds."""
    turn = 1 if direction == "i2t" else -1
    found = {query: set() for query in queries}
    for name in sources:
        for pair in said[name]:
            query, item = pair[::turn]
            if query in found and (item in gallery or unreachable):
                found[query].add(item)
    return {query: items for query, items in found.items() if items}


def slow_values(order, positives, gallery):
    """Metric to its mean over queries, from each query's whole order; ties are none in random scores."""
    rows = [
        oracles.values_of([item for item in order[query] if item in gallery], right, len(right))
        for query, right in positives.items()
    ]
    return {name: np.mean([row[name] for row in rows]) for name in rows[0] if name not in ("mean_rank", "mrr")}


def queries_and_gallery(library, name, direction):
    """The task's own, from its own labels."""
    own = task(name).judgments(library.split("test"), direction)
    return own.query_ids.tolist(), set(own.gallery_ids.tolist())


@pytest.mark.parametrize("sources", [SOURCES, ("coco",), ("eccv",), ("mine",), ("cxc", "mine"), ("coco", "eccv")])
def test_values_are_those_of_dicts_and_sets(library, file, make_run, sources):
    run = make_run(library)
    said = said_positive(library, file)
    orders = orders_of(run)
    content = library.split("test")
    names = ("coco_5k", "cxc_rated", "eccv_caption")
    metrics = ["recall_at_k", "r_precision", "map_at_r"]
    report = ce.evaluate(run, names, metrics=metrics, data_dir=library, sources=sources, **QUIET)
    for name in names:
        for direction in ("i2t", "t2i"):
            queries, gallery = queries_and_gallery(library, name, direction)
            if sources == ("eccv",):  # other queries are only items of its own
                searched = {row["query_id"] for row in content.eccv("eccv", direction).to_pylist()}
                queries = [query for query in queries if query in searched]
            keeps = name == "eccv_caption" and "eccv" in sources  # whose captions outside the gallery count towards R
            positives = positives_of(said, sources, direction, queries, gallery, unreachable=keeps)
            wanted = slow_values(orders[direction], positives, gallery)
            for metric, value in wanted.items():
                assert report.scores[f"{name}/{direction}/{metric}"] == pytest.approx(value, abs=1e-12)
            rows = [row for row in report.results if (row.task, row.direction) == (name, direction)]
            assert {row.n_queries for row in rows} == {len(positives)}


def test_scores_and_rankings_give_what_embeddings_give(library, make_run):
    forms = forms_of(make_run(library))
    options = {"tasks": ["coco_5k", "cxc/i2t", "cxc/t2i", "eccv_caption"], "data_dir": library, "sources": SOURCES}
    wanted = ce.evaluate(forms["embeddings"], **options, **QUIET).scores
    for kind in ("scores", "rankings"):
        assert ce.evaluate(forms[kind], **options, **QUIET).scores == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize(
    ("name", "sources"),
    [("coco_5k", ("coco",)), ("cxc", ("coco", "cxc")), ("cxc_rated", ("cxc",)), ("eccv_caption", ("eccv",))],
)
def test_own_sources_of_task_give_the_same_values(library, make_run, name, sources):
    run = make_run(library)
    plain = ce.evaluate(run, name, data_dir=library, per_query=True, **QUIET)
    found = ce.evaluate(run, name, data_dir=library, sources=sources, per_query=True, **QUIET)
    assert found.scores == {key: value for key, value in plain.scores.items() if "spearman" not in key}
    assert found.skipped.keys() - plain.skipped.keys() <= {"cxc/sts", "cxc/sis", "cxc/sits"}
    bounded = [
        ce.evaluate(run, name, data_dir=library, bounds=True, **{**QUIET, "sources": own}).results
        for own in (None, sources)
    ]
    bounds = [{row.key: row.bounds for row in rows if row.bounds is not None} for rows in bounded]
    assert bounds[0] == bounds[1]


def test_within_one_modality_labels_of_pairs_say_nothing(library, make_run):
    run = make_run(library)
    keys = ("cxc/t2t", "cxc/i2i", "co_captions/t2t")
    found = ce.evaluate(run, keys, data_dir=library, sources=SOURCES, **QUIET).scores
    without = ce.evaluate(run, keys, data_dir=library, sources=("coco", "cxc"), **QUIET).scores
    assert found == without
    alone = ce.evaluate(run, "cxc", data_dir=library, sources=("mine",), **QUIET)
    assert alone.skipped["cxc/t2t"] == "mine have no positive of its queries"
    assert {row.direction for row in alone.results} == {"i2t", "t2i"}


def test_tasks_that_sources_cannot_label_are_skipped(library, make_run):
    report = ce.evaluate(make_run(library), data_dir=library, sources=SOURCES, **QUIET)
    for key in ("cxc/sts", "cxc/sis", "cxc/sits"):
        assert "this needs rated pairs" in report.skipped[key]
    assert "this needs labels with gains" in report.skipped["entailment"]
    assert "this needs matches of categories" in report.skipped["plausible_match"]
    ranked = {own.name for own in tasks().values() if own.parts_with("ranks") and own.collection is COCO}
    named = {"annotated", "co_captions", "coco_5k", "cxc", "cxc_rated", "eccv_caption"}
    assert {row.task for row in report.results} == named
    assert {row.task for row in report.results} <= ranked
    graded = ce.evaluate(
        make_run(library), "cxc/i2t", metrics=["recall_at_1", "ndcg_at_k"], data_dir=library, sources=SOURCES, **QUIET
    )
    assert list(graded.scores) == ["cxc/i2t/recall_at_1"]
    assert "labels with gains" in graded.skipped["cxc/i2t/ndcg_at_10"]


@pytest.mark.parametrize("named", ["entailment", "plausible_match", "cxc/sts", "flickr8k"])
def test_named_task_that_sources_cannot_label_is_refused(library, make_run, named):
    with pytest.raises(InvalidOption, match=f"{named.partition('/')[0]} cannot be computed: "):
        ce.evaluate(make_run(library), named, data_dir=library, sources=SOURCES, **QUIET)


@pytest.mark.parametrize(
    ("sources", "error", "expected"),
    [
        (("coco", "mein"), UnknownName, "did you mean 'mine'"),
        (("coco", "mined"), UnknownName, "unknown source of labels 'mined'"),
        ((), InvalidOption, "is empty; choose among coco, cxc, eccv, entailment, mine"),
        (("coco", "coco"), InvalidOption, "has coco twice"),
    ],
)
def test_sources_that_are_none_are_refused(library, make_run, sources, error, expected):
    with pytest.raises(error, match=expected):
        ce.evaluate(make_run(library), data_dir=library, sources=sources, **QUIET)


def test_source_without_labels_of_split_is_refused(library, make_run):
    run = make_run(library, split="validation")
    for name in ("mine", "eccv"):
        with pytest.raises(InvalidOption, match=f"{name} has no labels of the validation split; leave it out"):
            ce.evaluate(run, split="validation", data_dir=library, sources=("coco", name), **QUIET)


def test_short_rankings_are_too_shallow_for_more_labels(library, make_run):
    """R grows with the labels: what was deep enough is not."""
    orders = orders_of(make_run(library))
    most = {
        sources: max(
            int(judged.n_positives.max())
            for direction in ("i2t", "t2i")
            for judged in [_judged(library, "coco_5k", direction, sources)]
        )
        for sources in (("coco",), SOURCES)
    }
    assert most["coco",] == 5 < most[SOURCES]
    cut = {name: {query: items[:5] for query, items in orders[name].items()} for name in ("i2t", "t2i")}
    options = {"tasks": "coco_5k", "metrics": ["r_precision"], "data_dir": library, **QUIET}
    assert ce.evaluate(**cut, **options).scores
    with pytest.raises(RunTooShallow, match=str(most[SOURCES])):
        ce.evaluate(**cut, **options, sources=SOURCES)


def _judged(library, name, direction, sources):
    return relabel(task(name), sources).judgments(library.split("test"), direction)


def test_a_part_of_the_split_on_other_labels(library, file, make_run):
    run = make_run(library)
    said = said_positive(library, file)
    report = ce.evaluate(run, "coco_5k", data_dir=library, sources=SOURCES, limit=20, **QUIET)
    content = library.split("test")
    images = set(np.sort(content.image_ids)[:20].tolist())
    captions = set(content.caption_ids[np.isin(content.caption_image_ids, list(images))].tolist())
    for direction, queries, gallery in (("i2t", images, captions), ("t2i", captions, images)):
        wanted = slow_values(
            orders_of(run)[direction], positives_of(said, SOURCES, direction, queries, gallery), gallery
        )
        for k in (1, 5, 10):
            assert report.scores[f"coco_5k/{direction}/recall_at_{k}"] == pytest.approx(wanted[f"recall_at_{k}"])
    assert report.name == "20 of 60 images, labels coco + cxc + eccv + mine 1.0.0"


def test_folds_keep_positives_of_their_own_alone(monkeypatch, library, file, make_run):
    """As COCO 1K, cut from the sample's 60 images."""
    from cxc_eccv.tasks import coco_1k

    monkeypatch.setattr(coco_1k, "COCO_1K_IMAGES", 60)
    monkeypatch.setattr(coco_1k, "COCO_1K_CAPTIONS", 300)
    run = make_run(library)
    said = said_positive(library, file)
    report = ce.evaluate(
        run, "coco_1k", metrics=["recall_at_k", "map_at_r"], data_dir=library, sources=SOURCES, **QUIET
    )
    orders = orders_of(run)
    check_folds(report, library, said, orders, ("recall_at_1", "recall_at_5", "recall_at_10", "map_at_r"))


def check_folds(report, library, said, orders, metrics):
    content = library.split("test")
    order = library.read("coco_test_ids", read_ids)
    owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    size = order.size // 5
    folds = [order[place : place + size].tolist() for place in range(0, order.size, size)]
    for direction in ("i2t", "t2i"):
        values = {metric: [] for metric in metrics}
        across = 0
        for captions in folds:
            images = {owner[caption] for caption in captions}
            queries, gallery = (images, set(captions)) if direction == "i2t" else (captions, images)
            positives = positives_of(said, SOURCES, direction, queries, gallery)
            across += sum(map(len, positives_of(said, SOURCES, direction, queries, set(), unreachable=True).values()))
            across -= sum(map(len, positives.values()))
            found = slow_values(orders[direction], positives, gallery)
            for metric in metrics:
                values[metric] += [found[metric]] * len(positives)
        assert across > 0  # pairs of two folds are there, and count for none
        for metric in metrics:
            assert report.scores[f"coco_1k/{direction}/{metric}"] == pytest.approx(np.mean(values[metric]), abs=1e-12)


@pytest.fixture(scope="module")
def scores(library):
    random = np.random.default_rng(0)
    content = library.split("test")
    drawn = random.standard_normal((content.image_ids.size, content.caption_ids.size))
    return ScoresRun(content.image_ids, content.caption_ids, drawn)


@pytest.fixture(scope="module")
def reports(library, scores):
    """The same run on the labels of the tasks and on others, with values of queries."""
    run = scores
    options = {"data_dir": library, "progress": False, "per_query": True, "name": "CLIP"}
    return ce.evaluate(run, **options), ce.evaluate(run, **options, sources=SOURCES)


def test_every_form_of_report_names_its_labels(reports, tmp_path, file):
    plain, report = reports
    told = "coco + cxc + eccv + mine 1.0.0"
    assert (plain.labels, plain.name) == ("", "CLIP")
    assert (report.labels, report.name) == (told, f"CLIP, labels {told}")
    facts = report.provenance.labels
    assert (facts.sources, facts.policy) == (SOURCES, "union")
    assert facts.files["mine"].sha256 == report.provenance.data.files["labels_mine_test"]
    assert (facts.files["mine"].pairs, facts.files["mine"].people) == (400, 3)
    report.save(tmp_path / "report")
    assert json.loads((tmp_path / "report" / "report.json").read_text())["provenance"]["labels"] == to_json(facts)
    again = ce.load_report(tmp_path / "report")
    assert (again.labels, again.scores) == (told, report.scores)
    sentence = "decide together what is positive in every task, in place of its own labels"
    for name in ("report.md", "report.html"):
        text = (tmp_path / "report" / name).read_text()
        assert sentence in text
        assert "mine 1.0.0" in text
        assert "Label disagreement" not in text
        assert "under COCO:" not in text
        assert "under its own labels" not in text
    console = Console(width=80, record=True, file=StringIO())
    console.print(render(Page(report)))
    shown = " ".join(console.export_text().split())
    assert f"labels: {told}" in shown
    latex = PaperTables({"CLIP": report}).to_latex()
    assert f"labels {told}" in latex
    assert "under the links of COCO" not in latex
    plain.save(tmp_path / "plain")
    assert sentence not in (tmp_path / "plain" / "report.md").read_text()


def test_description_of_a_task_names_the_sources(reports):
    plain, report = (render_html(Page(each)) for each in reports)
    own = "A caption is positive only for the image"
    others = "any of these labels says so: coco + cxc + eccv + mine"
    assert (own in plain, others in plain) == (True, False)
    assert (own in report, others in report) == (False, True)


@pytest.fixture(scope="module")
def relabelled(library, make_run):
    """Two models on the labels of several sources."""
    options = {"data_dir": library, "sources": SOURCES, "per_query": True, **QUIET}
    return [ce.evaluate(make_run(library, seed=seed), name=f"seed {seed}", **options) for seed in (0, 1)]


REPEATS = {
    "annotated/i2t": "coco_5k/i2t",  # every image was searched
    "cxc/i2t": "coco_5k/i2t",
    "cxc/t2i": "coco_5k/t2i",
    "cxc/t2t": "co_captions/t2t",
    "cxc_rated/i2t": "coco_5k/i2t",  # every image of the sample has a pair rated 3 or higher, but not every caption
}


def test_tasks_with_the_same_judgments_are_shown_once(reports, relabelled):
    report = relabelled[0]
    assert reports[0].repeated_parts == {}
    assert report.repeated_parts == REPEATS
    for part, earlier in REPEATS.items():
        twins = [f"{part}/{metric}" for metric in ("recall_at_1", "recall_at_5", "recall_at_10")]
        assert [report.scores[key] for key in twins] == [report.scores[key.replace(part, earlier)] for key in twins]
    page = Page(report)
    shown = {row.key for row in page.results}
    assert {key.rpartition("/")[0] for key in report.scores.keys() - shown} == set(REPEATS)
    assert "annotated/i2t/map_at_r" in shown  # COCO 5K has no such metric
    assert "annotated/i2t/recall_at_1" not in shown
    text = render_markdown(page)
    assert "COCO 5K and CxC, i2t and t2i; Co-captions and CxC, t2t" in text


def test_tasks_with_the_same_judgments_are_tested_once(relabelled):
    for metrics in ("main", "all"):
        found = compare(*relabelled, samples=100, metrics=metrics, progress=False)
        keys = [row.key for row in found.differences]
        assert {key.rpartition("/")[0] for key in keys if "recall" in key} & REPEATS.keys() == set()
        assert {"coco_5k/i2t/recall_at_1", "co_captions/t2t/recall_at_1", "cxc/i2i/recall_at_1"} <= set(keys)
        (note,) = (note for note in found.notes if "not tested again" in note)
        assert note.endswith("another task: cxc/i2t, cxc/t2i, cxc/t2t, cxc_rated/i2t") == (metrics == "main")
    third = ScoredReport.of("third", relabelled[1])
    assert compare(*relabelled, third, samples=100, progress=False).ranks_under_any_labels == {}


def test_markup_of_a_label_file_is_escaped(tmp_path, sample_library, make_run):
    version = "1 <script>alert(1)</script> **x** \x1b[31m"
    file = write_label_file(tmp_path / "x.parquet", sample_library, *random_pairs(sample_library), version=version)
    library = Library("sample", labels=file)
    options = {"data_dir": library, "sources": ("coco", "mine"), "per_query": True, **QUIET}
    report = ce.evaluate(make_run(library), "coco_5k", **options)
    report.save(tmp_path / "report")
    for name in ("report.md", "report.html"):
        text = (tmp_path / "report" / name).read_text()
        assert "&lt;script&gt;" in text
        assert "<script>alert" not in text
        assert "\x1b" not in text
    assert "\\*\\*x\\*\\*" in (tmp_path / "report" / "report.md").read_text()


def test_shown_queries_tell_what_the_labels_say(library, reports, scores, tmp_path_factory, sample_library):
    plain = reports[0]
    run = scores
    # Of every image's ten captions, one is labelled a match and eight are labelled none.
    best = run.caption_ids[np.argsort(-run.scores, axis=1)[:, :9]].tolist()
    pairs = [(image, caption) for image, own in zip(run.image_ids.tolist(), best, strict=True) for caption in own]
    gains = [float(place % 9 == 3) for place in range(len(pairs))]
    file = write_label_file(tmp_path_factory.mktemp("shown") / "x.parquet", sample_library, pairs, gains, name="theirs")
    own = Library("sample", labels=[file])
    found = ce.evaluate(run, data_dir=own, sources=("coco", "theirs"), per_query=True, **QUIET)
    table = found.examples
    assert set(table["coco_rank"].to_pylist()) == {None}
    assert "label_dependent" not in table["group"].to_pylist()
    labelled = dict(zip(pairs, gains, strict=True))
    seen = set()
    for row in table.to_pylist():
        pair = (row["query_id"], row["item_id"])
        if row["direction"] == "i2t":
            assert row["labels_theirs"] == (bool(labelled[pair]) if pair in labelled else None)
            assert row["positive"] == bool(row["coco"] or row["labels_theirs"])
        seen.add(row["labels_theirs"])
        assert row["cxc"] is row["eccv"] is None
    assert seen == {True, False, None}
    texts = {badge.text for card in example_cards(table) for item in card.items for badge in item.badges}
    assert {"theirs: match", "theirs: no match", "COCO link"} <= texts
    verdicts = {item.verdict for card in example_cards(table) for item in card.items}
    assert {"right under theirs", "judged, no match", "no label"} <= verdicts
    folder = tmp_path_factory.mktemp("saved")
    replace(found, examples=table).save(folder)
    assert "theirs: no match" in (folder / "report.html").read_text()
    assert ce.load_report(folder).examples["labels_theirs"].to_pylist() == table["labels_theirs"].to_pylist()
    assert not [name for name in plain.examples.column_names if name.startswith("labels_")]


def test_papers_models_do_not_stand_beside_it(reports):
    with pytest.raises(InvalidOption, match=r"scored on the labels coco \+ cxc \+ eccv \+ mine 1.0.0"):
        check_as_published("mine", reports[1])


def test_reports_on_other_labels_are_not_compared(reports, scores, library, tmp_path, sample_library):
    plain, report = reports
    run = scores
    with pytest.raises((InvalidOption, DataError), match="the set of labels is"):
        check_comparable(ScoredReport.of("plain", plain), ScoredReport.of("mine", report))
    check_comparable(ScoredReport.of("one", report), ScoredReport.of("other", report))
    fewer = ce.evaluate(run, data_dir=library, sources=SOURCES[:3], per_query=True, **QUIET)
    with pytest.raises((InvalidOption, DataError), match="the set of labels is"):
        check_comparable(ScoredReport.of("one", report), ScoredReport.of("fewer", fewer))
    # The same name and version, and other labels in the file.
    file = write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library, seed=7))
    other = ce.evaluate(run, data_dir=Library("sample", labels=[file]), sources=SOURCES, per_query=True, **QUIET)
    with pytest.raises((InvalidOption, DataError), match=r"of sha256 [0-9a-f]{8}'.*of sha256 [0-9a-f]{8}'"):
        check_comparable(ScoredReport.of("one", report), ScoredReport.of("other", other))


def test_one_source_may_be_named_alone(library, make_run):
    run = make_run(library)
    found = [ce.evaluate(run, "coco_5k", data_dir=library, sources=own, **QUIET).scores for own in ("mine", ["mine"])]
    assert found[0] == found[1]


def test_without_sources_label_files_change_nothing(library, make_run):
    run = make_run(library)
    names = ["coco_5k", "cxc", "cxc_rated", "eccv_caption", "co_captions"]
    with_file, without = (ce.evaluate(run, names, data_dir=own, **QUIET) for own in (library, Library("sample")))
    assert with_file.scores == without.scores
    assert with_file.labels == ""
