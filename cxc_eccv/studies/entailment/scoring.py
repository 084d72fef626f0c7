"""Load a trained classifier of entailment and score pairs: load_classifier and Classifier.score."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from tqdm.auto import tqdm
from transformers import AutoConfig

from cxc_eccv.encoding.checkpoints import Origin, explain_damage, load_part, open_checkpoint
from cxc_eccv.encoding.identity import model_key, processor_state
from cxc_eccv.encoding.images import open_picture
from cxc_eccv.encoding.loading import LoadedModel, Processors, load_model
from cxc_eccv.encoding.sides import work_ahead
from cxc_eccv.errors import ModelError
from cxc_eccv.studies.entailment.classifier import EntailmentClassifier, EntailmentConfig
from cxc_eccv.studies.entailment.processing import EntailmentProcessor, Prepared
from cxc_eccv.studies.entailment.training_data import warn_of_truncation
from cxc_eccv.studies.trainers.training_record import TrainingRecord
from cxc_eccv.types import check_whole

ImageSource = str | Path | Image.Image | None
Parts = tuple[EntailmentClassifier, EntailmentProcessor]

BATCHES_AHEAD = 2

MAKE_ONE = "give a model trained with cxc-eccv train entailment-classifier"


class Classifier:
    """A classifier in evaluation mode on its device, its processor, and its name in files and reports.

    The config is there at once; weights and processor of :func:`find_classifier` are loaded when they are first used.

    Attributes:
        config: the config of the model.
        name: name in files and reports.
        threshold: the lowest probability that counts as entailed.
        has_visual: whether it looks at images.
        training_data: the record of what it was trained on, or None.
        source: folder or Hub id that it was loaded from; empty if none.
        commit: its commit on the Hub.
    """

    def __init__(self, config: EntailmentConfig, name: str, load: Callable[[], Parts]) -> None:
        self.config = config
        self.name = name
        self._load = load
        self.threshold = float(config.threshold)
        self.has_visual = config.has_visual
        self.training_data: TrainingRecord | None = getattr(config, "training_data", None)
        self.source = str(config._name_or_path)
        self.commit = getattr(config, "_commit_hash", None)

    @classmethod
    def of(cls, model: EntailmentClassifier, processor: EntailmentProcessor, name: str) -> Self:
        """A classifier that is loaded already."""
        return cls(model.config, name, lambda: (model, processor))

    @cached_property
    def _parts(self) -> Parts:
        return self._load()

    @property
    def model(self) -> EntailmentClassifier:
        """The model."""
        return self._parts[0]

    @property
    def processor(self) -> EntailmentProcessor:
        """What makes the model's inputs."""
        return self._parts[1]

    @cached_property
    def fingerprint(self) -> str:
        """Hex sha256 over weights, config, tokenizers and image processor."""
        texts = self.processor.tokenizer
        visual = self.processor.visual_tokenizer
        images = self.processor.image_processor
        parts = [part for part in (texts or visual, images) if part is not None]
        loaded = LoadedModel(self.model, Processors(tuple(parts), ""), self.name)
        sides = ["captions"] if images is None else ["captions", "images"]
        return model_key(loaded, sides, *([] if visual is None else [processor_state(visual)]))

    def score(
        self,
        premises: Sequence[str],
        images: Sequence[ImageSource] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> NDArray[np.float64]:
        """(N,) calibrated probabilities that premise and image entail the hypothesis.

        An image that several pairs of a batch share is opened and encoded once. Pairs longer than the context are
        truncated, and counted in one warning. A premise is the captions of the image, joined by spaces; empty if there
        are none. An image is a file, an image in memory, or None.

        Raises:
            TowerMissing: pairs whose only premise is of a kind that this classifier has no branch for.
        """
        scores, cut = self.score_and_count(premises, images, hypotheses, batch_size=batch_size, progress=progress)
        warn_of_truncation(cut, scores.size, self.name)
        return scores

    def score_and_count(
        self,
        premises: Sequence[str],
        images: Sequence[ImageSource] | None,
        hypotheses: Sequence[str],
        *,
        batch_size: int = 64,
        progress: bool = True,
    ) -> tuple[NDArray[np.float64], int]:
        """The scores of :meth:`score`, and the number of truncated pairs in place of its warning."""
        check_whole("batch_size", batch_size)
        if not len(premises) and not len(hypotheses) and not (images is not None and len(images)):
            return np.empty(0), 0
        sources = [None] * len(premises) if images is None else list(images)
        self.processor.kinds(premises, sources, hypotheses)
        order = _order(premises, sources, hypotheses)
        batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]

        # Threads open images only: tokenizers are not thread-safe.
        pictures = work_ahead(lambda rows: self._open([sources[row] for row in rows]), batches, BATCHES_AHEAD)
        scores = np.empty(len(order))
        cut = 0
        with tqdm(total=len(order), desc="scoring pairs", unit=" pairs", disable=not progress) as bar:
            for rows, images_there in zip(batches, pictures, strict=True):
                texts = ([side[row] for row in rows] for side in (premises, hypotheses))
                prepared = self.processor.prepare(next(texts), images_there, next(texts))
                scores[rows] = self._probabilities(prepared)
                cut += prepared.cut
                bar.update(len(rows))
        if not np.isfinite(scores).all():
            raise ModelError(
                f"{self.name} gave {np.count_nonzero(~np.isfinite(scores))} of {scores.size} probabilities that are "
                "not finite: its weights are damaged, or overflow in this dtype. Try float32"
            )
        return scores, cut

    def _open(self, sources: Sequence[ImageSource]) -> list[Image.Image | None]:
        opened: dict[Any, Image.Image] = {}
        for source in sources:
            if source is not None and _key(source) not in opened and self.has_visual:
                opened[_key(source)] = open_picture(source).image
        return [None if source is None else opened.get(_key(source)) for source in sources]

    def _probabilities(self, prepared: Prepared) -> NDArray[np.float64]:
        with torch.inference_mode():
            inputs = {name: self._move(tensor) for name, tensor in prepared.inputs.items()}
            probabilities: NDArray[np.float64] = self.model.probabilities(self.model(**inputs).logits).cpu().numpy()
        return probabilities

    def _move(self, tensor: torch.Tensor) -> torch.Tensor:
        kind = self.model.dtype if tensor.is_floating_point() else None
        return tensor.to(self.model.device, kind)


