"""evaluate: keys, values equal to slow loops, what is skipped and why, what is refused, and report.json."""

import json
import subprocess
import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from plain_ranks import slow_scores

from cxc_eccv import version
from cxc_eccv.errors import DataError, InvalidOption, MissingIds, SourceMissing, UnknownName
from cxc_eccv.evaluation import Request, evaluate, report_of_ranks
from cxc_eccv.evaluation.calls import split_key
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.registry import task, tasks
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_embeddings, save_embeddings
from cxc_eccv.runs.rankings import RankedLists
from cxc_eccv.sources.library import Library
from cxc_eccv.tasks import coco_1k
from cxc_eccv.types import Embeddings, Judgments, Result
from cxc_eccv.types.provenance import ItemFacts, Package


@pytest.fixture(scope="module")
def report(sample_library, make_run):
    """Every task that the sample has, for random vectors."""
    return evaluate(make_run(sample_library), data_dir=sample_library)


KEYS = [
    *(
        f"coco_5k/{d}/{m}"
        for d in ("i2t", "t2i")
        for m in ("recall_at_1", "recall_at_5", "recall_at_10", "median_rank")
    ),
    *(f"cxc/{d}/recall_at_5" for d in ("i2t", "t2i", "t2t", "i2i")),
    *(f"cxc/{d}/median_rank" for d in ("i2t", "t2i", "t2t", "i2i")),
    *(f"cxc_rated/{d}/recall_at_1" for d in ("i2t", "t2i")),
    *(f"eccv_caption/{d}/{m}" for d in ("i2t", "t2i") for m in ("map_at_r", "r_precision", "recall_at_1")),
]


def test_the_keys_of_report_json_are_there(report):
    assert set(KEYS) <= report.scores.keys()


ABSENT = ("coco_1k", "flickr8k", "flickr8k_human", "flickr30k")  # from the sample


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "direction"),
    [
        (name, part.name)
        for name, one in tasks().items()
        if name not in ABSENT and not one.of_label_files
        for part in one.parts_with("ranks")
    ],
)
def test_values_equal_slow_loops(sample_library, report_of, name, direction, make_run):
    run = make_run(sample_library, seed=7)
    wanted = ["recall_at_k", "median_rank", "mean_rank", "mrr", "r_precision", "map_at_r"]
    found = report_of(run, f"{name}/{direction}", metrics=wanted, confidence=None).scores
    slow, _ = slow_scores(run, task(name).judgments(sample_library.split("test"), direction), direction)
    assert {key.rpartition("/")[2] for key in found} == slow.keys()
    for key, value in found.items():
        assert value == pytest.approx(slow[key.rpartition("/")[2]], abs=1e-12), key


def test_coco_5k_rsum_is_sum_of_recalls(report):
    recalls = [report.scores[f"coco_5k/{d}/recall_at_{k}"] for d in ("i2t", "t2i") for k in (1, 5, 10)]
    assert report.scores["coco_5k/rsum"] == pytest.approx(100 * sum(recalls), rel=1e-12)


def test_co_captions_share_an_image_without_the_query(sample_library, report_of):
    """Text vectors of two captions of one image point the same way but for captions 2 and 3, which swap images."""
    captions = sample_library.split("test").captions
    ids = captions["caption_id"].to_numpy()
    images = captions["image_id"].to_numpy()
    vectors = np.eye(ids.size)[np.unique(images, return_inverse=True)[1]]
    first = 0
    other = int(np.flatnonzero(images != images[0])[0])
    vectors[[first, other]] = vectors[[other, first]]
    scores = report_of(EmbeddingsRun(None, Embeddings(ids, vectors)), "co_captions").scores
    hits = ids.size - 2  # of the others, those whose image lost a caption tie with the one that came instead
    moved = int((images == images[first]).sum() + (images == images[other]).sum() - 2)
    assert scores["co_captions/t2t/recall_at_1"] == pytest.approx((hits - moved) / ids.size)
    assert scores["co_captions/t2t/recall_at_5"] == pytest.approx(hits / ids.size)
    assert tasks()["co_captions"].part_names == ("t2t",)


