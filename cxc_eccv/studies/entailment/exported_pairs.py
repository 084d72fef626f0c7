"""Pairs for others to judge: what several models retrieve, for people; pairs without a label, for another judge.

People are asked once about every pair by the scheme ``entailment``, on a sheet for each image, in an order that reveals
neither model nor rank.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import DataError, InvalidOption
from cxc_eccv.evaluation import Request
from cxc_eccv.evaluation.calls import measure_request, split_key
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.evaluation.plan import collections_held
from cxc_eccv.evaluation.request import check_split
from cxc_eccv.judgments.evidence.source import labels_of_file
from cxc_eccv.parquet import write_parquet
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import task
from cxc_eccv.runs import Run
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.studies.asking.formats import find_format
from cxc_eccv.studies.asking.image_addresses import find_images
from cxc_eccv.studies.asking.questionnaire import Handout, describe_questions
from cxc_eccv.studies.asking.questions import CANDIDATE, Question, Questionnaire
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.entailment.training_data import premises_of
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Judgments, TopK, check_whole
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import JsonObject
from cxc_eccv.writing import replaced_file, write_json, write_rows

SCHEMA = 1

ASKED = "asked.json"
"""The record of an export."""

TASKS = ("entailment", "flickr30k_entailment")

ORIGINAL = "original caption"
LABELLED = "labelled before"

Pair = tuple[int, int]
"""An image id and a caption id."""


def export_pairs(
    runs: Mapping[str, Run],
    output: str | Path,
    *,
    form: str = "html",
    images: str | Path = "coco",
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    sample: int = 50,
    depth: int = 10,
    seed: int = 0,
    ask_known: bool = False,
) -> list[Path]:
    """Write the top captions of some images, as several models rank them, for people to judge.

    The images are drawn from those that every model has. ``asked.json`` beside the questions records the models and
    their lists, seed, split and hashes of the data, for ``score_answers``. ``depth`` is the number of captions of each
    image and model.
    ``ask_known`` also asks about an image's own captions, and pairs that a file of entailment labels has.
    """
    folder = Path(output)
    if (folder / ASKED).exists():
        raise InvalidOption(f"{folder / ASKED} exists, and answers may belong to it: choose another folder")
    for name, value in (("sample", sample), ("depth", depth)):
        check_whole(name, value)
    check_whole("seed", seed, least=0)
    check_split(split)
    if not runs:
        raise InvalidOption("there is no run to export; give at least one")
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    entail_task = _task_of(runs, library, split)
    content = library.split(split, entail_task.collection)
    asked = _draw_images(
        runs,
        entail_task.judgments(content, "i2t"),
        sample,
        np.random.default_rng(seed),
    )
    tops, models = _rank_captions(runs, asked, depth)
    about = {
        "schema": SCHEMA,
        "task": entail_task.name,
        **to_json(make_provenance(library, split, Provenance(seed=seed))),
        "depth": depth,
        "known": "hidden" if ask_known else "marked",
        "content": content.fingerprint,
        "images": asked.query_ids.tolist(),
        "models": models,
    }
    questionnaire = ask(entail_task, content, list(tops.values()))
    if not ask_known:
        questionnaire = leave_out(questionnaire, KnownLabels(entail_task, content).mark(questionnaire))
    only = [number for number, sheet in enumerate(questionnaire.sheets) if sheet]
    if not only:
        raise InvalidOption("all of these pairs are labelled already; to ask about them too, give --ask-known")
    names = {question.file_name for sheet in questionnaire.sheets for question in sheet}
    addresses = find_images(images, names, content)
    shown_questions = describe_questions([questionnaire], addresses, only)
    written = find_format(form).export(folder, shown_questions, Handout(questionnaire.scheme))
    return [*written, write_json(folder / ASKED, about)]


def _task_of(runs: Mapping[str, Run], library: Library, split: str) -> Task:
    """The task of the collection that all runs are of."""
    tasks = [task(name) for name in TASKS]
    about: dict[str, str] = {}
    for name, run in runs.items():
        if (reason := run.why_not("i2t")) is not None:
            raise InvalidOption(f"{name} ranks no captions for images: {reason}")
        held = collections_held([entry.collection for entry in tasks], run, library, split)
        about[name] = next(entry.name for entry in tasks if held[entry.collection] is None)
    if len(set(about.values())) > 1:
        listed = ", ".join(f"{name} is of {task(first).collection.title}" for name, first in about.items())
        raise InvalidOption(f"the runs are of different collections: {listed}. Export each collection by itself.")
    return task(next(iter(about.values())))


def _draw_images(runs: Mapping[str, Run], judged: Judgments, wanted: int, random: np.random.Generator) -> Judgments:
    """The judgments of images drawn from those that every run has."""
    common = np.sort(judged.query_ids)
    for run in runs.values():
        common = common[np.isin(common, run.query_ids("i2t"))]
    if common.size < wanted:
        raise InvalidOption(
            f"only {common.size:,} images of the split are in every run, fewer than {wanted:,}. Lower --sample, or "
            "give runs on the same images."
        )
    chosen = random.choice(common, wanted, replace=False)
    return judged.without(np.setdiff1d(judged.query_ids, chosen), np.empty(0, dtype=np.int64))


def _rank_captions(runs: Mapping[str, Run], asked: Judgments, depth: int) -> tuple[dict[str, TopK], list[JsonObject]]:
    """The top captions and the record of every run."""
    if depth > asked.gallery_ids.size:
        raise InvalidOption(f"depth {depth:,} (--depth): the split has only {asked.gallery_ids.size:,} captions")
    tops: dict[str, TopK] = {}
    models: list[JsonObject] = []
    for name, run in runs.items():
        ranker = ranked(run)
        tops[name] = ranker.find_top(asked, "i2t", depth)
        captions = tops[name].ids.tolist()
        models.append({"name": name, "run": to_json(run.facts()), **ranker.scoring, "captions": captions})
    return tops, models


def ask(entail_task: Task, content: Split, tops: Sequence[TopK]) -> Questionnaire:
    """A sheet for each image with every pair once, in the order of a hash, which reveals neither model nor rank."""
    prefix = entail_task.collection.name
    files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    texts = zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)
    captions = {number: " ".join(text.split()) for number, text in texts}
    premises: dict[int, list[str]] = {}
    for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
        premises.setdefault(image, []).append(captions[caption])
    sheets = []
    for place, image in enumerate(tops[0].query_ids.tolist()):
        caption_ids = np.unique(np.concatenate([top.ids[place] for top in tops])).tolist()
        if image not in files or not captions.keys() >= set(caption_ids):
            raise DataError(
                f"image {image} or one of its captions is not in the split: the export was made from other data. Point "
                "--data-dir at that data"
            )
        caption_ids.sort(key=lambda caption, image=image: blake2b(f"{image}-{caption}".encode()).digest())
        sheets.append(
            [
                Question(
                    f"{prefix}-{image}-{caption}",
                    image,
                    caption,
                    files[image],
                    captions[caption],
                    CANDIDATE,
                    tuple(premises[image]),
                )
                for caption in caption_ids
            ]
        )
    return Questionnaire(schemes()["entailment"], sheets)


def leave_out(asked: Questionnaire, pairs: Collection[Pair]) -> Questionnaire:
    """The questions about other pairs."""
    sheets = [[each for each in sheet if (each.image_id, each.caption_id) not in pairs] for sheet in asked.sheets]
    return Questionnaire(asked.scheme, sheets)


class KnownLabels:
    """The labels of pairs in the data."""

    def __init__(self, entail_task: Task, split: Split) -> None:
        judged = entail_task.judgments(split, "i2t")
        pairs = zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True)
        gains = [] if judged.gains is None else judged.gains.tolist()
        self._labels = dict(zip(pairs, gains, strict=True))
        self._owner = dict(zip(split.caption_ids.tolist(), split.caption_image_ids.tolist(), strict=True))
        images, captions, _, _ = labels_of_file(split, split.entailment())
        self._annotated = set(zip(images.tolist(), captions.tolist(), strict=True))

    def label(self, pair: Pair) -> tuple[int, str] | None:
        """The label of an image's own caption or of an annotated pair, and which of the two it is; else None."""
        if self._owner[pair[1]] == pair[0]:
            return 1, ORIGINAL
        return (int(self._labels[pair]), LABELLED) if pair in self._annotated and pair in self._labels else None

    def mark(self, asked: Questionnaire) -> dict[Pair, int]:
        """The labels of those pairs that :meth:`label` knows."""
        pairs = ((question.image_id, question.caption_id) for sheet in asked.sheets for question in sheet)
        return {pair: label[0] for pair in pairs if (label := self.label(pair))}

    def derived(self, pair: Pair) -> int | None:
        """The label derived from ratings of a pair that :meth:`label` does not know; else None."""
        return None if self.label(pair) or pair not in self._labels else int(self._labels[pair])


