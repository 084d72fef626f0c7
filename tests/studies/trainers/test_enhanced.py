"""Extra steps on weak positives: against steps taken by hand, against plain training, and going on after a kill."""

import copy
import warnings
from threading import get_ident

import datasets
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch")

import transformers  # noqa: E402 - after the check for torch

from cxc_eccv.errors import InvalidOption  # noqa: E402
from cxc_eccv.studies.trainers.enhanced import EnhancedTrainer, WeakBatches  # noqa: E402

pytestmark = pytest.mark.thorough

WIDTH = 3


class Regression(torch.nn.Module):
    """A user's own model, which has never heard of weak positives."""

    def __init__(self, dropout=0.0):
        super().__init__()
        self.line = torch.nn.Linear(WIDTH, 1)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, inputs, labels):
        return {"loss": (self.line(self.dropout(inputs)) - labels).square().mean()}


def example(image, caption=0):
    random = torch.Generator().manual_seed(1000 * image + caption)
    inputs = torch.randn(WIDTH, generator=random)
    return {"image_id": image, "inputs": inputs, "labels": torch.randn(1, generator=random)}


ROWS = [example(image) for image in range(12)]
WEAK = {image: [100 + image, 200 + image] for image in range(0, 12, 2)}


def load(pairs, step):
    return [example(*pair) for pair in pairs]


def batch_of(parts):
    return transformers.default_data_collator([row for part in parts for row in part])


def arguments(folder, **options):
    given = {"per_device_train_batch_size": 2, "learning_rate": 0.05, "weight_decay": 0.1, "num_train_epochs": 1}
    given |= {"use_cpu": True, "disable_tqdm": True, "report_to": "none", "save_strategy": "no", "logging_steps": 1}
    given |= {"remove_unused_columns": False, "max_grad_norm": 0.7, "lr_scheduler_type": "constant"}
    return transformers.TrainingArguments(output_dir=str(folder), **given | options)


def model(**options):
    torch.manual_seed(0)
    return Regression(**options)


class Plain(EnhancedTrainer):
    """Without weak positives it is a Trainer; notes down what it trains on."""

    def __init__(self, *given, **options):
        self.batches = []
        self.rates = []
        super().__init__(*given, **options)

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        self.batches.append(copy.deepcopy(dict(inputs)))
        return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)


def trained(folder, weak=None, rows=ROWS, dropout=0.0, alpha=0.3, kind=Plain, collator=None, resumed=None, **options):
    trainer = kind(
        model=model(dropout=dropout),
        args=arguments(folder, **options),
        train_dataset=rows,
        data_collator=collator or transformers.default_data_collator,
        weak_batches=weak,
        alpha=alpha,
    )
    trainer.train(resume_from_checkpoint=resumed)
    return trainer


def weights(trainer):
    return torch.cat([parameter.detach().flatten() for parameter in trainer.model.parameters()])


def weak_batches(size=2, captions=WEAK, seed=0):
    return WeakBatches(captions, load, batch_of, size=size, seed=seed)


def test_weak_positives_prefer_images_of_the_batch():
    drawn = weak_batches(size=4).draw([3, 4, 5, 10, 4], step=1)
    assert [image for image, _ in drawn[:2]] in ([4, 10], [10, 4])
    assert len({image for image, _ in drawn}) == 4
    assert all(caption in WEAK[image] for image, caption in drawn)
    again = [weak_batches(size=4).draw([3, 4, 5, 10, 4], step=1) for _ in range(2)]
    assert again == [drawn, drawn]
    others = [weak_batches(size=4).draw([4, 10], step=step, rank=rank) for step in range(9) for rank in (0, 1)]
    assert len({tuple(pairs) for pairs in others}) > 9


