"""A report is the same whichever form the run has; what a form cannot give is skipped with the reason."""

import dataclasses

import numpy as np
import pytest
from plain_ranks import forms_of

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, RunTooShallow, UnknownName
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, RankingsRun
from cxc_eccv.tasks import coco_1k
from cxc_eccv.types import Embeddings, Judgments, RatedPairs

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def forms(make_run, sample_library):
    """No two scores are equal."""
    return forms_of(make_run(sample_library, seed=3))


def rows(report: Report, without=()):
    """Key to everything said under it."""
    return {row.key: dataclasses.astuple(row) for row in report.results if not row.key.startswith(without)}


def test_score_matrix_equals_report_of_its_embeddings(forms, report_of):
    expected = report_of(forms["embeddings"])
    report = report_of(forms["scores"])
    assert rows(report) == rows(expected, ("co_captions", "cxc/t2t", "cxc/i2i", "cxc/sts", "cxc/sis"))
    assert len(rows(report)) > 20
    assert report.skipped["cxc/t2t"] == "scores of images with captions do not rank t2t"
    assert report.provenance.run.type == "float64"
    assert report.provenance.similarity is None
    assert report.provenance.similarity_from is None


def test_whole_rankings_give_the_report_of_their_embeddings(forms, report_of):
    """Intervals, counts and all four directions included; the query stands in its own text-text ranking."""
    expected = report_of(forms["embeddings"])
    report = report_of(forms["rankings"])
    rated = ("cxc/sts", "cxc/sis", "cxc/sits")
    without_ties = [
        dataclasses.replace(row, if_ties_help=None, decided_by_ties=None)  # rankings without scores hide their ties
        for row in expected.results
    ]
    assert rows(report) == rows(dataclasses.replace(expected, results=tuple(without_ties)), rated)
    reasons = dict.fromkeys(rated, "rankings have no similarities of rated pairs")
    assert report.skipped == expected.skipped | reasons


def test_one_direction_is_enough(forms, report_of):
    run = RankingsRun({"t2i": forms["rankings"].lists["t2i"]})
    report = report_of(run, confidence=None)
    assert {row.direction for row in report.results} == {"t2i"}
    assert report.skipped["eccv_caption/i2t"] == "the run has no i2t rankings"
    with pytest.raises(InvalidOption, match="eccv_caption cannot be computed: the run has no i2t rankings"):
        report_of(run, "eccv_caption/i2t")


@pytest.mark.parametrize("depth", [1, 5, 40, 59])
def test_a_shorter_ranking_gives_equal_values_or_none(forms, report_of, depth):
    lists = {
        direction: {
            query: row[:depth].tolist()
            for query, row in zip(one.query_ids.tolist(), np.split(one.items, one.indptr[1:-1]), strict=True)
        }
        for direction, one in forms["rankings"].lists.items()
    }
    whole = report_of(forms["rankings"], confidence=None)
    short = report_of(RankingsRun.from_dicts(**lists), confidence=None)
    assert short.scores.items() <= whole.scores.items()
    left_out = whole.scores.keys() - short.scores.keys()
    assert left_out == short.skipped.keys() - whole.skipped.keys()
    if depth == 5:
        assert "coco_5k/i2t/recall_at_5" in short.scores
        assert "coco_5k/i2t/recall_at_10" in left_out
        assert short.provenance.run.directions["t2t"].deepest == 4  # a query's own list holds it too


@pytest.fixture
def ten_of_every_fold(sample_library, monkeypatch):
    """Lists that hold ten images of each fold of 12, with the sample as the whole of COCO 1K."""
    images = sample_library.split("test").images["image_id"].to_numpy()
    captions = sample_library.split("test").captions["caption_id"].to_numpy()
    monkeypatch.setattr(coco_1k, "COCO_1K_IMAGES", images.size)
    monkeypatch.setattr(coco_1k, "COCO_1K_CAPTIONS", captions.size)
    return RankingsRun.from_dicts(t2i=dict.fromkeys(captions.tolist(), images[np.arange(images.size) % 12 < 10]))


def test_coco_1k_needs_whole_rankings(ten_of_every_fold, report_of):
    """Even lists that hold ten items of each fold are left out, as how many they hold is chance."""
    report = report_of(ten_of_every_fold, confidence=None)
    assert "holds 10 of the 12 items of its fold" in report.skipped["coco_1k/t2i/recall_at_1"]
    assert report.skipped["coco_1k/rsum"].startswith("needs i2t and t2i/recall_at_1")
    assert "coco_5k/t2i/recall_at_10" in report.scores
    assert not [key for key in report.scores if key.startswith("coco_1k")]