def test_intervals_hold_their_value_and_are_seeded(report, sample_library, report_of, make_run):
    for result in report.results:
        if result.metric == "bootstrap_spearman_std":
            assert result.low is result.high is None
        else:
            assert result.low <= result.value <= result.high
    again = report_of(make_run(sample_library))
    assert again == report
    other = report_of(make_run(sample_library), "cxc/t2i", seed=1)
    by_key = {result.key: result for result in report.results}
    assert [one.value for one in other.results] == [by_key[one.key].value for one in other.results]
    assert [one.low for one in other.results] != [by_key[one.key].low for one in other.results]


def test_a_wider_confidence_gives_wider_intervals(sample_library, report_of, make_run):
    run = make_run(sample_library)
    narrow, wide = (report_of(run, "cxc/t2i", confidence=level).results[0] for level in (0.5, 0.99))
    assert wide.low < narrow.low < narrow.high < wide.high
    assert report_of(run, "cxc/t2i", confidence=None).results[0].low is None


def test_a_text_only_file_runs_what_it_can(sample_library, report_of, make_run):
    run = make_run(sample_library)
    report = report_of(EmbeddingsRun(None, run.captions))
    assert {result.key.rpartition("/")[0] for result in report.results} == {"co_captions/t2t", "cxc/t2t", "cxc/sts"}
    assert report.skipped["cxc/i2i"] == report.skipped["eccv_caption/t2i"] == "the run has no images"


def test_eccv_caption_has_no_validation_split(sample_library, report_of, make_run):
    report = report_of(make_run(sample_library, split="validation"), split="validation")
    assert report.skipped["eccv_caption/i2t"] == "eccv_caption has no validation split, only test"
    assert "cxc/i2i/recall_at_1" in report.scores


def test_a_task_named_and_impossible_is_an_error(sample_library, report_of, make_run):
    run = EmbeddingsRun(None, make_run(sample_library).captions)
    with pytest.raises(InvalidOption, match="coco_5k cannot be computed: the run has no images"):
        report_of(run, ["cxc", "coco_5k"])
    with pytest.raises(InvalidOption, match="60 with 300"):
        report_of(make_run(sample_library), "coco_1k")


def test_absent_data_is_skipped_unless_named(tmp_path, monkeypatch):
    monkeypatch.delenv("CXC_ECCV_DATA", raising=False)
    library = Library(tmp_path, offline=True)
    run = EmbeddingsRun(None, Embeddings([1], [[1.0]]))
    report = evaluate(run, data_dir=library)
    assert report.results == ()
    assert "karpathy" in report.skipped["cxc/t2t"]
    with pytest.raises(SourceMissing):
        evaluate(run, "cxc/t2t", data_dir=library)


def test_a_run_that_lacks_items_is_refused(sample_library, report_of, make_run):
    run = make_run(sample_library)
    short = EmbeddingsRun(run.images, Embeddings(run.captions.ids[1:], run.captions.vectors[1:]))
    with pytest.raises(MissingIds, match="lacks 1 of 300 captions"):
        report_of(short)
    with pytest.raises(MissingIds, match="another split"):
        report_of(run, "cxc", split="validation")


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"tasks": "coco_5"}, UnknownName, "did you mean 'coco_5k'"),
        ({"tasks": "coco_5k/t2t"}, UnknownName, "direction of coco_5k"),
        ({"metrics": ["map"]}, UnknownName, "unknown metric 'map'"),
        ({"metrics": ["rsum"], "tasks": "cxc"}, InvalidOption, "none of the metrics rsum"),
        ({"split": "val"}, UnknownName, "Known: validation, test"),
        ({"confidence": 95}, InvalidOption, "as 0.95"),
        ({"seed": -1}, InvalidOption, "seed is -1"),
        ({"similarity": "l2"}, UnknownName, "Known: cosine, dot"),
        ({"unjudged": "leaveout"}, UnknownName, "did you mean 'leave_out'"),
        ({"unjudged": "classifier"}, UnknownName, "unknown policy for unjudged pairs 'classifier'"),
        ({"unjudged": len}, InvalidOption, "a judge is the option judge"),
        ({"intervals": "wilson"}, UnknownName, "Known: bootstrap, binomial, binomial_images, none"),
        ({"tasks": "cxc/stss"}, UnknownName, "did you mean 'sts'"),
        ({"tasks": "entailment", "metrics": ["ndcg_at_k"]}, InvalidOption, "none of the metrics ndcg_at_k"),
        ({"tasks": "cxc", "metrics": ["entail_at_5"]}, InvalidOption, "none of the metrics entail_at_5"),
        ({"tasks": "coco_5k/i2t", "metrics": ["pmrp"]}, InvalidOption, "none of the metrics pmrp"),
        ({"tasks": "cxc/sts", "metrics": ["mrr"]}, InvalidOption, "none of the metrics .* cxc/sts"),
        ({"tasks": "cxc/i2t", "metrics": ["mrr", "pmrp"]}, InvalidOption, "the metric pmrp is not defined for cxc/i2t"),
        ({"tasks": []}, InvalidOption, "tasks is an empty list"),
        ({"tasks": "cxc", "metrics": "pmrp"}, InvalidOption, "none of the metrics pmrp"),
        ({"metrics": ["ndcg_at_0"], "tasks": "cxc"}, InvalidOption, "whole number of at least 1"),
    ],
)
def test_options_out_of_range_are_refused(sample_library, report_of, options, error, words, make_run):
    with pytest.raises(error, match=words):
        report_of(make_run(sample_library), **options)


