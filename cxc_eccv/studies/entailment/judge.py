"""A classifier of entailment as the judge of unjudged pairs; unjudged/judges.py says what a judge is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from cxc_eccv.builders.image_columns import ImageFolder
from cxc_eccv.cli.named_models import check_model
from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.extras import needs_extra
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.entailment.labelled import find_image_files
from cxc_eccv.studies.entailment.training_data import premises_of, warn_of_truncation
from cxc_eccv.studies.trainers.training_record import warn_of_training_data
from cxc_eccv.types import IntArray
from cxc_eccv.types.provenance import JudgeFacts
from cxc_eccv.unjudged.judges import Judge

if TYPE_CHECKING:
    from cxc_eccv.studies.entailment.scoring import Classifier


PAIRS_AT_ONCE = 2_048
"""Pairs among which those of one image and of like lengths share batches."""


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
        >>> from cxc_eccv.sources.library import Library
        >>> split = Library("sample").split("test")
        >>> judge.for_split(split).probabilities(split.caption_image_ids[:2], split.caption_ids[:2]).tolist()
        [1.0, 1.0]
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
        self.classifier = classifier
        self.threshold = float(classifier.threshold)
        self.images = ImageFolder(images) if classifier.has_visual and images is not None else None
        self._batch_size = batch_size
        self._progress = progress
        self._scores: dict[tuple[str, Path | None, str], float] = {}

    @property
    def facts(self) -> JudgeFacts:
        """Facts for the provenance of a report."""
        data = self.classifier.training_data
        return JudgeFacts(
            model=self.classifier.name,
            fingerprint=self.classifier.fingerprint,
            threshold=self.threshold,
            looks_at="captions" if self.images is None else "captions and image",
            trained_on=None if data is None else dict(data["holds"]),
            cautions=warn_of_training_data(data),
        )

    def for_split(self, split: Split) -> PairJudge:
        """The judge of pairs of one split."""
        return PairJudge(self, split, f"the {split.name} split of {split.collection.title}")

    def score(
        self, premises: Sequence[str], images: Sequence[Path | None] | None, hypotheses: Sequence[str]
    ) -> NDArray[np.float64]:
        """(P,) probabilities of (P,) pairs; the classifier is asked about those that it was not asked about before."""
        pairs = list(zip(premises, images or [None] * len(premises), hypotheses, strict=True))
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self._scores]
        cut = 0
        hidden = None if self._progress else True
        with tqdm(total=len(new), desc="judging", unit="pair", leave=False, disable=hidden) as bar:
            for start in range(0, len(new), PAIRS_AT_ONCE):
                part = new[start : start + PAIRS_AT_ONCE]
                texts, files, claims = map(list, zip(*part, strict=True))
                looked_at = None if images is None else files
                scores, shortened = self.classifier.score_and_count(
                    texts, looked_at, claims, batch_size=self._batch_size, progress=False
                )
                self._scores.update(zip(part, scores.tolist(), strict=True))
                cut += shortened
                bar.update(len(part))
        warn_of_truncation(cut, len(new), self.classifier.name)
        return np.array([self._scores[pair] for pair in pairs], dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class PairJudge:
    """A judge of the pairs of one split."""

    judge: ClassifierJudge
    content: Split
    where: str

    def probabilities(self, image_ids: IntArray, caption_ids: IntArray) -> NDArray[np.float64]:
        """(P,) calibrated probabilities of (P,) images with (P,) captions.

        DataError if an id is not in the split; SourceMissing if the file of an image is missing.
        """
        sides = ("image", image_ids, self.content.image_ids), ("caption", caption_ids, self.content.caption_ids)
        for name, ids, known in sides:
            unknown = ids[~np.isin(ids, known)]
            if unknown.size:
                raise DataError(f"{name} {unknown[0]} is not in {self.where}: give pairs of this split")
        names = self.content.files_of(image_ids).to_pylist()
        return self.judge.score(
            premises_of(self.content, image_ids),
            find_image_files(self.judge.classifier, names, self.judge.images),
            self.content.texts_of(caption_ids).to_pylist(),
        )

    def __call__(self, query_ids: IntArray, item_ids: IntArray) -> NDArray[np.int64]:
        """(P,) labels of (P,) images with (P,) captions: 1 where the probability reaches the threshold, else 0."""
        entailed = self.probabilities(query_ids, item_ids) >= self.judge.threshold
        return entailed.astype(np.int64)


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """The judge that a folder or Hub id names; ``images`` is the folder with the image files."""
    check_model(name, images)
    with needs_extra("train"):
        return ClassifierJudge(name, images, device=device)
