"""The character GRU's training on processes: a single step, and a whole run that writes its scores to a file."""

import json
import sys
from pathlib import Path

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.studies.baselines.char_gru.loss import hinge_loss_of_processes
from cxc_eccv.studies.baselines.char_gru.model import CharGruConfig, CharGruModel
from cxc_eccv.studies.baselines.char_gru.script import train

IMAGES = 8
CAPTIONS = 3
LENGTH = 7
FEATURES = 5


def step(with_images, pooling="attention"):
    """Loss and gradients of this process's share of eight images."""
    torch.manual_seed(0)
    sizes = {"vocab_size": 12, "hidden_size": 6, "attention_size": 4, "pooling": pooling}
    built = CharGruModel(CharGruConfig(**sizes, image_feature_size=FEATURES if with_images else 0)).train()
    ids = torch.randint(2, 12, (IMAGES, CAPTIONS, LENGTH))
    mask = (torch.arange(LENGTH) < torch.randint(1, LENGTH + 1, (IMAGES, CAPTIONS, 1))).long()
    features = torch.randn(IMAGES, FEATURES)
    wrapped = DistributedDataParallel(built) if current_processes().count > 1 else built
    share = IMAGES // current_processes().count
    mine = slice(current_processes().rank * share, (current_processes().rank + 1) * share)
    out = wrapped(ids[mine] * mask[mine], mask[mine], features[mine] if with_images else None)
    loss = hinge_loss_of_processes(out.views, 0.5)
    loss.backward()
    return loss.detach(), {name: parameter.grad for name, parameter in built.named_parameters()}


CASES = [(False, "attention"), (True, "attention"), (True, "max")]

if __name__ == "__main__":
    folder, *command = sys.argv[1:]
    report = train(command).report
    (Path(folder) / f"{current_processes().rank}.json").write_text(json.dumps(report.scores))
    distributed.barrier()
    distributed.destroy_process_group()