def list_unjudged(runs: Iterable[Run], library: Library, *, number: str | None = None) -> pa.Table:
    """Every pair of test that Entail@K of these runs needs and that no source labels, once, by image and caption.

    With a ``probability`` for each row, the table is the value of ``judge`` of :func:`cxc_eccv.evaluate`.

    Args:
        runs: the runs.
        library: the raw sources.
        number: another number ``task/direction/metric``, such as ``coco_5k/t2i/recall_at_1``, whose pairs are listed.

    Returns:
        A table of ``image_id``, ``caption_id``, ``file_name``, ``captions`` (the image's own, joined by spaces) and
        ``caption``.
    """
    content = library.split("test")
    part, metric = split_key(number or "entailment/i2t/entail_at_k")
    request = Request(tasks=part, metrics=metric, bounds=True)
    measured = [each for run in runs for each in measure_request(run, request, library)]
    units = [result.find_unjudged(variant) for variant, result in measured]
    images, captions = np.unique(np.concatenate([(each.images, each.captions) for each in units], axis=1), axis=1)
    return pa.table(
        {
            "image_id": images,
            "caption_id": captions,
            "file_name": content.files_of(images),
            "captions": pa.array(premises_of(content, images), pa.string()),
            "caption": content.texts_of(captions),
        }
    )


def write_unjudged(path: Path, pairs: pa.Table) -> Path:
    """Write pairs as Parquet, CSV or JSON lines; DataError if there are none."""
    if not pairs.num_rows:
        raise DataError("every pair that the runs retrieve has a label: there is nothing to judge")
    if path.suffix != ".parquet":
        return write_rows(path, pairs.to_pylist())
    with replaced_file(path) as part:
        write_parquet(pairs, part)
    return path
