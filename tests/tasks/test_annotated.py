"""The task annotated: its numbers by a plain loop over the label files, and where nothing is heard of it."""

import json

import numpy as np
import oracles
import pytest
from label_files import random_pairs, write_label_file
from report_samples import near_run

import cxc_eccv as ce
from cxc_eccv.comparison import ScoredReport
from cxc_eccv.comparison.pairing import check_comparable
from cxc_eccv.errors import InvalidOption
from cxc_eccv.judgments.evidence.source import official_sources
from cxc_eccv.judgments.merging import merge, merged_qrels
from cxc_eccv.runs import RankingsRun, ScoresRun
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks.annotated import TASK

pytestmark = pytest.mark.thorough

QUIET = {"confidence": None}


@pytest.fixture(scope="module")
def run(sample_library):
    return near_run(sample_library, noise=1.5)


@pytest.fixture(scope="module")
def files(tmp_path_factory, sample_library):
    """Two label files that share pairs; one of these calls more of them positive."""
    folder = tmp_path_factory.mktemp("labels")
    mine, gains = random_pairs(sample_library, number=500)
    others, more = random_pairs(sample_library, number=300, seed=1)
    others = [*mine[:50], *(pair for pair in others if pair not in mine)]
    more = [1.0] * 50 + more
    return {
        "mine": write_label_file(folder / "mine.parquet", sample_library, mine, gains),
        "theirs": write_label_file(
            folder / "theirs.parquet", sample_library, others, more[: len(others)], name="theirs"
        ),
    }


@pytest.fixture
def files_alone(monkeypatch):
    """No official source judges a pair, so that numbers can be read off by hand."""
    monkeypatch.setattr("cxc_eccv.judgments.merging.merged_official", lambda library: list(library.label_names))


@pytest.fixture(scope="module")
def library(files):
    return Library("sample", labels=list(files.values()))


def degrees_of(library, direction):
    """Searched query to judged items with their degree: 1 for official positives, else the highest gain of a file."""
    official = merge(library.split("test"), direction, sources=list(official_sources()))
    rows = zip(official.queries.tolist(), official.items.tolist(), official.positive.tolist(), strict=True)
    degrees = {
        (int(official.query_ids[query]), int(official.gallery_ids[item])): float(positive)
        for query, item, positive in rows
    }
    searched = set()
    for name in library.label_names:
        file = library.split("test").labels(name)
        searched |= set(file.facts["searched"][direction])
        for row in file.table.to_pylist():
            pair = (row["image_id"], row["caption_id"])[:: 1 if direction == "i2t" else -1]
            degrees[pair] = max(degrees.get(pair, 0.0), row["gain"] if row["positive"] else 0.0)
    found = {}
    for (query, item), degree in degrees.items():
        if query in searched:
            found.setdefault(query, {})[item] = degree
    return {query: gains for query, gains in found.items() if any(gains.values())}


def ranked_items(run, library, direction):
    """Query to the whole gallery as a plain product ranks it."""
    content = library.split("test")
    scores = run.images.vectors.astype(np.float64) @ run.captions.vectors.T.astype(np.float64)
    lengths = [np.linalg.norm(side.vectors, axis=1) for side in (run.images, run.captions)]
    scores = scores / lengths[0][:, None] / lengths[1]
    images = run.images.ids.tolist()
    captions = run.captions.ids.tolist()
    assert set(images) == set(content.image_ids.tolist())
    queries, gallery, rows = (images, captions, scores) if direction == "i2t" else (captions, images, scores.T)
    return {query: [gallery[place] for place in np.argsort(-row)] for query, row in zip(queries, rows, strict=True)}


def scores_by_hand(run, library):
    found = {}
    for direction in ("i2t", "t2i"):
        ranked = ranked_items(run, library, direction)
        degrees = degrees_of(library, direction)
        values = {}
        for query, gains in degrees.items():
            positives = {item for item, gain in gains.items() if gain > 0}
            own = {
                "map_at_r": oracles.map_at_r(ranked[query], positives, len(positives)),
                "r_precision": oracles.r_precision(ranked[query], positives, len(positives)),
                "graded_r_precision": oracles.graded_r_precision(ranked[query], gains),
            }
            for k in (1, 5, 10):
                own[f"recall_at_{k}"] = oracles.recall_at_k(ranked[query], positives, k)
                own[f"graded_recall_at_{k}"] = oracles.graded_recall_at_k(ranked[query], gains, k)
            for name, value in own.items():
                values.setdefault(name, []).append(value)
        found |= {f"annotated/{direction}/{name}": np.mean(own) for name, own in values.items()}
    return found


