"""Entail@K judged by hand (E@M): export what several models retrieve for people to judge, and score their answers.

Every retrieved pair is asked about once by the scheme ``entailment``, on a sheet for each image, in an order that
reveals neither model nor rank.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cxc_eccv.comparison.labels import score_cell
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.report import choose_similarity, provenance_of
from cxc_eccv.evaluation.select import collections_held
from cxc_eccv.evaluation.settings import Settings, check_split
from cxc_eccv.judgments.evidence import labels_of_file
from cxc_eccv.judgments.qrels import label_pairs
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.ranking.rank import top_k
from cxc_eccv.registry import task
from cxc_eccv.runs import RankingsRun, Run
from cxc_eccv.sources.edition import describe_data
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.sources.reading import check_content, read_json, require_keys, shown
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.studies.asking.answers import read_answers
from cxc_eccv.studies.asking.exchange import find_format, find_images
from cxc_eccv.studies.asking.questions import CANDIDATE, Question, Questionnaire
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.studies.asking.settling import settle
from cxc_eccv.tables import Table
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import IntArray, Judgments, Result, TopK, check_whole, positions_of
from cxc_eccv.types.strict_json import MAPPING, TEXT, WHOLE
from cxc_eccv.writing import write_json, write_rows

SCHEMA = 1
EXPORT = {
    **dict.fromkeys(("task", "split", "content"), TEXT),
    **dict.fromkeys(("schema", "seed", "depth"), WHOLE),
    "data": {"edition": TEXT},
    "images": [WHOLE],
    "models": [{"name": TEXT, "run": MAPPING, "captions": [[WHOLE]]}],
}
"""The structure of ``asked.json``."""

ASKED = "asked.json"
"""The record of an export; older versions named it after the table, with another suffix."""

TASKS = ("entailment", "flickr30k_entailment")
LABELS_OF = {"entailment": Library.entailment, "flickr30k_entailment": Library.flickr30k_entailment}
"""Task to the reader of the user's label file of its collection."""

