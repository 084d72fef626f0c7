"""Entail@K judged by hand (E@M): what several models retrieve, laid out for a person to label, and read back.

Every pair is asked about once, whichever models retrieve it and wherever they rank it, in an order that tells neither.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
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
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.sources.reading import check_content, parse_json, parse_number, read_json, read_rows, require_keys, shown
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.tables import Table
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import IntArray, Judgments, Result, TopK, check_whole, positions_of
from cxc_eccv.types.strict_json import MAPPING, TEXT, WHOLE
from cxc_eccv.writing import ROW_FORMATS, refuse_unwritable, write_json, write_rows

__all__ = ["ManualScores", "export_pairs", "score_answers"]

SCHEMA = 1
EXPORT = {
    **dict.fromkeys(("task", "split", "content"), TEXT),
    **dict.fromkeys(("schema", "seed", "depth"), WHOLE),
    "data": {"edition": TEXT},
    "images": [WHOLE],
    "models": [{"name": TEXT, "run": MAPPING, "captions": [[WHOLE]]}],
}
"""What stands beside exported pairs."""

TASKS = ("entailment", "flickr30k_entailment")
LABELS_OF = {"entailment": Library.entailment, "flickr30k_entailment": Library.flickr30k_entailment}
"""Task to the user's file of labels of its collection."""

COLUMNS = ("pair_id", "image", "image_id", "premise", "hypothesis", "hypothesis_id", "label")
"""Those of a file of entailment labels, which an answered file is."""

ASKED = ("image", "image_id", "premise", "hypothesis", "hypothesis_id")
"""What a person answers about, and must not change."""

Pair = tuple[int, int]
"""An image id and a caption id."""


def export_pairs(
    runs: Mapping[str, Run],
    output: str | Path,
    *,
    split: str = "test",
    data_dir: str | Path | Library | None = None,
    sample: int = 50,
    depth: int = 10,
    seed: int = 0,
    mark_known: bool = True,
) -> list[Path]:
    """Write the top captions of some images, as several models rank them, for a person to label.

    The images are drawn among those that every model has. The pairs of an image stand together, images and pairs in an
    order drawn at random. A row has the columns of a file of entailment labels (``pair_id``, ``image``, ``image_id``,
    ``premise``, ``hypothesis``, ``hypothesis_id``, ``label``), white space made single blanks; ``label`` is to be
    filled in: 1 where the image with its captions entails the hypothesis, else 0. With ``mark_known`` a column
    ``known`` says what the data knows of the pair, and an image's own captions, and pairs that a file of entailment
    labels has already, have their label.

    Beside the file, under its name with ``.json``, stands what was exported: models with their lists, seed, split and
    hashes of the data. :func:`score_answers` needs both.

    Args:
        runs: name of each model to its run; all of one collection, COCO or Flickr30k.
        output: ``.csv`` or ``.jsonl`` file that is not there yet.
        split: ``validation`` or ``test``.
        data_dir: as of :func:`cxc_eccv.evaluate`.
        sample: how many images.
        depth: captions of each image and model.
        seed: of the draws.
        mark_known: see above; without it nothing tells a person what others said.

    Returns:
        The two files.

    Raises:
        InvalidOption: no run, runs of different collections, fewer common images or captions than asked for, a file
            that is there.
        RunError: a run lacks captions, or its rankings are too short.
        DataError: a raw file is missing or malformed.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.karpathy("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.karpathy("test").image_ids.tolist()})
        >>> file = Path(tempfile.mkdtemp()) / "pairs.csv"
        >>> [path.name for path in export_pairs({"first": run}, file, data_dir=library, sample=2)]
        ['pairs.csv', 'pairs.json']
        >>> len(file.read_text().splitlines())
        21
    """
    path = _check_output(Path(output))
    for name, value in (("sample", sample), ("depth", depth)):
        check_whole(name, value)
    check_whole("seed", seed, least=0)
    check_split(split)
    if not runs:
        raise InvalidOption("no run to export; name one or more")
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    own = _task_of(runs, library, split)
    content, random = own.collection.content(library, split), np.random.default_rng(seed)
    asked = _draw_images(runs, own.judgments(library, split, "i2t"), sample, random)
    tops, models = _rank_captions(runs, asked, depth)
    pairs = _shuffle(asked.query_ids.tolist(), list(tops.values()), random)
    texts, said = _Texts(own, content), _Known(own, library, split) if mark_known else None
    rows = [texts.row(pair) | ({"label": None} if said is None else said.of(pair)) for pair in pairs]
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
    return [write_rows(path, rows), write_json(_beside(path), about)]


