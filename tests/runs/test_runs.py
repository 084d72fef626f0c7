"""Embeddings files: what is written and read."""

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun
from cxc_eccv.runs import EmbeddingsRun, embeddings, load_embeddings, save_embeddings
from cxc_eccv.runs.embeddings import write_safetensors
from cxc_eccv.types import Embeddings

IMAGES = np.array([11, 12])
CAPTIONS = np.array([21, 22, 23])


def arrays(**changes):
    """A good file's arrays, with some replaced, or left out where None."""
    good = {
        "image_ids": IMAGES,
        "image_embeddings": np.arange(6, dtype=np.float32).reshape(2, 3),
        "caption_ids": CAPTIONS,
        "caption_embeddings": np.ones((3, 3), dtype=np.float32),
    }
    return {name: array for name, array in {**good, **changes}.items() if array is not None}


@pytest.fixture
def save(tmp_path):
    """Save a changed file and return its path."""

    def write(**changes):
        np.savez(tmp_path / "run.npz", **arrays(**changes))
        return tmp_path / "run.npz"

    return write


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floating_types_become_float32(save, dtype):
    run = load_embeddings(save(image_embeddings=np.arange(6).reshape(2, 3).astype(dtype)))
    assert run.images.vectors.dtype == np.float32
    np.testing.assert_array_equal(run.images.vectors, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_runs_with_altered_sentences_are_read_back(tmp_path, suffix):
    """Equal runs give equal bytes."""
    random = np.random.default_rng(0)
    run = EmbeddingsRun(
        Embeddings(IMAGES, random.standard_normal((2, 5))), Embeddings(CAPTIONS, random.standard_normal((3, 5)))
    )
    first = tmp_path / f"first{suffix}"
    second = tmp_path / f"second{suffix}"
    save_embeddings(first, run)
    save_embeddings(second, run)
    read = load_embeddings(first)
    for side in ("images", "captions"):
        np.testing.assert_array_equal(getattr(read, side).ids, getattr(run, side).ids)
        np.testing.assert_array_equal(getattr(read, side).vectors, getattr(run, side).vectors)
    assert first.read_bytes() == second.read_bytes()
    assert read.sha256 == load_embeddings(second).sha256
    assert sorted(path.name for path in tmp_path.iterdir()) == [first.name, second.name]
    further = {
        "adversarial_size_ids": np.array([23, 21]),
        "adversarial_size_embeddings": np.eye(2, 3, dtype=np.float32),
    }
    run = EmbeddingsRun(None, Embeddings(CAPTIONS, np.ones((3, 3))), further=further)
    save_embeddings(tmp_path / f"run{suffix}", run)
    read = load_embeddings(tmp_path / f"run{suffix}")
    assert {name: array.tolist() for name, array in read.further.items()} == {
        name: array.tolist() for name, array in further.items()
    }
    assert read.facts().further == {"adversarial_size_embeddings": 2, "adversarial_size_ids": 2}


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "run.npz"
    path.write_bytes(b"old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(embeddings, "write_npz", fail)
    with pytest.raises(OSError, match="disk full"):
        save_embeddings(path, EmbeddingsRun(None, Embeddings([1], [[1.0]])))
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["run.npz"]


def test_bfloat16_is_read_exactly(tmp_path):
    path = tmp_path / "run.safetensors"
    exact = np.array([[1.5, -2.0], [0.15625, 3e38]], dtype=np.float32)
    halves = (exact.view(np.uint32) >> 16).astype(np.uint16)
    write_safetensors(path, {"image_ids": IMAGES, "image_embeddings": halves}, {})
    content = path.read_bytes().replace(b'"U16", ', b'"BF16",')
    path.write_bytes(content)
    rounded = (exact.view(np.uint32) >> 16 << 16).view(np.float32)
    np.testing.assert_array_equal(load_embeddings(path).images.vectors, rounded)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("similarity", [None, "cosine", "dot"])
def test_file_keeps_the_similarity_of_the_run(suffix, similarity, tmp_path):
    path = tmp_path / f"run{suffix}"
    save_embeddings(path, EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity=similarity))
    assert load_embeddings(path).similarity == similarity
    if suffix == ".npz" and similarity:
        np.savez(path, caption_ids=[1], caption_embeddings=[[1.0]], similarity=[similarity])
        assert load_embeddings(path).similarity == similarity


def test_run_may_have_one_side(save):
    run = load_embeddings(save(image_ids=None, image_embeddings=None))
    assert run.images is None
    np.testing.assert_array_equal(run.captions.ids, CAPTIONS)


def test_tiny_value_beside_a_large_one_is_accepted():
    assert Embeddings([4], [[1e-60, 1]]).vectors[0, 1] == 1


def test_torch_tensors_are_judged_by_their_own_values():
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    with pytest.raises(MalformedRun, match="too small for float32"):
        Embeddings([4], torch.full((1, 2), 1e-60, dtype=torch.float64))
    assert Embeddings([4], torch.ones((1, 2), dtype=torch.bfloat16)).vectors.dtype == np.float32
