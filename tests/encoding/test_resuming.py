"""Finished shards outlive a kill, and are taken for what they are: of this model, these settings, these items."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_models

from cxc_eccv.encoding import Encoding, encode, load_model, sides
from cxc_eccv.encoding.images import make_image_encoder
from cxc_eccv.encoding.shards import FolderStore, Notes, Shard

pytestmark = pytest.mark.thorough

CAPTIONS = [(number, tiny_models.TEXTS[number % 5] + " dog" * (number % 7)) for number in range(100, 160)]


@pytest.fixture(autouse=True)
def small_shards(monkeypatch):
    for side in (sides.CaptionSide, sides.ImageSide):
        monkeypatch.setattr(side, "shard_size", 8)


@pytest.fixture
def parts():
    return tiny_models.dual()


def interrupted(parts, output, monkeypatch, after=3, **options):
    """An encoding that dies after some shards of captions."""
    stored = []
    put = FolderStore.put

    def put_or_die(store, start, fingerprint, shard):
        if len(stored) == after:
            raise KeyboardInterrupt
        stored.append(start)
        put(store, start, fingerprint, shard)

    monkeypatch.setattr(FolderStore, "put", put_or_die)
    with pytest.raises(KeyboardInterrupt) as died:
        encode(parts[0], captions=CAPTIONS, processor=parts[1], output=output, progress=False, **options)
    note = f"Finished parts are kept in {output}.parts; the same command continues from them."
    assert died.value.__notes__ == [note]
    monkeypatch.setattr(FolderStore, "put", put)
    assert not output.exists()
    return sorted(path.name for path in Path(f"{output}.parts").iterdir())


def encoded_texts(monkeypatch):
    """The texts that are encoded from now on."""
    seen = []
    call = sides.TextEncoder.__call__
    monkeypatch.setattr(sides.TextEncoder, "__call__", lambda self, texts: seen.extend(texts) or call(self, texts))
    return seen


def test_interrupted_encoding_resumes_to_the_same_file(parts, tmp_path, monkeypatch):
    """Finished shards are kept and not encoded again."""
    encode(parts[0], captions=CAPTIONS, processor=parts[1], output=tmp_path / "whole.npz", progress=False)
    assert interrupted(parts, tmp_path / "run.npz", monkeypatch) == [
        f"captions-{start:09d}.npz" for start in (0, 8, 16)
    ]
    seen = encoded_texts(monkeypatch)
    encode(parts[0], captions=CAPTIONS, processor=parts[1], output=tmp_path / "run.npz", progress=False)
    assert seen == [text for _, text in CAPTIONS[24:]]
    assert (tmp_path / "run.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
    assert not (tmp_path / "run.npz.parts").exists()


def test_a_damaged_shard_is_encoded_anew(parts, tmp_path, monkeypatch):
    interrupted(parts, tmp_path / "run.npz", monkeypatch)
    shard = tmp_path / "run.npz.parts" / "captions-000000008.npz"
    content = bytearray(shard.read_bytes())
    content[600] ^= 1
    shard.write_bytes(content)
    seen = encoded_texts(monkeypatch)
    with pytest.warns(UserWarning, match="^1 kept shards of captions were damaged, or of another model"):
        encode(parts[0], captions=CAPTIONS, processor=parts[1], output=tmp_path / "run.npz", progress=False)
    assert seen == [text for _, text in [*CAPTIONS[8:16], *CAPTIONS[24:]]]


@pytest.mark.parametrize("other", ["weights", "texts", "tokenizer", "context", "dtype"])
def test_shards_of_something_else_are_not_taken(other, parts, tmp_path, monkeypatch):
    interrupted(parts, tmp_path / "run.npz", monkeypatch)
    model, tokenizer, _ = parts
    captions = CAPTIONS
    options = {}
    if other == "weights":
        model.text_projection.weight.data[0, 0] += 1
    elif other == "texts":
        captions = [(number, f"{text} cat") for number, text in CAPTIONS]
    elif other == "tokenizer":
        tokenizer = tiny_models.transformers.BertTokenizer(
            vocab={word: place for place, word in enumerate([*tiny_models.WORDS[:5], *tiny_models.WORDS[:4:-1]])}
        )
    elif other == "context":
        tokenizer.model_max_length = 23
    else:
        options["dtype"] = "bfloat16"
    with pytest.warns(UserWarning, match="^3 kept shards of captions"):
        run = encode(
            model, captions=captions, processor=tokenizer, output=tmp_path / "run.npz", progress=False, **options
        )
    again = encode(model, captions=captions, processor=tokenizer, progress=False, **options)
    np.testing.assert_array_equal(run.captions.vectors, again.captions.vectors)


def test_an_image_that_changed_is_encoded_anew(tmp_path):
    model, _, images = tiny_models.vit()
    pairs = tiny_models.picture_files(tmp_path, 8)
    side = sides.ImageSide(
        make_image_encoder(load_model(model, processor=images), Encoding(batch_size=4)), pairs, skip_bad=False
    )
    before = side.identity(slice(0, 8))
    tiny_models.picture(99).save(pairs[3][1])
    os.utime(pairs[3][1], ns=(1, 1))
    assert side.identity(slice(0, 8)) != before


def test_a_shard_file_is_read_back(tmp_path):
    store = FolderStore(tmp_path / "parts", "images")
    notes = Notes(1, {"L": 2}, {7: "no image 7"})
    store.put(0, "key", Shard(np.array([5, 6]), np.ones((2, 3), dtype=np.float32), notes))
    shard = store.get(0, "key")
    assert shard.ids.tolist() == [5, 6]
    assert shard.notes == notes
    assert store.get(0, "other") is None
    assert store.refused == 1
    assert not list((tmp_path / "parts").iterdir())


SLOW_RUN = """
import sys, time
from cxc_eccv.encoding import encode, sides
from cxc_eccv.encoding.shards import FolderStore
sides.CaptionSide.shard_size = 8
put = FolderStore.put
FolderStore.put = lambda *arguments: (put(*arguments), time.sleep(float(sys.argv[3])))
captions = [(number, "a dog" + " cat" * (number % 9)) for number in range(60)]
encode(sys.argv[1], captions=captions, output=sys.argv[2], device="cpu", progress=False)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_goes_on(parts, tmp_path):
    model = str(tiny_models.save(parts, tmp_path / "model"))
    command = [sys.executable, "-c", SLOW_RUN, model]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"}
    subprocess.run([*command, str(tmp_path / "whole.npz"), "0"], check=True, env=environment)
    process = subprocess.Popen([*command, str(tmp_path / "run.npz"), "30"], env=environment)
    parts_folder = tmp_path / "run.npz.parts"
    while not (parts_folder / "captions-000000000.npz").exists():
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "run.npz").exists()
    assert [path.name for path in parts_folder.iterdir()] == ["captions-000000000.npz"]
    subprocess.run([*command, str(tmp_path / "run.npz"), "0"], check=True, env=environment)
    assert (tmp_path / "run.npz").read_bytes() == (tmp_path / "whole.npz").read_bytes()