ORIGINAL, LABELLED = "original caption", "labelled before"

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
    mark_known: bool = True,
) -> list[Path]:
    """Write the top captions of some images, as several models rank them, for people to judge.

    The images are drawn from those that every model has. ``asked.json`` beside the questions records the models and
    their lists, seed, split and hashes of the data; :func:`score_answers`, which has an example, needs it.

    Args:
        runs: name of each model to its run; all of one collection, COCO or Flickr30k.
        output: folder without questions.
        form: one of :func:`cxc_eccv.studies.asking.exchange.formats`.
        images: as for :func:`cxc_eccv.studies.asking.exchange.find_images`.
        split: ``validation`` or ``test``.
        data_dir: as for :func:`cxc_eccv.evaluate`.
        sample: number of images.
        depth: captions of each image and model.
        seed: seed of the draw.
        mark_known: leave out an image's own captions, and pairs that a file of entailment labels has.
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
    content = entail_task.collection.content(library, split)
    asked = _draw_images(runs, entail_task.judgments(library, split, "i2t"), sample, np.random.default_rng(seed))
    tops, models = _rank_captions(runs, asked, depth)
    about = {
        "schema": SCHEMA,
        "task": entail_task.name,
        **provenance_of(library, split=split, seed=seed),
        "depth": depth,
        "known": "marked" if mark_known else "hidden",
        "content": content.fingerprint,
        "images": asked.query_ids.tolist(),
        "models": models,
    }
    questionnaire = _ask(entail_task, content, list(tops.values()))
    known = _Known(entail_task, library, split)
    sheets = [
        [question for question in sheet if not (mark_known and known.label((question.image_id, question.caption_id)))]
        for sheet in questionnaire.sheets
    ]
    only = [number for number, sheet in enumerate(sheets) if sheet]
    if not only:
        raise InvalidOption("all of these pairs are labelled already; to ask about them too, give --hide-known")
    names = {question.file_name for sheet in sheets for question in sheet}
    rows = content.images.to_pylist()
    addresses = find_images(images, names, library, split, None if entail_task.name == TASKS[0] else rows)
    to_ask = Questionnaire(questionnaire.scheme, sheets)
    written = find_format(form).export([to_ask], addresses, folder, only)
    return [*written, write_json(folder / ASKED, about)]


def _task_of(runs: Mapping[str, Run], library: Library, split: str) -> Task:
    """The task of the collection that all runs are of."""
    tasks = [task(name) for name in TASKS]
    about: dict[str, str] = {}
    for name, run in runs.items():
        if (reason := run.why_not("i2t")) is not None:
            raise InvalidOption(f"{name} ranks no captions for images: {reason}")
        held = collections_held([own.collection for own in tasks], run, library, split)
        about[name] = next(own.name for own in tasks if held[own.collection] is None)
    if len(set(about.values())) > 1:
        listed = ", ".join(f"{name} is of {task(own).collection.name}" for name, own in about.items())
        raise InvalidOption(f"the runs are of different collections: {listed}. Export each collection by itself.")
    return task(next(iter(about.values())))


def _draw_images(runs: Mapping[str, Run], judged: Judgments, wanted: int, random: np.random.Generator) -> Judgments:
    """The judgments of images drawn from those that every run has."""
    common = np.sort(judged.query_ids)
    for run in runs.values():
        there = run.lists["i2t"].query_ids if isinstance(run, RankingsRun) else run.ids("images")
        common = common[np.isin(common, there)]
    if common.size < wanted:
        raise InvalidOption(
            f"only {common.size:,} images of the split are in every run, fewer than {wanted:,}. Lower --sample, or "
            "give runs on the same images."
        )
    chosen = random.choice(common, wanted, replace=False)
    return judged.without(np.setdiff1d(judged.query_ids, chosen), np.empty(0, dtype=np.int64))


def _rank_captions(
    runs: Mapping[str, Run], asked: Judgments, depth: int
) -> tuple[dict[str, TopK], list[dict[str, Any]]]:
    """The top captions and the record of every run."""
    if depth > asked.gallery_ids.size:
        raise InvalidOption(f"depth {depth:,} (--depth): the split has only {asked.gallery_ids.size:,} captions")
    tops, models = {}, []
    for name, run in runs.items():
        scoring = choose_similarity(run, similarity=None)
        tops[name] = top_k(run, asked, "i2t", depth, similarity=scoring["similarity"])
        models.append({"name": name, "run": dict(run.facts()), **scoring, "captions": tops[name].ids.tolist()})
    return tops, models


def _ask(entail_task: Task, content: KarpathySplit, tops: Sequence[TopK]) -> Questionnaire:
    """A sheet for each image with every pair once, in the order of a hash, which reveals neither model nor rank."""
    prefix = entail_task.collection.name.lower()
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


class _Known:
    """The labels of pairs in the data."""

    def __init__(self, entail_task: Task, library: Library, split: str) -> None:
        judged = entail_task.judgments(library, split, "i2t")
        pairs = zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True)
        gains = [] if judged.gains is None else judged.gains.tolist()
        self._labels = dict(zip(pairs, gains, strict=True))
        content = entail_task.collection.content(library, split)
        self._owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
        images, captions, _, _ = labels_of_file(content, LABELS_OF[entail_task.name](library, split))
        self._annotated = set(zip(images.tolist(), captions.tolist(), strict=True))

    def label(self, pair: Pair) -> tuple[int, str] | None:
        """The label of an image's own caption or of an annotated pair, and which of the two it is; else None."""
        if self._owner[pair[1]] == pair[0]:
            return 1, ORIGINAL
        return (int(self._labels[pair]), LABELLED) if pair in self._annotated and pair in self._labels else None

    def derived(self, pair: Pair) -> int | None:
        """The label derived from ratings of a pair that :meth:`label` does not know; else None."""
        return None if self.label(pair) or pair not in self._labels else int(self._labels[pair])


