"""In-batch losses against loops over the printed equations."""

import math

import pytest
import torch

from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.dual_encoder.loss import (
    SOFTMAXES,
    TRIPLETS,
    Objective,
    softmax_without_positive,
    triplet_loss,
)
from cxc_eccv.studies.baselines.dual_encoder.options import DataOptions, LossOptions
from cxc_eccv.training.contrastive import in_batch_softmax


def slow_loss(similarities, positives, *, with_positive):
    """Mean over the positives of one row, then over rows; plain Python."""
    rows = []
    for row, marks in zip(similarities.tolist(), positives.tolist(), strict=True):
        in_denominator = [s for s, positive in zip(row, marks, strict=True) if with_positive or not positive]
        log_sum = math.log(sum(math.exp(s) for s in in_denominator))
        own = [s for s, positive in zip(row, marks, strict=True) if positive]
        rows.append(-sum(s - log_sum for s in own) / len(own))
    return rows


@pytest.fixture
def similarities():
    return torch.randn(5, 7, generator=torch.Generator().manual_seed(1), dtype=torch.float64) * 3


def several_positives():
    positives = torch.eye(5, 7, dtype=torch.bool)
    positives[0, 3] = positives[2, 0] = positives[2, 6] = True
    return positives


@pytest.mark.parametrize("positives", [torch.eye(5, 7, dtype=torch.bool), several_positives()], ids=["one", "several"])
@pytest.mark.parametrize("name", SOFTMAXES)
def test_equals_the_loop(similarities, positives, name):
    expected = slow_loss(similarities, positives, with_positive=name == "softmax")
    torch.testing.assert_close(SOFTMAXES[name](similarities, positives).tolist(), expected)


def test_loss_without_positive_may_be_negative():
    """Neither loss overflows."""
    similarities = torch.eye(4) * 1e4
    eye = torch.eye(4, dtype=torch.bool)
    torch.testing.assert_close(softmax_without_positive(similarities, eye), torch.full([4], math.log(3) - 1e4))
    torch.testing.assert_close(in_batch_softmax(similarities, eye), torch.zeros(4))


def test_a_row_without_negatives_is_an_error():
    full = torch.tensor([[True, False], [True, True]])
    with pytest.raises(InvalidOption, match="at least two pairs"):
        softmax_without_positive(torch.zeros(2, 2), full)


@pytest.mark.parametrize("loss", SOFTMAXES)
def test_bfloat16_features_get_a_float32_loss(loss):
    random = torch.Generator().manual_seed(3)
    texts, images = (torch.randn(64, 32, generator=random).bfloat16() for _ in range(2))
    scale = torch.tensor(3.0).bfloat16()
    eye = torch.eye(64, dtype=torch.bool)
    found = Objective(loss=loss).compare(texts, images, scale, (eye, ~eye & False))
    table = texts.double() @ images.double().T * 3
    expected = slow_loss(table, eye, with_positive=loss == "softmax")
    assert found.dtype == torch.float32
    assert found.item() == pytest.approx(sum(expected) / 64, rel=1e-5)


@pytest.mark.parametrize("option", ["margin", "text_weight"])
def test_an_objective_without_a_positive_weight_is_refused(option):
    with pytest.raises(InvalidOption, match="give numbers above 0"):
        LossOptions(**{option: 0.0}).check(DataOptions())


@pytest.mark.parametrize("mode", ["t2t", "i2t", "t2t+i2t"])
@pytest.mark.parametrize("loss", SOFTMAXES)
def test_the_objective_is_equation_2(mode, loss):
    random = torch.Generator().manual_seed(0)
    texts = torch.randn(8, 6, generator=random) if "t2t" in mode else torch.randn(4, 6, generator=random)
    images = torch.randn(4, 6, generator=random)
    scale = torch.tensor(1.7)
    weight = 0.3
    found = Objective(mode, loss, weight)(
        texts, images if "i2t" in mode else None, scale, torch.arange(len(texts)), torch.arange(4)
    )

    def both_ways(left, right):
        table = (left @ right.T * scale).double()
        eye = torch.eye(4, dtype=torch.bool)
        options = {"with_positive": loss == "softmax"}
        return sum(slow_loss(table, eye, **options)) / 4 + sum(slow_loss(table.T, eye, **options)) / 4

    expected = both_ways(images, texts[:4]) if "i2t" in mode else 0.0
    if "t2t" in mode:
        expected += both_ways(texts[:4], texts[4:]) * (weight if "i2t" in mode else 1.0)
    assert found.item() == pytest.approx(expected, rel=1e-5)