@pytest.mark.parametrize(
    "options", [{"tasks": "coco_1k"}, {"tasks": ["coco_1k", "coco_5k"]}, {"metrics": ["recall_at_1"]}]
)
def test_coco_1k_asked_for_by_name_refuses_them(options, ten_of_every_fold, report_of):
    with pytest.raises(RunTooShallow, match=r"holds 10 of the 12 items of its fold.*Rank the whole gallery"):
        report_of(ten_of_every_fold, confidence=None, **options)


@pytest.mark.parametrize("kind", ["scores", "rankings"])
@pytest.mark.parametrize("option", [{"similarity": "cosine"}, {"device": "cpu"}, {"block_size": 7}])
def test_options_of_embeddings_are_refused_elsewhere(forms, report_of, kind, option):
    name, value = next(iter(option.items()))
    words = rf"{name}={value!r} is for embeddings, and this run has {kind}; leave it out"
    run = forms[kind]
    with pytest.raises(InvalidOption, match=words):
        report_of(run, **option)
    qrels = Judgments.from_pairs(
        run.ids("images")[:1], run.ids("captions"), run.ids("images")[:1], run.ids("captions")[:1]
    )
    with pytest.raises(InvalidOption, match=words):
        ranked(run, Options(**option)).rank_all({"i": ("i2t", qrels)})
    assert "i" in ranked(run, Options(progress=True)).rank_all({"i": ("i2t", qrels)})


def test_scores_refuse_a_choice_of_similarity(forms):
    run = forms["scores"]
    rated = RatedPairs(run.image_ids[:1], run.caption_ids[:1], np.array([5.0]))
    with pytest.raises(InvalidOption, match="similarity='dot' is for embeddings, and this run has scores"):
        ranked(run, Options(similarity="dot")).compare(rated, "i2t")


@pytest.mark.parametrize("tasks", ["all", "cxc/sts", "coco_5k"])
@pytest.mark.parametrize(
    ("option", "error"), [({"similarity": "l2"}, UnknownName), ({"device": "abacus"}, InvalidOption)]
)
def test_unknown_embedding_options_fail_before_any_task(forms, report_of, tasks, option, error):
    with pytest.raises(error, match=r"l2|abacus"):
        report_of(forms["embeddings"], tasks, **option)


def test_scores_that_float32_would_drop_keep_their_order(forms, report_of):
    whole = forms["scores"]
    small = dataclasses.replace(whole, scores=whole.scores * 2.0**-200)
    report = report_of(small)
    assert rows(report) == rows(report_of(whole))


@pytest.mark.parametrize(
    ("asked", "meant", "used", "source"),
    [
        (None, None, "cosine", "default"),
        (None, "dot", "dot", "the run"),
        (None, "cosine", "cosine", "the run"),
        ("cosine", "dot", "cosine", "the caller"),
        ("dot", None, "dot", "the caller"),
    ],
)
def test_caller_overrides_the_similarity_of_the_run(forms, sample_library, asked, meant, used, source):
    plain = forms["embeddings"]
    long = Embeddings(plain.captions.ids, plain.captions.vectors * np.linspace(1, 9, plain.captions.ids.size)[:, None])
    run = EmbeddingsRun(plain.images, long, similarity=meant)
    options = {"data_dir": sample_library, "confidence": None}
    report = ce.evaluate(run, ["coco_5k", "cxc/sits"], similarity=asked, **options)
    assert (report.provenance.similarity, report.provenance.similarity_from) == (used, source)
    expected = ce.evaluate(
        dataclasses.replace(run, similarity=None), ["coco_5k", "cxc/sits"], similarity=used, **options
    )
    assert report.scores == expected.scores
    other = ce.evaluate(run, ["coco_5k", "cxc/sits"], similarity={"cosine": "dot", "dot": "cosine"}[used], **options)
    assert report.scores != other.scores


def test_a_zero_vector_gives_no_number(forms, report_of):
    plain = forms["embeddings"].captions
    vectors = plain.vectors.copy()
    vectors[[3, 5]] = 0
    run = EmbeddingsRun(None, Embeddings(plain.ids, vectors))
    for tasks in ("all", "cxc/t2t", "cxc/sts"):
        with pytest.raises(MalformedRun, match="captions have a zero vector, which has no cosine"):
            report_of(run, tasks)
    assert report_of(run, similarity="dot", confidence=None).scores
