"""Bounds over the unjudged in reports: of every task and kind of run, in every form of the report; bad input."""

import dataclasses
import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from plain_ranks import forms_of
from report_samples import near_run

import cxc_eccv as ce
from cxc_eccv.cli.user_tables import load_judge, read_probabilities
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.judgments.merging import judged_pairs
from cxc_eccv.metrics.kinds import RankMetric, TopMetric, WholeMetric
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import metrics, tasks
from cxc_eccv.report import Report
from cxc_eccv.runs import RankingsRun
from cxc_eccv.wording import BOUNDS

pytestmark = pytest.mark.thorough


@pytest.fixture
def run(sample_library):
    return near_run(sample_library, noise=1.5)


def chances_of(images, captions):
    """A made-up probability of each pair, the same whoever asks."""
    return ((images * 7919 + captions * 104729) % 101) / 100


def bounded_metrics(task):
    """Metrics of ranks and of the top that the task has, and its sums of these."""
    bounded = {name: spec for name, spec in metrics().items() if isinstance(spec, RankMetric | TopMetric)}
    sums = [name for name in task.metrics if isinstance(metrics().get(name), WholeMetric)]
    return [name for name, spec in bounded.items() if task.parts_with(spec.reads)] + sums


IN_SAMPLE = [
    name
    for name, task in tasks().items()
    if task.collection.is_default and not task.of_label_files and name != "coco_1k" and bounded_metrics(task)
]


@pytest.mark.parametrize("name", IN_SAMPLE)
def test_number_lies_between_its_bounds_in_every_task(run, report_of, name):
    asked = bounded_metrics(tasks()[name])
    plain = report_of(run, name, metrics=asked, confidence=None)
    options = {"bounds": True, "judge": chances_of, "unjudged": "not_entailed"}
    report = report_of(run, name, metrics=asked, confidence=None, **options)
    assert report.scores == plain.scores
    assert all(row.bounds is None for row in plain.results)
    for row in report.results:
        bounds = row.bounds
        assert bounds.low <= row.value <= bounds.high, row.key
        assert 0 < bounds.unjudged <= bounds.retrieved, row.key
        if row.direction in ("i2t", "t2i", ""):
            assert bounds.low < bounds.expected < bounds.high or bounds.low == bounds.high, row.key
        else:
            assert bounds.expected is None, row.key


def test_what_has_no_unjudged_pairs_says_so(run, report_of):
    report = report_of(run, ["plausible_match", "cxc/sts"], confidence=None, bounds=True)
    for row in report.results:
        if row.task == "plausible_match":
            assert (row.bounds.low, row.bounds.high, row.bounds.unjudged) == (row.value, row.value, 0)
        else:
            assert row.bounds is None


def test_a_pair_rated_below_the_threshold_is_known(run, sample_library, report_of):
    """CxC's raters turned pairs down that COCO's links leave open: the same lists, fewer unjudged pairs."""
    report = report_of(run, ["coco_5k", "cxc"], confidence=None, bounds=True)
    found = {row.key: row.bounds for row in report.results}
    rated_down = {}
    queries, items = judged_pairs(sample_library.split("test"), "t2i", ["coco", "cxc"])
    links = set(zip(*judged_pairs(sample_library.split("test"), "t2i", ["coco"]), strict=True))
    for query, item in zip(queries.tolist(), items.tolist(), strict=True):
        if (query, item) not in links:
            rated_down.setdefault(query, set()).add(item)
    judgments = ce.registry.task("coco_5k").judgments(sample_library.split("test"), "t2i")
    top = ranked(run).find_top(judgments, "t2i", 10)
    fewer = sum(item in rated_down.get(q, ()) for q, row in zip(top.query_ids, top.ids, strict=True) for item in row)
    wide = found["coco_5k/t2i/recall_at_10"]
    narrow = found["cxc/t2i/recall_at_10"]
    assert fewer > 0
    assert wide.unjudged - narrow.unjudged == fewer


def test_rsum_bounds_are_sums_of_recall_bounds(run, report_of):
    report = report_of(run, "coco_5k", confidence=None, bounds=True, judge=chances_of)
    rows = {row.key: row.bounds for row in report.results}
    recalls = [bounds for key, bounds in rows.items() if "recall" in key]
    rsum = rows["coco_5k/rsum"]
    for name in ("low", "high", "expected"):
        assert getattr(rsum, name) == pytest.approx(100 * sum(getattr(own, name) for own in recalls))
    deepest = [rows[f"coco_5k/{direction}/recall_at_10"] for direction in ("i2t", "t2i")]
    assert rsum.unjudged == sum(own.unjudged for own in deepest)
    assert rsum.retrieved == sum(own.retrieved for own in deepest) == 10 * 60 + 10 * 300


