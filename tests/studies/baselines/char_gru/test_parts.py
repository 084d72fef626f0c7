"""The character GRU: its parts against slow loops, rows and batches, snapshots, and what bad input gets."""

import json
import math

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from cxc_eccv.encoding.texts import text_encoder
from cxc_eccv.errors import InvalidOption, MissingIds, ModelError
from cxc_eccv.studies.baselines.char_gru.data import (
    CoCaptions,
    HeldOut,
    SharedBatches,
    character_tokenizer,
    coco_text,
    collate,
    hold_out,
)
from cxc_eccv.studies.baselines.char_gru.loss import cyclic_cosine, describe_pairs, hinge_loss
from cxc_eccv.studies.baselines.char_gru.model import (
    AttentionPooling,
    BidirectionalLayer,
    CharGruConfig,
    CharGruEnsemble,
    CharGruModel,
    MaxPooling,
    best_snapshots,
)
from cxc_eccv.studies.baselines.char_gru.options import COMMAND, PRESETS
from cxc_eccv.studies.trainers.backbones import encode_by_length
from cxc_eccv.studies.trainers.caption_groups import CaptionGroup, link_judgments
from cxc_eccv.studies.trainers.image_features import ImageFeatures
from cxc_eccv.types import Embeddings


def group(number, *texts):
    return CaptionGroup("coco", number, tuple(range(len(texts))), texts)


def test_attention_pooling_equals_a_loop():
    torch.manual_seed(0)
    pooling = AttentionPooling(5, 3)
    states = torch.randn(2, 4, 5)
    lengths = [4, 2]
    present = torch.tensor([[True] * length + [False] * (4 - length) for length in lengths])
    pooling.requires_grad_(False)
    found = pooling(states, present)
    hidden = pooling.hidden
    weights = pooling.weights
    for row, length in enumerate(lengths):
        scores = []
        for step in range(length):
            inner = [math.tanh(float(hidden.weight[u] @ states[row, step] + hidden.bias[u])) for u in range(3)]
            scores.append([float(weights.weight[f] @ torch.tensor(inner) + weights.bias[f]) for f in range(5)])
        for feature in range(5):
            powers = [math.exp(score[feature]) for score in scores]
            value = sum(p * float(states[row, t, feature]) for t, p in enumerate(powers)) / sum(powers)
            assert float(found[row, feature]) == pytest.approx(value, abs=1e-5)


def test_bfloat16_attention_is_pooled_in_float32():
    torch.manual_seed(0)
    pooling = AttentionPooling(5, 3).bfloat16()
    states = torch.randn(1, 400, 5).bfloat16()
    with torch.no_grad():
        found = pooling(states, torch.ones(1, 400, dtype=torch.bool))
        scores = pooling.weights(torch.tanh(pooling.hidden(states))).double()
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), (scores.softmax(1) * states.double()).sum(1), rtol=1e-4, atol=1e-5)


def test_max_pooling_equals_a_loop():
    states = torch.randn(2, 4, 5)
    present = torch.tensor([[True, True, True, True], [True, False, False, False]])
    found = MaxPooling()(states, present)
    for row, length in enumerate((4, 1)):
        for feature in range(5):
            assert float(found[row, feature]) == max(float(states[row, t, feature]) for t in range(length))


@pytest.mark.parametrize("margin", [0.1, 0.2])
def test_the_hinge_loss_equals_a_loop(margin):
    random = np.random.default_rng(0)
    left, right = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in random.standard_normal((2, 6, 4)))
    terms = []
    for i in range(6):
        for j in range(6):
            if i != j:
                terms.append(max(0, left[i] @ right[j] - left[i] @ right[i] + margin))
                terms[-1] += max(0, right[i] @ left[j] - right[i] @ left[i] + margin)
    assert float(hinge_loss(torch.tensor(left), torch.tensor(right), margin)) == pytest.approx(np.mean(terms), rel=1e-5)


