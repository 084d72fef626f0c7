"""evaluate beyond ranks of positives: correlations, top items, plausible matches, other collections, a new input."""

import dataclasses
import re
import shutil

import numpy as np
import pytest
from row_measures import plausible_hits
from tiny_flickr import IMAGES, flickr_library

import cxc_eccv as ce
from cxc_eccv import registry
from cxc_eccv.errors import DataError, InvalidOption, MissingIds
from cxc_eccv.evaluation.metric_inputs import (
    METRIC_INPUTS,
    MetricInput,
    MetricValues,
    PassRequest,
    PassResult,
    QueryValues,
)
from cxc_eccv.judgments.merging import cxc_ratings, entailment_labels, rated_pairs
from cxc_eccv.judgments.plausible import category_matches
from cxc_eccv.metrics.bootstrap_spearman import bootstrap_spearman
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.metrics.kinds import Spec
from cxc_eccv.metrics.ndcg_at_k import ndcg_at_k
from cxc_eccv.metrics.pmrp import pmrp
from cxc_eccv.metrics.pmrp_at_50 import pmrp_at_50
from cxc_eccv.metrics.spearman_all_pairs import spearman_all_pairs
from cxc_eccv.ranking import ranked
from cxc_eccv.ranking.readers import RowReader
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.types import Embeddings, Judgments, find_positions

DIRECTION_OF = {"sts": "t2t", "sis": "i2i", "sits": "i2t"}


@pytest.fixture
def run(make_run, sample_library):
    # With this seed random vectors have judged pairs among their first three in every direction.
    return make_run(sample_library, seed=4)


@pytest.mark.parametrize("split", ["validation", "test"])
@pytest.mark.parametrize("kind", DIRECTION_OF)
def test_correlations_are_those_of_the_metrics(make_run, sample_library, report_of, kind, split):
    run = make_run(sample_library, split=split)
    metrics = ["bootstrap_spearman", "spearman_all_pairs"]
    report = report_of(run, f"cxc/{kind}", metrics=metrics, split=split, seed=5)
    pairs = rated_pairs(sample_library.split(split), kind)
    similarities = ranked(run).compare(pairs, DIRECTION_OF[kind])
    samples = bootstrap_spearman(pairs, similarities, seed=5)
    mean, std, whole = report.results
    assert [row.key for row in report.results] == [
        f"cxc/{kind}/{name}" for name in ("bootstrap_spearman", "bootstrap_spearman_std", "spearman_all_pairs")
    ]
    assert (mean.value, std.value) == (samples.mean(), samples.std())
    assert (mean.low, mean.high) == pytest.approx(tuple(np.quantile(samples, [0.025, 0.975])), rel=1e-12)
    assert whole.value == float(spearman_all_pairs(pairs, similarities))
    assert mean.n_queries == np.unique(pairs.query_ids).size
    assert mean.parameters == {"n_samples": 1000}


def test_each_kind_of_pairs_needs_its_modalities(run, report_of):
    text = report_of(EmbeddingsRun(None, run.captions), "cxc")
    image = report_of(EmbeddingsRun(run.images, None), "cxc")
    assert {row.direction for row in text.results} == {"t2t", "sts"}
    assert {row.direction for row in image.results} == {"i2i", "sis"}
    assert text.skipped["cxc/sits"] == "the run has no images"
    assert image.skipped["cxc/sits"] == "the run has no captions"


def test_scores_tell_how_similar_images_and_captions_are(run, report_of):
    scores = ScoresRun(run.images.ids, run.captions.ids, run.images.vectors.astype(float) @ run.captions.vectors.T)
    report = report_of(scores, "cxc/sits")
    vectors = report_of(run, "cxc/sits", similarity="dot")
    assert report.scores == pytest.approx(vectors.scores, abs=1e-12)
    rankings = RankingsRun.from_dicts(i2t=dict.fromkeys(run.images.ids.tolist(), run.captions.ids.tolist()))
    with pytest.raises(InvalidOption, match="rankings have no similarities of rated pairs"):
        report_of(rankings, "cxc/sits")


