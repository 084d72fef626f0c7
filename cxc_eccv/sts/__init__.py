"""Semantic textual similarity (STS): correlates a text encoder's similarities with human scores."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from scipy.stats import pearsonr, spearmanr

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.evaluation.report import make_provenance
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import SentencePairs, read_semeval, read_sick, read_stsb
from cxc_eccv.statistics import fisher_interval
from cxc_eccv.statistics.agreement import GUARD_DIGITS
from cxc_eccv.sts.classifiers import CrossEntropyClassifier, SentEvalClassifier, Vectors
from cxc_eccv.tables import Table, tables_to_markdown
from cxc_eccv.terminal import markdown_text
from cxc_eccv.types import Embeddings, FloatArray, json_records
from cxc_eccv.types.provenance import Provenance

__all__ = ["FittedPerTask", "StsReport", "evaluate_sts"]

SUBTASKS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "sts2012": ("msrpar", "msrvid", "smteuroparl", "onwn", "smtnews"),
        "sts2013": ("fnwn", "headlines", "onwn"),
        "sts2014": ("deft_forum", "deft_news", "headlines", "images", "onwn", "tweet_news"),
        "sts2015": ("answers_forums", "answers_students", "belief", "headlines", "images"),
        "sts2016": ("answer_answer", "headlines", "plagiarism", "postediting", "question_question"),
    }
)
"""Task to its subtasks, in the order of the paper's Table 1; the licence of SMT of 2013 forbids its use."""

SPLITS: Mapping[str, tuple[str, str, str]] = MappingProxyType(
    {"stsb": ("stsb_train", "stsb_dev", "stsb_test"), "sick": ("sick_train", "sick_trial", "sick_test")}
)
"""Task with a classifier to its files: training, development, test."""

TASKS = (*SUBTASKS, *SPLITS)


def task_names(names: Iterable[str] | None) -> list[str]:
    """The named tasks without repeats, by default all; raises UnknownName."""
    wanted = list(dict.fromkeys(TASKS if names is None else names))
    for name in wanted:
        if name not in TASKS:
            raise UnknownName("STS task", name, TASKS)
    return wanted


def subtask_pairs(library: Library, task: str, subtask: str) -> SentencePairs:
    """The scored pairs of a subtask of STS 2012-2016."""
    if (task, subtask) != ("sts2012", "msrvid"):
        return library.read(f"{task}_{subtask}", read_semeval)
    parts = [library.read(name, read_stsb).of("MSRvid", "2012test") for name in SPLITS["stsb"]]
    return SentencePairs(pa.concat_tables([part.table for part in parts]), sum(part.unscored for part in parts))


def supervised_pairs(library: Library, task: str) -> tuple[SentencePairs, SentencePairs, SentencePairs]:
    """Training, development and test pairs of the STS Benchmark or of SICK."""
    train, dev, test = (library.read(name, read_stsb if task == "stsb" else read_sick) for name in SPLITS[task])
    return train, dev, test


def task_texts(library: Library, task: str) -> list[str]:
    """The distinct sentences of all subtasks or splits of a task, in the order of its files."""
    subtasks = SUBTASKS.get(task)
    parts = [subtask_pairs(library, task, name) for name in subtasks] if subtasks else supervised_pairs(library, task)
    return list(dict.fromkeys(text for part in parts for text in (*part.left, *part.right)))


TITLES = {"stsb": "STS Benchmark", "sick": "SICK relatedness", "sts": "STS 2012-2016 together"}
HEADER = ("", "pairs", "Pearson", "interval", "Spearman", "not scored")


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a task's table."""

    name: str  # subtask or aggregate: mean, weighted_mean, all, cosine, classifier
    pearson: float  # in [-1, 1]
    spearman: float
    pairs: int  # pairs with a human score
    low: float | None = None  # interval of ``pearson``; None for means of correlations
    high: float | None = None
    unscored: int = 0  # pairs without a human score, which are left out


@dataclass(frozen=True, slots=True, eq=False)
class StsReport:
    """All tasks of one model."""

    tasks: Mapping[str, Sequence[Row]]
    provenance: Provenance

    def row(self, task: str, name: str) -> Row:
        """One row by name."""
        return next(row for row in self.tasks[task] if row.name == name)


def title(task: str) -> str:
    """The heading of a task, such as ``STS 2014``."""
    return TITLES.get(task, f"STS {task.removeprefix('sts')}")


