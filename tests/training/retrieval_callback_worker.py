"""Two gloo processes that train one model with the callback, and save what each of them logs.

python retrieval_callback_worker.py FOLDER PORT
"""

import os
import sys
import warnings
from pathlib import Path

import tiny_models
import torch
from torch import multiprocessing
from transformers import Trainer, TrainerCallback, TrainingArguments

from cxc_eccv.encoding import sides
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.training import RetrievalCallback

IMAGES = mirror_folder("sample") / "coco" / "images"


class ClipTrainer(Trainer):
    """Trains CLIP by its own loss, with dropout."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        assert model.training
        outputs = model(**inputs, return_loss=True)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class Recorder(TrainerCallback):
    """What a reporter of the main process sees."""

    def __init__(self):
        self.keys = []

    def on_log(self, args, state, control, logs, **kwargs):
        if state.is_world_process_zero:
            self.keys.extend(logs)


def train(folder):
    """Two steps, both scored; the history, what a reporter saw, and the scores of the trained model."""
    model, tokenizer, images = tiny_models.clip()
    tokens = tokenizer(tiny_models.TEXTS[:4], padding=True, return_tensors="pt")
    pixels = images(images=[tiny_models.picture(number) for number in range(4)], return_tensors="pt")
    rows = [{name: part[number] for name, part in {**tokens, **pixels}.items()} for number in range(4)]
    settings = {"max_steps": 2, "eval_strategy": "steps", "eval_steps": 1, "per_device_train_batch_size": 2}
    settings |= {"use_cpu": True, "report_to": "none", "disable_tqdm": True, "save_strategy": "no"}
    recorder = Recorder()
    arguments = TrainingArguments(folder, **settings, ddp_backend="gloo")
    trainer = ClipTrainer(model, arguments, train_dataset=rows, eval_dataset=[], callbacks=[recorder])
    RetrievalCallback("sample", images=IMAGES, processor=(tokenizer, images)).add_to(trainer)
    trainer.train()
    history = [entry for entry in trainer.state.log_history if "eval_cxc/t2i/recall_at_1" in entry]
    return {"history": history, "seen": recorder.keys, "weights": model.state_dict()}


def run_process(rank, folder):
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": sys.argv[2]}
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", **where}
    for side in (sides.CaptionSide, sides.ImageSide):  # so that both have shards
        side.shard_size = 16
    torch.save(train(folder), folder / f"{rank}.pt")
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    multiprocessing.start_processes(run_process, (Path(sys.argv[1]),), nprocs=2, start_method="fork")
