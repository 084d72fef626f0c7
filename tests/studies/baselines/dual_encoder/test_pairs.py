"""What a training item, an epoch and a batch are made of; and the recoloured ones of the embedded sample."""

import importlib
from pathlib import Path

import numpy as np
import pytest
import tiny_models
import torch
from PIL import Image

from cxc_eccv.errors import InvalidOption, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.studies.baselines.dual_encoder.data import (
    BatchPositives,
    EpochSampler,
    PairCollator,
    PairReader,
    TrainingPairs,
    image_paths,
)
from cxc_eccv.studies.baselines.dual_encoder.sample import (
    COLOURS,
    RecolouredPairs,
    nearest_colours,
    recolour,
    reword,
)
from cxc_eccv.studies.baselines.dual_encoder.script import train
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, caption_groups
from cxc_eccv.studies.trainers.tokens import token_ids

GROUPS = [
    CaptionGroup("coco", 7, (71, 72, 73), ("a dog", "two dog", "the red dog")),
    CaptionGroup("coco", 8, (81, 82), ("a cat", "the cat on the bus")),
]
MODES = ("L", "RGB", "P", "L", "RGB", "RGBA", "CMYK")
TOKENS = [[10 * place] for place in range(1, 6)]


def pairs(**options):
    return TrainingPairs(GROUPS, TOKENS, **{"co_captions": True, **options})


def test_an_item_is_two_captions_of_its_image():
    for epoch in range(20):
        for index, own in enumerate([{0, 1, 2}, {3, 4}]):
            item = pairs()[epoch, index]
            first, second = item["text_index"]
            assert first != second
            assert {first, second} <= own
            assert item["texts"] == [TOKENS[first], TOKENS[second]]
            assert item["image_index"] == index


def test_every_caption_is_drawn_in_both_places():
    drawn = np.array([pairs()[epoch, 0]["text_index"] for epoch in range(60)])
    assert [set(column) for column in drawn.T] == [{0, 1, 2}, {0, 1, 2}]


def test_draws_depend_on_seed_epoch_and_index_alone():
    def drawn(seed):
        return [pairs(seed=seed)[epoch, 0]["text_index"] for epoch in range(10)]

    assert drawn(0) == drawn(0)
    assert drawn(0) != drawn(1)


def test_seed_determines_the_held_out_images():
    groups = [CaptionGroup("pairs", number, (number, 100 + number), ("a", "b")) for number in range(30)]
    tokens = [[10 * number + caption] for number in range(30) for caption in range(2)]
    paths = [f"{number}.png" for number in range(30)]

    def parts(seed):
        return TrainingPairs(groups, tokens, co_captions=True, image_paths=paths, seed=seed).hold_out(8)

    for part, size in zip(parts(3), (22, 8), strict=True):
        numbers = [group.image_id for group in part.groups]
        assert (len(part), numbers) == (size, sorted(numbers))
        assert part.tokens.to_pylist() == [[10 * number + caption] for number in numbers for caption in range(2)]
        assert part.image_paths == [f"{number}.png" for number in numbers]
        assert (part.draws, part.seed) == (2, 3)
    kept, held = ({group.image_id for group in part.groups} for part in parts(3))
    assert (kept | held, kept & held) == (set(range(30)), set())
    assert held == {group.image_id for group in parts(3)[1].groups} != {group.image_id for group in parts(4)[1].groups}
    for count in (0, 30, -1):
        with pytest.raises(InvalidOption, match=f"held_out={count} of 30 images"):
            TrainingPairs(groups, tokens, co_captions=True).hold_out(count)


def test_each_epoch_reorders_every_image_once():
    sampler = EpochSampler(50, seed=1)
    orders = []
    for sampler.epoch in range(3):
        orders.append(list(sampler))
        assert sorted(orders[-1]) == [(sampler.epoch, index) for index in range(50)]
    assert len({tuple(index for _, index in order) for order in orders}) == 3


def test_a_batch_holds_left_captions_then_right_ones():
    tokenizer = tiny_models.bert_tokenizer()
    tokens = token_ids(tokenizer, [text for group in GROUPS for text in group.texts])
    items = [TrainingPairs(GROUPS, tokens, co_captions=True)[0, index] for index in (1, 0)]
    batch = PairCollator(tokenizer)(items)
    assert batch["image_index"].tolist() == [1, 0]
    sides = list(zip(*(item["text_index"] for item in items), strict=True))
    assert batch["text_index"].tolist() == [*sides[0], *sides[1]]
    for row, index in enumerate(batch["text_index"].tolist()):
        kept = batch["input_ids"][row][batch["attention_mask"][row] == 1].tolist()
        assert kept == tokens[index]


