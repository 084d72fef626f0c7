"""RetrievalCallback: scores a model while transformers' or sentence-transformers' Trainer trains it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Fields, Request, evaluate_request
from cxc_eccv.evaluation.calls import find_library
from cxc_eccv.extras import needs_extra
from cxc_eccv.from_model import Items, find_items
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Report, check_whole
from cxc_eccv.types.model_options import PLAIN, Encoding

with needs_extra("train", subject="RetrievalCallback needs"):
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

    from cxc_eccv.encoding import LoadedModel, encode, load_model
    from cxc_eccv.encoding.processes import join_processes

PREFIX = "eval_"
"""What Trainer calls the numbers of an evaluation."""


class RetrievalCallback(TrainerCallback):
    """Scores a model on our tasks while transformers' or sentence-transformers' Trainer trains it.

    It encodes the split in memory, without dropout and gradients, and then the model trains on as before. The scores
    are logged as ``eval_cxc/t2i/recall_at_1`` and so on: in ``log_history``, TensorBoard, trackio and Weights & Biases.
    They can choose the best checkpoint (``metric_for_best_model="eval_cxc/t2i/recall_at_1"``) and stop early, whatever
    the order of the callbacks. The processes of a run share the encoding. Weights that FSDP or ZeRO-3 shards are
    refused.

    A Trainer evaluates only with an ``eval_dataset``; an empty list is enough for transformers' Trainer.

    Args:
        library: mirror folder, ``"sample"``, a Library, or None for ``CXC_ECCV_DATA``, else the download cache.
        tasks: as in :func:`cxc_eccv.evaluate`.
        images: folder with the images of the split; not needed for a text model.
        every: score after every so many steps; None for every evaluation of the Trainer.
        processor: tokenizer and image processor, as in :func:`cxc_eccv.encoding.encode`; None for the Trainer's
            ``processing_class``, else those saved with the model.
        encoding: batch size, pooling, crops, and whether to skip bad images.
        **fields: keyword arguments of :func:`cxc_eccv.evaluate`. Without them the split is ``validation``, and there
            are no intervals.

    Attributes:
        report: the whole report of the last scores; None before the first.

    Raises:
        InvalidOption: an option is out of range, here or in :meth:`add_to`.
        UnknownName: a task, metric or split is unknown.

    Warns:
        UserWarning: the split is ``test``; ECCV Caption has no other.

    Example:
        >>> import tempfile
        >>> from transformers import BertConfig, BertModel, BertTokenizer, Trainer, TrainingArguments
        >>> letters = "abcdefghijklmnopqrstuvwxyz"
        >>> pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *letters, *(f"##{letter}" for letter in letters)]
        >>> tokenizer = BertTokenizer(vocab={piece: number for number, piece in enumerate(pieces)})
        >>> sizes = dict(hidden_size=8, intermediate_size=8, num_attention_heads=2, num_hidden_layers=1)
        >>> trainer = Trainer(
        ...     BertModel(BertConfig(vocab_size=len(pieces), **sizes)),
        ...     TrainingArguments(tempfile.mkdtemp(), use_cpu=True),
        ...     eval_dataset=[],
        ...     processing_class=tokenizer,
        ... )
        >>> callback = RetrievalCallback("sample", "co_captions").add_to(trainer)
        >>> scores = trainer.evaluate()
        >>> scores["eval_co_captions/t2t/recall_at_1"] == callback.report.scores["co_captions/t2t/recall_at_1"]
        True
    """

    report: Report | None = None
    trainer: Trainer | None = None
    _items = Items()
    _step: int | None = None  # the step of this training that was scored last

    def __init__(
        self,
        library: str | Path | Library | None = None,
        tasks: str | Sequence[str] = "cxc",
        *,
        images: str | Path | None = None,
        every: int | None = None,
        processor: Any = None,  # noqa: ANN401 - see load_model
        encoding: Encoding = PLAIN,
        **fields: Unpack[Fields],
    ) -> None:
        if every is not None:
            check_whole("every", every)
        self.every = every
        self._request = Request(tasks=tasks, **Fields(split="validation", intervals="none") | fields)
        self._library, self._images = find_library(library), images
        self._processor, self._encoding = processor, encoding
        if self._request.split == "test":
            warnings.warn(
                "RetrievalCallback scores the test split during training: choosing a checkpoint or an option by it "
                "spoils the numbers on it; use the validation split, and score the test split once, at the end",
                stacklevel=2,
            )

    def add_to(self, trainer: Trainer) -> Self:
        """Add the callback to a Trainer, before all others; call it on every process.

        Returns:
            The callback.

        Raises:
            InvalidOption: the model encodes images and there are none, a task cannot be computed, or weights are
                sharded.
            ModelError: the model is no ``PreTrainedModel`` or ``SentenceTransformer``.
            DataError: an image or a raw file is missing or broken.
        """
        if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
            raise InvalidOption(
                "RetrievalCallback cannot encode with weights that FSDP or ZeRO-3 shards; train without sharding, or "
                "score the saved checkpoints with cxc-eccv evaluate --model"
            )
        self.trainer = trainer
        skip_bad = self._encoding.skip_bad_images
        self._items = find_items(self._load(), self._images, self._request, self._library, skip_bad=skip_bad)
        trainer.pop_callback(self)
        # Before EarlyStoppingCallback, which reads the scores.
        trainer.callback_handler.callbacks.insert(0, self)
        return self

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Encode one item of each side, so that what fails does so before the first step."""
        images, captions = self._items
        self._encode(Items(images and images[:1], captions and captions.slice(0, 1)))
        self._step = None

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Score after every so many steps."""
        if self.every is not None and state.global_step % self.every == 0:
            self._score(state.global_step)

    def on_evaluate(  # type: ignore[override] # as that of EarlyStoppingCallback
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Score, and add the scores to the metrics of the Trainer's evaluation."""
        is_training = self._find_trainer().is_in_train
        if not is_training or (self.every is None and state.global_step != self._step):
            self._score(state.global_step)
        if self.report is not None and (not is_training or state.global_step == self._step):
            metrics.update(_name_scores(self.report))

    def _score(self, step: int) -> None:
        """Score the model as it is, and log the scores."""
        run = self._encode(self._items)
        with join_processes() as processes:  # the first one ranks, all log, as Trainer does
            first = processes.rank == 0
            report = evaluate_request(run, self._request, self._library, progress=False) if first else None
            self.report, self._step = processes.gather(report)[0], step
        # Trainer has logged its evaluation when it calls on_evaluate, so scores must be logged here.
        self._find_trainer().log(_name_scores(self.report))

    def _encode(self, items: Items) -> EmbeddingsRun:
        images, captions = items
        return encode(self._load(), images=images, captions=captions, encoding=self._encoding, progress=False)

    def _load(self) -> LoadedModel:
        trainer = self._find_trainer()
        processor = self._processor or trainer.processing_class
        return load_model(trainer.accelerator.unwrap_model(trainer.model), processor=processor)

    def _find_trainer(self) -> Trainer:
        if self.trainer is None:
            raise InvalidOption(
                "RetrievalCallback needs the Trainer, to log scores; add it by callback.add_to(trainer)"
            )
        return self.trainer


def _name_scores(report: Report) -> dict[str, float]:
    return {f"{PREFIX}{key}": score for key, score in report.scores.items()}
