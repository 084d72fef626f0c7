"""Weak positives of a file in the training of a dual encoder: which are used, and what a run makes of them."""

import itertools
import json

import pytest
import tiny_models
import torch
from dual_encoder_models import model, text_pairs, text_trainer
from mined_files import write_mined
from safetensors.torch import load_file
from scipy.sparse import csr_matrix
from tiny_flickr import IMAGES, flickr_library

from cxc_eccv.errors import CheckpointMismatch, DataError, InvalidOption
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.baselines.dual_encoder.data import BatchPositives, PairCollator, PairReader, WeakPositives
from cxc_eccv.studies.baselines.dual_encoder.loss import Objective
from cxc_eccv.studies.baselines.dual_encoder.options import DataOptions, LossOptions
from cxc_eccv.studies.baselines.dual_encoder.sample import RecolouredPairs
from cxc_eccv.studies.baselines.dual_encoder.script import train
from cxc_eccv.studies.trainers.caption_groups import caption_groups

pytestmark = pytest.mark.thorough

TRAIN_ON = ["coco/train", "coco/restval"]


@pytest.fixture(scope="module")
def groups(sample_library):
    return caption_groups(sample_library, TRAIN_ON)


def neighbours(groups, split_size=60):
    """Each image of train with the first caption of the next, and with the second of the one after that."""
    train = groups[:split_size]
    return [
        (group.image_id, train[(place + step) % len(train)].caption_ids[step - 1])
        for place, group in enumerate(train)
        for step in (1, 2)
    ]


def read(path, groups, names=TRAIN_ON):
    paths = [path] if isinstance(path, str) else list(path)
    return WeakPositives.read(Library("sample", mined=paths), list(names), groups, files=len(paths))


def test_weak_positives_are_kept_for_trained_images(tmp_path, sample_library, groups):
    """Those of images that are held out are left out and counted."""
    pairs = neighbours(groups)
    files = [write_mined(tmp_path / "train.parquet", sample_library, "train", pairs)]
    other = [(groups[61].image_id, groups[60].caption_ids[4])]
    files.append(write_mined(tmp_path / "restval.parquet", sample_library, "restval", other))
    matrix = read(files, groups).matrix
    ids = [number for group in groups for number in group.caption_ids]
    rows, columns = matrix.nonzero()
    found = {(groups[row].image_id, ids[column]) for row, column in zip(rows, columns, strict=True)}
    assert found == {*pairs, *other}
    assert matrix.shape == (70, len(ids))
    # Those of images that are held out are left out, and counted.
    with pytest.warns(UserWarning, match="4 of 120 weak positives have an image or a caption outside"):
        read(files[0], [*groups[:30], *groups[31:60]])


def test_flickr30k_weak_positives_match_its_images(tmp_path, sample_library):
    flickr_library(tmp_path, split="train")
    library = Library(tmp_path, offline=True)
    pairs = [(IMAGES[0], 5), (IMAGES[1], 12), (IMAGES[2], 0)]
    path = write_mined(tmp_path / "weak.parquet", library, "train", pairs, collection="flickr30k")
    groups = [*caption_groups(sample_library, ["coco/train"])[:2], *caption_groups(library, ["flickr30k/train"])]
    opened = Library(tmp_path, offline=True, mined=[path])
    weak = WeakPositives.read(opened, ["flickr30k/train"], groups, files=1)
    rows, columns = weak.matrix.nonzero()
    ids = [(group.photographs, number) for group in groups for number in group.caption_ids]
    found = {(groups[row].image_id, ids[column]) for row, column in zip(rows, columns, strict=True)}
    assert found == {(image, ("flickr30k", caption)) for image, caption in pairs}
    with pytest.raises(InvalidOption, match="only 0 of 1 files of weak positives are of these parts"):
        WeakPositives.read(Library("sample", mined=[path]), ["coco/train"], groups, files=1)


def test_an_images_own_captions_are_no_weak_positives(tmp_path, sample_library, groups):
    pairs = [*neighbours(groups), *((group.image_id, group.caption_ids[0]) for group in groups[:60])]
    path = write_mined(tmp_path / "weak.parquet", sample_library, "train", pairs)
    assert read(path, groups).matrix.nnz == len(neighbours(groups))


def test_files_that_do_not_fit_are_refused(tmp_path, sample_library, groups):
    path = write_mined(tmp_path / "weak.parquet", sample_library, "train", neighbours(groups))
    with pytest.raises(InvalidOption, match="--train-on coco/restval: only 0 of 1 files of weak positives are of"):
        read(path, groups, ["coco/restval"])
    one = write_mined(tmp_path / "one.parquet", sample_library, "train", neighbours(groups)[:2])
    with pytest.raises(InvalidOption, match="only 1 training images have weak positives"):
        read(one, groups)
    other = write_mined(
        tmp_path / "other.parquet", sample_library, "train", neighbours(groups), data={"edition": "x", "content": "y"}
    )
    with pytest.raises(DataError, match="but the data is of edition"):
        read(other, groups)


