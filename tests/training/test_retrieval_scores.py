"""The metric of torchmetrics against ce.evaluate, on one process and on two."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import retrieval_scores_worker as worker
import torch

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.training import RetrievalScores
from cxc_eccv.types import Embeddings

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:check this first:UserWarning"),
]


@pytest.fixture(scope="module")
def expected():
    """Scores of every task on the test split."""
    images = worker.images()
    captions = worker.captions()
    run = EmbeddingsRun(Embeddings(*images), Embeddings(*captions))
    return ce.evaluate(run, "all", data_dir=worker.LIBRARY, intervals="none", progress=False).scores


def test_all_scores_are_those_of_evaluate(expected):
    metric = worker.metric()
    for batch in worker.batches(0, 1):
        metric.update(**batch)
    assert metric.compute() == expected
    assert len(expected) > 50
    assert metric.report.scores == expected


@pytest.mark.parametrize("shares", worker.SHARES)
def test_two_processes_have_the_scores_of_one(expected, shares, two_processes):
    for rank in range(2):
        assert two_processes[rank][shares] == expected


def test_other_width_on_another_process_is_refused(expected, two_processes):
    for rank in range(2):
        message, scores = two_processes[rank]["other width"]
        assert "processes gave vectors of different dimensions" in message
        assert scores == expected


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory, warm_python):
    """What each of two gloo processes computes."""
    folder = tmp_path_factory.mktemp("two")
    alone = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path), "CUDA_VISIBLE_DEVICES": ""}
    command = [*warm_python, worker.__file__, str(folder)]
    done = subprocess.run(
        command, env={**os.environ, **alone}, stderr=subprocess.PIPE, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr[-6000:]
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types_are_those_of_their_float32_values(dtype):
    ids, vectors = worker.captions()
    rounded = torch.as_tensor(vectors).to(dtype)
    metric = RetrievalScores(worker.LIBRARY, "cxc/t2t", split="test")
    metric.update(caption_ids=torch.tensor(ids), captions=rounded.requires_grad_())
    run = EmbeddingsRun(None, Embeddings(ids, rounded.detach().float()))
    scores = ce.evaluate(run, "cxc/t2t", data_dir=worker.LIBRARY, intervals="none", progress=False).scores
    assert metric.compute() == scores


def text_metric(**options):
    return RetrievalScores(worker.LIBRARY, "cxc/t2t", split="test", **options)


def test_repeated_item_counts_once():
    ids, vectors = worker.captions()
    metric = text_metric()
    metric.update(caption_ids=ids, captions=vectors)
    scores = metric.compute()
    noise = 1 + 0.01 * np.random.default_rng(1).standard_normal((7, vectors.shape[1]), dtype=np.float32)
    metric.update(caption_ids=ids[:7], captions=vectors[:7] * noise)
    assert metric.compute() == scores


def test_two_vectors_of_one_id_are_refused():
    ids, vectors = worker.captions()
    metric = text_metric()
    metric.update(caption_ids=ids, captions=vectors)
    metric.update(caption_ids=ids[4:5], captions=vectors[5:6])
    with pytest.raises(MalformedRun, match=f"caption {ids[4]} has several vectors"):
        metric.compute()


def test_lacking_items_are_refused():
    ids, vectors = worker.captions()
    metric = text_metric()
    metric.update(caption_ids=ids[1:], captions=vectors[1:])
    with pytest.raises(MissingIds):
        metric.compute()


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
def test_no_batch_is_refused():
    with pytest.raises(MalformedRun, match="neither"):
        text_metric().compute()


ONES = np.ones((2, 4))


@pytest.mark.parametrize(
    ("ids", "vectors", "message"),
    [
        ([1.0, 2.0], ONES, "caption_ids is .* need a list of whole-number ids"),
        ([True, False], ONES, "caption_ids is .* need a list of whole-number ids"),
        (["a.jpg", "b.jpg"], ONES, "caption_ids is .* need a list of whole-number ids"),
        (np.ma.masked_array([1, 2], [0, 1]), ONES, "caption_ids is a masked array"),
        ([1, 2], np.ones((3, 4)), "captions: has 3 rows for 2 ids"),
        ([1, 2], np.ones(2), r"captions: has shape \(2,\), expected \(N, D\)"),
        ([1, 2], np.ones((2, 0)), r"captions: has shape \(2, 0\), expected \(N, D\)"),
        ([1, 2], [[1.0], [1.0, 2.0]], "captions is not an array .rows of unequal length"),
        ([1, 2], None, "caption_ids and captions together"),
        (None, ONES, "caption_ids and captions together"),
        ([1, 2], torch.ones(2, 4, dtype=torch.int8), "captions: has type int8"),
        ([1, 2], ONES > 0, "captions: has type bool"),
        ([1, 2], torch.ones(2, 4, dtype=torch.complex64), "captions: has type complex64"),
        ([1, 2], np.ma.masked_array(ONES, ONES), "captions is a masked array"),
        ([1, 2], torch.tensor([[1.0, 2.0], [np.nan, 1.0]]), r"captions: value nan in row 1, column 0 \(id 2\)"),
        ([1, 2], ONES * 1e300, "does not fit float32"),
        ([1, 2], ONES * 1e-300, "too small for float32"),
    ],
)
def test_bad_batch_is_refused(ids, vectors, message):
    metric = text_metric()
    with pytest.raises(MalformedRun, match=message):
        metric.update(image_ids=[7], images=np.ones((1, 4)), caption_ids=ids, captions=vectors)
    assert metric.image_ids == []


def test_changing_a_batch_later_changes_nothing():
    ids, vectors = (torch.tensor(part) for part in worker.captions())
    metric = text_metric()
    expected = text_metric()
    expected.update(caption_ids=ids, captions=vectors)
    id_buffer = torch.empty(7, dtype=torch.int64)
    vector_buffer = torch.empty(7, vectors.shape[1])
    for id_batch, vector_batch in zip(ids.split(7), vectors.split(7), strict=True):
        size = len(id_batch)
        id_buffer[:size], vector_buffer[:size] = id_batch, vector_batch
        metric.update(caption_ids=id_buffer[:size], captions=vector_buffer[:size])
        vector_buffer.mul_(-1)
    assert metric.compute() == expected.compute()


def test_big_endian_arrays_are_those_of_their_values():
    ids, vectors = worker.captions()
    metric = text_metric()
    expected = text_metric()
    metric.update(caption_ids=ids.astype(">i8"), captions=vectors.astype(">f4"))
    expected.update(caption_ids=ids, captions=vectors)
    assert metric.compute() == expected.compute()


@pytest.mark.parametrize("frozen", ["neither", "image", "caption"])
def test_forgotten_reset_is_refused(frozen):
    metric = worker.metric()
    for factor in (1.0, 1.01):
        for batch in worker.batches(0, 1):
            moved = {f"{side}s": batch[f"{side}s"] * factor for side in ("image", "caption") if side != frozen}
            metric.update(**{**batch, **moved})
        if factor == 1.0:
            metric.compute()
    with pytest.raises(MalformedRun, match=r"images and captions came at least twice.* call reset\(\)"):
        metric.compute()
    metric.reset()
    for batch in worker.batches(0, 1):
        metric.update(**batch)
    assert len(metric.compute()) > 50


def test_equal_vectors_may_all_come_twice(expected):
    metric = worker.metric()
    for batch in [*worker.batches(0, 1), *worker.batches(0, 1)]:
        metric.update(**batch)
    assert metric.compute() == expected


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_distances_of_extreme_vectors_are_measured(scale):
    ids, vectors = worker.captions()
    metric = text_metric()
    metric.update(caption_ids=ids, captions=vectors * np.float32(scale))
    metric.update(caption_ids=ids[4:5], captions=vectors[5:6] * np.float32(scale))
    with pytest.raises(MalformedRun, match="has several vectors"):
        metric.compute()


def test_width_must_stay_the_same():
    metric = text_metric()
    metric.update(caption_ids=[1], captions=np.ones((1, 4)))
    with pytest.raises(MalformedRun, match="captions have 8 dimensions, vectors before them 4"):
        metric.update(caption_ids=[2], captions=np.ones((1, 8)))
    metric.reset()
    metric.update(caption_ids=[2], captions=np.ones((1, 8)))


def test_reset_forgets_all_items():
    ids, vectors = worker.captions()
    metric = text_metric()
    metric.update(caption_ids=ids, captions=-vectors[::-1])
    metric.reset()
    metric.update(caption_ids=ids, captions=vectors)
    fresh = text_metric()
    fresh.update(caption_ids=ids, captions=vectors)
    assert metric.compute() == fresh.compute()


def test_forward_takes_a_batch_and_returns_no_score():
    ids, vectors = worker.captions()
    metric = text_metric()
    updated = text_metric()
    assert metric(caption_ids=ids, captions=vectors) == {}
    updated.update(caption_ids=ids, captions=vectors)
    assert metric.compute() == updated.compute()


def test_clone_in_a_collection_computes():
    from torchmetrics import MetricCollection

    ids, vectors = worker.captions()
    collection = MetricCollection({"scores": text_metric()}).clone(prefix="val_")
    collection.update(caption_ids=ids, captions=vectors)
    assert "val_cxc/t2t/recall_at_1" in collection.compute()


def test_invalid_option_is_refused_at_construction():
    with pytest.raises(InvalidOption, match="limit is 0"):
        text_metric(limit=0)


@pytest.mark.gpu
def test_states_are_on_the_device():
    ids, vectors = worker.captions()
    metric = text_metric().to("cuda")
    plain = text_metric()
    metric.update(caption_ids=torch.tensor(ids, device="cuda"), captions=torch.as_tensor(vectors, device="cuda"))
    plain.update(caption_ids=ids, captions=torch.as_tensor(vectors, device="cuda"))
    assert metric.caption_vectors[0].device.type == "cuda"
    assert plain.caption_vectors[0].device.type == "cpu"
    assert metric.compute() == plain.compute()


def test_doubt_is_told_once():
    """Two epochs of random vectors."""
    metric = text_metric()
    content = worker.LIBRARY.split("test")
    vectors = torch.randn(content.caption_ids.size, 8, generator=torch.Generator().manual_seed(1))
    for n_told in (1, 0):
        metric.reset()
        metric.update(caption_ids=content.caption_ids, captions=vectors)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            metric.compute()
        assert sum("check this first" in str(each.message) for each in caught) == n_told
    assert "random_order" in metric.report.doubts