def test_equal_scores_are_legal_and_doubted(sample_library, report_of, make_run):
    run = make_run(sample_library)
    constant = EmbeddingsRun(*(Embeddings(side.ids, np.ones_like(side.vectors)) for side in (run.images, run.captions)))
    report = report_of(constant, "coco_5k/i2t")
    assert "60 of 60 queries" in report.doubts["deciding_ties"]
    assert report.results[0].if_ties_help == 1
    assert report.scores["coco_5k/i2t/recall_at_10"] == 0
    assert report.scores["coco_5k/i2t/median_rank"] == 296
    assert report.results[0].ties == 60


@pytest.mark.parametrize(
    ("score", "depth", "cut"),
    [
        (lambda places: places * 0.0, 10, "coco_5k/i2t cxc/i2t"),
        (lambda places: np.where(places < 1, 1.0, 0.0), 10, "cxc/i2t"),  # the first positive decides Recall@K
        (lambda places: -1.0 * places, 10, ""),
        (lambda places: np.where(places < 9, 1.0, 0.0), 10, ""),  # the last item alone
        (lambda places: np.where(places < 12, 1.0, 0.0), 20, ""),  # what the metrics look at is above the last tie
        (lambda places: None, 10, ""),
        (lambda places: places * 0.0, 300, ""),  # nothing is left out
    ],
)
def test_ranking_cut_within_a_tie_is_doubted(sample_library, score, depth, cut):
    """The first five items of every list are its positives."""
    content = sample_library.split("test")
    lists = {}
    for image in content.image_ids.tolist():
        others = content.caption_image_ids != image
        lists[image] = content.caption_ids[np.argsort(others, kind="stable")][:depth].tolist()
    ranked = replace(RankedLists.of(lists), scores=score(np.tile(np.arange(depth), len(lists))))
    recall = evaluate(RankingsRun({"i2t": ranked}), "coco_5k/i2t", metrics="recall_at_k", data_dir=sample_library)
    graded = evaluate(RankingsRun({"i2t": ranked}), "cxc/i2t", metrics="ndcg_at_10", data_dir=sample_library)
    for report, key in ((recall, "coco_5k/i2t"), (graded, "cxc/i2t")):
        total = report.results[0].n_queries
        sentence = report.doubts.get("cut_rankings", "")
        assert sentence.startswith(f"{key}: {total} of {total} rankings end within a tie") == (key in cut.split())
        assert bool(sentence) == (key in cut.split())
    assert recall.scores["coco_5k/i2t/recall_at_10"] == (depth < 300)


def test_provenance_tells_data_run_and_options(sample_library, report_of, tmp_path, make_run):
    run = make_run(sample_library)
    other = sample_library.split("validation").captions["caption_id"][0].as_py()
    more = Embeddings(np.append(run.captions.ids, other), np.vstack([run.captions.vectors, np.ones((1, 16))]))
    save_embeddings(tmp_path / "model.npz", EmbeddingsRun(run.images, more))
    facts = report_of(load_embeddings(tmp_path / "model.npz"), "cxc", seed=5).provenance
    assert facts.package == Package("cxc_eccv", version.__version__)
    assert facts.data.edition == "sample"
    assert facts.data.fingerprint == sample_library.fingerprint()
    assert facts.run.file == "model.npz"
    assert len(facts.run.sha256) == 64
    assert facts.run.captions == ItemFacts(count=301, dimensions=16, outside_the_tasks=1)
    assert (facts.split, facts.seed, facts.confidence, facts.similarity) == ("test", 5, 0.95, "cosine")


