"""Two gloo processes against one: both losses, their gradients, extra steps, and an encoding. One start."""

import os
import subprocess
import sys

import char_gru_worker
import enhanced_worker
import gathering_worker
import mixed_kinds_worker
import pytest
import tiny_models
import torch
import two_processes

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm_python):
    """What one process encodes, and what each of two finds."""
    folder = tmp_path_factory.mktemp("two")
    tiny_models.save(tiny_models.dual(), folder / "model")
    tiny_models.picture_files(folder, 14)
    two_processes.encoding(folder, "one.npz")
    places = os.pathsep.join(sys.path)
    alone = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": places, "CUDA_VISIBLE_DEVICES": ""}
    environment = {**os.environ, **alone}
    command = [*warm_python, two_processes.__file__, str(folder)]
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr[-6000:]
    return folder


@pytest.fixture
def found(folder):
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


def assert_same_step(step, expected, name):
    value, gradients = step
    torch.testing.assert_close(value, expected[0], rtol=1e-5, atol=1e-6, msg=f"{name} loss")
    assert gradients.keys() == expected[1].keys()
    for weight, gradient in gradients.items():
        torch.testing.assert_close(gradient, expected[1][weight], rtol=1e-3, atol=1e-6, msg=f"{name} {weight}")


@pytest.mark.parametrize("chunk_size", [None, 3])
@pytest.mark.parametrize("loss", ["paper", "softmax"])
@pytest.mark.parametrize("mode", gathering_worker.MODES)
def test_contrastive_gradients_are_those_of_the_whole_batch(found, mode, loss, chunk_size):
    expected = gathering_worker.step(mode, loss)
    assert "log_scale" in expected[1]
    for rank in range(2):
        assert_same_step(found[rank]["contrastive"][mode, loss, chunk_size], expected, f"process {rank}")


@pytest.mark.parametrize("case", char_gru_worker.CASES)
def test_hinge_loss_gradients_equal_the_whole_batch(found, case):
    expected = char_gru_worker.step(*case)
    assert float(expected[0]) > 0.1
    for rank in range(2):
        assert_same_step(found[rank]["hinge"][case], expected, f"process {rank}")


def test_an_encoding_is_that_of_one_process(folder, found):
    assert (folder / "one.npz").read_bytes() == (folder / "two.npz").read_bytes()
    for mine, other in zip(found[0]["vectors"], found[1]["vectors"], strict=True):
        assert torch.equal(mine, other)
    assert [len(vectors) for vectors in found[0]["vectors"]] == [14, 30]


@pytest.mark.parametrize("share", enhanced_worker.SHARES)
def test_processes_share_an_extra_step_or_skip_it(found, share):
    mine, other = (one["enhanced"][share] for one in found)
    assert all(torch.equal(value, other["weights"][name]) for name, value in mine["weights"].items())
    pairs = {"equal": 2, "few": 1, "none": None}[share]
    for process in (mine, other):
        assert [len(drawn) for _, drawn in process["extra"]] == ([] if pairs is None else [pairs, pairs])
    assert other["said"] == []
    if pairs is None:
        assert mine["said"] == ["2 of 2 steps had no extra batch: a process had no weak positives left"]
        return
    assert mine["said"] == []
    assert {image for _, drawn in other["extra"] for image, _ in drawn} <= set(enhanced_worker.SHARES[share][1])
    assert not torch.equal(mine["weights"]["line.weight"], found[0]["enhanced"]["none"]["weights"]["line.weight"])


def test_checkpointed_branch_may_lack_gradients_in_batch(tmp_path, found):
    """Two processes train on mixed kinds of pairs as one process does."""
    expected = mixed_kinds_worker.train(tmp_path, 4)
    for rank in range(2):
        for name, value in expected.items():
            torch.testing.assert_close(found[rank]["mixed kinds"][name], value, rtol=1e-3, atol=1e-5, msg=name)
