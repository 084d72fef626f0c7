"""Entail@K by hand, the paper's E@M: ask people about what several models retrieve, and score the models.

People are asked once about every pair by the scheme ``entailment``, on a sheet for each image, in an order that reveals
neither model nor rank. ``asked.json`` beside the questions records the export; the answers lie beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.make_report import make_provenance
from cxc_eccv.evaluation.plan import collections_held
from cxc_eccv.evaluation.request import check_split
from cxc_eccv.judgments.evidence.source import labels_of_file
from cxc_eccv.judgments.merging import label_pairs
from cxc_eccv.metrics.entail_at_k import entail_at_k
from cxc_eccv.presentation import ShownResult
from cxc_eccv.ranking import ranked
from cxc_eccv.registry import task
from cxc_eccv.runs import Run
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.reading import check_content, read_json, require_keys, shown
from cxc_eccv.statistics import Draws, Intervals, bootstrap_mean
from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.formats import find_format
from cxc_eccv.studies.asking.image_addresses import find_images
from cxc_eccv.studies.asking.questionnaire import Handout, describe_questions
from cxc_eccv.studies.asking.questions import CANDIDATE, PAIR, Question, Questionnaire, ask
from cxc_eccv.studies.asking.schemes import Scheme, schemes
from cxc_eccv.studies.asking.settling import settle
from cxc_eccv.studies.entailment.mean_scores import TASKS
from cxc_eccv.tables import Table
from cxc_eccv.tasks.task import Task
from cxc_eccv.types import Judgments, Result, TopK, check_whole, find_positions
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.strict_json import MAPPING, TEXT, WHOLE, Json, JsonObject
from cxc_eccv.wording import score_cell
from cxc_eccv.writing import write_json, write_rows

BY_HAND_SCHEMA = 1

SEED = 0
CONFIDENCE = 0.95
"""Of the bootstrap over images."""

ASKED = "asked.json"
"""The record of an export."""

EXPORT = {
    **dict.fromkeys(("task", "split", "content"), TEXT),
    **dict.fromkeys(("schema", "seed", "depth"), WHOLE),
    "data": {"edition": TEXT},
    "images": [WHOLE],
    "models": [{"name": TEXT, "run": MAPPING, "captions": [[WHOLE]]}],
}
"""The structure of ``asked.json``."""


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

    The images are drawn from those that every model has. ``depth`` is the number of captions of each image and model.
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
    entail_task = _find_task(runs, library, split)
    content = library.split(split, entail_task.collection)
    drawn = _draw_images(runs, entail_task.judgments(content, "i2t"), sample, np.random.default_rng(seed))
    tops, models = _rank_captions(runs, drawn, depth)
    questionnaire = make_questionnaire(entail_task, content, tops.values())
    if not ask_known:
        questionnaire = leave_out_known(questionnaire, find_labels(entail_task, content, questionnaire))
    only = [number for number, sheet in enumerate(questionnaire.sheets) if sheet]
    if not only:
        raise InvalidOption("all of these pairs are labelled already; to ask about them too, give --ask-known")
    names = {question.file_name for question in chain.from_iterable(questionnaire.sheets)}
    addresses = find_images(images, names, content)
    questions = describe_questions([questionnaire], addresses, only)
    written = find_format(form).export(folder, questions, Handout(questionnaire.scheme))
    record = {
        "schema": BY_HAND_SCHEMA,
        "task": entail_task.name,
        **to_json(make_provenance(library, split, Provenance(seed=seed))),
        "depth": depth,
        "known": "hidden" if ask_known else "marked",
        "content": content.fingerprint,
        "images": drawn.query_ids.tolist(),
        "models": models,
    }
    return [*written, write_json(folder / ASKED, record)]


def _find_task(runs: Mapping[str, Run], library: Library, split: str) -> Task:
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
    drawn = random.choice(common, wanted, replace=False)
    return judged.without(np.setdiff1d(judged.query_ids, drawn), np.empty(0, dtype=np.int64))


def _rank_captions(runs: Mapping[str, Run], drawn: Judgments, depth: int) -> tuple[dict[str, TopK], list[JsonObject]]:
    """The top captions and the record of every run."""
    if depth > drawn.gallery_ids.size:
        raise InvalidOption(f"depth {depth:,} (--depth): the split has only {drawn.gallery_ids.size:,} captions")
    tops: dict[str, TopK] = {}
    models: list[JsonObject] = []
    for name, run in runs.items():
        ranker = ranked(run)
        tops[name] = ranker.find_top(drawn, "i2t", depth)
        captions = tops[name].ids.tolist()
        models.append({"name": name, "run": to_json(run.facts()), **ranker.scoring, "captions": captions})
    return tops, models


def make_questionnaire(entail_task: Task, split: Split, tops: Iterable[TopK]) -> Questionnaire:
    """A sheet for each image with every pair once, in the order of a hash, which reveals neither model nor rank."""
    lists = []
    for top in tops:
        numbers = np.repeat(np.arange(top.query_ids.size), top.depth)
        lists.append(pd.DataFrame({"sheet": numbers, PAIR[0]: top.query_ids[numbers], PAIR[1]: top.ids.ravel()}))
    pairs = pd.concat(lists).drop_duplicates()
    pairs["hash"] = [blake2b(f"{image}-{caption}".encode()).digest() for image, caption in pairs[PAIR].to_numpy()]
    pairs = pairs.sort_values(["sheet", "hash"])
    collection = entail_task.collection.name
    pairs["pair_id"] = [f"{collection}-{image}-{caption}" for image, caption in pairs[PAIR].to_numpy()]
    pairs["role"] = CANDIDATE
    questions = ask(split, pairs, all_captions=True)
    sheets: list[list[Question]] = [[] for _ in range(pairs["sheet"].max() + 1)]
    for number, question in zip(pairs["sheet"], questions, strict=True):
        sheets[number].append(question)
    return Questionnaire(schemes()["entailment"], sheets)


def find_labels(entail_task: Task, split: Split, questionnaire: Questionnaire) -> pd.DataFrame:
    """What the data says about the pairs of a questionnaire, in their order.

    Returns:
        A row per pair: ``image_id``, ``caption_id``; ``label``, 1 or 0, or NaN if the data has none; ``is_original``,
        whether the caption is the image's own; and ``is_known``, whether it is that, or a file of entailment labels has
        the pair. Other labels are derived from ratings.
    """
    judged = entail_task.judgments(split, "i2t")
    labels = pd.DataFrame(
        {
            "image_id": judged.query_ids[judged.rows],
            "caption_id": judged.gallery_ids[judged.indices],
            "label": np.nan if judged.gains is None else judged.gains,
        }
    )
    images, captions, _, _ = labels_of_file(split, split.entailment())
    annotated = pd.MultiIndex.from_arrays([images, captions])
    questions = chain.from_iterable(questionnaire.sheets)
    pairs = pd.DataFrame([(question.image_id, question.caption_id) for question in questions], columns=PAIR)
    pairs = pairs.merge(labels, how="left", on=PAIR, validate="many_to_one")
    pairs["is_original"] = split.owners_of(pairs["caption_id"].to_numpy()) == pairs["image_id"]
    is_annotated = pd.MultiIndex.from_frame(pairs[PAIR]).isin(annotated)
    pairs["is_known"] = pairs["is_original"] | (is_annotated & pairs["label"].notna())
    pairs.loc[pairs["is_original"], "label"] = 1.0
    return pairs


def leave_out_known(questionnaire: Questionnaire, labels: pd.DataFrame) -> Questionnaire:
    """The questions about the pairs that :func:`find_labels` does not know."""
    known = set(labels.loc[labels["is_known"], PAIR].itertuples(index=False, name=None))

    def keep_unknown(sheet: Sequence[Question]) -> list[Question]:
        return [question for question in sheet if (question.image_id, question.caption_id) not in known]

    return Questionnaire(questionnaire.scheme, list(map(keep_unknown, questionnaire.sheets)))


def score_answers(
    answers: str | Path | Iterable[str | Path],
    *,
    form: str | None = None,
    workers: Sequence[str] | None = None,
    data_dir: str | Path | Library | None = None,
) -> ManualScores:
    """Entail@K of every exported model, by the majority of people's answers.

    Answers override labels derived from ratings; an image's own captions always count as entailed. The provenance
    counts the answers that contradict either. The answered files of one export lie beside its ``asked.json``; their
    ``form`` is told by the suffix of each if it is None, and ``workers`` are the persons of files that name nobody.
    """
    paths = [Path(answers)] if isinstance(answers, str | Path) else [Path(path) for path in answers]
    record_file, record = _read_record(paths)
    library = data_dir if isinstance(data_dir, Library) else Library(data_dir)
    entail_task = task(record["task"])
    split = library.split(record["split"], entail_task.collection)
    if record["content"] != split.fingerprint:
        raise DataError(
            f"{record_file} was exported from the edition {record['data']['edition']!r} of the data, and this is "
            f"{library.edition!r}, with other images or captions. Point --data-dir at the data of the export."
        )
    images = np.array(record["images"], dtype=np.int64)
    tops = {model["name"]: TopK(images, np.array(model["captions"])) for model in record["models"]}
    exported = make_questionnaire(entail_task, split, tops.values())
    pairs = find_labels(entail_task, split, exported)
    questionnaire = leave_out_known(exported, pairs) if record["known"] == "marked" else exported
    reading = read_answers(paths, [questionnaire], form, workers=workers)
    marked = pairs[pairs["is_known"] & (record["known"] == "marked")]
    decided = pd.concat([marked[[*PAIR, "label"]], _settle(reading.answers, questionnaire.scheme)])
    decided = decided.astype(np.int64)
    questions = {(each.image_id, each.caption_id): each for each in chain.from_iterable(exported.sheets)}
    _refuse_unanswered(paths, questions, decided)
    compared = decided.merge(pairs, on=PAIR, suffixes=("", "_of_data"), validate="one_to_one")
    is_derived = ~compared["is_known"] & compared["label_of_data"].notna()
    facts: JsonObject = {
        "export": {name: record[name] for name in ("task", "seed", "depth", "known")},
        "models": {model["name"]: model["run"] for model in record["models"]},
        "images": images.size,
        "pairs": len(decided),
        "people": reading.answers["worker"].nunique(),
        "against_original_links": int((compared["is_original"] & (compared["label"] == 0)).sum()),
        "against_derived_labels": int((is_derived & (compared["label"] != compared["label_of_data"])).sum()),
    }
    judgments = _judge(tops, split, decided)
    results = {name: _score(entail_task, top, judgments) for name, top in tops.items()}
    rows = [
        _describe(questions[image, caption]) | {"label": label}
        for image, caption, label in decided[[*PAIR, "label"]].itertuples(index=False)
    ]
    intervals = Intervals(confidence=CONFIDENCE, seed=SEED)
    provenance = make_provenance(library, split.name, intervals.record(Provenance(others=facts)))
    return ManualScores(results, rows, provenance)


def _read_record(paths: Sequence[Path]) -> tuple[Path, dict[str, Any]]:
    """Read and check the record of the export beside the answers: its path and its content."""
    file = paths[0].with_name(ASKED)
    for path in (*paths, file):
        if not path.is_file():
            advice = "" if path in paths else ". It records the export: put the answers beside it"
            raise DataError(f"{path} is missing{advice}")
    record = require_keys(file, "", read_json(file), ("known",))
    check_content(file, record, EXPORT)
    if record["schema"] != BY_HAND_SCHEMA or record["task"] not in TASKS:
        read = f"schema {shown(record['schema'])}, task {shown(record['task'])}"
        raise MalformedSource(file, "", read, f"an export of this version, schema {BY_HAND_SCHEMA}")
    n_images = len(record["images"])
    if not n_images or not record["models"]:
        raise MalformedSource(file, "images, models", "no lists", "the exported lists: restore the file")
    names = set()
    for model in record["models"]:
        sizes = {len(captions) for captions in model["captions"]}
        if model["name"] in names or len(model["captions"]) != n_images or sizes != {record["depth"]}:
            expected = f"a unique name, and {record['depth']} captions for each of {n_images} images"
            raise MalformedSource(file, f"model {shown(model['name'])}", "a repeated name, or other lists", expected)
        names.add(model["name"])
    return file, record


def _settle(answers: pd.DataFrame, scheme: Scheme) -> pd.DataFrame:
    """Image, caption and label of every answered pair."""
    if answers.empty:
        return pd.DataFrame(columns=[*PAIR, "label"])
    settled = settle(answers, scheme).select([*PAIR, "positive"]).to_pandas()
    return settled.rename(columns={"positive": "label"})


def _refuse_unanswered(
    paths: Sequence[Path], questions: Mapping[tuple[int, int], Question], decided: pd.DataFrame
) -> None:
    """Raise MalformedSource if a pair has no label."""
    answered = set(decided[PAIR].itertuples(index=False, name=None))
    lacking = [question for pair, question in questions.items() if pair not in answered]
    if lacking:
        raise MalformedSource(
            ", ".join(map(str, paths)),
            "",
            f"{len(questions) - len(lacking)} of {len(questions)} pairs, without {lacking[0].pair_id}",
            "complete sheets: answer the other pairs, or put missing rows back",
        )


def _judge(tops: Mapping[str, TopK], split: Split, decided: pd.DataFrame) -> Judgments:
    """Judgments from the original links and the answers."""
    images = next(iter(tops.values())).query_ids
    linked = np.isin(split.caption_image_ids, images)
    links = Judgments.from_pairs(images, split.caption_ids, split.caption_image_ids[linked], split.caption_ids[linked])
    rows = find_positions(decided["image_id"].to_numpy(), images)[0]
    columns = find_positions(decided["caption_id"].to_numpy(), split.caption_ids)[0]
    return label_pairs(links, rows, columns, decided["label"].to_numpy() == 1)


def _score(entail_task: Task, top: TopK, judged: Judgments) -> Result:
    """Entail@K of one model; every pair has a label."""
    values = entail_at_k(top, judged, top.depth)
    estimate = bootstrap_mean(values, top.query_ids, Draws(SEED), CONFIDENCE)
    return Result(
        task=entail_task.name,
        direction="i2t",
        metric=f"entail_at_{top.depth}",
        value=estimate.value,
        n_queries=values.size,
        low=estimate.low,
        high=estimate.high,
        interval_method="bootstrap",
        coverage=1.0,
        parameters={"k": top.depth, "unjudged": "manual"},
    )


def _describe(question: Question) -> dict[str, Json]:
    """A row of a file of entailment labels, without the label."""
    return {
        "pair_id": question.pair_id,
        "image": question.file_name,
        "image_id": question.image_id,
        "premise": list(question.captions),
        "hypothesis": question.caption,
        "caption_id": question.caption_id,
    }


@dataclass(frozen=True, slots=True, eq=False)
class ManualScores(ShownResult):
    """E@M of every model."""

    results: Mapping[str, Result]
    labels: Sequence[JsonObject]
    provenance: Provenance

    @property
    def title(self) -> str:
        """What the page is called."""
        return "Entail@K by hand"

    def tables(self) -> list[Table]:
        """A row per model."""
        rows = [(name, score_cell(result), f"{result.n_queries:,}") for name, result in self.results.items()]
        depth = next(iter(self.results.values())).parameters["k"]
        facts = self.provenance.others
        notes = [
            f"E@M: percent of the top {depth} captions that are ground truth or entailed, every pair judged by hand",
            f"pairs judged: {facts['pairs']:,}, by {facts['people']:,} people; unused answers against original links: "
            f"{facts['against_original_links']}; answers that replace labels from ratings: "
            f"{facts['against_derived_labels']}",
        ]
        header = [("",), ("E@M",), ("images",)]
        data = describe_data(self.provenance.data, self.provenance.split)
        return [Table(header, rows, "Judged by hand", notes=notes, data=data)]

    def record(self) -> dict[str, object]:
        """The results and the provenance."""
        results = {name: asdict(result) for name, result in self.results.items()}
        return {"schema": BY_HAND_SCHEMA, "results": results, "provenance": to_json(self.provenance)}

    def save_labels(self, path: str | Path) -> Path:
        """Write all answers as a file of entailment labels, JSON lines."""
        return write_rows(Path(path).with_suffix(".jsonl"), self.labels)