def find_classifier(source: str | Path, *, device: str | None = None) -> Classifier:
    """The classifier of a folder or Hub id, of which only the config is read yet.

    Raises:
        ModelError: the config is missing, or that of another model.
    """
    _refuse_others(str(source), None)
    config = load_part(AutoConfig, str(source), Origin(None))
    name = Path(source).name if Path(source).is_dir() else str(source)
    return Classifier(config, name, lambda: load_classifier(source, device=device)._parts)


def _refuse_others(source: str, revision: str | None) -> None:
    """Raise ModelError if a config is of another type of model, even of one unknown to transformers."""
    try:
        kind = EntailmentConfig.get_config_dict(source, revision=revision)[0].get("model_type")
    except Exception:  # loading reports what is wrong
        return
    if kind not in (None, EntailmentConfig.model_type):
        raise ModelError(f"{source} is a model of type {kind}, not a classifier of entailment: {MAKE_ONE}")


def load_classifier(
    model: str | Path | EntailmentClassifier | Classifier,
    *,
    processor: EntailmentProcessor | None = None,
    device: str | None = None,
    dtype: str | None = None,
    revision: str | None = None,
    name: str | None = None,
) -> Classifier:
    """Load a classifier of entailment.

    ``model`` is a folder, a Hub id with its ``revision``, or a loaded model with its ``processor``; ``name`` is used in
    files and reports. By default it uses a GPU if there is one, float32, and the Hub id or the folder's name.
    """
    if isinstance(model, Classifier):
        return model
    if isinstance(model, str | Path):
        _refuse_others(str(model), revision)
    loaded = load_model(model, device=device, dtype=dtype, revision=revision, name=name)
    if not isinstance(loaded.model, EntailmentClassifier):
        raise ModelError(f"{loaded.name} ({type(loaded.model).__name__}) is no classifier of entailment: {MAKE_ONE}")
    if processor is None:
        source = str(model) if isinstance(model, str | Path) else loaded.model.config._name_or_path
        where = source or "the model"
        advice = "Save it with the model, or give processor="
        with explain_damage(lambda reason: f"{where} has no readable processor ({reason}). {advice}"):
            processor = open_checkpoint(EntailmentProcessor, source, Origin(revision or "main"))
    return Classifier.of(loaded.model, processor, str(loaded.title))


def _order(premises: Sequence[str], sources: Sequence[ImageSource], hypotheses: Sequence[str]) -> list[int]:
    """Rows grouped by image in order of first appearance, the longest pairs of an image first."""
    first: dict[Any, int] = {}
    for place, source in enumerate(sources):
        first.setdefault(_key(source), place)
    lengths = [len(premise) + len(hypothesis) for premise, hypothesis in zip(premises, hypotheses, strict=True)]
    return sorted(range(len(sources)), key=lambda row: (first[_key(sources[row])], -lengths[row], row))


def _key(source: ImageSource) -> Any:  # noqa: ANN401 - a path, or the identity of an image in memory
    return id(source) if source is None or isinstance(source, Image.Image) else str(source)