def test_the_optimiser_follows_the_papers_schedule():
    cycle = 8
    highest = 1e-3
    lowest = 1e-6
    optimizer = optimiser(highest)
    rates = []
    schedule = cyclic_cosine(optimizer, cycle, lowest)
    for step in range(2 * cycle + 1):
        printed = 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + step / (0.5 * cycle)))) + lowest
        rates.append(optimizer.param_groups[0]["lr"])
        assert rates[-1] == pytest.approx(printed, rel=1e-9)
        optimizer.step()
        schedule.step()
    assert rates[0] == pytest.approx(lowest)
    assert rates[cycle] == pytest.approx(lowest)
    assert max(rates) == rates[cycle // 2] == pytest.approx(highest)


def optimiser(rate):
    return torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=rate)


@pytest.mark.parametrize(
    ("highest", "cycle", "lowest"), [(1e-3, 0, 1e-6), (1e-3, 4, 1.0), (1e-3, 4, -1e-6), (0.0, 4, 0.0)]
)
def test_a_schedule_that_makes_no_sense(highest, cycle, lowest):
    with pytest.raises(InvalidOption, match="learning rate from"):
        cyclic_cosine(optimiser(highest), cycle, lowest)


@pytest.mark.parametrize(("cycle", "lowest"), [(1, 1e-6), (4, 0.0), (4, 1e-3)])
def test_a_schedule_at_its_limits(cycle, lowest):
    schedule = cyclic_cosine(optimiser(1e-3), cycle, lowest)
    assert schedule.get_last_lr() == [pytest.approx(lowest)]


def test_every_character_is_a_token():
    tokens = character_tokenizer(["A dog's\nball", "ünïcode  blanks"])
    for text in ("A dog's\nball", "ünïcode  blanks", "  b"):
        assert len(tokens(text)["input_ids"]) == len(text)
        assert tokens.unk_token_id not in tokens(text)["input_ids"]
    assert tokens("Z")["input_ids"] == [tokens.unk_token_id]
    assert tokens.pad_token_id == 0
    assert coco_text("A dog, running. ") == "a dog running."


def tokens_of(groups):
    return character_tokenizer(text for one in groups for text in one.texts)


@pytest.mark.parametrize("views", [1, 2, 3])
def test_epoch_holds_every_caption_once(views):
    """Rows that the captions of an image do not fill evenly take some a second time."""
    sizes = (5, 3, 7, 7)
    groups = [group(number, *("xyzuvwq"[:size])) for number, size in enumerate(sizes)]
    groups = [group(one.image_id, *(f"{one.image_id}{text}" for text in one.texts)) for one in groups]
    tokens = tokens_of(groups)
    rows = CoCaptions(groups, tokens, views)
    assert len(rows) == sum(math.ceil(size / views) for size in sizes)
    orders = []
    for epoch in range(3):
        batches = SharedBatches(rows.rows, 2)
        batches.epoch = epoch
        drawn = [draw for batch in batches for draw in batch]
        assert sorted(drawn) == [(epoch, image, row) for image in range(4) for row in range(rows.rows[image])]
        orders.append([tokens.decode(ids) for draw in drawn for ids in rows[draw]["input_ids"]])
        counted = {
            text: orders[-1].count(tokens.decode(tokens(text)["input_ids"])) for one in groups for text in one.texts
        }
        assert set(counted.values()) <= {1, 2}
        # Rows that captions do not fill evenly take some a second time.
        assert sum(counted.values()) == views * len(rows)
        for draw in drawn:
            assert len({tuple(ids) for ids in rows[draw]["input_ids"]}) == views
    assert orders[0] != orders[1] != orders[2]


def test_a_batch_holds_no_image_twice():
    batches = SharedBatches([5, 5, 3, 5, 5, 5, 5], 3)
    drawn = list(batches)
    assert len(drawn) == len(batches)
    assert sum(len(batch) for batch in drawn) == 33
    for batch in drawn:
        assert len({image for _, image, _ in batch}) == len(batch) > 1


