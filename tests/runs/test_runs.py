"""Embeddings files: what is read, and what each kind of damage gets: an error that names place and remedy."""

import numpy as np
import pytest
import safetensors.numpy

from cxc_eccv.errors import MalformedRun, NoSuchFile
from cxc_eccv.ranking.large_gallery import LargeGallery
from cxc_eccv.runs import EmbeddingsRun, embeddings, load_embeddings, save_embeddings
from cxc_eccv.runs.embeddings import write_safetensors
from cxc_eccv.types import Embeddings, Judgments

IMAGES, CAPTIONS = np.array([11, 12]), np.array([21, 22, 23])


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


def with_value(value, dtype=np.float32):
    vectors = np.ones((3, 3), dtype=dtype)
    vectors[1, 2] = value
    return vectors


BAD = {
    "NaN of an altered sentence": (
        {"adversarial_size_embeddings": with_value(np.nan)},
        ["adversarial_size_embeddings", "nan", "row 1, column 2"],
    ),
    "altered sentences by floats": ({"adversarial_size_ids": np.ones(3)}, ["adversarial_size_ids", "whole-number ids"]),
    "altered vectors in a row": ({"adversarial_a_embeddings": np.ones(3)}, ["adversarial_a_embeddings", "(3,)"]),
    "an altered something": ({"adversarial_size": np.ones(3)}, ["adversarial_size", "neither ids"]),
    "float64 beyond float32": ({"caption_embeddings": with_value(1e300, np.float64)}, ["1e+300", "scale the vectors"]),
    "float64 below float32": (
        {"caption_embeddings": np.array([[1.0], [1e-60], [-3e-60]])},
        ["caption_embeddings", "row 1 (id 22) is 1e-60", "2 of 3 vectors", "Multiply all vectors"],
    ),
    "float64 among float32's last digits": (
        {"caption_embeddings": np.full((3, 3), 1e-40)},
        ["id 21", "3 of 3 vectors"],
    ),
    "float32 with few digits": (
        {"caption_embeddings": np.full((3, 3), 1e-44, np.float32)},
        ["id 21", "3 of 3 vectors"],
    ),
    "unknown similarity": ({"similarity": np.array("euclidean")}, ["its similarity is 'euclidean'", "cosine or dot"]),
    "a similarity of numbers": ({"similarity": np.array([1, 2])}, ["its similarity is '[1, 2]'"]),
    "ids too large": ({"image_ids": np.array([1, 2**63], dtype=np.uint64)}, ["image_ids", str(2**63)]),
    "no columns": ({"image_embeddings": np.ones((2, 0))}, ["image_embeddings", "(2, 0)"]),
    "flat vectors": ({"image_embeddings": np.ones(2)}, ["image_embeddings", "(2,)", "expected (N, D)"]),
    "ids in a matrix": ({"image_ids": IMAGES[:, None]}, ["image_ids", "(2, 1)"]),
    "complex vectors": ({"image_embeddings": np.ones((2, 3), dtype=complex)}, ["image_embeddings", "complex128"]),
    "no vectors": ({"image_embeddings": None}, ["'image_ids' but not 'image_embeddings'"]),
    "no ids": ({"caption_ids": None}, ["'caption_embeddings' but not 'caption_ids'"]),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_bad_arrays_are_refused_by_name(save, changes, words):
    with pytest.raises(MalformedRun) as caught:
        load_embeddings(save(**changes))
    for word in [*words, "run.npz"]:
        assert word in str(caught.value)


def test_other_files_say_what_they_hold_and_what_is_needed(tmp_path):
    np.savez(tmp_path / "other.npz", features=np.ones(3))
    with pytest.raises(MalformedRun, match=r"holds \['features'\]; needs image_ids with"):
        load_embeddings(tmp_path / "other.npz")
    with (tmp_path / "bare.npz").open("wb") as file:
        np.save(file, np.ones(3))
    with pytest.raises(MalformedRun, match=r"not a zip file.*np.savez"):
        load_embeddings(tmp_path / "bare.npz")
    np.array([{"a": 1}], dtype=object).dump(tmp_path / "pickle.npz")
    with pytest.raises(MalformedRun, match="not a readable"):
        load_embeddings(tmp_path / "pickle.npz")
    with pytest.raises(NoSuchFile, match="no such file"):
        load_embeddings(tmp_path / "absent.npz")
    with pytest.raises(MalformedRun, match=r"unknown embeddings format '\.pt'; use \.npz or \.safetensors"):
        load_embeddings(tmp_path / "model.pt")


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f4"])
def test_floating_types_become_float32(save, dtype):
    run = load_embeddings(save(image_embeddings=np.arange(6).reshape(2, 3).astype(dtype)))
    assert run.images.vectors.dtype == np.float32
    np.testing.assert_array_equal(run.images.vectors, np.arange(6).reshape(2, 3))


def save_npz(vectors, folder):
    np.savez(folder / "run.npz", caption_ids=CAPTIONS, caption_embeddings=vectors)
    return load_embeddings(folder / "run.npz")


def save_safetensors(vectors, folder):
    arrays = {"caption_ids": CAPTIONS, "caption_embeddings": vectors}
    safetensors.numpy.save_file(arrays, folder / "run.safetensors")
    return load_embeddings(folder / "run.safetensors")


def save_altered(vectors, folder):
    np.savez(folder / "run.npz", **arrays(adversarial_a_ids=CAPTIONS, adversarial_a_embeddings=vectors))
    return load_embeddings(folder / "run.npz")


def make_embeddings(vectors, folder):
    return Embeddings(CAPTIONS, vectors)


def count_shard(vectors, folder):
    positives = Embeddings(CAPTIONS, np.ones((3, 8)))
    judgments = Judgments.from_pairs([21], CAPTIONS, [21], [22])
    return LargeGallery(positives, judgments, positives).count(CAPTIONS, vectors)


@pytest.mark.parametrize("take", [save_npz, save_safetensors, save_altered, count_shard, make_embeddings])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int64", "bool", "complex64"])
def test_vectors_of_other_types_are_refused(take, dtype, tmp_path):
    vectors = np.eye(3, 8).astype(dtype)
    with pytest.raises(MalformedRun, match=rf"has type {dtype}, .* np\.unpackbits .* bfloat16 numbers read as int16"):
        take(vectors, tmp_path)


def test_list_of_whole_numbers_is_no_vector():
    with pytest.raises(MalformedRun, match="has type int64, expected float16, float32 or float64"):
        Embeddings([1, 2], [[1, 0], [0, 1]])


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_vectors_of_altered_sentences_and_saved_runs_read_back_and_equal_runs_give_equal_bytes(tmp_path, suffix):
    random = np.random.default_rng(0)
    run = EmbeddingsRun(
        Embeddings(IMAGES, random.standard_normal((2, 5))), Embeddings(CAPTIONS, random.standard_normal((3, 5)))
    )
    first, second = tmp_path / f"first{suffix}", tmp_path / f"second{suffix}"
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
    content = path.read_bytes().replace(b'"U16", ', b'"BF16",').replace(b'"sha256": ', b'"theirs": ')
    path.write_bytes(content)
    rounded = (exact.view(np.uint32) >> 16 << 16).view(np.float32)
    np.testing.assert_array_equal(load_embeddings(path).images.vectors, rounded)


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("similarity", [None, "cosine", "dot"])
def test_a_file_says_which_similarity_it_is_meant_for(suffix, similarity, tmp_path):
    path = tmp_path / f"run{suffix}"
    save_embeddings(path, EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity=similarity))
    assert load_embeddings(path).similarity == similarity
    if suffix == ".npz" and similarity:
        np.savez(path, caption_ids=[1], caption_embeddings=[[1.0]], similarity=[similarity])
        assert load_embeddings(path).similarity == similarity


