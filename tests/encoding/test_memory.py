"""``encode`` says so when its vectors fill the memory."""

import os

import pytest
import tiny_models

from cxc_eccv.encoding import encode, memory


@pytest.fixture(scope="module")
def dual(tmp_path_factory):
    return str(tiny_models.save(tiny_models.dual(), tmp_path_factory.mktemp("dual")))


def encode_all(model, tmp_path):
    (tmp_path / "images").mkdir(exist_ok=True)
    tiny_models.picture_files(tmp_path / "images", 4)
    captions = [(number, "a dog") for number in range(6)]
    return encode(model, images=tmp_path / "images", captions=captions, device="cpu", progress=False)


def test_images_and_captions_count_together(dual, tmp_path, monkeypatch, capsys):
    run = encode_all(dual, tmp_path)
    needed = run.images.vectors.nbytes + run.captions.vectors.nbytes
    assert "holds all vectors" not in capsys.readouterr().err
    monkeypatch.setattr(memory, "read_memory", lambda: 2 * needed)
    encode_all(dual, tmp_path)
    assert "holds all vectors" not in capsys.readouterr().err
    monkeypatch.setattr(memory, "read_memory", lambda: 2 * needed - 1)
    encode_all(dual, tmp_path)
    width = run.images.vectors.shape[1]
    said = capsys.readouterr().err
    assert said.count("encode holds all vectors in memory") == 1
    assert f"10 items x {width} numbers x 4 bytes" in said


def test_sizes_are_in_gigabytes(monkeypatch, capsys):
    monkeypatch.setattr(memory, "read_memory", lambda: 16 * 10**9)
    memory.warn_of_memory(10_000_000, 512)
    assert (
        "10,000,000 items x 512 numbers x 4 bytes are 20.5 GB, and this machine has 16.0 GB" in capsys.readouterr().err
    )


def test_system_without_sysconf_says_nothing(monkeypatch, capsys):
    assert memory.read_memory() is None or memory.read_memory() > 2**27
    monkeypatch.delattr(os, "sysconf", raising=False)
    memory.warn_of_memory(10**12, 512)
    assert capsys.readouterr().err == ""