def test_rows_hold_captions_and_features_of_one_image():
    groups = [group(1, "aa", "bb", "cc"), group(2, "dd", "ee")]
    tokens = tokens_of(groups)
    rows = CoCaptions(groups, tokens, 2, np.array([[1.0], [2.0]], dtype=np.float32))
    drawn = {tuple(ids) for epoch in range(9) for ids in rows[epoch, 0, 0]["input_ids"]}
    assert drawn == {tuple(tokens(text)["input_ids"]) for text in ("aa", "bb", "cc")}
    assert rows[3, 0, 0]["input_ids"] == rows[3, 0, 0]["input_ids"]
    batch = collate([rows[0, 0, 0], rows[0, 1, 0]])
    assert batch["input_ids"].shape == (2, 2, 2)
    assert batch["image_features"].tolist() == [[1.0], [2.0]]
    with pytest.raises(InvalidOption, match="1 images have fewer, the first: 2"):
        CoCaptions(groups, tokens, 3)
    with pytest.raises(InvalidOption, match="at least 1"):
        CoCaptions(groups, tokens, 0)


def test_long_held_out_captions_are_counted():
    groups = [group(1, "a" * 513, "b" * 512), group(2, "c", "d")]
    with pytest.warns(UserWarning, match="^1 of 4 held-out captions exceed the context of 512 tokens"):
        HeldOut(groups, tokens_of(groups))


def test_held_out_images_are_spread_and_kept_apart():
    groups = [group(number, "a", "b") for number in range(10)]
    train, kept = hold_out(groups, 3)
    assert [one.image_id for one in kept] == [0, 3, 6]
    assert {one.image_id for one in train} == set(range(10)) - {0, 3, 6}
    for count in (0, 10):
        with pytest.raises(InvalidOption, match="hold out"):
            hold_out(groups, count)


def test_links_between_held_out_captions_and_images():
    owners = np.array([0, 0, 1, 1, 1])
    assert link_judgments(owners, "t2t").n_positives.tolist() == [1, 1, 2, 2, 2]
    assert link_judgments(owners, "i2t").n_positives.tolist() == [2, 3]
    assert link_judgments(owners, "t2i").n_positives.tolist() == [1, 1, 1, 1, 1]


def test_features_of_images_that_are_not_there():
    features = ImageFeatures(Embeddings([7], [[1.0, 2.0]]))
    with pytest.raises(MissingIds, match="lack 1 of 2 images, the first: 8"):
        features.of([group(7, "a"), group(8, "b")])


def test_of_equal_snapshots_the_later_is_chosen(tmp_path):
    scores = {"step-000004": 0.5, "step-000008": 0.2, "step-000012": 0.5}
    (tmp_path / "snapshots.json").write_text(json.dumps(scores))
    assert [path.name for path in best_snapshots(tmp_path, 1)] == ["step-000012"]
    assert [path.name for path in best_snapshots(tmp_path)] == ["step-000012", "step-000004"]


@pytest.mark.parametrize(("name", "rate"), [("flickr8k", 1e-3), ("coco", 1e-4)])
def test_the_presets_are_the_papers_runs(name, rate):
    command = ["--output-dir", "run", "--image-features", "resnet152.npz", "--preset", name]
    found = COMMAND.read(command)
    assert (found.highest_rate, found.lowest_rate, found.captions, found.images) == (rate, 1e-6, 1, 32)
    assert (found.epochs, found.cycle_epochs, found.ensemble, found.margin) == (32, 4, 2, 0.2)
    assert (found.hidden_size, found.recurrent_unit, found.pooling) == (1024, "gru", "attention")
    assert found.intervals == "binomial_images"
    data = {"flickr8k": (["flickr8k/train"], ["flickr8k/dev"], "flickr8k/test")}
    data["coco"] = (["coco/train", "coco/restval"], ["coco/val"], "test")
    assert (found.train_on, found.select_on, found.report_on) == data[name]
    assert COMMAND.read([*command, "--highest-rate", "0.5"]).highest_rate == 0.5
    # A preset is its options: the run that names them goes on from its checkpoints.
    assert COMMAND.read(["--output-dir", "run", "--image-features", "a.npz"]) != found
    assert set(PRESETS) == {"flickr8k", "coco"}