def test_scores_equal_a_loop_over_the_files(run, library):
    report = ce.evaluate(run, "annotated", data_dir=library, **QUIET)
    assert report.scores == pytest.approx(scores_by_hand(run, library))
    queries = {direction: len(degrees_of(library, direction)) for direction in ("i2t", "t2i")}
    assert {(row.direction, row.n_queries) for row in report.results} == set(queries.items())
    assert set(report.provenance.label_files) == {"mine", "theirs"}


def test_queries_are_the_searched_ones_with_positives(run, sample_library, tmp_path):
    """Also one whose asked pairs are all wrong; a caption that gained an image, but was not searched, is none."""
    content = sample_library.split("test")
    images = content.image_ids[:3].tolist()
    captions = content.caption_ids.tolist()
    pairs = [(images[0], captions[40]), (images[1], captions[41])]
    searched = {"i2t": images, "t2i": captions[50:52]}
    path = write_label_file(tmp_path / "mine.parquet", sample_library, pairs, [1, 0], searched=searched)
    library = Library("sample", labels=[path])
    for direction, expected in searched.items():
        judged = TASK.judgments(library.split("test"), direction)
        official = merged_qrels(library.split("test"), direction, sources=list(official_sources()))
        positives = {query: set(items) for query, items in qrels_to_dict(official).items() if query in expected}
        if direction == "i2t":
            positives[images[0]].add(captions[40])
        assert qrels_to_dict(judged) == positives
        assert sorted(judged.query_ids.tolist()) == sorted(expected)
    report = ce.evaluate(run, "annotated", data_dir=library, **QUIET)
    assert {(row.direction, row.n_queries) for row in report.results} == {("i2t", 3), ("t2i", 2)}


def qrels_to_dict(judged):
    found = {query: set() for query in judged.query_ids.tolist()}
    for row, place in zip(judged.rows, judged.indices, strict=True):
        found[int(judged.query_ids[row])].add(int(judged.gallery_ids[place]))
    return found


@pytest.mark.parametrize("kind", ["scores", "rankings"])
def test_every_kind_of_run_has_the_same_numbers(run, library, kind):
    expected = ce.evaluate(run, "annotated", data_dir=library, bounds=True, **QUIET)
    if kind == "scores":
        vectors = [
            side.vectors / np.linalg.norm(side.vectors, axis=1, keepdims=True) for side in (run.images, run.captions)
        ]
        other = ScoresRun(run.images.ids, run.captions.ids, vectors[0] @ vectors[1].T)
    else:
        other = RankingsRun.from_dicts(*(ranked_items(run, library, direction) for direction in ("i2t", "t2i")))
    found = ce.evaluate(other, "annotated", data_dir=library, bounds=True, **QUIET)
    assert [row.key for row in found.results] == [row.key for row in expected.results]
    for ours, theirs in zip(expected.results, found.results, strict=True):
        assert ours.value == pytest.approx(theirs.value), ours.key
        assert (ours.coverage, ours.n_queries) == (theirs.coverage, theirs.n_queries)
        assert (ours.bounds.low, ours.bounds.high) == pytest.approx((theirs.bounds.low, theirs.bounds.high)), ours.key
        assert ours.bounds.low <= ours.value <= ours.bounds.high


def test_coverage_is_the_share_of_judged_pairs(run, library):
    report = ce.evaluate(run, "annotated/i2t", data_dir=library, **QUIET)
    coverage = {row.metric: row.coverage for row in report.results}
    ranked = ranked_items(run, library, "i2t")
    degrees = degrees_of(library, "i2t")
    looked = [ranked[query][: sum(gain > 0 for gain in gains.values())] for query, gains in degrees.items()]
    judged = sum(item in gains for own, gains in zip(looked, degrees.values(), strict=True) for item in own)
    assert coverage["graded_r_precision"] == judged / sum(map(len, looked))
    first = sum(ranked[query][0] in gains for query, gains in degrees.items())
    assert coverage["graded_recall_at_1"] == first / len(degrees)


