"""The training command on the embedded sample, alone and on two gloo processes: what it saves, and going on."""

import json
from itertools import chain

import char_gru_worker
import numpy as np
import pytest
import tiny_models
from safetensors.numpy import load_file
from torchrun import torchrun

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.encoding import Encoding, TenCrops, encode
from cxc_eccv.encoding.texts import text_encoder
from cxc_eccv.errors import CheckpointMismatch, InvalidOption, MissingIds, SourceMissing
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.studies.baselines.char_gru.data import SharedBatches
from cxc_eccv.studies.baselines.char_gru.script import train
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough

PARTS = ["--data-dir", "sample", "--train-on", "coco/val", "--held-out", "4"]
SMALL = ["--hidden-size", "8", "--images", "30", "--cycle-epochs", "1", "--highest-rate", "0.02"]


def command(folder, *options):
    return [*PARTS, *SMALL, "--output-dir", str(folder), *options]


def measures_of(folder):
    """The evaluations that the newest checkpoint has noted, without their times."""
    (checkpoint,) = (folder / "checkpoints").glob("checkpoint-*")
    log = json.loads((checkpoint / "trainer_state.json").read_text())["log_history"]
    return [
        {key: value for key, value in row.items() if "runtime" not in key} for row in log if "eval_selection" in row
    ]


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_resumed_run_equals_an_uninterrupted_one(tmp_path):
    """Resuming with another seed is refused."""
    whole = tmp_path / "whole"
    parts = tmp_path / "parts"
    train(command(whole, "--epochs", "3"))
    train(command(parts, "--epochs", "2"))
    train(command(parts, "--epochs", "3"))
    for name in ("snapshots/step-000006", "ensemble"):
        expected = weights(whole / name)
        found = weights(parts / name)
        assert expected.keys() == found.keys()
        for key in expected:
            np.testing.assert_array_equal(found[key], expected[key])
    scores = json.loads((whole / "snapshots" / "snapshots.json").read_text())
    assert list(scores) == ["step-000002", "step-000004", "step-000006"]  # two batches an epoch
    assert scores == json.loads((parts / "snapshots" / "snapshots.json").read_text())
    assert text_encoder(str(whole / "ensemble"))(["a red circle"]).shape == (1, 16)
    measures = [measures_of(folder) for folder in (whole, parts)]
    assert measures[0] == measures[1]
    assert [(row["epoch"], row["eval_selection"]) for row in measures[0]] == list(enumerate(scores.values(), 1))
    assert {"eval_t2t/recall_at_1", "eval_t2t/recall_at_5", "eval_t2t/recall_at_10"} <= measures[0][0].keys()
    with pytest.raises(CheckpointMismatch, match="seed was 0 and is 1"):
        train(command(parts, "--epochs", "4", "--seed", "1"))


@pytest.mark.slow
def test_it_learns_the_sample(tmp_path):
    parts = ["--data-dir", "sample", "--train-on", "coco/train", "coco/restval", "coco/val", "--held-out", "10"]
    parts += ["--hidden-size", "12", "--images", "16", "--epochs", "3", "--cycle-epochs", "1", "--highest-rate", "0.02"]
    report = train([*parts, "--output-dir", str(tmp_path), "--report-on", "test"]).report
    assert report.scores["cxc/t2t/recall_at_10"] > 0.7  # by chance 0.2; bag of words has 0.59


def test_captions_with_image_features(tmp_path, sample_library):
    random = np.random.default_rng(0)
    sides = []
    for split in sample_library.splits:
        ids = sample_library.split(split).image_ids
        sides.append(Embeddings(ids, random.standard_normal((ids.size, 5))))
    images = Embeddings(np.concatenate([s.ids for s in sides]), np.concatenate([s.vectors for s in sides]))
    save_embeddings(tmp_path / "features.npz", EmbeddingsRun(images, None))
    options = ["--image-features", str(tmp_path / "features.npz"), "--captions", "1", "--epochs", "2"]
    report = train(command(tmp_path / "run", *options, "--report-on", "test")).report
    # Five captions of 56 images, in batches of 30 and 26 images each.
    scores = json.loads((tmp_path / "run" / "snapshots" / "snapshots.json").read_text())
    assert list(scores) == ["step-000010", "step-000020"]
    assert "eval_i2t/recall_at_1" in measures_of(tmp_path / "run")[0]
    assert {"coco_5k/i2t/recall_at_1", "coco_5k/t2i/recall_at_1"} <= report.scores.keys()
    save_embeddings(tmp_path / "features.npz", EmbeddingsRun(Embeddings(images.ids, images.vectors[::-1]), None))
    with pytest.raises(CheckpointMismatch, match="image_features_sha256 was"):
        train(command(tmp_path / "run", *options, "--report-on", "test"))
    few = ["--image-features", str(tmp_path / "few.npz"), "--epochs", "2"]
    save_embeddings(tmp_path / "few.npz", EmbeddingsRun(sides[2], None))
    with pytest.raises(MissingIds, match="the features lack"):
        train(command(tmp_path / "few", *few, "--report-on", "test"))
    save_embeddings(tmp_path / "few.npz", EmbeddingsRun(sides[0], None))
    with pytest.raises(InvalidOption, match="none of the 60 training images has a vector"):
        train(command(tmp_path / "few", *few))


