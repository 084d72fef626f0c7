"""The character GRU on two gloo processes trains as on one: losses, snapshots, ensemble, report."""

import json
from itertools import chain

import char_gru_worker
import numpy as np
import pytest
from torchrun import torchrun

from cxc_eccv.encoding.towers import text_encoder
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.baselines.char_gru.data import SharedBatches
from cxc_eccv.studies.baselines.char_gru.script import train

pytestmark = pytest.mark.thorough

PARTS = ["--data-dir", "sample", "--train-on", "coco/val", "--held-out", "20", "--report-on", "test"]
SMALL = ["--hidden-size", "8", "--images", "8", "--captions", "5", "--cycle-epochs", "1", "--highest-rate", "0.02"]


def arguments(folder, epochs):
    return [*PARTS, *SMALL, "--output-dir", str(folder), "--epochs", str(epochs)]


def assert_same_vectors(one, two):
    # Not the weights: a bias of the attention that no vector depends on wanders with the rounding of its gradient.
    texts = ["a red circle above a blue star", "two green hearts", "an empty picture."]
    expected, found = (text_encoder(str(folder), device="cpu")(texts) for folder in (one, two))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    assert expected.std(axis=0).max() > 0.05


@pytest.mark.slow
def test_a_run_on_two_processes_is_that_of_one_and_either_goes_on_from_it(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    report = train(arguments(one, 4)).report
    done = torchrun(char_gru_worker.__file__, tmp_path, *arguments(two, 4))
    assert done.stdout.count("on the selection images") == 5
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
        train(arguments(run, 5))
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
