"""Pooling, loss and schedule against slow loops; the tokenizer; rows and batches."""

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install 'cxc_eccv[train]'")
pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")

from cxc_eccv.baselines.caption_groups import CaptionGroup  # noqa: E402 - after the checks above
from cxc_eccv.baselines.char_gru.characters import character_tokenizer, coco_text  # noqa: E402
from cxc_eccv.baselines.char_gru.co_captions import CoCaptions, collate, held_out  # noqa: E402
from cxc_eccv.baselines.char_gru.hinge import hinge_loss  # noqa: E402
from cxc_eccv.baselines.char_gru.image_features import ImageFeatures  # noqa: E402
from cxc_eccv.baselines.char_gru.pooling import AttentionPooling, MaxPooling  # noqa: E402
from cxc_eccv.baselines.char_gru.schedule import cyclic_cosine, cyclic_cosine_rate  # noqa: E402
from cxc_eccv.baselines.char_gru.scoring import HeldOut, link_judgments  # noqa: E402
from cxc_eccv.baselines.char_gru.snapshots import best_snapshots  # noqa: E402
from cxc_eccv.errors import DataError, InvalidOption, MissingIds  # noqa: E402
from cxc_eccv.types import Embeddings  # noqa: E402


def group(number, *texts):
    return CaptionGroup("coco", number, tuple(range(len(texts))), texts)


def test_attention_pooling_equals_a_loop():
    torch.manual_seed(0)
    pooling, states = AttentionPooling(5, 3), torch.randn(2, 4, 5)
    lengths = [4, 2]
    present = torch.tensor([[True] * length + [False] * (4 - length) for length in lengths])
    pooling.requires_grad_(False)
    found = pooling(states, present)
    hidden, weights = pooling.hidden, pooling.weights
    for row, length in enumerate(lengths):
        scores = []
        for step in range(length):
            inner = [math.tanh(float(hidden.weight[u] @ states[row, step] + hidden.bias[u])) for u in range(3)]
            scores.append([float(weights.weight[f] @ torch.tensor(inner) + weights.bias[f]) for f in range(5)])
        for feature in range(5):
            powers = [math.exp(score[feature]) for score in scores]
            value = sum(p * float(states[row, t, feature]) for t, p in enumerate(powers)) / sum(powers)
            assert float(found[row, feature]) == pytest.approx(value, abs=1e-5)


def test_attention_over_bfloat16_states_is_taken_in_single_precision():
    torch.manual_seed(0)
    pooling, states = AttentionPooling(5, 3).bfloat16(), torch.randn(1, 400, 5).bfloat16()
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


def test_the_schedule_follows_the_papers_formula():
    cycle, highest, lowest = 40, 1e-3, 1e-6
    rates = [cyclic_cosine_rate(step, cycle, highest, lowest) for step in range(2 * cycle + 1)]
    for step, rate in enumerate(rates):
        printed = 0.5 * (highest - lowest) * (1 + math.cos(math.pi * (1 + step / (0.5 * cycle)))) + lowest
        assert rate == pytest.approx(printed, rel=1e-12)
    assert rates[0] == rates[cycle] == pytest.approx(lowest)
    assert max(rates) == rates[cycle // 2] == pytest.approx(highest)


def test_the_optimiser_gets_these_rates():
    optimizer = torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-3)
    schedule = cyclic_cosine(optimizer, 8, 1e-6)
    for step in range(20):
        assert optimizer.param_groups[0]["lr"] == pytest.approx(cyclic_cosine_rate(step, 8, 1e-3, 1e-6), rel=1e-9)
        optimizer.step()
        schedule.step()


@pytest.mark.parametrize(("cycle", "lowest"), [(0, 1e-6), (4, 1.0), (4, -1e-6)])
def test_a_schedule_that_makes_no_sense(cycle, lowest):
    with pytest.raises(InvalidOption, match="learning rate between"):
        cyclic_cosine(torch.optim.Adam([torch.zeros(1, requires_grad=True)], lr=1e-3), cycle, lowest)


def test_every_character_is_a_token():
    tokens = character_tokenizer(["A dog's\nball", "ünïcode  blanks"])
    for text in ("A dog's\nball", "ünïcode  blanks", "  b"):
        assert len(tokens(text)["input_ids"]) == len(text)
        assert tokens.unk_token_id not in tokens(text)["input_ids"]
    assert tokens("Z")["input_ids"] == [tokens.unk_token_id]
    assert tokens.pad_token_id == 0
    assert coco_text("A dog, running. ") == "a dog running."


def test_rows_draw_captions_of_their_own_image():
    groups = [group(1, "aa", "bb", "cc"), group(2, "dd", "ee")]
    tokens = character_tokenizer(text for one in groups for text in one.texts)
    rows = CoCaptions(groups, tokens, 2, np.array([[1.0], [2.0]], dtype=np.float32))
    drawn = {tuple(ids) for epoch in range(50) for ids in rows[epoch, 0]["input_ids"]}
    assert drawn == {tuple(tokens(text)["input_ids"]) for text in ("aa", "bb", "cc")}
    assert rows[3, 0]["input_ids"] == rows[3, 0]["input_ids"]
    batch = collate([rows[0, 0], rows[0, 1]])
    assert batch["input_ids"].shape == (2, 2, 2)
    assert batch["image_features"].tolist() == [[1.0], [2.0]]
    with pytest.raises(InvalidOption, match="1 images have fewer, the first: 2"):
        CoCaptions(groups, tokens, 3)
    with pytest.raises(InvalidOption, match="1 image features for 2 images"):
        CoCaptions(groups, tokens, 2, np.ones((1, 1), dtype=np.float32))


def test_captions_beyond_the_limit_are_cut_and_counted():
    groups = [group(1, "a" * 513, "b" * 512), group(2, "c" * 600, "d")]
    tokens = character_tokenizer(text for one in groups for text in one.texts)
    with pytest.warns(UserWarning, match="^2 of 4 captions are longer than the context of 512 tokens and are cut$"):
        rows = CoCaptions(groups, tokens, 2)
    assert [[len(ids) for ids in row] for row in rows.ids] == [[512, 512], [512, 1]]
    with pytest.warns(UserWarning, match="^2 of 4 held-out captions are longer than the context of 512 tokens"):
        HeldOut(groups, tokens)


def test_held_out_images_are_spread_and_kept_apart():
    groups = [group(number, "a", "b") for number in range(10)]
    train, kept = held_out(groups, 3)
    assert [one.image_id for one in kept] == [0, 3, 6]
    assert {one.image_id for one in train} == set(range(10)) - {0, 3, 6}
    for count in (0, 10):
        with pytest.raises(InvalidOption, match="held out"):
            held_out(groups, count)


def test_links_between_held_out_captions_and_images():
    owners = np.array([0, 0, 1, 1, 1])
    assert link_judgments(owners, "t2t").n_positives.tolist() == [1, 1, 2, 2, 2]
    assert link_judgments(owners, "i2t").n_positives.tolist() == [2, 3]
    assert link_judgments(owners, "t2i").n_positives.tolist() == [1, 1, 1, 1, 1]


def test_features_of_images_that_are_not_there():
    features = ImageFeatures(Embeddings([7], [[1.0, 2.0]]))
    with pytest.raises(MissingIds, match="lack 1 of 2 images, the first: 8"):
        features.of([group(7, "a"), group(8, "b")])


def test_too_few_snapshots(tmp_path):
    with pytest.raises(DataError, match="holds 0 scored snapshots, 2 are asked for"):
        best_snapshots(tmp_path)
