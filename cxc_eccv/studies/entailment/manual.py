"""Entail@K judged by hand (E@M): what several models retrieve, laid out for people to judge, and what the answers say.

Every pair is asked about once, whichever models retrieve it and wherever they rank it, in an order that tells neither;
by the scheme ``entailment``, a sheet for each image.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

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
from cxc_eccv.studies.asking.schemes import schemes
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
"""What stands beside exported pairs."""

ASKED = "asked.json"
"""The file that says what was exported; older versions called it as the table, with another ending."""

TASKS = ("entailment", "flickr30k_entailment")
LABELS_OF = {"entailment": Library.entailment, "flickr30k_entailment": Library.flickr30k_entailment}
"""Task to the user's file of labels of its collection."""

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

    The images are drawn among those that every model has. Beside the questions stands ``asked.json``, with the models
    and their lists, seed, split and hashes of the data; :func:`score_answers` needs it.

    Args:
        runs: name of each model to its run; all of one collection, COCO or Flickr30k.
        output: folder, which holds no questions yet.
        form: one of :func:`cxc_eccv.studies.asking.exchange.formats`.
        images: as of :func:`cxc_eccv.studies.asking.exchange.find_images`.
        split: ``validation`` or ``test``.
        data_dir: as of :func:`cxc_eccv.evaluate`.
        sample: how many images.
        depth: captions of each image and model.
        seed: of the draws.
        mark_known: do not ask about an image's own captions, nor about pairs that a file of entailment labels has.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.karpathy("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.karpathy("test").image_ids.tolist()})
        >>> options = {"form": "csv", "images": "images/{file_name}", "data_dir": library, "sample": 2}
        >>> [path.name for path in export_pairs({"first": run}, tempfile.mkdtemp(), **options)]
        ['questions.csv', 'instructions.md', 'asked.json']
    """
    folder = Path(output)
    if (folder / ASKED).exists():
        raise InvalidOption(f"{folder / ASKED} is there, and answers may belong to it: name another folder")
    for name, value in (("sample", sample), ("depth", depth)):
        check_whole(name, value)
    check_whole("seed", seed, least=0)
    check_split(split)
    if not runs:
        raise InvalidOption("no run to export; name one or more")
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    own = _task_of(runs, library, split)
    content = own.collection.content(library, split)
    asked = _draw_images(runs, own.judgments(library, split, "i2t"), sample, np.random.default_rng(seed))
    tops, models = _rank_captions(runs, asked, depth)
    about = {
        "schema": SCHEMA,
        "task": own.name,
        **provenance_of(library, split=split, seed=seed),
        "depth": depth,
        "known": "marked" if mark_known else "hidden",
        "content": content.fingerprint,
        "images": asked.query_ids.tolist(),
        "models": models,
    }
    questionnaire = _ask(own, content, list(tops.values()))
    known = _Known(own, library, split)
    sheets = [
        [question for question in sheet if not (mark_known and known.label((question.image_id, question.caption_id)))]
        for sheet in questionnaire.sheets
    ]
    only = [number for number, sheet in enumerate(sheets) if sheet]
    if not only:
        raise InvalidOption("all of these pairs are known, and nothing is left to ask: ask about all (--hide-known)")
    names = {question.file_name for sheet in sheets for question in sheet}
    rows = content.images.to_pylist()
    addresses = find_images(images, names, library, split, None if own.name == TASKS[0] else rows)
    to_ask = Questionnaire(questionnaire.scheme, sheets)
    written = find_format(form).export([to_ask], addresses, folder, only)
    return [*written, write_json(folder / ASKED, about)]


def _task_of(runs: Mapping[str, Run], library: Library, split: str) -> Task:
    """The task on whose collection all runs are."""
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
    """The judgments of some images out of those that every run has."""
    common = np.sort(judged.query_ids)
    for run in runs.values():
        there = run.lists["i2t"].query_ids if isinstance(run, RankingsRun) else run.ids("images")
        common = common[np.isin(common, there)]
    if common.size < wanted:
        raise InvalidOption(
            f"{common.size:,} images of the split are in every run, and {wanted:,} are asked for. Ask for fewer "
            "(--sample), or give runs on the same images."
        )
    chosen = random.choice(common, wanted, replace=False)
    return judged.without(np.setdiff1d(judged.query_ids, chosen), np.empty(0, dtype=np.int64))


def _rank_captions(
    runs: Mapping[str, Run], asked: Judgments, depth: int
) -> tuple[dict[str, TopK], list[dict[str, Any]]]:
    """The top captions of every run, and what is recorded of it."""
    if depth > asked.gallery_ids.size:
        raise InvalidOption(f"depth {depth:,} (--depth): the split has {asked.gallery_ids.size:,} captions")
    tops, models = {}, []
    for name, run in runs.items():
        scoring = choose_similarity(run, similarity=None)
        tops[name] = top_k(run, asked, "i2t", depth, similarity=scoring["similarity"])
        models.append({"name": name, "run": dict(run.facts()), **scoring, "captions": tops[name].ids.tolist()})
    return tops, models


def _ask(own: Task, content: KarpathySplit, tops: Sequence[TopK]) -> Questionnaire:
    """A sheet for each image with every pair once, in the order of a hash, which tells neither model nor rank."""
    prefix = own.collection.name.lower()
    files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    texts = zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)
    captions = {number: " ".join(text.split()) for number, text in texts}
    premises: dict[int, list[str]] = {}
    for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
        premises.setdefault(image, []).append(captions[caption])
    sheets = []
    for place, image in enumerate(tops[0].query_ids.tolist()):
        found = np.unique(np.concatenate([top.ids[place] for top in tops])).tolist()
        if image not in files or not captions.keys() >= set(found):
            raise DataError(f"image {image} or a caption is not in the split at hand: other data was exported")
        found.sort(key=lambda caption, image=image: blake2b(f"{image}-{caption}".encode()).digest())
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
                for caption in found
            ]
        )
    return Questionnaire(schemes()["entailment"], sheets)


class _Known:
    """What the data says of pairs before anybody is asked."""

    def __init__(self, own: Task, library: Library, split: str) -> None:
        judged = own.judgments(library, split, "i2t")
        pairs = zip(judged.query_ids[judged.rows].tolist(), judged.gallery_ids[judged.indices].tolist(), strict=True)
        gains = [] if judged.gains is None else judged.gains.tolist()
        self._labels = dict(zip(pairs, gains, strict=True))
        content = own.collection.content(library, split)
        self._owner = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
        images, captions, _, _ = labels_of_file(content, LABELS_OF[own.name](library, split))
        self._annotated = set(zip(images.tolist(), captions.tolist(), strict=True))

    def label(self, pair: Pair) -> tuple[int, str] | None:
        """Of an image's own caption, or of a pair that was labelled before: the label, and which of the two it is."""
        if self._owner[pair[1]] == pair[0]:
            return 1, ORIGINAL
        return (int(self._labels[pair]), LABELLED) if pair in self._annotated and pair in self._labels else None

    def derived(self, pair: Pair) -> int | None:
        """What is derived from ratings, which is left to be asked."""
        return None if self.label(pair) or pair not in self._labels else int(self._labels[pair])


