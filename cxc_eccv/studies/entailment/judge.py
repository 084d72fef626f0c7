"""A judge of unlabelled pairs, the cache of its answers, and the judges that commands load by name.

Answers are keyed by content: the premise, the image file and the hypothesis. So each pair is scored once, in whatever
run, split and edition it occurs.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from tqdm import tqdm

from cxc_eccv.builders.images import ImageFolder
from cxc_eccv.cli.choices import check_model, needs_train_extra
from cxc_eccv.errors import DataError, InvalidOption, SourceMissing, WriteFailed
from cxc_eccv.evaluation.settings import Judge
from cxc_eccv.parquet import read_parquet, write_parquet
from cxc_eccv.sources.download import image_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.answerer import Announced, Answerer
from cxc_eccv.studies.entailment.answering import announce, is_address, is_file, recognise
from cxc_eccv.studies.entailment.calibration import Calibration, fit, read_judge
from cxc_eccv.studies.entailment.labelled import LabelledPairs, seen_by
from cxc_eccv.studies.entailment.quality import warn_of_training_data
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.tasks.task import COCO, Collection
from cxc_eccv.types import IntArray
from cxc_eccv.writing import is_plain, replaced_file, resumable

SCHEMA = pa.schema([("pair", pa.string()), ("probability", pa.float64())])


class ClassifierJudge(Judge):
    """A model that labels the pairs of an evaluation that have no label: a classifier, or another kind of judge.

    The premise is the image's captions, joined by a space; what looks at images gets the image too. A pair is entailed
    if its probability reaches the threshold. Probabilities are cached in the folder ``answers`` of the download cache,
    by the fingerprint and the content of the pair: no pair is asked about twice, a killed run resumes where it stopped,
    and several processes may share the cache.

    Args:
        classifier: the folder or Hub id of a classifier of entailment, of a model of natural language inference, of a
            cross-encoder, or of a vision-language model; ``URL#MODEL`` of an endpoint; the ``.json`` file of a
            judge; or an ``Answerer``, such as a classifier from ``load_classifier``.
        images: folder with the image files, at any depth; for what looks at images.
        batch_size: pairs per batch.
        device: torch device for the classifier; None for a GPU if there is one.
        progress: show a bar when standard error is a terminal.
        **options: options of this kind, such as ``question``.

    Raises:
        ModelError: its config is not that of a model that can judge; its weights are loaded with the first question.
        InvalidOption: it looks at images, and ``images`` is missing or does not exist; or its kind lacks an option.

    Example:
        >>> from cxc_eccv.studies.entailment.answerer import Answerer
        >>> class Length(Answerer):
        ...     name, fingerprint = "length", "1"
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
        classifier: Answerer | str | Path,
        images: str | Path | None = None,
        *,
        batch_size: int = 64,
        device: str | None = None,
        progress: bool = True,
        **options: Any,  # noqa: ANN401 - of the kind
    ) -> None:
        known: Answerer | Announced
        if isinstance(classifier, str | Path):
            known = announced = announce(classifier, images=images is not None, device=device, **options)
            self._load = announced.load
        else:
            known, self._load = classifier, lambda: classifier
        if known.has_visual and images is None:
            raise InvalidOption(f"{known.name} looks at images: give their folder (--images)")
        self.threshold = float(known.threshold)
        self.images = ImageFolder(images) if known.has_visual and images is not None else None
        self._batch_size = batch_size
        self._progress = progress
        self._lock = Lock()

    @cached_property
    def classifier(self) -> Answerer:
        """What answers, loaded at the first question."""
        return self._load()

    @cached_property
    def _answers(self) -> _Answers:
        return _Answers(self.classifier)

    @property
    def facts(self) -> Mapping[str, Any]:
        """Facts for the provenance of a report."""
        data = self.classifier.training_data
        looks_at = {"captions": self.classifier.reads_captions, "image": self.images is not None}
        return {
            "model": self.classifier.name,
            "fingerprint": self.classifier.fingerprint,
            "threshold": self.threshold,
            "looks_at": " and ".join(name for name, looks in looks_at.items() if looks),
            "trained_on": None if data is None else dict(data["holds"]),
            "cautions": list(warn_of_training_data(data)),
            **({} if self.classifier.calibrated is None else {"calibration": dict(self.classifier.calibrated)}),
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
        self, premises: Sequence[str], images: Sequence[Path | None] | None, hypotheses: Sequence[str]
    ) -> NDArray[np.float64]:
        """(P,) calibrated probabilities of (P,) pairs; new pairs are scored once and cached."""
        images = [None] * len(premises) if images is None else images
        keys = np.array([_key(*pair) for pair in zip(premises, images, hypotheses, strict=True)], dtype=str)
        distinct, first, back = np.unique(keys, return_index=True, return_inverse=True)
        with self._lock:
            probabilities = self._answers.read(distinct)
            asked = np.flatnonzero(np.isnan(probabilities))
            asked, cut = asked[np.argsort(first[asked])], 0  # the given order keeps pairs of an image together
            bar = tqdm(
                total=asked.size, desc="judging", unit="pair", leave=False, disable=None if self._progress else True
            )
            with bar, resumable("The classifier's answers are kept; the same command continues from them."):
                for start in range(0, asked.size, self.classifier.pairs_at_once):
                    rows = asked[start : start + self.classifier.pairs_at_once]
                    places = first[rows].tolist()
                    texts, files, claims = ([side[at] for at in places] for side in (premises, images, hypotheses))
                    seen = None if self.images is None else files
                    probabilities[rows], n_cut = self.classifier.ask(texts, seen, claims, self._batch_size)
                    cut += n_cut
                    self._answers.write(distinct[rows], probabilities[rows])
                    bar.update(rows.size)
        if cut:
            warnings.warn(
                f"{cut:,} of {asked.size:,} pairs are longer than the context of {self.classifier.name}: their "
                "premises were truncated",
                stacklevel=2,
            )
        return self.classifier.calibrate(probabilities[back])