@pytest.mark.parametrize(
    ("name", "words"),
    [("deep.png", "found mode I;16, expected 8 bits"), ("broken.jpg", r"broken\.jpg.*a complete image")],
)
def test_deep_or_broken_image_is_named(tmp_path, name, words):
    Image.fromarray(np.full((8, 8), 40_000, dtype=np.uint16)).save(tmp_path / "deep.png")
    (tmp_path / "broken.jpg").write_bytes(b"no image")
    item = pairs(image_paths=[tmp_path / name] * 2)[0, 0]
    with pytest.raises(MalformedSource, match=words):
        PairCollator(tiny_models.bert_tokenizer(), tiny_models.vit_images())([item])


def test_long_captions_are_cut_and_counted():
    tokenizer = tiny_models.bert_tokenizer(limit=5)
    texts = ["a dog", "the woman with a ball in the street", "a man on the bus"]
    with pytest.warns(UserWarning, match="2 of 3 captions exceed the context of 5 tokens"):
        ids = token_ids(tokenizer, texts)
    assert [len(row) for row in ids] == [4, 5, 5]
    assert ids[1] == tokenizer(texts[1], truncation=True)["input_ids"]


def test_image_with_one_caption_is_refused():
    groups = [*GROUPS, CaptionGroup("coco", 9, (1,), ("a",))]
    with pytest.raises(InvalidOption, match=r"image 9 of coco has 1 caption\(s\).* Leave out these 1 images"):
        TrainingPairs(groups, [*TOKENS, [60]], co_captions=True)


def test_images_come_from_the_folder(sample_library):
    reader = PairReader(tiny_models.bert_tokenizer(64), "t2t+i2t", "sample")
    found = reader.read_parts(sample_library, ["coco/train", "coco/restval"])
    names = [*sample_library.split("train").images["file_name"].to_pylist()]
    assert [path.name for path in found.image_paths[:60]] == names
    assert len(found) == 70
    with pytest.raises(InvalidOption, match="--images"):
        image_paths(["a.jpg"], None)


def test_missing_images_are_counted(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    with pytest.raises(SourceMissing, match=r"1 of the 3 photographs found in .*missing one is b\.png"):
        image_paths(["a.png", "b.png", "c.png"], str(tmp_path))


def test_a_file_of_pairs_is_read_by_image(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "a.png")
    Image.new("RGB", (4, 4)).save(tmp_path / "b.png")
    path = tmp_path / "pairs.tsv"
    path.write_text("a.png\ta dog\nb.png\ta cat\na.png\ttwo dog\n")
    reader = PairReader(tiny_models.bert_tokenizer(), "i2t", str(tmp_path))
    found = reader.read_file(path)
    assert [group.texts for group in found.groups] == [("a dog", "two dog"), ("a cat",)]
    path.write_text("a.png a dog\n")
    with pytest.raises(MalformedSource, match="line 1"):
        reader.read_file(path)


@pytest.fixture(scope="module")
def groups(sample_library):
    return caption_groups(sample_library, ["coco/train", "coco/val"])


@pytest.fixture(scope="module")
def positives(sample_library, groups):
    return BatchPositives.judged(sample_library, "validation", groups)


def test_texts_match_by_image_and_by_rating(sample_library, groups, positives):
    ids = [one for group in groups for one in group.caption_ids]
    image = {one: group.image_id for group in groups for one in group.caption_ids}
    judged = {one for group in groups[60:] for one in group.caption_ids}
    similar = set()
    for row in sample_library.split("validation").ratings("sts").to_pylist():
        if row["rating"] >= 3:
            similar |= {(row["left_id"], row["right_id"]), (row["right_id"], row["left_id"])}
    # Captions of the train split are judged by nothing and match themselves alone.
    rows = torch.arange(290, 330)
    columns = torch.arange(280, 340)
    found = positives.mark("t2t", rows, columns, offset=10)
    for i, row in enumerate(rows.tolist()):
        for j, column in enumerate(columns.tolist()):
            left = ids[row]
            right = ids[column]
            same = left in judged and right in judged and image[left] == image[right] and left != right
            assert found[i, j].item() == (same or (left, right) in similar or j == i + 10), (left, right)
    assert any(image[left] != image[right] for left, right in similar), "the sample rates pairs of several images"


def test_images_and_texts_match_in_both_directions(sample_library, groups, positives):
    rated = {
        (row["right_id"], row["left_id"])
        for row in sample_library.split("validation").ratings("sits").to_pylist()
        if row["rating"] >= 3
    }
    images = torch.arange(60, 120)
    texts = torch.arange(300, 600)
    forth = positives.mark("i2t", images, texts, offset=0)
    ids = [one for group in groups for one in group.caption_ids]
    for i, row in enumerate(images.tolist()):
        for j, column in enumerate(texts.tolist()):
            expected = ids[column] in groups[row].caption_ids or (groups[row].image_id, ids[column]) in rated
            assert forth[i, j].item() == (expected or i == j)
    back = positives.mark("t2i", texts[:60], images, offset=0)
    torch.testing.assert_close(back | torch.eye(60, dtype=torch.bool), forth.T[:60] | torch.eye(60, dtype=torch.bool))


def test_without_judgments_a_pair_matches_itself_alone():
    found = BatchPositives().mark("t2t", torch.tensor([5, 9]), torch.arange(4), offset=2)
    assert found.tolist() == [[False, False, True, False], [False, False, False, True]]


BACKBONES = ["--no-pretraining", "--text-model", "sample", "--image-model", "sample", "--image-pooling", "max"]
RECIPE = ["--train-text-model", "--extra-layers", "0", "--pooling", "mean", "--normalize", "--scale", "15"]
RECIPE += ["--loss", "softmax", "--learning-rate", "3e-3", "--schedule", "other", "--lr-scheduler-type", "cosine"]
RECIPE += ["--warmup-steps", "20", "--per-device-train-batch-size", "70", "--num-train-epochs", "800"]
RECIPE += ["--eval-strategy", "no", "--save-strategy", "no", "--no-load-best-model-at-end", "--use-cpu"]
RECIPE += ["--max-grad-norm", "1"]
DATA = ["--data-dir", "sample", "--train-on", "coco/train", "coco/restval"]


def test_the_colours_are_those_of_the_generator(monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[4] / "tools")
    scenes = importlib.import_module("sample.scenes")
    assert list(COLOURS.items()) == [*scenes.COLOURS.items(), *scenes.BACKGROUNDS.items()]


def test_recolouring_matches_picture_and_text():
    pixels = np.array([[COLOURS["red"], COLOURS["cream"], (0, 255, 0)]], dtype=np.uint8)
    order = np.arange(len(COLOURS))
    order[[0, 4, 8, 10]] = 4, 0, 10, 8
    found = recolour(pixels, nearest_colours(pixels), order)
    assert [tuple(pixel) for pixel in found[0].tolist()] == [COLOURS["blue"], COLOURS["mint"], (0, 255, 0)]


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("A red star.", {"red": "orange"}, "An orange star."),
        ("an orange star left of a red heart", {"orange": "red", "red": "orange", "left": "right", "right": "left"},
         "a red star right of an orange heart"),
        ("An empty mint picture", {"mint": "grey"}, "An empty grey picture"),
        ("No shapes.", {"red": "blue"}, "No shapes."),
    ],
)  # fmt: skip
def test_words_change_as_wholes(text, words, expected):
    assert reword(text, words) == expected


