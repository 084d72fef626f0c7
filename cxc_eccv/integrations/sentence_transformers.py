"""An evaluator for sentence-transformers: our tasks during or after training."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.errors import InvalidOption, ModelError, TowerMissing, UnknownName
from cxc_eccv.evaluation import Request, warn_of_doubts
from cxc_eccv.extras import needs_extra
from cxc_eccv.hub.leaderboard import LEADERBOARD_NAME
from cxc_eccv.integrations.model_runs import main_key, make_run, score
from cxc_eccv.registry import metric_labelled
from cxc_eccv.report import Report
from cxc_eccv.report.saving import write_folder
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, check_whole

with needs_extra("st", "train", subject="cxc_eccv.integrations.sentence_transformers needs"):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.evaluation import SentenceEvaluator

    from cxc_eccv.encoding.adapters import unwrap
    from cxc_eccv.encoding.families import refuse_object
    from cxc_eccv.encoding.images import open_picture
    from cxc_eccv.encoding.loading import inference, load_model
    from cxc_eccv.encoding.roles import RoleInput, plan_passes

PICTURES = 256
"""Images open at once."""


class CxcEccvEvaluator(SentenceEvaluator):
    """Scores a SentenceTransformer on our tasks, like the evaluators of sentence-transformers.

    It embeds every caption of the split and, with a folder of images, every image. A text model is scored on
    caption-caption retrieval and on the correlation with CxC's ratings of caption pairs; a model that also embeds
    images is scored on everything. The metrics have the keys of a report. ``report`` keeps the whole report, with
    intervals and the values of queries.

    Args:
        tasks: ``all`` that the model can be scored on, or names, also with a part (``cxc/sts``).
        split: ``validation`` or ``test``.
        images: folder with the split's images, for a model that embeds images.
        data_dir: mirror folder, ``"sample"``, a Library, or None for ``CXC_ECCV_DATA``, else the download cache.
        primary_metric: key to choose checkpoints by; None for mAP@R of ECCV Caption or, if it is not computed, recall
            at 1 of CxC, both from text to image with ``images``, else from text to text.
        name: prefix of every key, followed by an underscore.
        batch_size: texts or images at once.
        prompt_name: which of the model's prompts to use for all captions; None for its default prompt or, without one,
            for its prompts of queries and documents, as in :func:`cxc_eccv.encoding.load_model`.
        truncate_dim: number of dimensions to use; None for the model's default.
        show_progress_bar: show a progress bar while encoding.
        write_report: write the report to a folder below ``output_path``, if the evaluator gets one.

    Attributes:
        report: the report of the last call; None before the first.
        primary_metric: the key, with its prefix.

    Raises:
        InvalidOption: unknown split; no ``primary_metric`` for tasks without a main score.
        SourceMissing: raw files or images of the split are missing.

    Example:
        >>> evaluator = CxcEccvEvaluator("cxc", data_dir="sample", name="sample")
        >>> evaluator.primary_metric, evaluator.greater_is_better
        ('sample_cxc/t2t/recall_at_1', True)
    """

    def __init__(
        self,
        tasks: str | Sequence[str] = "all",
        *,
        split: str = "validation",
        images: str | Path | None = None,
        data_dir: str | Path | Library | None = None,
        primary_metric: str | None = None,
        name: str = "",
        batch_size: int = 32,
        prompt_name: str | None = None,
        truncate_dim: int | None = None,
        show_progress_bar: bool = False,
        write_report: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        check_whole("batch_size", batch_size)
        self._request = Request(tasks=tasks, split=split, per_query=True)
        self.tasks = tasks
        self.split = split
        self.name = name
        self.library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
        self.images: list[Path] | None = None
        if images is not None:
            names = self.library.split(split).images["file_name"].to_pylist()
            self.images = list(ImageFolder(images).find_all(names).values())
        key = primary_metric or main_key("t2t" if images is None else "t2i", split, tasks)
        if key is None:
            raise InvalidOption(f"tasks {tasks!r} have no main score on {split}; name a key with primary_metric")
        self.greater_is_better = metric_labelled(key.rpartition("/")[2])[0].higher_is_better
        self._key = key
        self.primary_metric = f"{name}_{key}" if name else key
        self.write_report = write_report
        self.report: Report | None = None
        self._options: dict[str, Any] = {
            "batch_size": batch_size,
            "truncate_dim": truncate_dim,
            "show_progress_bar": show_progress_bar,
        }
        self._prompt_name = prompt_name
        self._known_doubts: set[str] = set()
        # A card names the dataset after its evaluator, and calls it unknown without a name.
        self._card_entry = copy(self)
        edition = "" if self.library.edition == OFFICIAL else f", {self.library.edition}"
        self._card_entry.name = name or f"{LEADERBOARD_NAME}{edition}"

    def __call__(
        self,
        model: Any,  # noqa: ANN401 - a SentenceTransformer; the base class has no type
        output_path: str | None = None,
        epoch: int = -1,
        steps: int = -1,
    ) -> dict[str, float]:
        """Encode and score; return the metrics.

        Raises:
            ModelError: the model is no SentenceTransformer, such as a SparseEncoder or CrossEncoder.
            TowerMissing: there are images, and the model embeds none.
            UnknownName: the primary metric is not among the scores.
        """
        model = unwrap(model)
        refuse_object(model)
        if not isinstance(model, SentenceTransformer):
            raise ModelError(f"CxcEccvEvaluator got a {type(model).__name__}; give a SentenceTransformer")
        name = _find_name(model)
        captions = self.library.split(self.split).captions
        loaded = load_model(model, caption_prompt=self._prompt_name)
        passes, roles = plan_passes("captions", loaded.choose_inputs("captions"))
        ids = captions["caption_id"].to_numpy()
        texts = captions["text"].to_pylist()
        with inference(model):  # model.encode would leave it in evaluation mode
            vectors = {key: Embeddings(ids, self._encode(model, texts, given)) for key, given in passes.items()}
            if self.images is not None:
                passes, roles_of_images = plan_passes("images", loaded.choose_inputs("images"))
                vectors |= {key: self._encode_images(model, name, given) for key, given in passes.items()}
                roles |= roles_of_images
        run = make_run(vectors.get("images"), vectors["captions"], model.similarity, name)
        run = replace(run, roles={role: vectors[key] for role, key in roles.items()})
        self.report = report = score(run, replace(self._request, name=name), self.library)
        warn_of_doubts(report.doubts, self._known_doubts)
        if self._key not in report.scores:
            raise UnknownName("primary metric", self._key, report.scores)
        if self.write_report and output_path is not None:
            write_folder(Path(output_path) / self._folder_name(epoch, steps), report)
        metrics: dict[str, float] = self.prefix_name_to_metrics(report.scores, self.name)
        self._card_entry.store_metrics_in_model_card_data(model, metrics, epoch, steps)
        return metrics

    def _encode(self, model: Any, items: list[Any], given: RoleInput) -> NDArray[np.float32]:  # noqa: ANN401 - as of __call__
        """(N, D) vectors of captions or images in a role."""
        task = {} if given.task is None else {"task": given.task}
        vectors: NDArray[np.float32] = model.encode(items, prompt=given.prompt.before, **task, **self._options)
        return vectors

    def _encode_images(self, model: SentenceTransformer, name: str, given: RoleInput) -> Embeddings:
        # Not by this package's own encoding, which shares the work among the processes of torchrun: during training,
        # only the first process evaluates.
        assert self.images is not None  # noqa: S101 - the caller asks
        if not model.supports("image"):
            raise TowerMissing(f"{name} embeds {', '.join(map(str, model.modalities))} but no images; leave out images")
        parts = []
        for start in range(0, len(self.images), PICTURES):
            pictures = [open_picture(file).image for file in self.images[start : start + PICTURES]]
            parts.append(self._encode(model, pictures, given))
        return Embeddings(self.library.split(self.split).image_ids, np.concatenate(parts))

    def _folder_name(self, epoch: int, steps: int) -> str:
        places = [f"{word}_{place:g}" for word, place in (("epoch", epoch), ("steps", steps)) if place != -1]
        return "_".join(["cxc_eccv", *([self.name] if self.name else []), self.split, *places])

    def get_config_dict(self) -> dict[str, Any]:
        """The evaluator's settings, for the model card."""
        return {"tasks": self.tasks, "split": self.split, "edition": self.library.edition, **self._options}


def _find_name(model: SentenceTransformer) -> str:
    """The model's id on the Hub, or the name of its folder without the path."""
    source = str(getattr(getattr(model.transformers_model, "config", None), "_name_or_path", ""))
    return (Path(source).name if Path(source).is_dir() else source) or type(model).__name__