def test_a_run_has_a_known_similarity_or_none(save):
    with pytest.raises(MalformedRun, match="run: its similarity is 'Dot'; save cosine or dot, or none"):
        EmbeddingsRun(None, Embeddings([1], [[1.0]]), similarity="Dot")
    run = load_embeddings(save(image_ids=None, image_embeddings=None))
    assert run.images is None
    np.testing.assert_array_equal(run.captions.ids, CAPTIONS)


@pytest.mark.parametrize("value", [1e-60, 1e-40, -1e-60, np.float32(1e-44)])
def test_vectors_too_small_for_float32_are_refused_in_python_too(value):
    vectors = np.zeros((3, 2), dtype=np.asarray(value).dtype)
    vectors[1, 0] = value
    with pytest.raises(MalformedRun, match=r"row 1 \(id 5\) .*1 of 3 vectors are too small for float32"):
        Embeddings([4, 5, 6], vectors)
    vectors[1, 1] = 1  # then it adds nothing that float32 would keep
    assert Embeddings([4, 5, 6], vectors).vectors[1, 1] == 1


def test_torch_tensors_are_judged_by_their_own_values():
    torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")
    with pytest.raises(MalformedRun, match="too small for float32"):
        Embeddings([4], torch.full((1, 2), 1e-60, dtype=torch.float64))
    assert Embeddings([4], torch.ones((1, 2), dtype=torch.bfloat16)).vectors.dtype == np.float32