IMAGES = ("--image-features", "resnet152.npz")


@pytest.mark.parametrize(
    ("options", "captions", "rate", "pairs"),
    [
        ((*IMAGES, "--train-on", "flickr8k/train"), 1, 1e-3, "pairs of an image and a caption, as the paper's"),
        ((*IMAGES, "--train-on", "coco/train"), 1, 1e-4, "pairs of an image and a caption, as the paper's"),
        ((*IMAGES, "--captions", "5"), 5, 1e-4, "15 pairs of each image: 5 of the image and a caption, and 10 of two"),
        (("--train-on", "coco/train"), 5, 1e-3, "10 pairs of captions of each image and no image"),
    ],
)
def test_defaults_are_the_papers_for_the_mode(options, captions, rate, pairs):
    arguments = COMMAND.read(["--output-dir", "run", *options])
    assert (arguments.captions, arguments.highest_rate) == (captions, rate)
    assert pairs in describe_pairs(arguments.captions, has_images=arguments.has_images)


def test_default_loss_is_the_papers_for_images():
    """Section 3.1.2: the hinge over every other image and caption of a batch of image-caption pairs, term by term."""
    arguments = COMMAND.read(["--output-dir", "run", *IMAGES])
    model = tiny()
    ids = torch.randint(2, 40, (4, arguments.captions, 9))
    features = torch.randn(4, 3)
    output = model(ids, image_features=features)
    captions = output.text_embeds[:, 0].tolist()
    images = output.image_embeds.tolist()
    total = 0.0
    for one in range(4):
        match = np.dot(captions[one], images[one])
        for other in {*range(4)} - {one}:
            total += max(0, np.dot(captions[one], images[other]) - match + 0.2)
            total += max(0, np.dot(images[one], captions[other]) - match + 0.2)
    assert output.loss.item() == pytest.approx(total / 12, rel=1e-5)


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        (["--preset", "flickr8k"], InvalidOption, "give --image-features FILE"),
        (["--captions", "1"], InvalidOption, "makes no pair"),
        (["--ensemble", "0"], InvalidOption, "at least one"),
        (["--cycle-epochs", "0"], InvalidOption, "cycles of 0"),
    ],
)
def test_arguments_that_make_no_run(options, error, words):
    with pytest.raises(error, match=words):
        COMMAND.read(["--output-dir", "run", *options]).check()


TEXTS = ["A dog runs.", "cat", "Two men, one red bus!", "A dog runs on."]


def tiny(seed=0, **options):
    torch.manual_seed(seed)
    sizes = {"vocab_size": 40, "hidden_size": 6, "attention_size": 4, "image_feature_size": 3, **options}
    return CharGruModel(CharGruConfig(**sizes)).eval()


def text_tokenizer():
    return character_tokenizer(TEXTS)


@pytest.mark.parametrize("unit", ["gru", "lstm"])
def test_both_directions_equal_packed_sequences(unit):
    layer = BidirectionalLayer(unit, 3, 5)
    reference = {"gru": torch.nn.GRU, "lstm": torch.nn.LSTM}[unit](3, 5, batch_first=True, bidirectional=True)
    for name, parameter in layer.left_to_right.named_parameters():
        reference.state_dict()[name].copy_(parameter.detach())
    for name, parameter in layer.right_to_left.named_parameters():
        reference.state_dict()[f"{name}_reverse"].copy_(parameter.detach())
    steps = torch.randn(4, 7, 3)
    lengths = torch.tensor([7, 1, 4, 6])
    packed = torch.nn.utils.rnn.pack_padded_sequence(steps, lengths, batch_first=True, enforce_sorted=False)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    found = layer(steps, lengths)
    for row, length in enumerate(lengths.tolist()):
        torch.testing.assert_close(found[row, :length], expected[row, :length])