def test_image_features_are_extracted_once(tmp_path, sample_library):
    tiny_models.save(tiny_models.resnet(), tmp_path / "resnet")
    options = ["--image-model", str(tmp_path / "resnet"), "--image-folder", "sample", "--captions", "1"]
    train(command(tmp_path / "run", *options, "--epochs", "2"))
    file = tmp_path / "run" / "image_features.npz"
    features = ImageFeatures.read(file)
    written = file.stat().st_mtime_ns
    assert (features.embeddings.ids.size, features.width) == (60, 16)  # the images of coco/val
    first = sample_library.split("validation").images.to_pylist()[0]
    pair = (first["image_id"], ImageFolder("sample").find(first["file_name"]))
    alone = encode(
        str(tmp_path / "resnet"), images=[pair], encoding=Encoding(ten_crops=TenCrops()), device="cpu", progress=False
    )
    found = features.of_ids(np.array([first["image_id"]]))
    np.testing.assert_allclose(found, alone.images.vectors, rtol=1e-5, atol=1e-6)
    train(command(tmp_path / "run", *options, "--epochs", "3"))
    assert file.stat().st_mtime_ns == written
    assert len(json.loads((tmp_path / "run" / "snapshots" / "snapshots.json").read_text())) == 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ("--epochs 2 --image-model resnet", InvalidOption, "MODEL with --image-folder FOLDER"),
        (
            "--epochs 2 --train-on flickr8k/all --held-out 1 --image-model resnet --image-folder sample",
            SourceMissing,
            "flickr8k",
        ),
        ("--epochs 1", InvalidOption, "the ensemble needs 2 snapshots"),
        ("--epochs 2 --images 1", InvalidOption, "at least two images"),
        (
            "--epochs 2 --train-on coco/train coco/val --select-on coco/val",
            InvalidOption,
            "60 images are in --train-on and in --select-on, the first",
        ),
        (
            "--epochs 2 --train-on coco/train coco/test --report-on test",
            InvalidOption,
            "60 images are in --train-on and in --report-on test",
        ),
        (
            "--epochs 2 --train-on coco/train --select-on coco/test --report-on test",
            InvalidOption,
            "60 images are in --select-on and in --report-on test",
        ),
        ("--epochs 2 --train-on coco/train --report-on flickr8k/test", InvalidOption, "give image features"),
    ],
)
def test_runs_that_cannot_be_meant_are_refused(tmp_path, options, error, message):
    with pytest.raises(error, match=message):
        train(command(tmp_path, *options.split()))


FLICKR8K = {"train": 12, "dev": 4, "test": 6}


