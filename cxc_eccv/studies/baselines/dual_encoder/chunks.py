"""Encodes a batch in chunks, so that memory holds the activations of one chunk only: GradCache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import wraps

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.checkpoint import checkpoint

from cxc_eccv.studies.baselines.dual_encoder.model import DualEncoderOutput
from cxc_eccv.studies.trainers.trainer import AnyModel


def encode_in_chunks(model: AnyModel, size: int) -> None:
    """Make ``model.forward`` encode ``size`` captions, and images, of a batch at a time, with the same gradients.

    The activations of a chunk are dropped, and computed again with the same dropout and autocast when the loss of the
    batch is propagated to its embeddings. BatchNorm normalises each chunk by itself, as each process does. Use it
    before the model is wrapped, so that data-parallel training sees one forward and one backward pass.

    References:
        Gao et al., Scaling deep contrastive learning batch size under memory limited setup, 2021, arXiv:2101.06983.
    """
    encode = model.forward

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        return nullcontext(), _keep_statistics(model)

    @wraps(encode)
    def forward(**inputs: torch.Tensor) -> DualEncoderOutput:
        count = -(-max(map(len, inputs.values())) // size)
        splits = zip(*(tensor.tensor_split(count) for tensor in inputs.values()), strict=True)
        chunks = [dict(zip(inputs, tensors, strict=True)) for tensors in splits]
        # A chunk is one positional argument, by whose tensors checkpoint knows the device of the random state.
        outputs = [
            checkpoint(lambda chunk: encode(**chunk), chunk, use_reentrant=False, context_fn=contexts)
            for chunk in chunks
        ]
        texts, images = (
            None if outputs[0].get(name) is None else torch.cat([output[name] for output in outputs])
            for name in ("text_embeds", "image_embeds")
        )
        return DualEncoderOutput(text_embeds=texts, image_embeds=images, scale=outputs[-1].get("scale"))

    model.forward = forward


@contextmanager
def _keep_statistics(model: torch.nn.Module) -> Iterator[None]:
    """Leave BatchNorm's running statistics, which have seen the chunk already, as they are."""
    norms = [(module, module.momentum) for module in model.modules() if isinstance(module, _BatchNorm)]
    for norm, _ in norms:
        norm.momentum = 0.0
    try:
        yield
    finally:
        for norm, momentum in norms:
            norm.momentum = momentum