@pytest.mark.parametrize("kind", ["scores", "rankings"])
def test_every_kind_of_run_has_the_same_bounds(run, sample_library, kind):
    options = {"data_dir": sample_library, "confidence": None, "bounds": True, "judge": chances_of}
    expected = ce.evaluate(run, ["coco_5k", "eccv_caption"], **options)
    found = ce.evaluate(forms_of(run)[kind], ["coco_5k", "eccv_caption"], **options)
    for ours, theirs in zip(expected.results, found.results, strict=True):
        assert dataclasses.astuple(ours.bounds) == pytest.approx(dataclasses.astuple(theirs.bounds)), ours.key


def test_short_rankings_have_bounds_within_their_depth(run, sample_library):
    judgments = ce.registry.task("coco_5k").judgments(sample_library.split("test"), "i2t")
    top = ranked(run).find_top(judgments, "i2t", 20)
    short = RankingsRun.from_dicts(dict(zip(top.query_ids.tolist(), top.ids, strict=True)))
    options = {"metrics": ["recall_at_k", "mrr_at_k", "r_precision"], "data_dir": sample_library, "confidence": None}
    report = ce.evaluate(short, "coco_5k/i2t", bounds=True, **options)
    with_bounds = {row.metric for row in report.results if row.bounds is not None}
    assert with_bounds == {"recall_at_1", "recall_at_5", "recall_at_10", "mrr_at_10"}
    assert "look at the top 50, but the rankings hold 20" in report.skipped["coco_5k/i2t/r_precision bounds"]
    grown = ce.evaluate(short, "coco_5k/i2t", bounds=True, bounds_depth=20, **options)
    reason = "it looks at the top 25, but a ranking ends at rank 20"
    assert reason in grown.skipped["coco_5k/i2t/r_precision bounds"]
    shallower = ce.evaluate(short, "coco_5k/i2t", bounds=True, bounds_depth=15, **options)
    whole = ce.evaluate(run, "coco_5k/i2t", bounds=True, bounds_depth=15, **options)
    without_ties = [dataclasses.replace(row, if_ties_help=None, decided_by_ties=None) for row in whole.results]
    assert list(shallower.results) == without_ties  # rankings without scores hide their ties
    assert not any("bounds" in key for key in shallower.skipped)


def test_part_of_the_split_has_its_own_bounds(run, report_of):
    report = report_of(run, "cxc", confidence=None, bounds=True, limit=8)
    bounds = next(row.bounds for row in report.results if row.key == "cxc/t2i/median_rank")
    assert bounds.retrieved == 8 * 5 * 8


def test_only_pairs_that_change_a_number_are_judged(run, sample_library):
    asked = []

    def remember(images, captions):
        asked.append(images.size)
        return chances_of(images, captions)

    options = {"data_dir": sample_library, "confidence": None, "bounds": True, "judge": remember}
    report = ce.evaluate(run, "coco_5k/t2i", metrics=["recall_at_k", "median_rank"], **options)
    assert len(asked) == 1
    judgments = ce.registry.task("coco_5k").judgments(sample_library.split("test"), "t2i")
    above = ranked(run).rank_all({"": ("t2i", judgments)})[""].best - 1
    assert asked[0] == np.minimum(above, 50).sum() < report.results[-1].bounds.unjudged


def test_the_classifier_that_judges_gives_expected_values(run, sample_library):
    class Judge:
        def __call__(self, images, captions):
            return (self.probabilities(images, captions) >= 0.5).astype(int)

        def probabilities(self, images, captions):
            return chances_of(images, captions)

    options = {"metrics": ["entail_at_k"], "data_dir": sample_library, "confidence": None}
    judged = ce.evaluate(run, "entailment", judge=Judge(), bounds=True, **options)
    given = ce.evaluate(run, "entailment", unjudged="not_entailed", bounds=True, judge=chances_of, **options)
    for ours, theirs in zip(judged.results, given.results, strict=True):
        assert ours.bounds == theirs.bounds
        assert ours.bounds.low <= ours.value <= ours.bounds.high
        assert ours.bounds.expected is not None
    left_out = ce.evaluate(run, "entailment", unjudged="leave_out", bounds=True, **options)
    assert all(row.bounds.low <= row.value <= row.bounds.high for row in left_out.results)


def test_reports_with_bounds_are_read_back(run, report_of, tmp_path):
    """A report without bounds has no field of bounds."""
    plain = report_of(run, "coco_5k")
    assert "bounds" not in plain.to_json()
    report = report_of(run, "coco_5k", bounds=True, judge=chances_of)
    text = report.to_json()
    assert Report.from_json(text).to_json() == text
    assert Report.from_json(text).results == report.results
    assert report.provenance.bounds_depth == 50
    entry = json.loads(text)["results"][0]["bounds"]
    assert list(entry) == ["low", "high", "unjudged", "retrieved", "expected"]
    assert [row.low for row in report.results] == [row.low for row in plain.results]
    report.save(tmp_path / "out")
    assert ce.load_report(tmp_path / "out").results == report.results
    frame = report.to_pandas()
    assert frame["bounds_high"].tolist() == [row.bounds.high for row in report.results]
    assert "bounds_high" not in plain.to_pandas()