def list_tables(report: StsReport) -> list[Table]:
    """A table per task; correlations times 100, as in the field's papers."""
    header, data = (
        [(heading,) for heading in HEADER],
        describe_data(report.provenance.data, report.provenance.split, ""),
    )
    return [
        Table(header, list(map(_table_row, rows)), f"{title(task)}, times 100", data=data)
        for task, rows in report.tasks.items()
    ]


def _table_row(row: Row) -> list[str]:
    return [
        row.name.replace("_", " "),
        f"{row.pairs:,}",
        f"{100 * row.pearson:.1f}",
        "" if row.low is None or row.high is None else f"{100 * row.low:.1f} to {100 * row.high:.1f}",
        f"{100 * row.spearman:.1f}",
        f"{row.unscored:,}" if row.unscored else "",
    ]


def list_notes(report: StsReport) -> list[str]:
    """What a baseline was fitted on, and a line for each raw file that differs from the catalog's."""
    fitted = report.provenance.others.get("fitted_on")
    return ([f"Fitted on {fitted}."] if fitted else []) + [
        f"Modified data: {name} has sha256 {file.found}, expected {file.expected}."
        for name, file in report.provenance.data.modified.items()
    ]


def to_markdown(report: StsReport) -> str:
    """The tables, and what they were computed from."""
    head = f"# Semantic textual similarity: {markdown_text(report.provenance.model or 'a model')}"
    return "\n\n".join([head, *map(markdown_text, list_notes(report)), tables_to_markdown(list_tables(report))])


def to_json(report: StsReport) -> str:
    """``{"schema": 1, "tasks": {task: [row, ...]}, "provenance": {...}}``."""
    tasks = {task: [asdict(row) for row in rows] for task, rows in report.tasks.items()}
    return (
        json.dumps({"schema": 1, "tasks": tasks, "provenance": json_records.to_json(report.provenance)}, indent=2)
        + "\n"
    )


Encoder = Callable[[Sequence[str]], Vectors]  # N texts to (N, D) vectors

GRADES = {"stsb": (0, 5), "sick": (1, 5)}  # Task with a classifier to its lowest and highest grade


@dataclass(frozen=True, slots=True)
class FittedPerTask:
    """A text encoder that is fitted to the distinct sentences of each task, without their scores."""

    fit: Callable[[Sequence[str]], Encoder]


def evaluate_sts(
    encoder: Encoder | FittedPerTask,
    library: Library,
    tasks: Iterable[str] | None = None,
    *,
    model: str = "a text encoder",
    confidence: float = 0.95,
    classifier: bool = True,
    fitted_on: str | None = None,
) -> StsReport:
    """Correlate a text encoder's similarities with human scores.

    STS 2012-2016: Pearson correlation of cosines and scores by subtask. ``mean`` and ``weighted_mean`` (by pairs)
    average the subtasks; ``all`` is one correlation over the pairs of all subtasks, which most papers after SentEval
    report. STS Benchmark and SICK: cosines on the test part, and a classifier on the frozen vectors, as in SentEval.

    Args:
        encoder: maps texts to vectors, or returns such an encoder for the sentences of a task.
        library: the raw sources.
        tasks: ``sts2012`` to ``sts2016``, ``stsb``, ``sick``; None for all.
        model: name in the report.
        confidence: confidence level of the intervals.
        classifier: whether to train classifiers for the STS Benchmark and SICK, beside their cosines.
        fitted_on: the source of the encoder's vocabulary and weights, for the report.

    Raises:
        UnknownName: a task is unknown.
        DataError: a raw file is missing or malformed.
        InvalidOption: the encoder is a character GRU that was trained on nothing but COCO's captions as tokens.
        MalformedRun: vectors are not one per text, not finite, too small for float32 or zero; or all similarities are
            equal.
    """
    if hasattr(encoder, "require_sentences"):  # a model of this package, which may know COCO's tokens alone
        encoder.require_sentences()
    rows: dict[str, list[Row]] = {}
    for task in task_names(tasks):
        fitted_encoder = encoder.fit(task_texts(library, task)) if isinstance(encoder, FittedPerTask) else encoder
        if task in SUBTASKS:
            rows[task] = _evaluate_subtasks(fitted_encoder, library, task, confidence)
        else:
            rows[task] = _evaluate_test_part(fitted_encoder, library, task, confidence, classifier)
    if set(SUBTASKS) <= set(rows):
        rows["sts"] = _means([row for task in SUBTASKS for row in rows[task] if row.name in SUBTASKS[task]])
    fitted = {} if fitted_on is None else {"fitted_on": fitted_on}
    facts = Provenance(model=model, confidence=confidence, others=fitted)
    return StsReport(rows, make_provenance(library, facts=facts))