@dataclass(frozen=True, slots=True, eq=False)
class ManualScores:
    """E@M of every model."""

    results: Mapping[str, Result]
    labels: Sequence[Mapping[str, Any]]
    provenance: Mapping[str, Any]

    @property
    def table(self) -> Table:
        """What the command line prints."""
        rows = [(name, score_cell(result), f"{result.n_queries:,}") for name, result in self.results.items()]
        depth = next(iter(self.results.values())).parameters["k"]
        facts = self.provenance
        notes = [
            f"E@M: percent of the top {depth} captions that are ground truth or entailed, every pair judged by hand",
            f"pairs judged: {facts['pairs']:,}, by {facts['people']:,} people; against original links, which stay: "
            f"{facts['against_original_links']}; against labels derived from ratings, over which they decide: "
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
    """Entail@K of every exported model, by what people answered, the majority of them.

    Their answer decides, whatever is derived from ratings; an image's own captions are entailed in any case. What the
    answers say against either is counted in the provenance.

    Args:
        answers: answered files of one export, in its folder, beside ``asked.json``; or a table that an older version
            exported, with every ``label`` 0 or 1.
        form: of the files; None for that of each one's ending.
        data_dir: the raw files it was exported from.
        seed: of the bootstrap over images behind the intervals.
        confidence: of the intervals.

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
    own, split = task(about["task"]), about["split"]
    content = own.collection.content(library, split)
    if about["content"] != content.fingerprint:
        raise DataError(
            f"{beside} was exported from the edition {about['data']['edition']!r} of the data, and at hand is another: "
            f"{library.edition!r}, with other images or captions. Point --data-dir at what it was exported from."
        )
    known = _Known(own, library, split)
    asked = _ask(own, content, list(tops.values()))
    questions = {(question.image_id, question.caption_id): question for sheet in asked.sheets for question in sheet}
    marked = {pair: label[0] for pair in questions if about["known"] == "marked" and (label := known.label(pair))}
    to_ask = Questionnaire(
        asked.scheme,
        [[own for own in sheet if (own.image_id, own.caption_id) not in marked] for sheet in asked.sheets],
    )
    reading = read_answers(paths, [to_ask if beside.name == ASKED else asked], form)
    labels = dict(marked)
    if reading.answers.num_rows:
        settled = settle(reading.answers, asked.scheme).to_pylist()
        labels |= {(row["image_id"], row["caption_id"]): int(row["positive"]) for row in settled}
    lacking = [question for pair, question in questions.items() if pair not in labels]
    if lacking:
        raise MalformedSource(
            ", ".join(map(str, paths)),
            "",
            f"{len(labels)} of {len(questions)} pairs, without {lacking[0].pair_id}",
            "whole sheets of answers to all pairs that were asked about; answer the others, or put missing rows back",
        )
    images = np.array(about["images"])
    judged = _judge(images, content, labels)
    results = {name: _score(own, top, judged, settings) for name, top in tops.items()}
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


def _describe(own: Question) -> dict[str, Any]:
    """A row of a file of entailment labels, without the label."""
    return {
        "pair_id": own.pair_id,
        "image": own.file_name,
        "image_id": own.image_id,
        "premise": list(own.captions),
        "hypothesis": own.caption,
        "hypothesis_id": own.caption_id,
    }


def _read_export(paths: Sequence[Path]) -> tuple[Path, dict[str, Any], dict[str, TopK]]:
    """What stands beside the answers, and in it the top captions of every model."""
    beside = paths[0].with_name(ASKED)
    older = paths[0].with_suffix(".json")
    if not beside.is_file() and older.is_file() and older != paths[0]:
        beside = older
    for file in (*paths, beside):
        if not file.is_file():
            lacking = "" if file in paths else ", which says what was exported: put the answers beside it"
            raise DataError(f"{file} is missing{lacking}")
    about = require_keys(beside, "", read_json(beside), ("known",))
    check_content(beside, about, EXPORT)
    if about["schema"] != SCHEMA or about["task"] not in TASKS:
        found = f"schema {shown(about['schema'])}, task {shown(about['task'])}"
        raise MalformedSource(beside, "", found, f"what this version's export wrote, schema {SCHEMA}")
    images, tops = np.array(about["images"], dtype=np.int64), {}
    if not images.size or not about["models"]:
        raise MalformedSource(beside, "images, models", "no lists", "lists of what was exported: bring the file back")
    for model in about["models"]:
        lists = model["captions"]
        sizes = {len(captions) for captions in lists}
        if model["name"] in tops or len(lists) != images.size or sizes != {about["depth"]}:
            expected = f"a name of its own, and {about['depth']} captions for each of {images.size} images"
            raise MalformedSource(beside, f"model {shown(model['name'])}", "another one, or other lists", expected)
        tops[model["name"]] = TopK(images, np.array(lists))
    return beside, about, tops


def _judge(images: IntArray, content: KarpathySplit, labels: Mapping[Pair, int]) -> Judgments:
    """Original links, and what was answered of other pairs."""
    own = np.isin(content.caption_image_ids, images)
    owners, owned = content.caption_image_ids[own], content.caption_ids[own]
    links = Judgments.from_pairs(images, content.caption_ids, owners, owned)
    asked, captions = np.array(list(labels)).T
    rows, columns = positions_of(asked, images)[0], positions_of(captions, content.caption_ids)[0]
    return label_pairs(links, rows, columns, np.array(list(labels.values())) == 1)


def _score(own: Task, top: TopK, judged: Judgments, settings: Settings) -> Result:
    """Entail@K of one model; every pair has a label."""
    values = entail_at_k(top, judged, top.depth)
    low = high = None
    if settings.level is not None:
        samples = ClusterBootstrap(top.query_ids, Draws(settings.seed)).means(values[:, None])[0]
        low, high = interval(samples, settings.level)
    return Result(
        own.name,
        "i2t",
        f"entail_at_{top.depth}",
        float(values.mean()),
        values.size,
        low=low,
        high=high,
        coverage=1.0,
        parameters={"k": top.depth, "unjudged": "manual"},
    )