def test_rankings_must_reach_the_largest_r(run, library):
    """Each metric is there as soon as the rankings are deep enough for it; bounds look deeper by their depth."""
    ranked = ranked_items(run, library, "i2t")
    deepest = max(sum(gain > 0 for gain in gains.values()) for gains in degrees_of(library, "i2t").values())
    whole = ce.evaluate(run, "annotated/i2t", data_dir=library, **QUIET).scores

    def cut(depth, **options):
        short = RankingsRun.from_dicts({query: items[:depth] for query, items in ranked.items()})
        return ce.evaluate(short, "annotated/i2t", data_dir=library, **QUIET, **options)

    found = cut(deepest)
    assert found.scores["annotated/i2t/graded_r_precision"] == whole["annotated/i2t/graded_r_precision"]
    short = cut(deepest - 1)
    assert "annotated/i2t/graded_r_precision" not in short.scores
    assert f"needs {deepest} ranked items for its top {deepest}" in short.skipped["annotated/i2t/graded_r_precision"]
    assert short.scores["annotated/i2t/graded_recall_at_5"] == whole["annotated/i2t/graded_recall_at_5"]
    bounded = cut(deepest + 2, bounds=True, bounds_depth=3)
    assert f"needs {deepest + 3} ranked items" in bounded.skipped["annotated/i2t/graded_r_precision bounds"]
    rows = {row.metric: row for row in bounded.results}
    assert rows["graded_r_precision"].value == whole["annotated/i2t/graded_r_precision"]
    assert rows["graded_r_precision"].bounds is None
    enough = {row.metric: row for row in cut(deepest + 3, bounds=True, bounds_depth=3).results}
    assert enough["graded_r_precision"].bounds.retrieved == 3 * enough["graded_r_precision"].n_queries


def test_probabilities_are_asked_once_for_all_graded_metrics(run, library):
    asked = []

    def chances_of(images, captions):
        asked.append(images.size)
        return np.full(images.size, 0.5)

    options = {"metrics": ["graded_recall_at_k", "graded_r_precision"], "bounds": True, "bounds_depth": 20}
    report = ce.evaluate(run, "annotated/i2t", data_dir=library, judge=chances_of, **options, **QUIET)
    assert asked == [report.results[-1].bounds.unjudged]
    for row in report.results:
        assert row.bounds.low < row.bounds.expected < row.bounds.high, row.key


@pytest.mark.usefixtures("files_alone")
def test_ties_count_only_where_their_order_matters(sample_library, tmp_path):
    """By query: nothing ties; a tie within the top R of unequal gains; of equal ones; one that goes beyond its end."""
    content = sample_library.split("test")
    images = content.image_ids[:4].tolist()
    captions = content.caption_ids.tolist()
    pairs = [(image, caption) for image in images for caption in captions[:3]]
    gains = [1, 0.5, 0, 1, 0.5, 0, 0.5, 0.5, 0, 1, 1, 0]
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, pairs, gains)
    scores = np.zeros((content.image_ids.size, len(captions)))
    scores[:4, :4] = [[4, 3, 2, 1], [4, 4, 2, 1], [4, 4, 2, 1], [4, 3, 2, 3]]
    run = ScoresRun(content.image_ids, content.caption_ids, scores)
    library = Library("sample", labels=[labels])
    report = ce.evaluate(
        run, "annotated/i2t", metrics=["graded_r_precision"], data_dir=library, per_query=True, **QUIET
    )
    (row,) = report.results
    assert row.ties == 2
    assert report.per_query.to_pandas()["value"].tolist() == [0.75, 0.75, 0.5, 0.5]


@pytest.mark.usefixtures("files_alone")
def test_answers_give_equations_e1_to_e4(sample_library, tmp_path):
    """R@1 of E.2 is 1 and 3/4 with degrees, R-Precision of E.3 5/6 and 1/2: two images, read off by hand."""
    content = sample_library.split("test")
    gain_of = {"yes": 1.0, "partially_yes": 0.5, "mostly_no": 0.0, "no": 0.0}.get
    (first, second), captions = content.image_ids[:2].tolist(), content.caption_ids.tolist()
    said = {first: ["yes", "no", "partially_yes", None, "yes"], second: ["partially_yes", "mostly_no"]}
    told = [
        (image, captions[place], gain_of(own))
        for image, every in said.items()
        for place, own in enumerate(every)
        if own
    ]
    pairs = [pair for *pair, _ in told]
    gains = [gain for *_, gain in told]
    labels = write_label_file(tmp_path / "mine.parquet", sample_library, pairs, gains)
    run = RankingsRun.from_dicts({first: captions, second: captions})
    report = ce.evaluate(run, "annotated/i2t", data_dir=Library("sample", labels=[labels]), **QUIET)
    expected = {"recall_at_1": 1, "graded_recall_at_1": 3 / 4, "r_precision": 5 / 6, "graded_r_precision": 1 / 2}
    assert {name: report.scores[f"annotated/i2t/{name}"] for name in expected} == pytest.approx(expected)