def test_equal_similarities_have_no_correlation(run, report_of):
    """The other results of the report are computed."""
    constant = EmbeddingsRun(*(Embeddings(side.ids, np.ones_like(side.vectors)) for side in (run.images, run.captions)))
    report = report_of(constant)
    assert re.search("similarities are all 1.0", report.skipped["cxc/sts/bootstrap_spearman"])
    assert not any("spearman" in key for key in report.scores)
    assert report.scores["entailment/i2t/entail_at_1"] == 0
    assert report.scores["plausible_match/i2t/pmrp_at_50"] < 0.1
    rows = {row.key: row for row in report.results}
    assert rows["plausible_match/i2t/pmrp"].ties == rows["plausible_match/i2t/pmrp"].n_queries
    assert rows["entailment/i2t/entail_at_5"].ties == rows["entailment/i2t/entail_at_5"].n_queries


@pytest.mark.parametrize("split", ["validation", "test"])
def test_plausible_matches_are_those_of_the_metrics(make_run, sample_library, report_of, split):
    run = make_run(sample_library, split=split)
    report = report_of(run, "plausible_match", split=split)
    criteria = (0, None), (1, None), (2, None), (0, 50)
    for direction in ("i2t", "t2i"):
        hits = plausible_hits(run, category_matches(sample_library.split(split), direction), direction, criteria)
        assert report.scores[f"plausible_match/{direction}/pmrp"] == pmrp(hits).mean()
        assert report.scores[f"plausible_match/{direction}/pmrp_at_50"] == pmrp_at_50(hits).mean()
    one = report_of(run, "plausible_match/t2i", metrics=["pmrp_at_50"], split=split)
    assert one.scores == {key: report.scores[key] for key in one.scores}


@pytest.mark.parametrize("direction", ["i2t", "t2i", "t2t", "i2i"])
def test_ndcg_is_there_on_request_with_its_coverage(run, sample_library, report_of, direction):
    report = report_of(run, f"cxc/{direction}", metrics=["ndcg_at_k", "ndcg_at_3"])
    qrels = cxc_ratings(sample_library.split("test"), direction)
    for row, k in zip(report.results, (10, 3), strict=True):
        top = ranked(run).find_top(qrels, direction, k)
        assert row.key == f"cxc/{direction}/ndcg_at_{k}"
        assert row.value == pytest.approx(ndcg_at_k(top, qrels, k).mean(), rel=1e-15)
        judged = [
            item in set(qrels.gallery_ids[qrels.indices[a:b]].tolist())
            for ids, a, b in zip(top.ids.tolist(), qrels.indptr[:-1], qrels.indptr[1:], strict=True)
            for item in ids
        ]
        assert row.coverage == pytest.approx(np.mean(judged), rel=1e-12)
        assert row.low < row.value < row.high


def test_entailment_states_policy_and_coverage(run, sample_library, report_of):
    labels = entailment_labels(sample_library.split("test"))
    top = ranked(run).find_top(labels, "i2t", 10)
    for policy in ("not_entailed", "leave_out"):
        report = report_of(run, "entailment", unjudged=policy)
        assert [row.key for row in report.results] == [f"entailment/i2t/entail_at_{k}" for k in (1, 5, 10, 30)]
        for row in report.results:
            assert row.parameters["unjudged"] == policy
            assert 0 < row.coverage < 1
        if policy == "not_entailed":
            assert report.results[2].value == entail_at_k(top, labels, 10).mean()
        else:
            assert report.results[0].parameters["queries_left_out"] == 60 - report.results[0].n_queries > 0
            assert report.results[0].coverage == report.results[0].n_queries / 60