def test_bounds_are_shown_wherever_the_number_is(run, report_of, tmp_path):
    report = report_of(run, "coco_5k", bounds=True, judge=chances_of)
    row = report.results[0]
    low, high, expected = (f"{100 * getattr(row.bounds, name):.1f}" for name in ("low", "high", "expected"))
    share = f"{100 * row.bounds.share:.1f}%"
    assert f"{low} to\N{NO-BREAK SPACE}{high} ({expected})" in str(report)
    assert share in str(report)
    report.save(tmp_path / "out")
    for name in ("report.md", "report.html"):
        page = (tmp_path / "out" / name).read_text().replace("\N{NO-BREAK SPACE}", " ")
        assert f"{low} to {high} ({expected})" in page
        assert share in page
        assert BOUNDS in page
    plain = str(report_of(run, "coco_5k"))
    assert "bounds" not in plain
    complete = report_of(run, "plausible_match", bounds=True)
    assert "all pairs\N{NO-BREAK SPACE}judged" in str(complete)


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_probabilities_come_from_a_file(run, report_of, tmp_path, ending):
    images, captions = np.meshgrid(run.images.ids, run.captions.ids, indexing="ij")
    table = pa.table(
        {
            "image_id": images.ravel(),
            "caption_id": captions.ravel(),
            "probability": chances_of(images.ravel(), captions.ravel()),
        }
    )
    path = tmp_path / f"p.{ending}"
    if ending == "parquet":
        pq.write_table(table, path)
        given = report_of(run, "coco_5k", bounds=True, judge=path)
        expected = report_of(run, "coco_5k", bounds=True, judge=chances_of)
        assert given.results == expected.results
    elif ending == "csv":
        pyarrow.csv.write_csv(table, path)
    else:
        path.write_text("\n".join(json.dumps(row) for row in table.to_pylist()))
    assert read_probabilities(path).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("value", [2.0, float("nan"), -0.5])
def test_wrong_value_of_file_is_named_with_row(tmp_path, value):
    path = tmp_path / "said.parquet"
    pq.write_table(pa.table({"image_id": [1, 1], "caption_id": [2, 3], "probability": [0.5, value]}), path)
    with pytest.raises(DataError, match=rf"said.parquet, row 1, column 'probability': found {value}, expected a n"):
        read_probabilities(path)
    pq.write_table(pa.table({"image_id": [1, 1], "caption_id": [2, 3], "label": [1, 2]}), path)
    with pytest.raises(DataError, match=r"said.parquet, row 1, column 'label': found 2, expected 1 or 0"):
        load_judge(str(path))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"image_id": [1], "caption_id": [2]}, "no label or probability among the columns"),
        ({"image_id": [1], "caption_id": [2], "probability": ["x"]}, "need numbers without nulls"),
        ({"image_id": [1, 1], "caption_id": [2, 2], "probability": [0.1, 0.2]}, "occurs twice"),
        ({"image_id": [1], "caption_id": [2], "probability": [0.1]}, "probabilities lack .* Add them to the table"),
        (
            {"image_id": [1, 1], "caption_id": [2, 3], "probability": [0.1, np.nan]},
            r"probabilities, row 1 \(image 1, caption 3\): found nan, expected a number from 0 to 1",
        ),
    ],
)
def test_tables_of_probabilities_are_checked(run, report_of, table, message):
    with pytest.raises(DataError, match=message):
        report_of(run, "coco_5k", bounds=True, judge=pa.table(table))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bounds_depth": 10}, "set bounds too"),
        ({"judge": chances_of}, "none of these metrics asks it"),
        ({"judge": chances_of, "unjudged": "leave_out"}, "set bounds too"),
        ({"bounds": True, "judge": {}}, "the judge is a dict; give a function"),
        *(({"bounds": True, "bounds_depth": depth}, "bounds_depth") for depth in (0, -1, 2.5, "many")),
    ],
)
def test_options_of_bounds_are_checked(run, report_of, options, words):
    with pytest.raises(InvalidOption, match=words):
        report_of(run, "coco_5k", **options)


def test_bounds_do_not_depend_on_other_metrics(run, sample_library):
    """A deeper K reads a deeper top, of which a metric without K still looks at the first ``bounds_depth`` alone."""
    options = {"data_dir": sample_library, "confidence": None, "bounds": True, "judge": chances_of}
    metrics = ["median_rank", "mrr", "r_precision", "map_at_r"]
    alone = ce.evaluate(run, "cxc/t2i", metrics=metrics, bounds_depth=3, **options)
    beside = ce.evaluate(run, "cxc/t2i", metrics=[*metrics, "recall_at_20"], bounds_depth=3, **options)
    assert [row.bounds for row in beside.results if row.metric != "recall_at_20"] == [
        row.bounds for row in alone.results
    ]
    assert {row.bounds.retrieved for row in alone.results} == {3 * alone.results[0].n_queries}