def _check_output(path: Path) -> Path:
    if path.suffix not in ROW_FORMATS:
        raise InvalidOption(f"{path}: pairs are written to {' or '.join(ROW_FORMATS)}; name such a file")
    for file in (path, _beside(path)):
        if file.exists():
            raise InvalidOption(f"{file} is there, and may hold answers: name another file, or remove it")
        refuse_unwritable(file, file=True)
    return path


def _beside(path: Path) -> Path:
    return path.with_suffix(".json")


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
        told = ", ".join(f"{name} is of {task(own).collection.name}" for name, own in about.items())
        raise InvalidOption(f"the runs are of different collections: {told}. Export each collection by itself.")
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


def _shuffle(images: Sequence[int], tops: Sequence[TopK], random: np.random.Generator) -> list[Pair]:
    """Every pair once: images in a random order, and the captions of each."""
    pairs: list[Pair] = []
    for place in random.permutation(len(images)):
        captions = np.unique(np.concatenate([top.ids[place] for top in tops]))
        pairs += [(images[place], caption) for caption in random.permutation(captions).tolist()]
    return pairs


class _Texts:
    """What a person is shown of a pair."""

    def __init__(self, own: Task, content: KarpathySplit) -> None:
        self._prefix = own.collection.name.lower()
        self._files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
        self._texts = {
            number: " ".join(text.split())
            for number, text in zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True)
        }
        self._premises: dict[int, list[str]] = {}
        for caption, image in zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True):
            self._premises.setdefault(image, []).append(self._texts[caption])

    def row(self, pair: Pair) -> dict[str, Any]:
        image, caption = pair
        if image not in self._files or caption not in self._texts:
            raise DataError(f"image {image} or caption {caption} is not in the split at hand: other data was exported")
        return {
            "pair_id": f"{self._prefix}-{image}-{caption}",
            "image": self._files[image],
            "image_id": image,
            "premise": self._premises[image],
            "hypothesis": self._texts[caption],
            "hypothesis_id": caption,
        }


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

    def of(self, pair: Pair) -> dict[str, Any]:
        """``label`` and ``known``: what is derived from ratings is told, and left to be answered."""
        if self._owner[pair[1]] == pair[0]:
            return {"label": 1, "known": "original caption"}
        if pair not in self._labels:
            return {"label": None, "known": ""}
        label = int(self._labels[pair])
        if pair in self._annotated:
            return {"label": label, "known": "labelled before"}
        return {"label": None, "known": f"derived: {'entailed' if label else 'not entailed'}"}


@dataclass(frozen=True, slots=True, eq=False)
class ManualScores:
    """E@M of every model.

    Attributes:
        results: name of each model to its score, with an interval over images.
        labels: rows of a file of entailment labels, all pairs that were answered.
        provenance: what was exported, whose answers contradict what, package and data.
    """

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
            f"pairs judged: {facts['pairs']:,}; against original links, which stay: {facts['against_original_links']}; "
            f"against labels derived from ratings, over which they decide: {facts['against_derived_labels']}",
        ]
        return Table([("",), ("E@M",), ("images",)], rows, "Judged by hand", notes=notes)

    def save(self, path: str | Path) -> Path:
        """Write ``results`` and ``provenance`` as JSON."""
        results = {name: asdict(result) for name, result in self.results.items()}
        return write_json(Path(path), {"schema": SCHEMA, "results": results, "provenance": dict(self.provenance)})

    def save_labels(self, path: str | Path) -> Path:
        """Write all answers as a file of entailment labels, JSON lines."""
        return write_rows(Path(path).with_suffix(".jsonl"), self.labels)


