"""Ten crops: where they lie, their mean, and the command that writes features of them."""

import json
import shutil
import sys

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'cxc_eccv[train]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")

import tiny_models  # noqa: E402 - after the checks above
from PIL import Image, ImageOps  # noqa: E402

from cxc_eccv import cli  # noqa: E402
from cxc_eccv.encoding import TenCrops, encode  # noqa: E402
from cxc_eccv.encoding.distributed.shards import FolderStore  # noqa: E402
from cxc_eccv.errors import InvalidOption, ModelError, TowerMissing  # noqa: E402
from cxc_eccv.runs import load_run  # noqa: E402

CROPS = TenCrops(40, 32)


def gradient(width, height):
    """An image whose red and green tell the place of a pixel."""
    ys, xs = np.mgrid[:height, :width]
    return Image.fromarray(np.stack([xs, ys, 0 * xs], axis=-1).astype(np.uint8))


@pytest.mark.parametrize("size", [(60, 40), (40, 70), (40, 40)])
def test_the_crops_are_corners_and_middle_of_the_image_and_its_mirror(size):
    width, height = size
    crops = TenCrops(40, 32)(gradient(width, height))
    assert [crop.size for crop in crops] == [(32, 32)] * 10
    right, bottom = width - 32, height - 32
    places = [(0, 0), (right, 0), (0, bottom), (right, bottom), (right // 2, bottom // 2)]
    assert [crop.getpixel((0, 0))[:2] for crop in crops[:5]] == places
    # Mirrored, a crop's first pixel is as far from the right.
    assert [crop.getpixel((0, 0))[:2] for crop in crops[5:]] == [(width - 1 - left, top) for left, top in places]


@pytest.mark.parametrize(
    ("size", "scaled"), [((500, 375), (341, 256)), ((375, 500), (256, 341)), ((100, 100), (256, 256))]
)
def test_the_shorter_side_is_scaled_to_256(size, scaled):
    image = tiny_models.picture(1, size)
    expected = image.resize(scaled, Image.Resampling.BILINEAR)
    crops = TenCrops()(image)
    assert crops[0].tobytes() == expected.crop((0, 0, 224, 224)).tobytes()
    corner = (scaled[0] - 224, scaled[1] - 224, *scaled)
    assert crops[3].tobytes() == expected.crop(corner).tobytes()
    assert crops[8].tobytes() == ImageOps.mirror(expected).crop(corner).tobytes()


@pytest.mark.parametrize("name", ["resnet", "vit", "dinov2", "clip", "siglip"])
def test_a_vector_is_the_mean_over_the_crops(name):
    model, tokenizer, processor = getattr(tiny_models, name)()
    pictures = [(number, tiny_models.picture(number, (50 + number, 44))) for number in (1, 2, 3)]
    options = {"processor": (tokenizer, processor) if tokenizer else processor, "progress": False, "device": "cpu"}
    found = encode(model, images=pictures, ten_crops=CROPS, batch_size=2, **options).images
    assert found.ids.tolist() == [1, 2, 3]
    for (_, image), vector in zip(pictures, found.vectors, strict=True):
        # Crops have the size that the processors of these models scale to, so that they leave them as they are.
        crops = list(enumerate(CROPS(image)))
        alone = encode(model, images=crops, **options).images.vectors
        np.testing.assert_allclose(vector, alone.mean(axis=0), rtol=1e-4, atol=1e-5)
    plain = encode(model, images=pictures, **options).images
    assert np.abs(plain.vectors - found.vectors).max() > 1e-3


@pytest.mark.parametrize(("side", "size"), [(32, 40), (0, 0), (40, 0)])
def test_crops_that_do_not_fit_are_refused(side, size):
    with pytest.raises(InvalidOption, match="fit into the image"):
        TenCrops(side, size)


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


def test_the_command_writes_embeddings_of_the_images(command, photographs, sample_library):
    status, said = command()
    assert status == 0, said.err
    assert "features.npz: 10 images" in said.out
    features = load_run(photographs.parent / "features.npz").images
    assert features.vectors.shape == (10, 16)
    images = sample_library.images("restval").to_pylist()
    first = [(images[0]["image_id"], photographs / images[0]["file_name"])]
    model, _, processor = tiny_models.resnet()
    alone = encode(model, images=first, processor=processor, ten_crops=CROPS, device="cpu", progress=False)
    found = features.vectors[features.ids == images[0]["image_id"]]
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
    assert (status, "name flickr8k/train" in said.err) == (2, True)
    status, said = command("--crop-size", "41")
    assert (status, "fit into the image" in said.err) == (2, True)
    status, said = command(parts="coco/restval,coco/test")
    assert (status, "SourceMissing: no image" in said.err) == (2, True)
    assert not (photographs.parent / "features.npz").exists()


def test_a_model_of_another_size_or_kind_is_refused():
    pictures = [(1, tiny_models.picture(1, (50, 44)))]
    model, _, processor = tiny_models.vit()
    with pytest.raises(ModelError, match="does not take"):
        encode(model, images=pictures, processor=processor, ten_crops=TenCrops(40, 24), progress=False)
    model, tokenizer, _ = tiny_models.bert()
    with pytest.raises(TowerMissing, match="no image tower"):
        encode(model, images=pictures, processor=tokenizer, ten_crops=CROPS, progress=False)