def test_report_json_is_read_back_unchanged(report):
    text = report.to_json()
    content = json.loads(text)
    assert content["schema"] == 1
    assert content["scores"] == report.scores
    assert content["results"][0]["key"] == report.results[0].key
    assert content["skipped"] == report.skipped
    assert Report.from_json(text).to_json() == text


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 2}', '{"schema": 1}', '{"schema": 1, "results": [{"a": 1}]}'])
def test_other_json_is_no_report(text):
    with pytest.raises(DataError, match=r"report\.json"):
        Report.from_json(text)


def test_non_finite_value_is_never_written():
    with pytest.raises(ValueError, match="not JSON compliant"):
        Report((Result("cxc", "t2t", "mrr", float("nan"), 1),)).to_json()


@pytest.mark.reference
def test_coco_1k_on_the_real_folds(real_library, make_run):
    """RSUM is the sum of the six recalls in percent, its interval that of the sum; with one direction it is skipped."""
    run = make_run(real_library)
    report = evaluate(run, "coco_1k", data_dir=real_library)
    recalls = [value for key, value in report.scores.items() if "recall" in key]
    assert report.scores["coco_1k/rsum"] == pytest.approx(100 * sum(recalls), rel=1e-12)
    assert len(recalls) == 6
    total = report.results[-1]
    widths = [result.high - result.low for result in report.results[:-1]]
    assert total.low < total.value < total.high
    assert total.high - total.low < 100 * sum(widths)
    alone = evaluate(run, "coco_1k/i2t", data_dir=real_library)
    assert alone.skipped == {"coco_1k/rsum": "needs t2i too"}


@pytest.mark.reference
@pytest.mark.parametrize("split", ["validation", "test"])
def test_coco_1k_folds_hold_1000_images_each(real_library, split):
    judgments = task("coco_1k").judgments(real_library.split(split), "i2t")
    assert np.bincount(judgments.query_folds).tolist() == [1000] * 5
    assert np.bincount(judgments.gallery_folds).tolist() == [5000] * 5
    assert np.array_equal(judgments.query_folds[judgments.rows], judgments.gallery_folds[judgments.indices])
    np.testing.assert_array_equal(judgments.gallery_folds, np.repeat(np.arange(5), 5000))


def test_ranks_of_any_origin_make_a_report(sample_library, report_of, make_run):
    run = make_run(sample_library)
    judgments = task("cxc").judgments(sample_library.split("test"), "t2t")
    ranks = ranked(run).rank(judgments, "t2t")
    report = report_of_ranks({"cxc/t2t": (judgments, ranks)}, sample_library, Request(name="mine"))
    assert report.scores == report_of(run, "cxc/t2t").scores
    assert report.provenance.model == "mine"


@pytest.mark.parametrize("spoil", [lambda ids: ids[:-1], lambda ids: np.append(ids[:-1], 99_999), lambda ids: ids])
def test_the_order_names_every_caption_once(spoil):
    ids = np.arange(coco_1k.COCO_1K_CAPTIONS)
    library = SimpleNamespace(read=lambda *_: spoil(ids))
    split = SimpleNamespace(name="test", caption_ids=ids, caption_image_ids=ids // 5, library=library)
    if spoil(ids) is ids:
        assert coco_1k._fold_orders(split)[1].size == coco_1k.COCO_1K_IMAGES
        return
    with pytest.raises(
        DataError, match=r"captions of coco_test_ids, .*, are not the 25,000 captions of the test split"
    ):
        coco_1k._fold_orders(split)


def test_a_device_needs_torch(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    run = EmbeddingsRun(Embeddings([1], [[1.0]]), Embeddings([7], [[1.0]]))
    with pytest.raises(InvalidOption, match="device 'cuda' needs torch, which is not installed: pip install torch"):
        ranked(run, Options(device="cuda")).rank_all({"": ("i2t", Judgments.from_pairs([1], [7], [1], [7]))})


@pytest.mark.thorough
def test_ranking_does_not_import_torch():
    program = "import sys, cxc_eccv.ranking, cxc_eccv.evaluation; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_number_is_named_as_it_is_printed():
    assert split_key("COCO 5K/t2i/r@1") == ("coco_5k/t2i", "recall_at_1")
    assert split_key("cxc/i2t/R@k") == ("cxc/i2t", "R@k")  # several numbers: whoever asks for one refuses them