def _evaluate_subtasks(encoder: Encoder, library: Library, task: str, confidence: float) -> list[Row]:
    rows, predicted, scores = [], [], []
    for subtask in SUBTASKS[task]:
        pairs = subtask_pairs(library, task, subtask)
        predicted.append(cosines(*_encode(encoder, pairs)))
        scores.append(pairs.scores)
        rows.append(correlate(subtask, predicted[-1], scores[-1], confidence, pairs.unscored))
    unscored = sum(row.unscored for row in rows)
    together = correlate("all", np.concatenate(predicted), np.concatenate(scores), confidence, unscored)
    return [*rows, *_means(rows), together]


def _means(rows: Sequence[Row]) -> list[Row]:
    sizes = [row.pairs for row in rows]
    unscored = sum(row.unscored for row in rows)
    means = []
    for name, weights in (("mean", None), ("weighted_mean", sizes)):
        pearson, spearman = (
            float(np.average(values, weights=weights))
            for values in ([row.pearson for row in rows], [row.spearman for row in rows])
        )
        means.append(Row(name, pearson, spearman, sum(sizes), unscored=unscored))
    return means


def _evaluate_test_part(
    encoder: Encoder, library: Library, task: str, confidence: float, classifier: bool
) -> list[Row]:
    train, dev, test = supervised_pairs(library, task)
    tested = _encode(encoder, test)
    rows = [correlate("cosine", cosines(*tested), test.scores, confidence)]
    if classifier:
        learnt, selecting = ((pair_features(*_encode(encoder, part)), part.scores) for part in (train, dev))
        models: Mapping[str, SentEvalClassifier | CrossEntropyClassifier] = {
            "classifier": SentEvalClassifier.fit(learnt, selecting),
            "cross_entropy_classifier": CrossEntropyClassifier.fit(learnt, selecting, *GRADES[task]),
        }
        features = pair_features(*tested)
        rows += [correlate(name, model.predict(features), test.scores, confidence) for name, model in models.items()]
    return rows


def _encode(encoder: Encoder, pairs: SentencePairs) -> tuple[Vectors, Vectors]:
    texts = pairs.left + pairs.right
    # Each distinct text is encoded once, so that equal texts have equal vectors.
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    encoded = encoder(list(places))
    try:
        vectors = Embeddings(np.arange(len(places)), encoded).vectors
    except MalformedRun as error:
        reason = str(error).removeprefix("embeddings, vectors: ")
        raise MalformedRun(f"the encoder's vectors of {len(places)} texts, whose ids count from 0: {reason}") from None
    zero = np.flatnonzero(~vectors.any(axis=1))
    if zero.size:
        first = list(places)[zero[0]]
        raise MalformedRun(
            f"the encoder returned the zero vector, which has no cosine, for {zero.size} of {len(places)} texts, the "
            f"first: {first!r:.80}"
        )
    rows = vectors[[places[text] for text in texts]]
    return rows[: len(pairs.left)], rows[len(pairs.left) :]


def cosines(left: Vectors, right: Vectors) -> FloatArray:
    """(N,) cosines of pairs of nonzero rows."""
    a, b = left.astype(np.float64), right.astype(np.float64)
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return np.asarray((a * b).sum(axis=1) / norms)


def correlate(name: str, predicted: FloatArray, scores: FloatArray, confidence: float = 0.95, unscored: int = 0) -> Row:
    """Correlations of (N,) predictions of a model with (N,) human scores.

    Predictions are ranked by ``GUARD_DIGITS`` decimals, as equal cosines of different vectors differ in their last bit.
    """
    if not np.isfinite(predicted).all():
        raise MalformedRun("the model's similarities contain NaN or infinite values; check its output")
    ordered = np.round(predicted, GUARD_DIGITS)
    if np.ptp(ordered) == 0:
        raise MalformedRun(f"the model gave all {predicted.size} pairs the same similarity; correlation is undefined")
    r = min(1.0, max(-1.0, float(pearsonr(predicted, scores).statistic)))
    low, high = fisher_interval(r, predicted.size, confidence)
    spearman = float(spearmanr(ordered, scores).statistic)
    return Row(name, r, spearman, predicted.size, low, high, unscored)


def pair_features(left: Vectors, right: Vectors) -> Vectors:
    """(N, 2 D) ``|u - v|`` and ``u * v``, side by side."""
    return np.concatenate([np.abs(left - right), left * right], axis=1, dtype=np.float32)