@pytest.mark.parametrize(
    ("objective", "data", "error", "words"),
    [
        ({"alpha": 1.1}, {"weak_positives": ["x"]}, InvalidOption, "--alpha 1.1: .* from 0 to 1"),
        ({"alpha": 0.5}, {}, InvalidOption, "need --weak-positives"),
        ({"weak_positives_as": "weight"}, {}, InvalidOption, "need --weak-positives"),
        ({}, {"weak_positives": ["x"], "pairs_file": "y"}, InvalidOption, "use --train-on"),
        (
            {"weak_positives_as": "multi_positive"},
            {"weak_positives": ["x"], "recolour": True},
            InvalidOption,
            "--recolour changes",
        ),
    ],
)
def test_options_that_cannot_be_meant_are_refused(objective, data, error, words):
    with pytest.raises(error, match=words):
        LossOptions(**objective).check(DataOptions(**data))


def test_possible_positives_are_never_negatives(tmp_path, sample_library, groups):
    """The same holds for the images of a caption."""
    pairs = set(neighbours(groups))
    weak = read(write_mined(tmp_path / "weak.parquet", sample_library, "train", sorted(pairs)), groups)
    ignored = Objective().spare(weak, "extra_batch").ignored
    ids = [number for group in groups for number in group.caption_ids]
    own = {(group.image_id, number) for group in groups for number in group.caption_ids}
    images = torch.arange(3, 20)
    texts = torch.arange(5, 120)
    block = ignored.mark("i2t", images, texts, offset=1)
    back = ignored.mark("t2i", texts[:10], images, offset=2)
    for (i, image), (j, text) in itertools.product(enumerate(images.tolist()), enumerate(texts.tolist())):
        pair = groups[image].image_id, ids[text]
        known = pair in own | pairs
        assert block[i, j].item() == (known or j == i + 1)
        if j < 10:
            assert back[j, i].item() == (known or i == j + 2)
    assert block.sum() > len(images) * 6
    of = {caption: {image for image, known in own | pairs if known == caption} for caption in ids}
    home = {caption: image for image, caption in own}
    block = ignored.mark("t2t", texts, texts, offset=0)
    for (i, left), (j, right) in itertools.product(enumerate(texts.tolist()), repeat=2):
        one = ids[left]
        two = ids[right]
        # Two captions of an image, of which it has one by its own annotator.
        assert block[i, j].item() == (home[one] in of[two] or home[two] in of[one])


def test_judged_positives_stay_beside_weak_ones(tmp_path, sample_library):
    names = ["coco/train", "coco/val"]
    groups = caption_groups(sample_library, names)
    path = write_mined(tmp_path / "weak.parquet", sample_library, "train", neighbours(groups))
    judged = BatchPositives.judged(sample_library, "validation", groups)
    united = Objective(positives=judged).spare(read(path, groups, names), "multi_positive").positives
    assert (united.image_text > judged.image_text).nnz >= len(neighbours(groups))
    for name in ("image_text", "text_text"):
        mine = getattr(judged, name)
        whole = getattr(united, name)
        assert (mine > whole).nnz == 0
        assert whole.nnz > mine.nnz


@pytest.mark.parametrize("recolours", [False, True])
def test_weak_positive_is_paired_with_an_own_caption(tmp_path, sample_library, groups, recolours):
    path = write_mined(tmp_path / "weak.parquet", sample_library, "train", neighbours(groups))
    tokenizer = tiny_models.bert_tokenizer()
    pairs = PairReader(tokenizer, "t2t+i2t", "sample").read_parts(sample_library, TRAIN_ON)
    weak = read(path, groups)
    dataset = RecolouredPairs(pairs, tokenizer) if recolours else pairs
    collate = PairCollator(tokenizer, tiny_models.vit_images())
    batches = weak.make_batches(dataset, collate, use="extra_batch", alpha=0.3, size=4, seed=0)
    drawn = batches.draw([5, 9, 60], step=3)
    assert {image for image, _ in drawn} >= {5, 9}
    parts = [batches.load(drawn[:1], 3), batches.load(drawn[1:], 3)]
    for name, tensor in batches.collate([batches.load(drawn, 3)]).items():
        assert torch.equal(batches.collate(parts)[name], tensor), name
    for (image, text), item in zip(drawn, [item for part in parts for item in part.items], strict=True):
        assert weak.matrix[image, text]
        assert item["image_index"] == image
        first, second = item["text_index"]
        assert first == text
        assert pairs.starts[image] <= second < pairs.starts[image + 1]
        if not recolours:
            assert item["texts"] == [pairs.tokens[caption].as_py() for caption in (first, second)]
            assert item["image_path"] == pairs.image_paths[image]


