"""What encoding makes of bad input: an error that names it, or a counted warning; never a silent guess."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from PIL import Image

from cxc_eccv.encoding import Encoding, encode, load_model, text_encoder
from cxc_eccv.encoding.images import open_picture
from cxc_eccv.errors import (
    CheckpointMismatch,
    DataError,
    InvalidOption,
    MalformedRun,
    MalformedSource,
    ModelError,
    SourceMissing,
    TowerMissing,
)


@pytest.fixture
def pictures(tmp_path):
    return tiny_models.picture_files(tmp_path, 4)


def cut_short(path):
    path.write_bytes(path.read_bytes()[:200])


UNREADABLE = {
    "broken": (cut_short, MalformedSource, r"000000000003\.jpg: found .*, expected a complete image"),
    "missing": (
        Path.unlink,
        SourceMissing,
        r"000000000003\.jpg; add the file; cxc-eccv encode --skip-bad-images leaves it out",
    ),
}


@pytest.mark.parametrize("fault", UNREADABLE)
def test_image_that_cannot_be_read_is_named(pictures, fault):
    model, _, images = tiny_models.vit()
    spoil, error, message = UNREADABLE[fault]
    spoil(pictures[2][1])
    with pytest.raises(error, match=message):
        encode(model, images=pictures, processor=images, progress=False)


def test_bad_images_can_be_skipped_and_are_reported(pictures, tmp_path):
    """If no image can be read, the error names the first."""
    model, _, images = tiny_models.vit()
    whole = encode(model, images=pictures, processor=images, progress=False)
    cut_short(pictures[0][1])
    pictures[3][1].unlink()
    options = {"processor": images, "encoding": Encoding(skip_bad_images=True, batch_size=1), "progress": False}
    with pytest.warns(UserWarning, match=r"^2 images were left out and have no vector: 1: .*01\.jpg.*; 4: .*04\.jpg"):
        run = encode(model, images=pictures, output=tmp_path / "run.npz", **options)
    assert run.images.ids.tolist() == [2, 3]
    np.testing.assert_allclose(run.images.vectors, whole.images.vectors[1:3], rtol=1e-4, atol=1e-5)
    record = json.loads((tmp_path / "run.encoding.json").read_text())
    assert set(record["skipped"]) == {"1", "4"}
    assert record["skipped"]["4"] == f"no image {pictures[3][1]}; add the file"  # not a remedy that was taken
    assert "--skip-bad-images" not in (tmp_path / "run.encoding.json").read_text()
    for _, path in pictures[1:3]:
        path.unlink()
    with pytest.raises(DataError, match="none of the 4 images can be read; the first is 1:"):
        encode(model, images=pictures, **options)


@pytest.mark.parametrize("mode", ["L", "CMYK", "RGBA", "P", "1", "LA"])
def test_other_modes_are_converted_and_counted(mode):
    model, _, images = tiny_models.vit()
    odd = tiny_models.picture(1).convert("RGB" if mode == "LA" else mode)
    odd = odd.convert("LA") if mode == "LA" else odd
    given = [(1, odd), (2, tiny_models.picture(2))]
    with pytest.warns(UserWarning, match=f"^1 images were not RGB and were converted: {mode} 1$"):
        run = encode(model, images=given, processor=images, progress=False)
    plain = encode(model, images=[(1, odd.convert("RGB"))], processor=images, progress=False)
    np.testing.assert_allclose(run.images.vectors[0], plain.images.vectors[0], rtol=1e-4, atol=1e-5)


def test_palette_transparency_is_dropped_and_16_bits_refused(tmp_path):
    path = tmp_path / "p.png"
    tiny_models.picture(1).convert("P").save(path, transparency=bytes([0, 128, 255]))
    picture = open_picture(path)
    assert picture.mode == "P"
    assert picture.image.mode == "RGB"
    Image.fromarray(np.full((8, 8), 40000, dtype=np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(MalformedSource, match="found mode I;16, expected 8 bits a channel"):
        open_picture(tmp_path / "deep.png")


def encode_images_with_bert():
    encode(tiny_models.bert()[0], images=[(1, tiny_models.picture(1))], processor=tiny_models.vit_images())


def encode_captions_with_vit():
    encode(tiny_models.vit()[0], captions=[(1, "a dog")], processor=tiny_models.bert_tokenizer())


UNFIT = {
    "no-image-tower": (encode_images_with_bert, TowerMissing, r"BertModel has no image tower.*Leave out the images"),
    "no-text-tower": (encode_captions_with_vit, TowerMissing, r"ViTModel has no text tower.*Leave out the captions"),
    "no-model": (lambda: text_encoder(object()), ModelError, "give a Hub id, a folder"),
    "other-tokenizer": (
        lambda: text_encoder(tiny_models.bert()[0], processor=tiny_models.clip_tokenizer()),
        ModelError,
        r"tokens, but BertModel embeds 22; give the tokenizer",
    ),
    "no-tokenizer": (
        lambda: text_encoder(tiny_models.bert()[0]),
        ModelError,
        "has no tokenizer; pass processor=",
    ),
    "number-as-processor": (
        lambda: text_encoder(tiny_models.bert()[0], processor=3),
        ModelError,
        "processor is a int",
    ),
    "unknown-pooling": (
        lambda: Encoding(pooling="max"),
        InvalidOption,
        "pooling 'max': choose mean, cls or last",
    ),
}


@pytest.mark.parametrize("fault", UNFIT)
def test_model_or_processor_that_does_not_fit(fault):
    call, error, message = UNFIT[fault]
    with pytest.raises(error, match=message):
        call()


@pytest.fixture(scope="module")
def saved_bert(tmp_path_factory):
    return tiny_models.save(tiny_models.bert(), tmp_path_factory.mktemp("models") / "bert")


def edit_config(**changes):
    def edit(folder):
        path = folder / "config.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return edit


def remove_tokenizer(folder):
    for path in folder.glob("*token*"):
        path.unlink()


CHECKPOINTS = {
    "layer-missing": (
        edit_config(num_hidden_layers=3),
        CheckpointMismatch,
        r"lacks \d+ weights of BertModel, the first: encoder\.layer\.2",
    ),
    "other-sizes": (edit_config(hidden_size=32), CheckpointMismatch, "weights and config do not fit"),
    "unknown-type": (edit_config(model_type="no_such_model"), ModelError, "no model found"),
    "broken-weights": (
        lambda folder: (folder / "model.safetensors").write_bytes(b"broken"),
        ModelError,
        "cannot be loaded",
    ),
    "tokenizer-missing": (remove_tokenizer, ModelError, "has no words; save the tokenizer"),
}


@pytest.mark.parametrize("fault", CHECKPOINTS)
def test_checkpoint_that_does_not_fit_is_refused(saved_bert, tmp_path, fault):
    spoil, error, message = CHECKPOINTS[fault]
    folder = Path(shutil.copytree(saved_bert, tmp_path / "bert"))
    spoil(folder)
    with pytest.raises(error, match=message):
        text_encoder(str(folder), device="cpu")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, InvalidOption, "neither images nor captions"),
        ({"captions": []}, InvalidOption, "no caption to encode"),
        ({"captions": [(1, "a"), (1, "b")]}, MalformedRun, "id 1 is in rows 0 and 1"),
        ({"captions": [(1, None)]}, MalformedRun, "the caption of id 1 is None"),
        ({"captions": {"id": [1], "text": ["a"]}}, InvalidOption, "lack caption_id"),
        ({"captions": ["a dog"]}, InvalidOption, "give .caption id, text. pairs"),
        ({"captions": [(1, "a")], "output": "run.csv"}, InvalidOption, "must end in .npz or .safetensors"),
        ({"captions": [(1, "a")], "output": "no/run.npz"}, InvalidOption, "there is no folder no"),
        ({"images": []}, InvalidOption, "no image to encode"),
        ({"images": "absent"}, InvalidOption, "absent is not a folder"),
        ({"images": [("1", "a.png")]}, InvalidOption, "image id '1' is not a whole number"),
        ({"images": [(1, 5)]}, InvalidOption, "image 1 is a int"),
        ({"images": [(1, "a.png"), (1, "b.png")]}, MalformedRun, r"image id 1 occurs 2 times: a.png and b.png"),
    ],
)
def test_bad_arguments(options, error, message):
    model, tokenizer, images = tiny_models.dual()
    with pytest.raises(error, match=message):
        encode(model, processor=(tokenizer, images), progress=False, **options)


def test_vectors_that_are_not_finite_name_the_item():
    model, tokenizer, _ = tiny_models.bert()
    model.embeddings.word_embeddings.weight.data[tiny_models.WORDS.index("cat")] = np.nan
    with pytest.raises(MalformedRun, match=r"value nan in row 1, column 0 \(id 8\); 1 of 2 vectors are not finite"):
        encode(model, captions=[(7, "a dog"), (8, "a cat")], processor=tokenizer, progress=False)


@pytest.fixture(scope="module")
def saved_clip(tmp_path_factory):
    return tiny_models.save(tiny_models.clip(), tmp_path_factory.mktemp("models") / "clip")


@pytest.fixture
def folder(saved_clip, tmp_path):
    return Path(shutil.copytree(saved_clip, tmp_path / "model"))


def load_all(folder):
    model = load_model(str(folder), device="cpu")
    model.processors.tokenizer()
    model.processors.image_processor()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", "[]"),
        ("config.json", '{"architectures": 3}'),
        ("config.json", '{"model_type": "clip", "architectures": ["NoSuchModelWithProjection"]}'),
        ("tokenizer.json", '{"version": '),
        ("tokenizer_config.json", "null"),
        ("preprocessor_config.json", "[]"),
        ("model.safetensors", ""),
        ("model.safetensors", "no weights at all"),
    ],
)
def test_damaged_file_raises_model_error(folder, name, content):
    (folder / name).write_text(content)
    with pytest.raises(ModelError, match=str(folder)):
        load_all(folder)


@pytest.fixture(scope="module")
def saved_sentence_model(tmp_path_factory):
    st = pytest.importorskip("sentence_transformers", reason="comes with the extra 'st'")
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    folder = tmp_path_factory.mktemp("st")
    transformer = Transformer(str(tiny_models.save(tiny_models.bert(), folder / "bert")))
    st.SentenceTransformer(modules=[transformer, Pooling(16)], device="cpu").save(str(folder / "st"))
    return folder / "st"


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "modules.json").write_text("[]"),
        lambda folder: (folder / "modules.json").write_text('[{"pa'),
        lambda folder: shutil.rmtree(folder / "1_Pooling"),
        lambda folder: next(folder.rglob("model.safetensors")).unlink(),
    ],
)
def test_damaged_sentence_transformers_folder_is_named(saved_sentence_model, tmp_path, damage):
    folder = Path(shutil.copytree(saved_sentence_model, tmp_path / "model"))
    damage(folder)
    with pytest.raises(ModelError, match=rf"{folder}: the sentence-transformers model cannot be loaded \("):
        text_encoder(str(folder), device="cpu")
