"""``cxc-eccv features``: the mean over ten crops of every image, kept in shards and gone on with."""

import json
import shutil
import sys

import numpy as np
import pytest
import tiny_models

from cxc_eccv import cli
from cxc_eccv.encoding import TenCrops, encode
from cxc_eccv.encoding.distributed.shards import FolderStore
from cxc_eccv.studies.baselines.char_gru.data import ImageFeatures

CROPS = TenCrops(40, 32)


@pytest.fixture
def photographs(tmp_path, sample_library):
    """Image files of the sample's restval split, and a tiny ResNet."""
    folder = tmp_path / "images"
    folder.mkdir()
    names = sample_library.images("restval")["file_name"].to_pylist()
    for seed, name in enumerate(names):
        tiny_models.picture(seed, (48, 44)).save(folder / name)
    tiny_models.save(tiny_models.resnet(), tmp_path / "resnet")
    return folder


@pytest.fixture
def command(monkeypatch, capsys, photographs):
    def run(*words, **options):
        given = {"model": photographs.parent / "resnet", "images": photographs, "parts": "coco/restval"} | options
        given |= {"output": photographs.parent / "features.npz"} if "output" not in given else {}
        pairs = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        small = ["--shorter-side", "40", "--crop-size", "32", "--data-dir", "sample", "--device", "cpu"]
        monkeypatch.setattr(sys, "argv", ["cxc-eccv", "features", *pairs, *small, *words])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        return status, capsys.readouterr()

    return run


def test_the_command_writes_what_the_character_gru_reads(command, photographs, sample_library):
    status, said = command()
    assert status == 0, said.err
    assert "features.npz: 10 images" in said.out
    features = ImageFeatures.read(photographs.parent / "features.npz")
    assert features.width == 16
    images = sample_library.images("restval").to_pylist()
    first = [(images[0]["image_id"], photographs / images[0]["file_name"])]
    model, _, processor = tiny_models.resnet()
    alone = encode(model, images=first, processor=processor, ten_crops=CROPS, device="cpu", progress=False)
    found = features.of_ids(np.array([images[0]["image_id"]]))
    np.testing.assert_allclose(found, alone.images.vectors, rtol=1e-5, atol=1e-6)
    record = json.loads((photographs.parent / "features.encoding.json").read_text())
    assert record["ten_crops"] == {"shorter_side": 40, "size": 32}


@pytest.mark.filterwarnings("ignore:2 kept shards of images were damaged, or of another model")
def test_a_killed_extraction_goes_on_and_other_crops_begin_anew(command, photographs, monkeypatch):
    output = photographs.parent / "features.npz"
    monkeypatch.setattr("cxc_eccv.encoding.sides.ImageSide.shard_size", 4)
    assert command()[0] == 0
    whole = output.read_bytes()
    output.unlink()
    put, stored = FolderStore.put, []

    def put_or_die(store, start, *rest):
        put(store, start, *rest)
        stored.append(start)
        if len(stored) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(FolderStore, "put", put_or_die)
    assert command()[0] == 130
    assert not output.exists()
    kept = photographs.parent / "copy.parts"
    shutil.copytree(photographs.parent / "features.npz.parts", kept)
    assert command()[0] == 0
    assert stored == [0, 4, 8]
    assert output.read_bytes() == whole
    shutil.copytree(kept, photographs.parent / "features.npz.parts")
    assert command("--crop-size", "24")[0] == 0
    assert stored == [0, 4, 8, 0, 4, 8]
    assert not (photographs.parent / "features.npz.parts").exists()


def test_what_does_not_fit_is_one_message(command, photographs):
    status, said = command(parts="coco/vall")
    assert (status, "did you mean 'coco/val'" in said.err) == (2, True)
    status, said = command(parts="flickr8k/all")
    assert (status, "use flickr8k/train" in said.err) == (2, True)
    status, said = command("--crop-size", "41")
    assert (status, "do not fit images" in said.err) == (2, True)
    status, said = command(parts="coco/restval,coco/test")
    assert (status, "SourceMissing: no image" in said.err) == (2, True)
    assert not (photographs.parent / "features.npz").exists()