@dataclass(frozen=True, slots=True, eq=False)
class ManualScores:
    """E@M of every model."""

    results: Mapping[str, Result]
    labels: Sequence[Mapping[str, Any]]
    provenance: Mapping[str, Any]

    @property
    def table(self) -> Table:
        """The console table."""
        rows = [(name, score_cell(result), f"{result.n_queries:,}") for name, result in self.results.items()]
        depth = next(iter(self.results.values())).parameters["k"]
        facts = self.provenance
        notes = [
            f"E@M: percent of the top {depth} captions that are ground truth or entailed, every pair judged by hand",
            f"pairs judged: {facts['pairs']:,}, by {facts['people']:,} people; answers that contradict original links, "
            f"which stay: {facts['against_original_links']}; that override labels derived from ratings: "
            f"{facts['against_derived_labels']}",
        ]
        header = [("",), ("E@M",), ("images",)]
        return Table(header, rows, "Judged by hand", notes=notes, data=describe_data(facts))

    def save(self, path: str | Path) -> Path:
        """Write ``results`` and ``provenance`` as JSON."""
        results = {name: asdict(result) for name, result in self.results.items()}
        return write_json(Path(path), {"schema": SCHEMA, "results": results, "provenance": dict(self.provenance)})

    def save_labels(self, path: str | Path) -> Path:
        """Write all answers as a file of entailment labels, JSON lines."""
        return write_rows(Path(path).with_suffix(".jsonl"), self.labels)