def tiny_trainer(folder, use, alpha):
    """One step of plain gradient descent on eight pairs of captions, and the start."""
    dataset = text_pairs(8)
    images = torch.arange(8).numpy()
    matrix = csr_matrix(([True] * 8, (images, (2 * images + 5) % 16)), shape=(8, 16))
    weak = WeakPositives(matrix, dataset.groups)
    objective = Objective("t2t", "softmax").spare(weak, use)
    options = {"max_steps": 1, "gradient_accumulation_steps": 2}
    return text_trainer(folder, dataset, objective, weak, use=use, alpha=alpha, **options), weak


def test_weight_option_adds_the_weak_positive_loss(tmp_path):
    trainer, _ = tiny_trainer(tmp_path, "weight", 0.4)
    start = model(freeze_text=False).train()
    seen = []
    compute = trainer.compute_loss

    def watch(network, batch, *arguments, **options):
        seen.append({name: value.clone() if hasattr(value, "clone") else value for name, value in batch.items()})
        return compute(network, batch, *arguments, **options)

    trainer.compute_loss = watch
    trainer.train()
    assert [batch.get("weight") for batch in seen] == [None, 0.4, None, 0.4]
    trainer.compute_loss = compute
    for batch in seen:
        (compute(start, dict(batch)) / 2).backward()
    for (name, before), after in zip(start.named_parameters(), trainer.model.parameters(), strict=True):
        step = 0 if before.grad is None else 0.5 * before.grad
        torch.testing.assert_close(after, before - step, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.parametrize("use", ["extra_batch", "weight", "multi_positive"])
def test_alpha_0_has_no_batches_of_weak_positives(tmp_path, use):
    trainer, weak = tiny_trainer(tmp_path, use, 0.0)
    assert trainer.weak_batches is None
    assert (trainer.objective.ignored.image_text is None) == (use == "multi_positive")
    assert weak.matrix.nnz == 8


SAMPLE = ["--data-dir", "sample", "--use-cpu", "--train-on", *TRAIN_ON, "--mode", "t2t"]
SAMPLE += ["--no-pretraining", "--text-model", "sample", "--train-text-model", "--extra-layers", "0"]
SAMPLE += ["--max-steps", "2", "--per-device-train-batch-size", "30", "--eval-strategy", "no"]
SAMPLE += ["--no-load-best-model-at-end"]
SAMPLE += ["--loss", "softmax", "--learning-rate", "1e-3", "--save-steps", "1", "--save-strategy", "steps"]


def weights(folder):
    return load_file(folder / "model.safetensors")


def test_uses_of_weak_positives_give_different_runs(tmp_path, sample_library, groups):
    path = write_mined(tmp_path / "weak.parquet", sample_library, "train", neighbours(groups))
    found = {}
    for use in ("", "extra_batch", "weight", "multi_positive"):
        options = ["--weak-positives", path, "--weak-positives-as", use] if use else []
        trained = train([*SAMPLE, *options, "--output-dir", str(tmp_path / f"run {use}")])
        found[use] = torch.cat([value.flatten() for value in weights(tmp_path / f"run {use}").values()])
        assert ("weak_positives_as" in trained.settings) == bool(use)
        # What the classifier of this file was trained on is not in it.
        assert ("weak positives: The classifier's training data is not recorded" in trained.about) == bool(use)
    assert len({tuple(value[:500].tolist()) for value in found.values()}) == 4
    identity = json.loads((tmp_path / "run weight" / "run.json").read_text())
    assert (identity["alpha"], len(identity["weak_positives_sha256"])) == (0.3, 1)
    # The same name, and other pairs.
    write_mined(tmp_path / "weak.parquet", sample_library, "train", neighbours(groups)[:50])
    options = ["--weak-positives", path, "--weak-positives-as", "weight"]
    with pytest.raises(CheckpointMismatch, match="weak_positives_sha256"):
        train([*SAMPLE, *options, "--output-dir", str(tmp_path / "run weight")])


def test_run_records_the_triplet_margin(tmp_path):
    options = ["--loss", "triplet_hardest", "--margin", "0.3", "--normalize", "--save-strategy", "no"]
    train([*SAMPLE, *options, "--output-dir", str(tmp_path)])
    assert json.loads((tmp_path / "run.json").read_text())["margin"] == 0.3