def test_items_depend_on_the_draw_alone(sample_library):
    tokenizer = tiny_models.bert_tokenizer(64)
    reader = PairReader(tokenizer, "t2t+i2t", "sample", seed=3)
    one, other = (RecolouredPairs(reader.read_parts(sample_library, ["coco/train"]), tokenizer) for _ in range(2))
    other[0, 5]
    first = one[2, 7]
    again = other[2, 7]
    later = other[3, 7]
    assert len(one) == 60
    assert first["texts"] == again["texts"]
    np.testing.assert_array_equal(np.asarray(first["image"]), np.asarray(again["image"]))
    assert (np.asarray(first["image"]) != np.asarray(later["image"])).any()


@pytest.mark.parametrize("changed", [["--mode", "t2t"], ["--images", "elsewhere"]])
def test_other_data_than_the_sample_is_refused(tmp_path, changed):
    command = [*DATA, "--images", "sample", "--recolour", *BACKBONES, "--output-dir", str(tmp_path / "run"), *changed]
    with pytest.raises(InvalidOption, match="works only with the embedded sample"):
        train(command)


def test_environment_variable_selects_the_sample_like_data_dir(tmp_path, monkeypatch):
    command = ["--images", "sample", "--recolour", *BACKBONES, "--train-on", "no/such"]
    monkeypatch.setenv("CXC_ECCV_DATA", "sample")
    with pytest.raises(UnknownName, match="unknown collection 'no'"):
        train([*command, "--output-dir", str(tmp_path / "run")])
    monkeypatch.setenv("CXC_ECCV_DATA", str(tmp_path))
    with pytest.raises(InvalidOption, match="works only with the embedded sample"):
        train([*command, "--output-dir", str(tmp_path / "run")])


@pytest.mark.slow
def test_the_sample_is_learnt_in_two_minutes(tmp_path):
    """Trained on train and restval alone; COCO's links, the strictest labels, know one image of every caption."""
    report = train([*DATA, "--images", "sample", "--recolour", *BACKBONES, *RECIPE, "--report-on", "test",
                    "--output-dir", str(tmp_path / "run")]).report  # fmt: skip
    assert report.scores["coco_5k/i2t/recall_at_1"] >= 0.8
    assert report.scores["cxc/i2t/recall_at_1"] >= 0.8
    assert report.scores["eccv_caption/i2t/recall_at_1"] >= 0.8