@pytest.fixture
def flickr8k(tmp_path):
    """A mirror of small Flickr8k lists beside the sample's COCO, and features of its images."""
    folder = tmp_path / "mirror" / "flickr"
    first = 100
    lines = []
    folder.mkdir(parents=True)
    for split, count in FLICKR8K.items():
        names = [f"{first + place}_ab.jpg" for place in range(count)]
        (folder / f"Flickr_8k.{split}Images.txt").write_text("\n".join(names) + "\n")
        lines += [f"{name}#{place}\tA dog {'runs ' * place}{name[:3]} ." for name in names for place in range(5)]
        first += count
    (folder / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")
    ids = np.arange(100, first)
    vectors = np.random.default_rng(0).standard_normal((ids.size, 6))
    save_embeddings(tmp_path / "features.npz", EmbeddingsRun(Embeddings(ids, vectors), None))
    catalog = ['edition = "small"']
    for name in ("flickr8k_tokens", *(f"flickr8k_{split}_images" for split in FLICKR8K)):
        catalog += [f"[entries.{name}]"]
    (tmp_path / "mirror" / "catalog.toml").write_text("\n".join(catalog) + "\n")
    return tmp_path


def test_the_papers_own_task_is_a_preset(flickr8k):
    command = ["--preset", "flickr8k", "--data-dir", str(flickr8k / "mirror"), "--hidden-size", "4", "--images", "6"]
    command += ["--image-features", str(flickr8k / "features.npz"), "--epochs", "2", "--cycle-epochs", "1"]
    report = train([*command, "--output-dir", str(flickr8k / "run")]).report
    scores = json.loads((flickr8k / "run" / "snapshots" / "snapshots.json").read_text())
    assert list(scores) == ["step-000010", "step-000020"]  # 60 captions an epoch, six a batch
    rows = {row.key: row for row in report.results}
    assert (rows["flickr8k/i2t/recall_at_1"].n_queries, rows["flickr8k/t2i/recall_at_1"].n_queries) == (6, 30)
    assert report.provenance.intervals == "binomial_images"
    assert report.provenance.others["training"]["select_on"] == ["flickr8k/dev"]
    files = report.provenance.data.files
    assert {"flickr8k_test_images", "flickr8k_tokens"} <= files.keys()


ALL_PARTS = ["--data-dir", "sample", "--train-on", "coco/val", "--held-out", "20", "--report-on", "test"]
FEW = ["--hidden-size", "8", "--images", "8", "--captions", "5", "--cycle-epochs", "1", "--highest-rate", "0.02"]


def two_process_command(folder, epochs):
    return [*ALL_PARTS, *FEW, "--output-dir", str(folder), "--epochs", str(epochs)]


def assert_same_vectors(one, two):
    # Not the weights: a bias of the attention that no vector depends on wanders with the rounding of its gradient.
    texts = ["a red circle above a blue star", "two green hearts", "an empty picture."]
    expected, found = (text_encoder(str(folder), device="cpu")(texts) for folder in (one, two))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    assert expected.std(axis=0).max() > 0.05


@pytest.mark.slow
def test_two_processes_train_like_one(tmp_path):
    """Either run resumes from the checkpoint of the other number of processes."""
    one = tmp_path / "one"
    two = tmp_path / "two"
    report = train(two_process_command(one, 4)).report
    torchrun(char_gru_worker.__file__, tmp_path, *two_process_command(two, 4))
    logs = [
        json.loads((run / "checkpoints" / "checkpoint-20" / "trainer_state.json").read_text()) for run in (one, two)
    ]
    rows = [[row for row in log["log_history"] if "loss" in row] for log in logs]
    assert [row["step"] for row in rows[1]] == [10, 20]
    for key in ("loss", "learning_rate", "epoch"):
        assert [row[key] for row in rows[1]] == pytest.approx([row[key] for row in rows[0]], rel=1e-4)
    scores = [json.loads((run / "snapshots" / "snapshots.json").read_text()) for run in (one, two)]
    assert list(scores[1]) == ["step-000005", "step-000010", "step-000015", "step-000020"]
    assert scores[1] == pytest.approx(scores[0], abs=0.02)
    assert_same_vectors(one / "ensemble", two / "ensemble")
    written = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert written[0] == written[1]
    assert written[0] == pytest.approx(report.scores, abs=0.02)
    for run in (one, two):
        train(two_process_command(run, 5))
    assert_same_vectors(one / "snapshots" / "step-000025", two / "snapshots" / "step-000025")


@pytest.mark.parametrize("processes", [2, 3])
def test_processes_share_the_batches_of_one(processes):
    alone = SharedBatches([1] * 50, 12, seed=5)
    parts = [SharedBatches([1] * 50, 12, seed=5, rank=rank, processes=processes) for rank in range(processes)]
    orders = []
    for epoch in range(2):
        for sampler in (alone, *parts):
            sampler.epoch = epoch
        whole = list(alone)
        orders.append([index for batch in whole for _, index, _ in batch])
        assert [len(batch) for batch in whole] == [12, 12, 12, 12, 2]
        assert sorted(orders[-1]) == list(range(50))
        assert {draw[::2] for batch in whole for draw in batch} == {(epoch, 0)}
        shared = list(zip(*parts, strict=True))
        assert [len(batch) for batch in shared[0]] == [12 // processes] * processes
        # Two images are not enough for three processes.
        assert len(shared) == len(parts[0]) == (5 if processes == 2 else 4)
        assert [list(chain.from_iterable(batch)) for batch in shared] == whole[: len(shared)]
    assert orders[0] != orders[1]


def test_an_image_alone_joins_the_batch_before():
    sizes = {(9, 1): [4, 5], (9, 2): [2, 2], (11, 2): [2, 2, 1], (13, 4): [1, 1, 1]}
    for (images, processes), expected in sizes.items():
        found = SharedBatches([1] * images, 4, rank=processes - 1, processes=processes)
        assert [len(batch) for batch in found] == expected
        assert len(found) == len(expected)


@pytest.mark.parametrize(("count", "size", "processes"), [(50, 10, 3), (50, 1, 1), (1, 4, 1), (2, 3, 3)])
def test_batches_that_cannot_be_shared(count, size, processes):
    with pytest.raises(InvalidOption, match="processes"):
        SharedBatches([1] * count, size, processes=processes)
