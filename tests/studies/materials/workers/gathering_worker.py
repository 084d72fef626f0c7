"""A data-parallel step of the dual encoder: the loss and the gradients that a process arrives at."""

import torch
from dual_encoder_models import inputs, model, pixels
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

from cxc_eccv.encoding.processes import current_processes
from cxc_eccv.studies.baselines.dual_encoder.chunks import encode_in_chunks
from cxc_eccv.studies.baselines.dual_encoder.loss import Objective

MODES = {"t2t": False, "i2t": True, "t2t+i2t": True}
PAIRS = 8


def step(mode, loss, chunk_size=None):
    """Loss and gradients of this process's share of eight pairs."""
    built = model(images=MODES[mode], freeze_text=False, scale=2.0, learned_scale=True).train()
    if chunk_size is not None and mode == "t2t":  # the image tower has no layers to checkpoint
        built.activation_checkpointing_enable()
    if chunk_size is not None:
        encode_in_chunks(built, chunk_size)
    wrapped = DistributedDataParallel(built, find_unused_parameters=True) if current_processes().count > 1 else built
    every = inputs(2 * PAIRS)
    share = PAIRS // current_processes().count
    mine = torch.arange(current_processes().rank * share, (current_processes().rank + 1) * share)
    rows = torch.cat([mine, mine + PAIRS]) if "t2t" in mode else mine
    images = {"pixel_values": pixels(PAIRS)[mine]} if MODES[mode] else {}
    out = wrapped(input_ids=every["input_ids"][rows], attention_mask=every["attention_mask"][rows], **images)
    value = Objective(mode, loss, 0.5)(out.text_embeds, out.image_embeds, out.scale, rows, mine)
    value.backward()
    grads = {name: parameter.grad for name, parameter in built.named_parameters() if parameter.grad is not None}
    value = value.detach()
    if current_processes().count > 1:
        distributed.all_reduce(value)
    return value / current_processes().count, grads