def test_classifier_and_its_label_table_agree(run, sample_library):
    import pyarrow as pa

    images, captions = np.meshgrid(run.images.ids, run.captions.ids, indexing="ij")
    table = pa.table(
        {"image_id": images.ravel(), "caption_id": captions.ravel(), "label": (captions.ravel() % 3 == 0).astype(int)}
    )
    options = {"tasks": "entailment", "data_dir": sample_library}
    by_function = ce.evaluate(run, judge=lambda image_ids, caption_ids: caption_ids % 3 == 0, **options)
    by_table = ce.evaluate(run, judge=table, **options)
    assert by_function == by_table
    assert by_table.results[0].parameters == {"k": 1, "unjudged": "classifier"}
    assert (
        by_table.scores["entailment/i2t/entail_at_10"]
        > ce.evaluate(run, **options).scores["entailment/i2t/entail_at_10"]
    )
    with pytest.raises(DataError, match=r"labels of the judge lack \d+ of \d+ retrieved pairs"):
        ce.evaluate(run, judge=table.slice(0, 100), **options)
    for broken, words in (
        (table.drop_columns("label"), "no label or probability among the columns"),
        (table.set_column(2, "label", pa.array(["yes"] * table.num_rows)), "label string"),
        (table.set_column(2, "label", pa.array(np.full(table.num_rows, 0.7))), "label double"),
        (table.set_column(2, "label", pa.array([1, None] * (table.num_rows // 2))), "need whole numbers without nulls"),
        (table.set_column(0, "image_id", table["image_id"].cast(pa.float64())), "image_id double"),
        (pa.concat_tables([table, table.slice(0, 1)]), "occurs twice"),
        (
            table.set_column(2, "label", pa.array(np.full(table.num_rows, 2))),
            r"row 0 \(image \d+, caption \d+\): found 2, expected",
        ),
    ):
        with pytest.raises(DataError, match=words):
            ce.evaluate(run, judge=broken, **options)


def test_metrics_that_fit_some_tasks_skip_the_others(run, report_of):
    report = report_of(run, metrics=["pmrp", "ndcg_at_5"])
    assert {row.task for row in report.results} == {"cxc", "plausible_match"}
    assert report.skipped["coco_5k"] == "none of the metrics pmrp, ndcg_at_5 is defined for coco_5k"
    assert report.skipped["cxc/sts"] == "none of the metrics is defined for cxc/sts"


def test_run_is_scored_on_its_own_collection(tmp_path, run):
    shutil.copytree(mirror_folder("sample"), tmp_path / "both")
    library = flickr_library(tmp_path / "both")
    on_coco = ce.evaluate(run, data_dir=library, confidence=None)
    assert {row.task for row in on_coco.results} >= {"coco_5k"}
    assert on_coco.skipped["flickr30k"] == "the run holds 0 of the 3 images of Flickr30k"
    captions = np.repeat(np.eye(3), 5, axis=0)
    flickr = EmbeddingsRun(Embeddings(IMAGES, np.eye(3)), Embeddings(np.arange(15), captions))
    report = ce.evaluate(flickr, data_dir=library, confidence=0.9)
    assert {row.task for row in report.results} == {"flickr30k", "flickr30k_entailment"}
    assert report.skipped["coco_5k"] == "the run holds 0 of the 60 images of COCO"
    assert report.scores["flickr30k/t2i/recall_at_1"] == 1
    assert report.scores["flickr30k/rsum"] == 600
    with pytest.raises(MissingIds, match="lacks 15 of 15 captions"):
        ce.evaluate(run, "flickr30k", data_dir=library)


def test_flickr30k_is_not_fetched_unless_it_is_named(run, report_of):
    report = report_of(run, confidence=None)
    assert (
        report.skipped["flickr30k"] == "the files of Flickr30k are not on this machine (name the task to download them)"
    )
    assert (
        report.skipped["flickr8k"] == "the files of Flickr8k are not on this machine (name the task to download them)"
    )


@pytest.mark.reference
@pytest.mark.parametrize(
    ("name", "split", "images"),
    [("flickr30k", "validation", 1014), ("flickr30k", "test", 1000), ("flickr8k", "test", 1000)],
)
def test_flickr_ranks_its_images_with_five_captions_each(real_library, name, split, images):
    content = real_library.split(split, task(name).collection)
    vectors = np.random.default_rng(0).standard_normal((images, 16)).astype(np.float32)
    captions = vectors[find_positions(content.caption_image_ids, content.image_ids)[0]]
    run = EmbeddingsRun(Embeddings(content.image_ids, vectors), Embeddings(content.caption_ids, captions))
    report = ce.evaluate(run, split=split, data_dir=real_library, confidence=None)
    found = {row.key: (row.n_queries, row.value) for row in report.results}
    assert found[f"{name}/i2t/recall_at_1"] == (images, 1.0)
    assert found[f"{name}/t2i/recall_at_10"] == (5 * images, 1.0)
    of_same_ids = {"flickr30k": {"_entailment"}, "flickr8k": {"_human", "_expert", "_crowd"}}[name]
    assert {row.task for row in report.results} == {name, *(f"{name}{ending}" for ending in of_same_ids)}
    assert re.match("the run holds 0 of the 5,0.. images of COCO", report.skipped["coco_5k"])


class BestRows(RowReader):
    """Reads the highest score of every query."""

    deepest = None

    def __init__(self, judgments):
        super().__init__(judgments.query_ids, judgments.gallery_ids)
        self._best = np.zeros(self.query_ids.size)

    @property
    def needs(self):
        return np.ones_like(self.query_ids)

    @property
    def result(self):
        return self._best

    def _read(self, block, start):
        for queries, scores in self._own.strips(block, start):
            self._take(queries, scores, None)

    def _take(self, queries, scores, items):
        self._best[queries] = scores.max(axis=1)


@dataclasses.dataclass(frozen=True, slots=True)
class BestMetric(Spec):
    reads: str = dataclasses.field(default="ranks", init=False)


class BestScores(MetricInput[Judgments, BestMetric]):
    """The highest score of every query: an input that the package does not have."""

    @classmethod
    def why_not(cls, run, direction):
        return "rankings have no scores" if isinstance(run, RankingsRun) else None

    def make_request(self, ranker):
        return PassRequest(readers=dict.fromkeys((each.label for each in self.variants), BestRows(self.judged)))

    def make_result(self, request):
        (scores,) = (reader.result for reader in request.all_readers)
        return ScoreResult(self, {}, {}, (), scores)


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class ScoreResult(PassResult):
    """The scores."""

    scores: np.ndarray

    def compute_values(self, variant, seed=0):
        queries = QueryValues(self.metric_input.query_ids, variant.spec.function(self.scores))
        return MetricValues.of_queries(variant, queries, 0)


def squared_score(scores):
    return scores**2


@pytest.fixture
def new_input(monkeypatch):
    """A metric with a new input, and a task that offers it."""
    monkeypatch.setattr("cxc_eccv.evaluation.plan.METRIC_INPUTS", {**METRIC_INPUTS, BestMetric: BestScores})
    spec = BestMetric(squared_score, "squared score", citation="none", bounds=(0.0, None), unit="number")
    known = registry.metrics(), registry.tasks()
    monkeypatch.setattr(registry, "metrics", lambda: {**known[0], "squared_score": spec})
    best = dataclasses.replace(known[1]["coco_5k"], name="best", metrics=("squared_score",))
    monkeypatch.setattr(registry, "tasks", lambda: {**known[1], "best": best})


@pytest.mark.usefixtures("new_input")
def test_new_metric_input_is_planned_measured_and_scored(run, report_of):
    report = report_of(run, ["best", "coco_5k"], per_query=True, similarity="dot")
    rows = {row.key: row for row in report.results}
    squares = (run.captions.vectors @ run.images.vectors.T).max(axis=1) ** 2
    row = rows["best/t2i/squared_score"]
    assert row.value == pytest.approx(squares.mean(), rel=1e-5)
    assert row.low < row.value < row.high
    assert row.n_queries == squares.size
    kept = report.per_query.to_pandas().query("task == 'best' and direction == 't2i'")
    assert kept["value"].to_numpy() == pytest.approx(squares, rel=1e-5)
    alone = report_of(run, "coco_5k", similarity="dot")
    assert [rows[row.key] for row in alone.results] == list(alone.results)


@pytest.mark.usefixtures("new_input")
def test_new_metric_input_says_what_a_run_lacks(run, report_of):
    rankings = RankingsRun.from_dicts(i2t=dict.fromkeys(run.images.ids.tolist(), run.captions.ids.tolist()))
    with pytest.raises(InvalidOption, match="best cannot be computed: rankings have no scores"):
        report_of(rankings, "best")
    with pytest.raises(MissingIds, match="lacks 1 of 300 captions"):
        report_of(EmbeddingsRun(run.images, Embeddings(run.captions.ids[1:], run.captions.vectors[1:])), "best")