def test_batch_holds_images_and_captions_once():
    shared = {image: [7, 8] for image in range(5)}
    for step in range(20):
        drawn = weak_batches(size=5, captions=shared).draw([2], step=step)
        assert drawn[0][0] == 2
        assert len(drawn) == 2
        assert len({caption for _, caption in drawn}) == len({image for image, _ in drawn}) == 2
    assert weak_batches(captions={1: []}).draw([1], step=0) == []
    with pytest.raises(InvalidOption, match="size=0"):
        weak_batches(size=0)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_alpha_0_is_plain_training_bit_for_bit(tmp_path, dropout):
    plain = trained(tmp_path, dropout=dropout, num_train_epochs=3)
    other = trained(tmp_path, weak_batches(), dropout=dropout, num_train_epochs=3, alpha=0)
    assert torch.equal(weights(plain), weights(other))
    assert not torch.equal(weights(plain), weights(trained(tmp_path, weak_batches(), dropout=dropout)))


@pytest.mark.parametrize("optimizer", ["adamw_torch", "sgd"])
def test_alpha_1_equals_training_on_both_batches(tmp_path, optimizer):
    enhanced = trained(tmp_path, weak_batches(), alpha=1, num_train_epochs=2, optim=optimizer)
    assert len(enhanced.batches) == 2 * 12
    assert enhanced.state.global_step == 12

    class InOrder(Plain):
        def _get_train_sampler(self, *_):
            return torch.utils.data.SequentialSampler(self.train_dataset)

    options = {"per_device_train_batch_size": 1, "optim": optimizer, "collator": lambda batches: dict(batches[0])}
    whole = trained(tmp_path, kind=InOrder, rows=enhanced.batches, **options)
    assert whole.state.global_step == 24
    assert torch.equal(weights(enhanced), weights(whole))


def test_extra_step_follows_the_accumulated_one(tmp_path):
    """Two batches accumulate, the rate falls from step to step, gradients are clipped, and Adam keeps its moments."""
    options = {"gradient_accumulation_steps": 2, "lr_scheduler_type": "linear", "num_train_epochs": 2}
    enhanced = trained(tmp_path, weak_batches(size=3), **options)
    assert (len(enhanced.batches), enhanced.state.global_step) == (6 * 3, 6)
    network = model()
    groups = (network.line.weight, 0.1), (network.line.bias, 0)
    optimizer = torch.optim.AdamW([{"params": [part], "weight_decay": decay} for part, decay in groups], lr=1)
    for step in range(6):
        *normal, extra = enhanced.batches[3 * step : 3 * step + 3]
        assert [len(batch["labels"]) for batch in (*normal, extra)] == [2, 2, 3]
        rate = 0.05 * (1 - step / 6)
        for batches, factor in ((normal, 1), ([extra], 0.3)):
            for batch in batches:
                (network(**batch)["loss"] / len(batches)).backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 0.7)
            for group in optimizer.param_groups:
                group["lr"] = factor * rate
            optimizer.step()
            optimizer.zero_grad()
    expected = torch.cat([parameter.detach().flatten() for parameter in network.parameters()])
    torch.testing.assert_close(weights(enhanced), expected, rtol=1e-6, atol=1e-7)


def test_the_images_of_all_accumulated_batches_come_first(tmp_path):
    seen = []

    class Watched(WeakBatches):
        def draw(self, images, **options):
            seen.append(list(images))
            return super().draw(images, **options)

    trained(tmp_path, Watched(WEAK, load, batch_of, size=2), gradient_accumulation_steps=3)
    assert [len(images) for images in seen] == [6, 6]
    assert sorted(seen[0] + seen[1]) == list(range(12))


def test_resumed_run_draws_the_same_weak_positives(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 4, "num_train_epochs": 2, "save_only_model": False}
    whole = trained(tmp_path / "whole", weak_batches(), **options)
    second = trained(tmp_path / "whole", weak_batches(), resumed=str(tmp_path / "whole/checkpoint-8"), **options)
    assert len(second.batches) == 2 * 4
    for mine, other in zip(second.batches, whole.batches[-8:], strict=True):
        assert all(torch.equal(mine[name], other[name]) for name in ("inputs", "labels"))
    assert torch.equal(weights(second), weights(whole))