def fit_on_others(
    judge: ClassifierJudge, others: LabelledPairs, measured: LabelledPairs, images: str | Path | None
) -> Calibration:
    """The calibration of a judge on judged pairs of other images than those it is measured on, which it has not seen.

    InvalidOption if they share images, if the judge was trained on them, or if it is calibrated already.
    """
    classifier = judge.classifier
    if classifier.calibrated is not None:
        raise InvalidOption(f"{classifier.name} is calibrated already; name the judge itself, not its file")
    shared = set(others.images.tolist()) & set(measured.images.tolist())
    if shared:
        raise InvalidOption(
            f"{others.name} and {measured.name} share {len(shared):,} images: calibrate on pairs of another split"
        )
    seen = seen_by(classifier)
    trained = 0 if seen is None else int(seen.among(others.table)["trained"].sum())
    if trained:
        raise InvalidOption(
            f"{classifier.name} was trained on {trained:,} of {others.table.num_rows:,} pairs of {others.name}, where "
            "it is surer than elsewhere: calibrate on others"
        )
    answers = judge.score(*others.ask(classifier, images).part(slice(None)))
    return fit(answers, others.labels, pairs=others.name, fingerprint=classifier.fingerprint)


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


def check_judge(name: str, images: Path | None = None, batch_size: int = 64) -> None:
    """Refuse, before torch is imported, the name of a judge, a folder of images and a batch size."""
    if is_file(name):
        name = read_judge(Path(name))["judge"]
    if not is_address(name):
        check_model(name, images, batch_size=batch_size)
    elif images is not None:
        image_folder(images)


def load_reranker(name: str, images: Path | None, device: str | None) -> ClassifierJudge | None:
    """The judge that a name stands for, or None for models that are no judges, such as BLIP's matching head.

    InvalidOption if it reads the captions of an image, among which are those that a re-ranking must find.
    """
    check_judge(name, images)
    with needs_train_extra():
        if recognise(name) is None:
            return None
    judge = load_judge(name, images, device)
    if judge.classifier.reads_captions:
        raise InvalidOption(
            f"{name} reads the captions of an image, and a re-ranking must find these: give a judge that sees the "
            "image alone, such as a vision-language model"
        )
    return judge


def load_judge(name: str, images: Path | None = None, device: str | None = None) -> ClassifierJudge:
    """Load a judge by its folder, Hub id or address; ``images`` is the folder with the image files."""
    check_judge(name, images)
    with needs_train_extra():
        return ClassifierJudge(name, images, device=device)


def _key(premise: str, image: Path | None, hypothesis: str) -> str:
    """Hash of a pair's content; an image counts by its file's name, size and time."""
    seen = ""
    if image is not None:
        from cxc_eccv.encoding.shards import image_identity  # needs torch

        seen = repr(image_identity(image))
    return blake2b("\0".join((premise, seen, hypothesis)).encode(), digest_size=16).hexdigest()


class _Answers:
    """The cached answers of a classifier: each process writes its own files, named by their pairs, and reads all."""

    def __init__(self, classifier: Answerer) -> None:
        self.folder = classifier.answers_folder

    def read(self, pairs: NDArray[np.str_]) -> NDArray[np.float64]:
        """(P,) probabilities, NaN for pairs without an answer."""
        probabilities = np.full(pairs.size, np.nan)
        for path in sorted(self.folder.glob("*.parquet")):
            if not path.is_file():  # reading a pipe would block
                continue
            try:
                table = read_parquet(path).select(SCHEMA.names).cast(SCHEMA)
            except (pa.ArrowException, OSError, ValueError, KeyError):
                continue  # damaged: its pairs are asked about again
            answered = pc.index_in(pa.array(table["pair"].combine_chunks()), value_set=pa.array(pairs))
            kept = np.asarray(table["probability"])
            known = np.asarray(answered.is_valid()) & (kept >= 0) & (kept <= 1)
            probabilities[np.asarray(answered.filter(pa.array(known)))] = kept[known]
        return probabilities

    def write(self, pairs: NDArray[np.str_], probabilities: NDArray[np.float64]) -> None:
        """Save probabilities, if the folder can be written."""
        path = self.folder / f"{blake2b(pairs.tobytes(), digest_size=16).hexdigest()}.parquet"
        with suppress(WriteFailed):
            if is_plain(path):
                with replaced_file(path, wait=0) as part:
                    write_parquet(pa.table([pairs, probabilities], schema=SCHEMA), part)
