"""Two gloo processes, each with its share of the batches of a split, which save the scores that they compute.

python retrieval_scores_worker.py FOLDER
"""

import sys
from pathlib import Path

import numpy as np
import torch
from torch import distributed, multiprocessing

from cxc_eccv.errors import MalformedRun
from cxc_eccv.sources.library import Library
from cxc_eccv.training import RetrievalScores

LIBRARY = Library("sample")
SHARES = ("as a sampler", "uneven", "one without")


def vectors(ids, seed):
    return ids, np.random.default_rng(seed).standard_normal((ids.size, 16), dtype=np.float32)


def images():
    return vectors(LIBRARY.split("test").image_ids, 0)


def captions():
    return vectors(LIBRARY.split("test").caption_ids, 1)


def metric():
    return RetrievalScores(LIBRARY, "all", split="test")


def batches(rank, count):
    """Batches of 7 pairs as a DistributedSampler deals them: a few are repeated, so that all processes have as many."""
    (image_ids, image_rows), (caption_ids, caption_rows) = images(), captions()
    places = {number: place for place, number in enumerate(image_ids.tolist())}
    owners = np.array([places[number] for number in LIBRARY.split("test").owners_of(caption_ids).tolist()])
    numbers = np.arange(caption_ids.size)
    numbers = np.concatenate([numbers, numbers[: -numbers.size % count]])[rank::count]
    for chunk in np.array_split(numbers, max(1, numbers.size // 7)):
        sides = {"image_ids": image_ids[owners[chunk]], "images": torch.as_tensor(image_rows[owners[chunk]])}
        yield {**sides, "caption_ids": caption_ids[chunk], "captions": torch.as_tensor(caption_rows[chunk])}


def deal(share, rank):
    """The batches of a process."""
    if share == "as a sampler":
        return list(batches(rank, 2))
    everything = list(batches(0, 1))
    cut = 5 if share == "uneven" else 0
    return everything[:cut] if rank else everything[cut:]


def compute_with_other_width(rank):
    """The error of processes with vectors of different dimensions, and the scores after a reset."""
    metric = RetrievalScores(LIBRARY, "all", split="test")
    ids, rows = captions()
    metric.update(caption_ids=ids[rank::2], captions=rows[rank::2, : 16 - 8 * rank])
    try:
        metric.compute()
    except MalformedRun as error:
        message = str(error)
    metric.reset()
    for batch in deal("uneven", rank):
        metric.update(**batch)
    return message, metric.compute()


def run_process(rank, folder):
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder / 'meeting'}", rank=rank, world_size=2)
    scores = {}
    alone = metric()
    for share in SHARES:
        alone.reset()
        for batch in deal(share, rank):
            alone.update(**batch)
        scores[share] = alone.compute()
    scores["other width"] = compute_with_other_width(rank)
    torch.save(scores, folder / f"{rank}.pt")
    distributed.barrier()
    distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.start_processes(run_process, (Path(sys.argv[1]),), nprocs=2, start_method="fork")
