"""What models of the Hub that answer have in common: loading whole, batches by image and length, checked scores."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from cxc_eccv.errors import CheckpointMismatch, ModelError
from cxc_eccv.studies.entailment.answerer import Answerer
from cxc_eccv.types import check_whole


def open_model(kind: Any, source: str | Path, device: str | None, dtype: str) -> Any:  # noqa: ANN401 - any model
    """Load a model with its head from a folder or Hub id; CheckpointMismatch if weights are missing."""
    import torch

    from cxc_eccv.encoding.checkpoints import explain_damage, open_checkpoint
    from cxc_eccv.ranking.device import torch_on

    if device is not None:
        torch_on(device)
    with explain_damage(source, lambda reason: f"{source}: the checkpoint cannot be loaded ({reason})"):
        model, loading = open_checkpoint(kind, str(source), dtype=dtype, output_loading_info=True)
    missing = sorted(key for key in loading["missing_keys"] if "position_ids" not in key)
    if missing:
        raise CheckpointMismatch(
            f"{source}: the checkpoint lacks {len(missing)} weights of {type(model).__name__}, the first: "
            f"{missing[0]}; they would be random"
        )
    return model.eval().to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


class HubModel(Answerer):
    """A model of transformers with what prepares its input."""

    def __init__(self, model: Any, processor: Any, name: str) -> None:  # noqa: ANN401 - of transformers
        self.model, self.processor, self.name = model, processor, name
        self.source = str(getattr(model.config, "_name_or_path", ""))
        self.commit = getattr(model.config, "_commit_hash", None)

    @property
    @abstractmethod
    def settings(self) -> Sequence[str]:
        """What changes its answers, beside weights and processors."""

    @cached_property
    def fingerprint(self) -> str:  # type: ignore[override]
        """Hex sha256 over weights, config, processors and settings."""
        import torch

        from cxc_eccv.encoding.models import UNUSED, LoadedModel, Processors, model_key

        sides = ["captions", "images"] if self.has_visual else ["captions"]
        head = sha256()  # features use no pooler, but a head does
        for name, tensor in sorted(self.model.state_dict().items()):
            if any(part in name for part in UNUSED):
                head.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
        loaded = LoadedModel(self.model, Processors(self.processor, ""), self.name)
        return model_key(loaded, sides, *self.settings, head.hexdigest())

    @abstractmethod
    def probabilities(
        self, premises: Sequence[str], images: Sequence[Any] | None, hypotheses: Sequence[str]
    ) -> tuple[NDArray[np.float64], int]:
        """(B,) probabilities of a batch, and the number of pairs of which a part was cut off."""

    def score_and_count(
        self,
        premises: Sequence[str],
        images: Sequence[Any] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> tuple[NDArray[np.float64], int]:
        """(P,) probabilities of pairs, in batches of similar length, and the number of cut pairs."""
        import torch

        check_whole("batch_size", batch_size)
        self.refuse_gaps(premises, images, hypotheses)
        lengths = [len(premise) + len(hypothesis) for premise, hypothesis in zip(premises, hypotheses, strict=True)]
        order, cut = np.argsort(-np.array(lengths, dtype=np.int64), kind="stable"), 0
        scores = np.empty(order.size)
        with tqdm(total=order.size, desc="scoring pairs", unit=" pairs", disable=not progress) as bar:
            for start in range(0, order.size, batch_size):
                rows = order[start : start + batch_size].tolist()
                seen = None if images is None else [images[row] for row in rows]
                texts = [[side[row] for row in rows] for side in (premises, hypotheses)]
                with torch.inference_mode():
                    scores[rows], shortened = self.probabilities(texts[0], seen, texts[1])
                cut += shortened
                bar.update(len(rows))
        if not np.isfinite(scores).all():
            raise ModelError(
                f"{self.name} gave {np.count_nonzero(~np.isfinite(scores))} of {scores.size} probabilities that are "
                "not finite: its weights are damaged, or overflow in this dtype"
            )
        return scores, cut