def test_threads_load_extra_batches_and_change_nothing(tmp_path):
    def train_with(workers):
        """The weights, and for every batch the threads that loaded its parts."""
        threads = []

        def join(parts):
            threads.append([thread for thread, _ in parts])
            return batch_of([rows for _, rows in parts])

        weak = WeakBatches(WEAK, lambda pairs, step: (get_ident(), load(pairs, step)), join, size=6)
        trainer = trained(tmp_path, weak, dropout=0.5, dataloader_num_workers=workers, max_steps=3)
        assert trainer._threads is None
        return weights(trainer), threads

    found, threads = zip(*map(train_with, (0, 2)), strict=True)
    assert torch.equal(*found)
    assert threads[0] == [[get_ident()]] * 3
    assert [len(parts) for parts in threads[1]] == [2] * 3
    assert get_ident() not in threads[1][0]


def test_steps_without_an_extra_batch_are_counted(tmp_path):
    with pytest.warns(UserWarning, match="6 of 6 steps had no extra batch: a process had no weak positives left"):
        empty = trained(tmp_path, weak_batches(captions={}))
    assert torch.equal(weights(empty), weights(trained(tmp_path)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained(tmp_path, weak_batches())


def test_trainer_mixin_hides_ids_from_the_model(tmp_path):
    class Mine(transformers.Trainer):
        steps = 0

        def training_step(self, model, inputs, num_items_in_batch=None):
            assert set(inputs) == {"inputs", "labels"}
            Mine.steps += 1
            return super().training_step(model, inputs, num_items_in_batch)

    class Both(EnhancedTrainer, Mine):
        pass

    trainer = trained(tmp_path, weak_batches(), kind=Both)
    assert Mine.steps == 2 * trainer.state.global_step == 12
    assert trainer.evaluate(ROWS)["eval_loss"] > 0


def test_bad_input_is_refused(tmp_path):
    for alpha in (-0.1, 1.5):
        with pytest.raises(InvalidOption, match=f"alpha={alpha}: give a factor"):
            trained(tmp_path, weak_batches(), alpha=alpha)
    rows = [{name: row[name] for name in ("inputs", "labels")} for row in ROWS]
    with pytest.raises(InvalidOption, match=r"a batch has no image_id, .*remove_unused_columns=False"):
        trained(tmp_path, weak_batches(), rows=rows)
    trained(tmp_path, rows=rows)


def dataset_of(images):
    names = ("image_id", "image", "caption_id", "caption")
    rows = [(image, f"picture {image}", 10 * image + k, f"{image} {k}") for image in images for k in (1, 2)]
    return datasets.Dataset.from_list([dict(zip(names, row, strict=True)) for row in rows])


def test_weak_positives_pair_images_with_foreign_captions():
    """Those without a row in the dataset are left out and counted."""
    weak = {1: [21, 99], 2: [11, 31], 7: [11]}
    with pytest.warns(UserWarning, match="2 of 5 weak positives have no row and are left out"):
        batches = WeakBatches.of_rows(weak, dataset_of([1, 2, 3]), lambda rows: {"rows": rows}, size=2)
    assert batches.captions == {1: [21], 2: [11, 31]}
    row = batches.collate([batches.load([(2, 31)], 0)])["rows"][0]
    assert row == {"image_id": 2, "image": "picture 2", "caption_id": 31, "caption": "3 1"}
    with pytest.raises(InvalidOption, match="none of 2 weak positives has both its image and its caption"):
        WeakBatches.of_rows({1: [99, 98]}, dataset_of([1]), dict, size=2)


def test_image_ids_survive_a_collator_that_drops_them(tmp_path):
    def collate(rows):
        return {name: torch.stack([row[name] for row in rows]) for name in ("inputs", "labels")}

    found = [trained(tmp_path, weak_batches(), collator=one) for one in (None, collate)]
    assert torch.equal(*map(weights, found))
