"""A classifier of entailment as the judge of pairs without a label, and the judge that commands load by name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.cli.choices import check_model, needs_train_extra
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing
from cxc_eccv.evaluation.settings import Judge
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.quality import warn_of_training_data
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import IntArray

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier


class ClassifierJudge(Judge):
    """A classifier of entailment that labels the pairs of an evaluation that have no label.

    The premise is the image's captions, joined by a space; a classifier with a visual branch gets the image too. A pair
    is entailed if its probability reaches the threshold. A judge scores no pair twice.

    Args:
        classifier: folder or Hub id, or a classifier from ``load_classifier``.
        images: folder with the image files, at any depth; for a visual branch.
        batch_size: pairs per batch.
        device: torch device for a classifier that is named; None for a GPU if there is one.
        progress: show a bar.

    Raises:
        ModelError: the name is not that of a classifier; its weights are loaded with the first question.
        InvalidOption: it looks at images, and ``images`` is missing or does not exist.

    Example:
        >>> import numpy as np
        >>> class Length:
        ...     name, fingerprint, threshold = "length", "1", 0.5
        ...     has_visual, training_data = False, None
        ...     def score_and_count(self, premises, images, hypotheses, **options):
        ...         return np.array([len(text.split()) > 4 for text in hypotheses], float), 0
        >>> judge = ClassifierJudge(Length(), progress=False)
        >>> on_test = judge.on(library := Library("sample"), "test")
        >>> captions = library.captions("test")[:2]
        >>> answers = on_test.judge_pairs(captions.select(["image_id", "caption_id"]))
        >>> answers.column_names, answers["probability"].to_pylist()
        (['image_id', 'caption_id', 'probability'], [1.0, 1.0])
    """

    def __init__(
        self,
        classifier: Classifier | str | Path,
        images: str | Path | None = None,
        *,
        batch_size: int = 64,
        device: str | None = None,
        progress: bool = True,
    ) -> None:
        if isinstance(classifier, str | Path):
            from cxc_eccv.studies.entailment.scoring import find_classifier

            classifier = find_classifier(classifier, device=device)
        if classifier.has_visual and images is None:
            raise InvalidOption(f"{classifier.name} looks at images: give their folder (--images)")
        self.classifier, self.threshold = classifier, float(classifier.threshold)
        self.images = ImageFolder(images) if classifier.has_visual and images is not None else None
        self._batch_size, self._progress = batch_size, progress
        self._scores: dict[tuple[str, Path | None, str], float] = {}

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts for the provenance of a report."""
        data = self.classifier.training_data
        return {
            "model": self.classifier.name,
            "fingerprint": self.classifier.fingerprint,
            "threshold": self.threshold,
            "looks_at": "captions" if self.images is None else "captions and image",
            "trained_on": None if data is None else dict(data["holds"]),
            "cautions": list(warn_of_training_data(data)),
        }

    def on(self, library: Library, split: str, collection: Collection = COCO) -> PairJudge:
        """The judge of pairs of one split of one collection."""
        content = collection.content(library, split)
        where = f"the {split} split of {collection.name}"
        return PairJudge(
            self,
            where,
            dict(zip(content.image_ids.tolist(), premises_of(content, content.image_ids), strict=True)),
            dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)),
            dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True)),
        )

    def find_image(self, file_name: str) -> Path | None:
        """The image's file, or None for a classifier of texts alone."""
        if self.images is None:
            return None
        path = self.images.find(file_name)
        if path is None:
            raise SourceMissing(
                f"{self.classifier.name} looks at images, and {self.images.folder} has no file {file_name}. Add the "
                "file, or give the folder that holds all images of the split."
            )
        return path

    def score(
        self, premises: Sequence[str], images: Sequence[Path | None], hypotheses: Sequence[str]
    ) -> NDArray[np.float64]:
        """(P,) probabilities of (P,) pairs; the classifier is asked about those that it was not asked about before."""
        pairs = list(zip(premises, images, hypotheses, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        if new:
            texts, files, claims = map(list, zip(*new, strict=True))
            scores, cut = self.classifier.score_and_count(
                texts,
                None if self.images is None else files,
                claims,
                batch_size=self._batch_size,
                progress=self._progress,
            )
            self._scores.update(zip(new, scores.tolist(), strict=True))
            if cut:
                warnings.warn(
                    f"{cut:,} of {len(new):,} pairs are longer than the context of {self.classifier.name}: their "
                    "premises were truncated",
                    stacklevel=2,
                )
        return np.array([self._scores[pair] for pair in pairs], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PairJudge:
    """A judge on one split: the premises, texts and file names behind the ids."""

    judge: ClassifierJudge
    where: str
    premises: Mapping[int, str]
    hypotheses: Mapping[int, str]
    files: Mapping[int, str]

    def judge_pairs(self, pairs: pa.Table) -> pa.Table:
        """A table of ``image_id``, ``caption_id`` and ``probability``, the calibrated one that the image entails it.

        DataError if an id is not in the split, or an image's file is missing.
        """
        image_ids, caption_ids = (np.asarray(pairs[name], dtype=np.int64) for name in ("image_id", "caption_id"))
        probability = self.probabilities(image_ids, caption_ids)
        return pa.table({"image_id": image_ids, "caption_id": caption_ids, "probability": probability})

    def probabilities(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[np.float64]:
        """(P,) calibrated probabilities of (P,) images with (P,) captions."""
        images, captions = image_ids.tolist(), caption_ids.tolist()
        for name, ids, known in (("image", images, self.premises), ("caption", captions, self.hypotheses)):
            unknown = next((number for number in ids if number not in known), None)
            if unknown is not None:
                raise DataError(f"{name} {unknown} is not in {self.where}: give pairs of this split")
        paths = {image: self.judge.find_image(self.files[image]) for image in dict.fromkeys(images)}
        return self.judge.score(
            [self.premises[image] for image in images],
            [paths[image] for image in images],
            [self.hypotheses[caption] for caption in captions],
        )

    def __call__(self, query_ids: IntArray, item_ids: IntArray) -> NDArray[np.int64]:
        """(P,) labels of (P,) images with (P,) captions: 1 where the probability reaches the threshold, else 0."""
        entailed = self.probabilities(query_ids, item_ids) >= self.judge.threshold
        return entailed.astype(np.int64)


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """The judge that a folder or Hub id names; ``images`` is the folder with the image files."""
    check_model(name, images)
    with needs_train_extra():
        return ClassifierJudge(name, images, device=device)
