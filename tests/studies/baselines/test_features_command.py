"""``cxc-eccv features``: the mean over ten crops of every image."""

import json
import sys

import numpy as np
import pytest
import tiny_models

from cxc_eccv.cli.app import main
from cxc_eccv.encoding import TenCrops, encode
from cxc_eccv.studies.baselines.char_gru.data import ImageFeatures

CROPS = TenCrops(40, 32)


@pytest.fixture
def photographs(tmp_path, sample_library):
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
            main()
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
    path = photographs.parent / "features.encoding.json"
    record = json.loads(path.read_text())
    assert record["ten_crops"] == {"shorter_side": 40, "size": 32}
    assert command("--crop-size", "24")[0] == 0  # shards of other crops would not be taken
    other = json.loads(path.read_text())
    assert (other["ten_crops"]["size"], other["fingerprint"] == record["fingerprint"]) == (24, False)


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
