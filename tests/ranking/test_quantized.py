"""Quantized vectors: those of sentence-transformers, and rescoring equal to a loop over candidates."""

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.ranking import quantized as module
from cxc_eccv.ranking.quantized import quantize, rescore
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

IMAGES, CAPTIONS = np.arange(30, 42), np.arange(60, 100)


def seeded_run(similarity, seed=0):
    random = np.random.default_rng(seed)
    images, captions = (random.normal(0.1, random.uniform(0.2, 2, 13), (ids.size, 13)) for ids in (IMAGES, CAPTIONS))
    return EmbeddingsRun(Embeddings(IMAGES, images), Embeddings(CAPTIONS, captions), similarity=similarity)


def scaled(run, similarity):
    sides = [run.images.vectors, run.captions.vectors]
    return [side / np.linalg.norm(side, axis=1, keepdims=True) if similarity == "cosine" else side for side in sides]


def unpack(codes):
    bits = np.unpackbits((codes.astype(int) + 128).astype(np.uint8), axis=1)[:, :13]
    return 2.0 * bits - 1


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_vectors_are_those_of_sentence_transformers(similarity):
    peer = pytest.importorskip("sentence_transformers.util.quantization", reason="the st extra is not installed")
    run = seeded_run(similarity)
    sides = scaled(run, similarity)
    every = np.concatenate(sides)
    for precision in ("int8", "binary"):
        found = quantize(run, precision)
        expected = [peer.quantize_embeddings(side, precision, calibration_embeddings=every) for side in sides]
        assert found.size == sum(side.nbytes for side in expected)
        for side, codes in zip((found.search.images, found.search.captions), expected, strict=True):
            np.testing.assert_array_equal(side.vectors, codes if precision == "int8" else unpack(codes))
    found = quantize(run, "int8")
    codes = found.search.captions.vectors.astype(np.int8)
    restored = peer._dequantize_embeddings(codes, "int8", np.stack([every.min(axis=0), every.max(axis=0)]))
    np.testing.assert_allclose(found.items.captions.vectors, restored, atol=1e-5)


@pytest.mark.parametrize("precision", ["int8", "binary"])
@pytest.mark.parametrize("at_once", [1, 2**24])
def test_rescoring_equals_a_loop_over_candidates(precision, at_once, monkeypatch):
    monkeypatch.setattr(module, "VALUES_AT_ONCE", at_once)
    run, depth = seeded_run("cosine", 1), 5
    quantized = quantize(run, precision)
    lists = rescore(quantized, depth).lists
    assert [*lists] == ["i2t", "t2i", "t2t", "i2i"]
    floats = scaled(run, "cosine")[1]
    for row, query in enumerate(CAPTIONS):
        codes = quantized.search
        coarse = codes.images.vectors @ codes.captions.vectors[row]
        candidates = sorted(range(IMAGES.size), key=lambda item: (-coarse[item], item))[:depth]
        fine = {int(IMAGES[item]): float(quantized.items.images.vectors[item] @ floats[row]) for item in candidates}
        place = int(np.flatnonzero(lists["t2i"].query_ids == query)[0])
        part = slice(place * depth, (place + 1) * depth)
        assert lists["t2i"].items[part].tolist() == sorted(fine, key=lambda item: -fine[item])
        np.testing.assert_allclose(lists["t2i"].scores[part], sorted(fine.values(), reverse=True), atol=1e-5)


def test_what_cannot_be_quantized_is_refused():
    run = seeded_run("cosine")
    with pytest.raises(UnknownName, match="int4"):
        quantize(run, "int4")
    vectors = run.images.vectors.copy()
    vectors[2] = 0
    with pytest.raises(MalformedRun, match="1 of 12 images have a zero vector"):
        quantize(EmbeddingsRun(Embeddings(IMAGES, vectors), None), "int8")


@pytest.mark.filterwarnings("ignore:.*decided by ties")
def test_the_command_prints_the_loss_beside_the_size(tmp_path, capsys, sample_library, make_run):
    from cxc_eccv.cli.app import main
    from cxc_eccv.runs import save_embeddings

    save_embeddings(tmp_path / "a.npz", make_run(sample_library, 0))
    with pytest.raises(SystemExit) as ended:
        main(["quantize", str(tmp_path / "a.npz"), "--data-dir", "sample", "--tasks", "coco_5k"])
    out = capsys.readouterr().out
    assert not ended.value.code
    assert [line.split()[0] for line in out.splitlines() if line.split()[:1] in (["MB"], ["i2t"])][:2] == ["MB", "i2t"]
    assert "binary rescored" in out
