"""Scoring on a torch device: the ranks that NumPy gives, on the processor and, where there is one, on a GPU."""

import numpy as np
import pytest
from plain_ranks import assert_equal_ranks, random_judgments, whole_number_run

from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.evaluation import evaluate
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.device import full_precision
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, Judgments

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]
N_IMAGES = 60
N_CAPTIONS = 310


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block_size", [None, 1, 37])
def test_exact_scores_rank_as_numpy_ranks_them(device, block_size):
    run = whole_number_run(N_IMAGES, N_CAPTIONS)
    folds = {"query_folds": np.arange(N_IMAGES) % 3, "gallery_folds": np.arange(N_CAPTIONS) % 3}
    requests = {d: (d, random_judgments(run, d)) for d in ("i2t", "t2i", "t2t", "i2i")}
    requests["folds"] = ("i2t", random_judgments(run, "i2t", 1, **folds))
    options = {"similarity": "dot", "block_size": block_size}
    there = ranked(run, Options(device=device, **options)).rank_all(requests)
    for name, here in ranked(run, Options(**options)).rank_all(requests).items():
        assert_equal_ranks(there[name], here)
    assert there["t2t"].ties.sum() > 100


@pytest.mark.parametrize("device", DEVICES)
def test_pairs_are_counted_in_portions(device, monkeypatch):
    run = whole_number_run(N_IMAGES, N_CAPTIONS)
    requests = {"i": ("i2t", random_judgments(run, "i2t"))}
    whole = ranked(run, Options(similarity="dot", device=device)).rank_all(requests)["i"]
    monkeypatch.setattr("cxc_eccv.ranking.device_product.DEVICE_FLAGS_AT_ONCE", 1_000)
    assert_equal_ranks(ranked(run, Options(similarity="dot", device=device)).rank_all(requests)["i"], whole)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("block_size", [None, 1, 50])
def test_identical_captions_tie(device, block_size):
    random = np.random.default_rng(1)
    images = random.standard_normal((97, 65))
    captions = random.standard_normal((1003, 65))
    copies = np.array([3, 400, 1002])
    captions[copies] = captions[3]
    run = EmbeddingsRun(Embeddings(np.arange(97), images), Embeddings(np.arange(1003), captions))
    found = []
    for copy in copies:
        qrels = Judgments.from_pairs(np.arange(97), np.arange(1003), np.arange(97), np.full(97, copy))
        ranks = ranked(run, Options(block_size=block_size, device=device)).rank_all({"": ("i2t", qrels)})[""]
        assert ranks.ties.tolist() == [2] * 97
        found.append(ranks.ranks.tolist())
    assert found == [found[0]] * 3


@pytest.mark.parametrize("device", DEVICES)
def test_a_report_is_the_same(device, sample_library, make_run):
    run = make_run(sample_library)
    here, there = (evaluate(run, data_dir=sample_library, device=one, progress=False) for one in (None, device))
    assert [(one.key, one.value) for one in here.results] == [(one.key, one.value) for one in there.results]


@pytest.mark.parametrize("device", DEVICES)
def test_rounding_alone_may_move_a_rank(device):
    random = np.random.default_rng(2)
    run = EmbeddingsRun(*(Embeddings(np.arange(n), random.standard_normal((n, 512))) for n in (200, 2_000)))
    qrels = random_judgments(run, "i2t")
    here = ranked(run).rank(qrels, "i2t")
    there = ranked(run, Options(device=device)).rank_all({"": ("i2t", qrels)})[""]
    assert np.abs(here.ranks - there.ranks).max() <= 1
    assert np.mean(here.ranks != there.ranks) < 0.01


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("device", DEVICES)
def test_tensors_of_every_type_are_embeddings(kind, device):
    values = torch.tensor([[1.5, -2.0], [0.25, 3.0]], dtype=getattr(torch, kind), device=device, requires_grad=True)
    one = Embeddings(torch.tensor([4, 7], device=device), values)
    assert one.ids.tolist() == [4, 7]
    assert (one.vectors.dtype, one.vectors.tolist()) == (np.float32, [[1.5, -2.0], [0.25, 3.0]])


def test_a_float32_tensor_is_not_copied():
    tensor = torch.ones((3, 4))
    assert np.shares_memory(Embeddings([1, 2, 3], tensor).vectors, tensor.numpy())


def test_a_tensor_with_nan_is_refused():
    with pytest.raises(MalformedRun, match="1 of 2 vectors are not finite"):
        Embeddings([1, 2], torch.tensor([[1.0], [float("nan")]], dtype=torch.bfloat16))


def test_precision_is_full_inside_and_restored_outside():
    matmul = torch.backends.cuda.matmul
    name, loose, exact = (
        ("fp32_precision", "tf32", "ieee") if hasattr(matmul, "fp32_precision") else ("allow_tf32", True, False)
    )
    before = getattr(matmul, name)
    setattr(matmul, name, loose)
    try:
        with full_precision(torch, "cpu"), torch.no_grad():
            assert getattr(matmul, name) == exact
            assert not torch.is_autocast_enabled("cpu")
        assert getattr(matmul, name) == loose
        with pytest.raises(KeyError), full_precision(torch, "cpu"):
            raise KeyError
        assert getattr(matmul, name) == loose
    finally:
        setattr(matmul, name, before)


def test_low_matmul_precision_does_not_reach_scores():
    """On some processors bfloat16 products would be taken for float32 ones."""
    run = whole_number_run(N_IMAGES, N_CAPTIONS)
    qrels = {"": ("i2t", random_judgments(run, "i2t"))}
    before = torch.get_float32_matmul_precision()
    plain = ranked(run, Options(device="cpu")).rank_all(qrels)[""]
    torch.set_float32_matmul_precision("medium")
    try:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_equal_ranks(ranked(run, Options(device="cpu")).rank_all(qrels)[""], plain)
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_device_that_is_not_there_is_refused():
    run = whole_number_run(N_IMAGES, N_CAPTIONS)
    with pytest.raises(InvalidOption, match=r"device 'xpu:7' cannot be used: .*leave it out"):
        ranked(run, Options(device="xpu:7")).rank_all({"": ("i2t", random_judgments(run, "i2t"))})
    with pytest.raises(InvalidOption, match="device 'nonsense' cannot be used: there is no such kind"):
        ranked(run, Options(device="nonsense")).rank_all({"": ("i2t", random_judgments(run, "i2t"))})


@pytest.mark.parametrize("device", DEVICES)
def test_vectors_without_a_score_are_refused(device):
    run = EmbeddingsRun(Embeddings([1], [[1.0, 0.0]]), Embeddings([7, 8], [[1.0, 0.0], [0.0, 0.0]]))
    requests = {"i": ("i2t", Judgments.from_pairs([1], [7, 8], [1], [7]))}
    with pytest.raises(MalformedRun, match="1 of 2 captions have a zero vector"):
        ranked(run, Options(device=device)).rank_all(requests)
    assert ranked(run, Options(similarity="dot", device=device)).rank_all(requests)["i"].ranks.tolist() == [1]
    small = EmbeddingsRun(Embeddings([1], [[1e-20, 0.0]]), Embeddings([7, 8], [[1e-20, 0.0], [0.0, 0.0]]))
    with pytest.raises(MalformedRun, match=r"fall to 1e-40 \(query 1 with item 7\)"):
        ranked(small, Options(similarity="dot", device=device)).rank_all(requests)