def slow_triplets(similarities, positives, ignored, margin, negatives):
    """Mean over the positives of one row, of the costs of its negatives; plain Python."""
    rows = []
    for row, marks, skipped in zip(similarities.tolist(), positives.tolist(), ignored.tolist(), strict=True):
        others = [s for s, mark, skip in zip(row, marks, skipped, strict=True) if not mark and not skip]
        losses = []
        for own in (s for s, mark in zip(row, marks, strict=True) if mark):
            chosen = [s for s in others if s < own] if negatives == "semi_hard" else others
            costs = [max(0.0, margin - own + s) for s in chosen]
            losses.append(sum(costs) if negatives == "all" else max(costs, default=0.0))
        rows.append(sum(losses) / len(losses))
    return rows


def ignored_pairs():
    ignored = torch.zeros(5, 7, dtype=torch.bool)
    ignored[0, 5] = ignored[1, 2] = ignored[4, 0] = True
    ignored[3] = True  # nothing is left for this row but its positive
    ignored[3, 3] = False
    return ignored


@pytest.mark.parametrize("positives", [torch.eye(5, 7, dtype=torch.bool), several_positives()], ids=["one", "several"])
@pytest.mark.parametrize("margin", [1.0, 3.0])
@pytest.mark.parametrize("name", TRIPLETS)
def test_triplet_losses_equal_the_loop(similarities, positives, name, margin):
    ignored = ignored_pairs()
    negatives = TRIPLETS[name]
    expected = slow_triplets(similarities, positives, ignored, margin, negatives)
    table = similarities.masked_fill(ignored, float("-inf"))
    torch.testing.assert_close(triplet_loss(table, positives, margin=margin, negatives=negatives).tolist(), expected)
    assert expected[3] == 0
    assert sum(expected) > 0


def test_semi_hard_negative_is_below_the_positive():
    # Negatives above the positive, equal to it, within the margin, and beyond.
    table = torch.tensor([[0.5, 0.7, 0.5, 0.35, 0.1]])
    positive = torch.tensor([[True, False, False, False, False]])
    assert triplet_loss(table, positive, margin=0.2, negatives="semi_hard").item() == pytest.approx(0.05)


@pytest.mark.parametrize("name", [*SOFTMAXES, *TRIPLETS])
def test_ignored_pairs_get_no_loss_or_gradient(name):
    random = torch.Generator().manual_seed(4)
    queries = torch.randn(5, 6, generator=random)
    items = torch.randn(7, 6, generator=random).requires_grad_()
    positives = torch.eye(5, 7, dtype=torch.bool)
    ignored = ignored_pairs()
    scale = torch.tensor(2.0)
    ignored[:, 6] = True  # the last item is nobody's negative
    objective = Objective(loss=name, margin=2.0)
    loss = objective.compare(queries, items, scale, (positives, ignored))
    loss.backward()
    assert items.grad.isfinite().all()
    assert not items.grad[6].any()
    assert items.grad[:5].any()
    table = (queries @ items.detach().T).double() * (1 if name in TRIPLETS else 2)
    if name in TRIPLETS:
        rows = slow_triplets(table, positives, ignored, 2.0, TRIPLETS[name])
    else:
        # A row with nothing left but its positive has nothing to learn.
        rows = [
            0.0
            if bool((ignored | positives)[row].all())
            else slow_loss(
                table[row, ~ignored[row]][None], positives[row, ~ignored[row]][None], with_positive=name == "softmax"
            )[0]
            for row in range(5)
        ]
    assert loss.item() == pytest.approx(sum(rows) / 5, rel=1e-5)