def score_answers(
    answers: str | Path,
    *,
    data_dir: str | Path | Library | None = None,
    seed: int = 0,
    confidence: float = 0.95,
) -> ManualScores:
    """Entail@K of every exported model, by the labels that a person filled in.

    A pair's answer decides, whatever is derived from ratings of it; an image's own captions are entailed in any case.
    What the answers say against either is counted in the provenance.

    Args:
        answers: the exported file with every ``label`` 0 or 1, what was exported beside it (``.json``).
        data_dir: the raw files it was exported from.
        seed: of the bootstrap over images behind the intervals.
        confidence: of the intervals.

    Raises:
        DataError: a label is missing or no 0 or 1, a pair was not exported, is missing or answered twice in different
            ways, a text was changed, or the data is not that of the export. Names the row and what to do.

    Example:
        >>> import tempfile
        >>> from cxc_eccv.runs import RankingsRun
        >>> library = Library("sample")
        >>> captions = library.karpathy("test").caption_ids.tolist()
        >>> run = RankingsRun.from_dicts({image: captions for image in library.karpathy("test").image_ids.tolist()})
        >>> file = Path(tempfile.mkdtemp()) / "pairs.jsonl"
        >>> _ = export_pairs({"first": run}, file, data_dir=library, sample=5, mark_known=False)
        >>> _ = file.write_text(file.read_text().replace('"label": null', '"label": 0'))
        >>> score = score_answers(file, data_dir=library).results["first"]
        >>> score.metric, score.n_queries, score.parameters
        ('entail_at_10', 5, {'k': 10, 'unjudged': 'manual'})
    """
    path, settings = Path(answers), Settings(seed, confidence)
    about, tops = _read_export(path)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    own, split = task(about["task"]), about["split"]
    content = own.collection.content(library, split)
    _check_data(path, about, content, library)
    texts, known = _Texts(own, content), _Known(own, library, split)
    images = np.array(about["images"])
    labels = _read_labels(path, _rows_asked(tops.values(), texts))
    judged = _judge(images, content, labels)
    results = {name: _score(own, top, judged, settings) for name, top in tops.items()}
    said = {pair: known.of(pair)["known"] for pair in labels}
    against = {1: "derived: not entailed", 0: "derived: entailed"}
    facts = {
        **provenance_of(library, split=split, **settings.facts),
        "export": {name: about[name] for name in ("task", "seed", "depth", "known")},
        "models": {model["name"]: model["run"] for model in about["models"]},
        "images": images.size,
        "pairs": len(labels),
        "against_original_links": sum(said[pair] == "original caption" and not labels[pair] for pair in labels),
        "against_derived_labels": sum(said[pair] == against[label] for pair, label in labels.items()),
    }
    return ManualScores(results, [texts.row(pair) | {"label": label} for pair, label in labels.items()], facts)


def _read_export(path: Path) -> tuple[dict[str, Any], dict[str, TopK]]:
    """What stands beside the answers, and in it the top captions of every model."""
    if path.suffix not in ROW_FORMATS:
        raise InvalidOption(f"{path}: answers are read from {' or '.join(ROW_FORMATS)}, as they were exported")
    beside = _beside(path)
    for file in (path, beside):
        if not file.is_file():
            lacking = "" if file == path else f", which says what was exported to {path.name}: keep both together"
            raise DataError(f"{file} is missing{lacking}")
    about = require_keys(beside, "", read_json(beside), ("known",))
    check_content(beside, about, EXPORT)
    if about["schema"] != SCHEMA or about["task"] not in TASKS:
        found = f"schema {shown(about['schema'])}, task {shown(about['task'])}"
        raise MalformedSource(beside, "", found, f"what this version's export wrote, schema {SCHEMA}")
    images, tops = _ids(about["images"]), {}
    if not images.size or not about["models"]:
        raise MalformedSource(beside, "images, models", "no lists", "lists of what was exported: bring the file back")
    for model in about["models"]:
        captions = _ids(model["captions"])
        if model["name"] in tops or captions.shape != (
            images.size,
            about["depth"],
        ):
            expected = f"a name of its own, and {about['depth']} captions for each of {images.size} images"
            raise MalformedSource(beside, f"model {shown(model['name'])}", "another one, or other lists", expected)
        tops[model["name"]] = TopK(images, captions)
    return about, tops