@pytest.mark.parametrize("options", [{}, {"pooling": "max"}, {"recurrent_unit": "lstm"}])
def test_padding_does_not_change_an_embedding(options):
    model = tiny(**options)
    tokens = text_tokenizer()
    batch = tokens(TEXTS, padding="max_length", max_length=50, return_tensors="pt")
    together = model.get_text_features(**batch).pooler_output
    for row, text in enumerate(TEXTS):
        alone = model.get_text_features(**tokens([text], return_tensors="pt")).pooler_output
        torch.testing.assert_close(together[row : row + 1], alone)
    torch.testing.assert_close(together.norm(dim=1), torch.ones(4))


def test_parts_of_like_length_change_nothing():
    model = tiny()
    batch = text_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    whole = model.get_text_features(**batch).pooler_output
    for rows in (1, 2, 3, 9):
        parts = encode_by_length(model._text_vectors, batch["input_ids"], batch["attention_mask"], rows=rows)
        torch.testing.assert_close(parts, whole)


def test_loss_averages_over_pairs_of_vectors():
    model = tiny()
    ids = torch.randint(2, 40, (3, 2, 9))
    features = torch.randn(3, 3)
    output = model(ids, image_features=features)
    first, second = output.text_embeds.unbind(1)
    pairs = [(first, second), (first, output.image_embeds), (second, output.image_embeds)]
    assert output.loss.item() == pytest.approx(sum(hinge_loss(*pair, 0.2).item() for pair in pairs) / 3, rel=1e-5)
    assert model(ids[:1, :1]).loss is None


def test_the_paper_is_the_default():
    config = CharGruConfig()
    assert (config.character_size, config.hidden_size, config.embedding_size) == (20, 1024, 2048)
    assert (config.attention_size, config.image_feature_size, config.margin) == (128, 2048, 0.2)
    assert (config.recurrent_unit, config.pooling) == ("gru", "attention")


def test_saved_and_loaded_it_gives_the_same_vectors(tmp_path):
    model = tiny(vocab_size=len(text_tokenizer()))
    tokens = text_tokenizer()
    model.save_pretrained(tmp_path)
    tokens.save_pretrained(tmp_path)
    before = text_encoder(model, processor=tokens)(TEXTS)
    assert isinstance(AutoModel.from_pretrained(tmp_path), CharGruModel)
    assert AutoTokenizer.from_pretrained(tmp_path)(TEXTS)["input_ids"] == tokens(TEXTS)["input_ids"]
    np.testing.assert_array_equal(text_encoder(str(tmp_path))(TEXTS), before)


def test_an_ensemble_is_the_mean_of_unit_vectors(tmp_path):
    models = [tiny(seed, vocab_size=len(text_tokenizer())) for seed in (1, 2)]
    ensemble = CharGruEnsemble.of(models)
    batch = text_tokenizer()(TEXTS, padding=True, return_tensors="pt")
    mean = sum(model.get_text_features(**batch).pooler_output for model in models) / 2
    found = ensemble.get_text_features(**batch).pooler_output
    torch.testing.assert_close(found, mean / mean.norm(dim=1, keepdim=True))
    ensemble.save_pretrained(tmp_path)
    text_tokenizer().save_pretrained(tmp_path)
    np.testing.assert_allclose(text_encoder(str(tmp_path))(TEXTS), found.detach().numpy(), atol=1e-6)
    images = torch.randn(2, 3)
    assert ensemble.get_image_features(images).pooler_output.shape == (2, 12)


def test_checkpoint_not_fitting_its_config_is_refused(tmp_path):
    tiny(vocab_size=len(text_tokenizer())).save_pretrained(tmp_path)
    text_tokenizer().save_pretrained(tmp_path)
    CharGruConfig(
        vocab_size=len(text_tokenizer()), hidden_size=7, attention_size=4, image_feature_size=3
    ).save_pretrained(tmp_path)
    with pytest.raises(ModelError, match="weights and config do not fit"):
        text_encoder(str(tmp_path))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tiny(image_feature_size=0).get_image_features(torch.zeros(1, 3)), "has no image side"),
        (lambda: tiny().get_image_features(torch.zeros(1, 4)), "the model needs 3"),
        (lambda: tiny().get_text_features(torch.tensor([[0, 2]]), torch.tensor([[0, 1]])), "pad on the right"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(InvalidOption, match=message):
        call()
