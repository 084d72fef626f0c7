"""Two gloo processes, which check all that processes share in one start: what each finds goes to a file.

    python two_processes.py FOLDER

Both are forks of one that has imported everything, which takes longer than all they do.
"""

import sys
from pathlib import Path

import char_gru_worker
import enhanced_worker
import gathering_worker
import mixed_kinds_worker
import pytest
import torch
from torch import distributed, multiprocessing

from cxc_eccv.encoding import encode, sides

CAPTIONS = [(number, "a dog" + " cat" * (number % 9)) for number in range(30)]


def encoding(folder, output):
    """A run of the model and the images in a folder, in shards of four."""
    with pytest.MonkeyPatch.context() as patch:
        for side in (sides.CaptionSide, sides.ImageSide):
            patch.setattr(side, "shard_size", 4)
        options = {"device": "cpu", "output": folder / output, "progress": False}
        return encode(str(folder / "model"), images=folder, captions=CAPTIONS, **options)


def run_process(rank, folder):
    """One of the two."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    found = {
        "contrastive": {
            (mode, loss, chunk_size): gathering_worker.step(mode, loss, chunk_size)
            for mode in gathering_worker.MODES
            for loss in ("paper", "softmax")
            for chunk_size in (None, 3)
        },
        "hinge": {case: char_gru_worker.step(*case) for case in char_gru_worker.CASES},
    }
    run = encoding(folder, "two.npz")
    found["vectors"] = [torch.tensor(side.vectors) for side in (run.images, run.captions)]
    found["enhanced"] = enhanced_worker.train_all(folder, rank)
    found["mixed kinds"] = mixed_kinds_worker.train(folder, 2)
    torch.save(found, folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.start_processes(run_process, (Path(sys.argv[1]),), nprocs=2, start_method="fork")