def score_answers(
    answers: str | Path | Iterable[str | Path],
    *,
    form: str | None = None,
    data_dir: str | Path | Library | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> ManualScores:
    """Entail@K of every exported model, by the majority of people's answers.

    Answers override labels derived from ratings; an image's own captions always count as entailed. The provenance
    counts the answers that contradict either.

    Args:
        answers: answered files of one export, beside its ``asked.json``; or a table of an older version, with every
            ``label`` 0 or 1.
        form: format of the files; None to tell it by the suffix of each.
        data_dir: the raw files of the export.
        seed: seed of the bootstrap over images.
        confidence: level of the intervals.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.karpathy("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.karpathy("test").image_ids.tolist()})
        >>> options = {"form": "jsonl", "images": "images/{file_name}", "data_dir": library, "sample": 5}
        >>> file, *_ = export_pairs({"first": run}, tempfile.mkdtemp(), **options, mark_known=False)
        >>> text = file.read_text().replace('"worker": null', '"worker": "ann"')
        >>> _ = file.write_text(text.replace('"answer": null', '"answer": {"describes": true, "follows": false}'))
        >>> score = score_answers(file, data_dir=library).results["first"]
        >>> score.metric, score.n_queries, score.parameters
        ('entail_at_10', 5, {'k': 10, 'unjudged': 'manual'})
    """
    paths = [Path(answers)] if isinstance(answers, str | Path) else [Path(path) for path in answers]
    settings = Settings(seed, confidence)
    beside, about, tops = _read_export(paths)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    entail_task, split = task(about["task"]), about["split"]
    content = entail_task.collection.content(library, split)
    if about["content"] != content.fingerprint:
        raise DataError(
            f"{beside} was exported from the edition {about['data']['edition']!r} of the data, and this is "
            f"{library.edition!r}, with other images or captions. Point --data-dir at the data of the export."
        )
    known = _Known(entail_task, library, split)
    asked = _ask(entail_task, content, list(tops.values()))
    questions = {(question.image_id, question.caption_id): question for sheet in asked.sheets for question in sheet}
    marked = {pair: label[0] for pair in questions if about["known"] == "marked" and (label := known.label(pair))}
    if beside.name == ASKED:
        sheets = [[each for each in sheet if (each.image_id, each.caption_id) not in marked] for sheet in asked.sheets]
        asked = Questionnaire(asked.scheme, sheets)
    reading = read_answers(paths, [asked], form)
    labels = marked | _settle_all(paths, questions, marked, reading.answers, asked.scheme)
    images = np.array(about["images"])
    judged = _judge(images, content, labels)
    results = {name: _score(entail_task, top, judged, settings) for name, top in tops.items()}
    facts = {
        **provenance_of(library, split=split, **settings.facts),
        "export": {name: about[name] for name in ("task", "seed", "depth", "known")},
        "models": {model["name"]: model["run"] for model in about["models"]},
        "images": images.size,
        "pairs": len(labels),
        "people": len(set(reading.answers["worker"].to_pylist())),
        "against_original_links": sum(
            (known.label(pair) or ("", ""))[1] == ORIGINAL and not label for pair, label in labels.items()
        ),
        "against_derived_labels": sum(known.derived(pair) not in (None, label) for pair, label in labels.items()),
    }
    rows = [_describe(questions[pair]) | {"label": label} for pair, label in labels.items()]
    return ManualScores(results, rows, facts)


def _settle_all(
    paths: Sequence[Path],
    questions: Mapping[Pair, Question],
    marked: Mapping[Pair, int],
    answers: pa.Table,
    scheme: Scheme,
) -> dict[Pair, int]:
    """The label of every answered pair; MalformedSource if a pair has neither an answer nor a mark."""
    settled = settle(answers, scheme).to_pylist() if answers.num_rows else []
    labels = {(row["image_id"], row["caption_id"]): int(row["positive"]) for row in settled}
    lacking = [question for pair, question in questions.items() if pair not in labels and pair not in marked]
    if lacking:
        raise MalformedSource(
            ", ".join(map(str, paths)),
            "",
            f"{len(questions) - len(lacking)} of {len(questions)} pairs, without {lacking[0].pair_id}",
            "complete sheets: answer the other pairs, or put missing rows back",
        )
    return labels


def _describe(question: Question) -> dict[str, Any]:
    """A row of a file of entailment labels, without the label."""
    return {
        "pair_id": question.pair_id,
        "image": question.file_name,
        "image_id": question.image_id,
        "premise": list(question.captions),
        "hypothesis": question.caption,
        "caption_id": question.caption_id,
    }


def _read_export(paths: Sequence[Path]) -> tuple[Path, dict[str, Any], dict[str, TopK]]:
    """Read the record beside the answers: its path, its content, and the top captions of every model."""
    beside = paths[0].with_name(ASKED)
    older = paths[0].with_suffix(".json")
    if not beside.is_file() and older.is_file() and older != paths[0]:
        beside = older
    for file in (*paths, beside):
        if not file.is_file():
            advice = "" if file in paths else ". It records the export: put the answers beside it"
            raise DataError(f"{file} is missing{advice}")
    about = require_keys(beside, "", read_json(beside), ("known",))
    check_content(beside, about, EXPORT)
    if about["schema"] != SCHEMA or about["task"] not in TASKS:
        read = f"schema {shown(about['schema'])}, task {shown(about['task'])}"
        raise MalformedSource(beside, "", read, f"an export of this version, schema {SCHEMA}")
    images, tops = np.array(about["images"], dtype=np.int64), {}
    if not images.size or not about["models"]:
        raise MalformedSource(beside, "images, models", "no lists", "the exported lists: restore the file")
    for model in about["models"]:
        lists = model["captions"]
        sizes = {len(captions) for captions in lists}
        if model["name"] in tops or len(lists) != images.size or sizes != {about["depth"]}:
            expected = f"a unique name, and {about['depth']} captions for each of {images.size} images"
            raise MalformedSource(beside, f"model {shown(model['name'])}", "a repeated name, or other lists", expected)
        tops[model["name"]] = TopK(images, np.array(lists))
    return beside, about, tops


def _judge(images: IntArray, content: KarpathySplit, labels: Mapping[Pair, int]) -> Judgments:
    """Judgments from the original links and the answers."""
    linked = np.isin(content.caption_image_ids, images)
    links = Judgments.from_pairs(
        images, content.caption_ids, content.caption_image_ids[linked], content.caption_ids[linked]
    )
    asked, captions = np.array(list(labels)).T
    rows, columns = positions_of(asked, images)[0], positions_of(captions, content.caption_ids)[0]
    return label_pairs(links, rows, columns, np.array(list(labels.values())) == 1)


def _score(entail_task: Task, top: TopK, judged: Judgments, settings: Settings) -> Result:
    """Entail@K of one model; every pair has a label."""
    values = entail_at_k(top, judged, top.depth)
    low = high = None
    if settings.level is not None:
        samples = ClusterBootstrap(top.query_ids, Draws(settings.seed)).means(values[:, None])[0]
        low, high = interval(samples, settings.level)
    return Result(
        entail_task.name,
        "i2t",
        f"entail_at_{top.depth}",
        float(values.mean()),
        values.size,
        low=low,
        high=high,
        coverage=1.0,
        parameters={"k": top.depth, "unjudged": "manual"},
    )