def _ids(found: object) -> IntArray:
    """The ids of a list, or of lists of one length; none of anything else."""
    try:
        ids = np.array(found)
    except ValueError:  # lists of several lengths
        return np.empty(0, dtype=np.int64)
    return ids if ids.dtype.kind == "i" else np.empty(0, dtype=np.int64)


def _check_data(path: Path, about: Mapping[str, Any], content: KarpathySplit, library: Library) -> None:
    """Refuse other images or captions."""
    if about["content"] != content.fingerprint:
        raise DataError(
            f"{path} was exported from the edition {about['data']['edition']!r} of the data, and at hand is another: "
            f"{library.edition!r}, with other images or captions. Point --data-dir at what it was exported from."
        )


def _rows_asked(tops: Iterable[TopK], texts: _Texts) -> dict[str, tuple[Pair, dict[str, Any]]]:
    """Id of every pair that was exported to the pair and its row."""
    pairs = dict.fromkeys(
        (image, caption)
        for top in tops
        for image, captions in zip(top.query_ids.tolist(), top.ids.tolist(), strict=True)
        for caption in captions
    )
    rows = ((pair, texts.row(pair)) for pair in pairs)
    return {row["pair_id"]: (pair, row) for pair, row in rows}


def _read_labels(path: Path, asked: Mapping[str, tuple[Pair, Mapping[str, Any]]]) -> dict[Pair, int]:
    """The label of every pair that was exported."""
    labels: dict[Pair, int] = {}
    places: dict[Pair, str] = {}
    empty: list[str] = []
    for place, record in _records(path):
        pair, label = _pair_of(path, place, record, asked), _label_of(path, place, record)
        if label is None:
            empty.append(place)
        elif labels.setdefault(pair, label) != label:
            told = f"{label}, and {labels[pair]} in {places[pair]}"
            raise MalformedSource(path, f"{place}, label", told, "one answer for a pair: remove one of the rows")
        else:
            places.setdefault(pair, place)
    if empty:
        raise MalformedSource(path, empty[0], f"no label, the first of {len(empty)}", "0 or 1 in every row")
    lacking = [name for name, (pair, _) in asked.items() if pair not in labels]
    if lacking:
        expected = f"all {len(asked)} that were exported; put the missing rows back"
        raise MalformedSource(path, "", f"{len(labels)} pairs, without {lacking[0]!r}", expected)
    return labels


def _pair_of(
    path: Path, place: str, record: Mapping[str, Any], asked: Mapping[str, tuple[Pair, Mapping[str, Any]]]
) -> Pair:
    """The pair of a row that is as it was exported."""
    if not isinstance(record["pair_id"], str) or record["pair_id"] not in asked:
        remedy = "a pair of the export; remove the row, or export again with the runs that retrieve it"
        raise MalformedSource(path, place, f"pair_id {shown(record['pair_id'])}", remedy)
    pair, row = asked[record["pair_id"]]
    for name in ASKED:
        if record[name] != row[name]:
            expected = f"{shown(row[name])}, as it was exported: undo the change"
            raise MalformedSource(path, f"{place}, {name}", shown(record[name]), expected)
    return pair


def _label_of(path: Path, place: str, record: Mapping[str, Any]) -> int | None:
    """0, 1, or None where nothing was answered."""
    label = "" if record["label"] is None else str(record["label"]).strip()
    if label not in ("", "0", "1"):
        raise MalformedSource(path, f"{place}, label", shown(record["label"]), "0 or 1")
    return int(label) if label else None


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place and content of every row."""
    for number, row in read_rows(path, COLUMNS):
        if path.suffix == ".csv":
            ids = {name: parse_number(row[name]) for name in ("image_id", "hypothesis_id")}
            row = {**row, **ids, "premise": parse_json(row["premise"], path, number)}
        yield f"line {number}", row


def _own_links(images: IntArray, content: KarpathySplit) -> Judgments:
    own = np.isin(content.caption_image_ids, images)
    return Judgments.from_pairs(images, content.caption_ids, content.caption_image_ids[own], content.caption_ids[own])


def _judge(images: IntArray, content: KarpathySplit, labels: Mapping[Pair, int]) -> Judgments:
    """Original links, and what was answered of other pairs."""
    links = _own_links(images, content)
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
