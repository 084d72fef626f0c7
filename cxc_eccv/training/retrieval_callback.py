"""RetrievalCallback: scores a model while transformers' or sentence-transformers' Trainer trains it."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self, Unpack

from cxc_eccv import registry
from cxc_eccv.encoding.evaluate_model import Items, find_items
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluation import Fields, Request, evaluate_request, warn_of_doubts
from cxc_eccv.evaluation.calls import find_library
from cxc_eccv.extras import needs_extra
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.types import check_whole
from cxc_eccv.types.ids import check_type
from cxc_eccv.types.model_options import DEFAULT_ENCODING, Encoding

with needs_extra("train", subject="RetrievalCallback needs"):
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
    from transformers.trainer_utils import IntervalStrategy

    from cxc_eccv.encoding import LoadedModel, encode, load_model
    from cxc_eccv.encoding.processes import join_processes

EVALUATION_PREFIX = "eval_"
"""What Trainer calls the numbers of an evaluation."""


class RetrievalCallback(TrainerCallback):
    """Scores a model on our tasks while transformers' or sentence-transformers' Trainer trains it.

    It encodes the split in memory, without dropout and gradients, and then the model trains on as before. The scores
    are logged as ``eval_cxc/t2i/recall_at_1`` and so on: in ``log_history``, TensorBoard, trackio and Weights & Biases.
    They can choose the best checkpoint (``metric_for_best_model="eval_cxc/t2i/recall_at_1"``) and stop early, whatever
    the order of the callbacks. The processes of a run share the encoding. Weights that FSDP or ZeRO-3 shards are
    refused. Make one callback for each Trainer.

    A Trainer evaluates only with an ``eval_dataset``; an empty list is enough for transformers' Trainer.

    Args:
        library: mirror folder, ``"sample"``, a Library, or None for ``CXC_ECCV_DATA``, else the download cache.
        tasks: as in :func:`cxc_eccv.evaluate`.
        images: folder with the images of the split; not needed for a text model.
        every: score after every so many steps; None for every evaluation of the Trainer. To choose checkpoints by the
            scores, all evaluations of the Trainer must be at such steps.
        processor: tokenizer and image processor, as in :func:`cxc_eccv.encoding.encode`; None for the Trainer's
            ``processing_class``, else those saved with the model.
        encoding: batch size, pooling, crops, and whether to skip bad images.
        **fields: keyword arguments of :func:`cxc_eccv.evaluate`. Without them the split is ``validation``, and there
            are no intervals.

    Attributes:
        report: the whole report of the last scores; None before the first.

    Raises:
        InvalidOption: an option is out of range or has another type, here or in :meth:`add_to`.
        UnknownName: a task, metric or split is unknown.

    Warns:
        UserWarning: the split is ``test``; ECCV Caption has no other. Or the scores after the first step are suspect,
            as ``report.doubts`` says.

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
    _is_training = False
    _step: int | None = None  # the step of this training that was scored last

    def __init__(
        self,
        library: str | Path | Library | None = None,
        tasks: str | Sequence[str] = "cxc",
        *,
        images: str | Path | None = None,
        every: int | None = None,
        processor: Any = None,  # noqa: ANN401 - see load_model
        encoding: Encoding = DEFAULT_ENCODING,
        **fields: Unpack[Fields],
    ) -> None:
        if every is not None:
            check_whole("every", every)
        if images is not None:
            check_type("images", images, (str, Path), "the folder with the images")
        check_type("encoding", encoding, Encoding, "an Encoding, such as Encoding(batch_size=32)")
        self.every = every
        self._request = Request(tasks=tasks, **Fields(split="validation", intervals="none") | fields)
        self._library = find_library(library)
        self._images = images
        self._processor = processor
        self._encoding = encoding
        self._known_doubts: set[str] = set()
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
            InvalidOption: the callback is in another Trainer, the model encodes images and there are none, a task
                cannot be computed, the scores choose checkpoints and ``every`` leaves out an evaluation, or weights are
                sharded.
            ModelError: the model is no ``PreTrainedModel`` or ``SentenceTransformer``.
            DataError: an image or a raw file is missing or broken.
        """
        check_type("trainer", trainer, Trainer, "a Trainer of transformers or sentence-transformers")
        if self.trainer not in (None, trainer) and self in self.trainer.callback_handler.callbacks:
            raise InvalidOption(
                "this RetrievalCallback is in another Trainer, whose scores it would mix with those of this one; make "
                "a RetrievalCallback for each Trainer, or take it out of the other by remove_callback"
            )
        if trainer.is_fsdp_enabled or is_deepspeed_zero3_enabled():
            raise InvalidOption(
                "RetrievalCallback cannot encode with weights that FSDP or ZeRO-3 shards; train without sharding, or "
                "score the saved checkpoints with cxc-eccv evaluate --model"
            )
        self._refuse_unscored_evaluations(trainer.args, trainer.args.eval_steps, trainer.args.max_steps)
        skip_bad = self._encoding.skip_bad_images
        self._items = find_items(self._load(trainer), self._images, self._request, self._library, skip_bad=skip_bad)
        trainer.pop_callback(self)
        # Before EarlyStoppingCallback, which reads the scores.
        trainer.callback_handler.callbacks.insert(0, self)
        if trainer is not self.trainer:
            self.trainer = trainer
            self.report = None
            self._forget_interrupted(trainer)
        return self

    def _forget_interrupted(self, trainer: Trainer) -> None:
        """Note the end of a training also where it is interrupted: then a Trainer's ``is_in_train`` stays True."""
        train = trainer.train

        @functools.wraps(train)
        def train_to_the_end(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - of the Trainer
            try:
                return train(*args, **options)
            finally:
                self._is_training = False

        trainer.train = train_to_the_end  # type: ignore[method-assign]

    def _refuse_unscored_evaluations(self, args: TrainingArguments, eval_steps: float | None, max_steps: int) -> None:
        """Raise InvalidOption if the Trainer would look for a score at an evaluation that ``every`` leaves out.

        Before training, ``eval_steps`` may be a fraction of all steps, and the number of all may be unknown (-1).
        """
        metric = (args.metric_for_best_model or "").removeprefix(EVALUATION_PREFIX)
        is_ours = metric.partition("/")[0] in registry.tasks()
        if self.every in (None, 1) or not is_ours or args.eval_strategy == IntervalStrategy.NO:
            return
        if args.eval_strategy == IntervalStrategy.EPOCH:
            place = "the end of an epoch"
        else:
            # The Trainer evaluates after multiples of eval_steps, and at the end.
            steps = [max_steps] if max_steps > 0 else []
            if eval_steps and eval_steps >= 1 and (max_steps <= 0 or eval_steps <= max_steps):
                steps.insert(0, int(eval_steps))
            unscored = next((step for step in steps if step % self.every), None)
            if unscored is None:
                return
            place = f"step {unscored}"
        raise InvalidOption(
            f"metric_for_best_model is {args.metric_for_best_model}, but with every={self.every} the evaluation at "
            f"{place} has no scores; leave out every, so that all evaluations have scores, or evaluate only after "
            f"multiples of {self.every} steps"
        )

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Encode one item of each side, so that what fails does so before the first step."""
        self._find_trainer(state)
        self._refuse_unscored_evaluations(args, state.eval_steps, state.max_steps)
        images, captions = self._items
        self._encode(Items(images and images[:1], captions and captions.slice(0, 1)))
        self._is_training = True
        self._step = None

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Note that later evaluations need new scores: the Trainer may have loaded the best checkpoint."""
        self._is_training = False

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,  # noqa: ANN401 - of the Trainer
    ) -> None:
        """Score after every so many steps."""
        self._find_trainer(state)
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
        self._find_trainer(state)
        if not self._is_training or (self.every is None and state.global_step != self._step):
            self._score(state.global_step)
        if self.report is not None and (not self._is_training or state.global_step == self._step):
            metrics.update(_name_scores(self.report))

    def _score(self, step: int) -> None:
        """Score the model as it is, and log the scores."""
        run = self._encode(self._items)
        with join_processes() as processes:  # the first one ranks, all log, as Trainer does
            first = processes.rank == 0
            report = evaluate_request(run, self._request, self._library, progress=False) if first else None
            self.report = processes.gather(report)[0]
            self._step = step
            if first and step > 0:  # an untrained model ranks at random
                warn_of_doubts(self.report.doubts, self._known_doubts)
        # Trainer has logged its evaluation when it calls on_evaluate, so scores must be logged here.
        self._find_trainer().log(_name_scores(self.report))

    def _encode(self, items: Items) -> EmbeddingsRun:
        images, captions = items
        loaded = self._load(self._find_trainer())
        return encode(loaded, images=images, captions=captions, encoding=self._encoding, progress=False)

    def _load(self, trainer: Trainer) -> LoadedModel:
        processor = self._processor or trainer.processing_class
        return load_model(trainer.accelerator.unwrap_model(trainer.model), processor=processor)

    def _find_trainer(self, state: TrainerState | None = None) -> Trainer:
        """The Trainer of the callback; raises InvalidOption if there is none, or if an event is of another one."""
        if self.trainer is None:
            raise InvalidOption(
                "RetrievalCallback needs the Trainer, to log scores; add it by callback.add_to(trainer)"
            )
        if state is not None and state is not self.trainer.state:
            raise InvalidOption(
                "this RetrievalCallback was added to another Trainer, whose model it would score here; make one for "
                "each Trainer, and add it by callback.add_to(trainer)"
            )
        return self.trainer


def _name_scores(report: Report) -> dict[str, float]:
    return {f"{EVALUATION_PREFIX}{key}": score for key, score in report.scores.items()}