def test_without_label_files_no_report_mentions_it(run, sample_library, library):
    without = ce.evaluate(run, data_dir=Library("sample"), seed=3)
    text = without.to_json()
    assert "annotated" not in text
    assert "label_files" not in text
    assert not any(key.startswith("annotated") for key in without.skipped)
    added = ce.evaluate(run, data_dir=library, seed=3)
    assert {row.task for row in added.results} - {row.task for row in without.results} == {"annotated"}
    assert [row for row in added.results if row.task != "annotated"] == list(without.results)
    assert added.skipped == without.skipped
    graded = ce.evaluate(run, metrics=["graded_recall_at_k"], data_dir=library, **QUIET)
    assert {row.task for row in graded.results} == {"annotated"}


def test_undefined_task_says_what_to_do(run, sample_library, library, tmp_path):
    with pytest.raises(
        InvalidOption, match=r"annotated cannot be computed: there is no label file; pass one .* \(--labels\)"
    ):
        ce.evaluate(run, "annotated", data_dir=sample_library)
    validation = sample_library.split("validation")
    lists = RankingsRun.from_dicts({int(validation.image_ids[0]): validation.caption_ids})
    with pytest.raises(InvalidOption, match=r"no label file \(mine, theirs\) has labels of the validation split"):
        ce.evaluate(lists, "annotated", split="validation", data_dir=library)
    pairs, _ = random_pairs(sample_library, number=5)
    drawn = write_label_file(tmp_path / "drawn.parquet", sample_library, pairs, [1] * 5, searched={})
    with pytest.raises(InvalidOption, match="so no query was searched"):
        ce.evaluate(run, "annotated", data_dir=Library("sample", labels=[drawn]))
    report = ce.evaluate(run, data_dir=Library("sample", labels=[drawn]), **QUIET)
    assert "so no query was searched" in report.skipped["annotated/i2t"]
    with pytest.raises(InvalidOption, match="none of the metrics graded_r_precision is defined for coco_5k"):
        ce.evaluate(run, "coco_5k", metrics=["graded_r_precision"], data_dir=library)


def test_part_of_the_split_ignores_the_rest(run, library):
    report = ce.evaluate(run, "annotated/i2t", data_dir=library, limit=20, **QUIET)
    content = library.split("test")
    images = np.sort(content.image_ids)[:20].tolist()
    kept = set(content.caption_ids[np.isin(content.caption_image_ids, images)].tolist())
    ranked = ranked_items(run, library, "i2t")
    values = []
    for query, gains in degrees_of(library, "i2t").items():
        own = {item: gain for item, gain in gains.items() if item in kept}
        if query in images and any(own.values()):
            values.append(oracles.graded_r_precision([item for item in ranked[query] if item in kept], own))
    assert report.scores["annotated/i2t/graded_r_precision"] == pytest.approx(np.mean(values))


def test_reports_on_other_label_files_are_not_compared(run, library, files, tmp_path):
    alone = Library("sample", labels=[files["mine"]])
    models = [
        ScoredReport.of(name, ce.evaluate(run, ["coco_5k", "annotated"], data_dir=own, per_query=True, **QUIET))
        for name, own in (("a", library), ("b", alone), ("c", library))
    ]
    check_comparable(models[0], models[2])
    with pytest.raises(InvalidOption, match="the label files of annotated"):
        check_comparable(models[0], models[1])
    links = ScoredReport.of("d", ce.evaluate(run, "coco_5k", data_dir=Library("sample"), per_query=True, **QUIET))
    check_comparable(models[0], links)


def test_annotated_report_is_saved_and_read_back(run, library, tmp_path):
    report = ce.evaluate(run, ["coco_5k", "annotated"], data_dir=library, per_query=True, bounds=True)
    report.save(tmp_path / "out")
    assert ce.load_report(tmp_path / "out").results == report.results
    for name in ("report.md", "report.html"):
        page = (tmp_path / "out" / name).read_text(encoding="utf-8")
        assert "Graded R-Precision" in page
        assert "Annotated" in page
    facts = json.loads((tmp_path / "out" / "report.json").read_text())["provenance"]["label_files"]["mine"]
    assert {"version", "scheme", "rule", "people", "sha256"} == set(facts)
