"""An appraisal of sets of labels, and how it is shown."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar, cast

from cxc_eccv.presentation import Section, ShownResult, list_facts
from cxc_eccv.sources.catalog import describe_data
from cxc_eccv.statistics import Estimate
from cxc_eccv.studies.annotation.label_quality.bias import Biases, BiasOfSet
from cxc_eccv.studies.annotation.label_quality.diversity import DEPTH, Likeness
from cxc_eccv.studies.annotation.label_quality.preferences import Strength
from cxc_eccv.studies.annotation.label_quality.sets import Multiplicity
from cxc_eccv.tables import MISSING, Cell, Table, interval_cell
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.result import group_by_reason

APPRAISAL_SCHEMA = 1

SECTIONS = {
    "counts": "How many positives",
    "worth": "Precision and recall",
    "bias": "Annotator bias",
    "diversity": "Diversity of the models",
    "preferences": "Preferences",
}
"""Anchor of each section to its title, in order."""

METRICS = {"recall_at_1": "R@1", "r_precision": "R-Precision"}
ITEMS = {"t2i": "images", "i2t": "captions"}

SEEN = (
    "Over the pairs that {name} judged. Precision: over queries with a labelled positive among them. Recall: over "
    "those that also have a verified positive. Left out: queries without such a labelled positive. Sets that include "
    "{name} are not shown."
)
UNSEEN = (
    "{name} lists only positives, without the pairs that people rejected. So precision is unknown, and "
    "recall is the share of {name}'s positives. Sets that include {name} are not shown."
)
KNOWN = (
    "{n:,} proposed pairs that were known to match count as verified for recall, but not for precision, since nobody "
    "was asked about them. Queries are those that a model proposed items for."
)
PARTS = {"all": "bias", "own": "self-bias", "others": "non-self-bias"}
LIKE = {
    "correlation": (
        "Kendall's tau-b",
        "Of the scores of all items of a query, with ties; a model that gives all of them one score has none.",
    ),
    "place": (
        "Mean rank of the row's first item in the column's list",
        "Over the queries where it is in the column's top {depth}; the next table has their share.",
    ),
    "found": ("Queries where the row's first item is in the column's top {depth}", ""),
}


LEADS = {
    "counts": (
        "A query has several matches, and most sets of labels have few of them. The tables count the items that each "
        "set calls positive for a query."
    ),
    "worth": (
        "Precision is the share of a set's positives that people confirmed. Recall is the share of confirmed positives "
        "that the set has. Both are means over queries."
    ),
    "bias": (
        "People verify what models propose, so labels favour these models. The tables compare scores on the labels of "
        "some models' proposals with scores on the labels of all."
    ),
    "diversity": (
        "Models that rank alike propose the same pairs. The tables compare the order of their top items, and the rank "
        "that one model gives to another's first item."
    ),
    "preferences": "Strengths that make people's choices most likely.",
}


@dataclass(frozen=True, slots=True)
class SetQuality:
    """A row of Table 2: a set of labels compared with verified pairs."""

    verified: str  # the source of verdicts
    labels: str  # the set
    direction: str
    precision: Estimate | None  # of measure_labels; None if no query has one
    recall: Estimate | None
    n_precision: int  # queries with a precision
    n_recall: int
    n_unlabelled: int  # queries left out of both
    n_unverified: int  # queries left out of recall only
    asked: bool  # whether the pairs that people were asked about are known, which precision needs
    n_known: int  # verified pairs that were known to match and not asked about
    queries: str | None = None  # the source whose queries were measured, or None for all


@dataclass(frozen=True, slots=True)
class SetCounts:
    """A row of Table 3: the positives of a set of labels."""

    labels: str  # the set
    direction: str  # i2t counts positive captions, t2i positive images
    counts: Multiplicity
    mean: Estimate  # R of the queries with a positive
    times_original: float  # positives per link of COCO


@dataclass(frozen=True, slots=True)
class Appraisal(ShownResult):
    """All numbers of an appraisal of labels."""

    page_template: ClassVar[tuple[str, str]] = ("labels.html.jinja", "cxc_eccv.studies.annotation")

    split: str
    queries: str | None  # the source of the counted queries, or None for all
    counts: tuple[SetCounts, ...]
    worth: tuple[SetQuality, ...]
    bias: tuple[Biases, ...]  # by direction and metric
    diversity: tuple[Likeness, ...]  # every ordered pair of models
    preferences: tuple[Strength, ...]  # between systems, the strongest first
    not_computed: Mapping[str, str]  # missing part to the reason
    provenance: Provenance  # data, labels, models and settings

    @property
    def title(self) -> str:
        """What the page is called."""
        return "Label quality"

    @property
    def data(self) -> str:
        """The split and the edition of the data in words."""
        return describe_data(self.provenance.data, self.provenance.split)

    def tables(self) -> list[Table]:
        """The tables of all sections."""
        return [table for section in self.sections() for table in section.tables]

    def sections(self) -> list[Section]:
        """The sections that have a table."""
        tables = {
            "counts": [*_count_tables(self)],
            "worth": [*_worth_tables(self.worth)],
            "bias": [table for rows in _by(self.bias, "direction").values() for table in _bias_tables(rows)],
            "diversity": [*_diversity_tables(self.diversity)],
            "preferences": _preference_tables(self),
        }
        return [
            Section(name, SECTIONS[name], [replace(table, data=self.data) for table in rows], LEADS[name])
            for name, rows in tables.items()
            if rows
        ]

    def footnotes(self) -> list[str]:
        """The parts that could not be computed, a sentence for each reason."""
        reasons = group_by_reason(self.not_computed)
        return [f"Not computed: {', '.join(names)}: {reason}." for reason, names in reasons.items()]

    def facts(self) -> list[tuple[str, str]]:
        """The command, the labels, the models, and the versions."""
        provenance = self.provenance
        labels: Any = provenance.others["labels"]
        models: Any = provenance.others["models"]
        sources = [f"{name} {of['version']}: {of['rule']}, {of['people']:,} people" for name, of in labels.items()]
        confidence = f"{100 * (provenance.confidence or 0):g}%"
        return list_facts(
            {
                "Command": provenance.command,
                "Labels": "; ".join(sources),
                "Models": ", ".join(models),
                "Intervals": f"{confidence}, from a bootstrap over images, seed {provenance.seed}",
                "Data edition": provenance.data.edition,
                "Package version": provenance.package.version,
            }
        )

    def record(self) -> dict[str, object]:
        """The numbers of the tables, and those of all sets of annotators."""
        return {"schema": APPRAISAL_SCHEMA, **asdict(self), "provenance": to_json(self.provenance)}

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """How many sets of labels and models it is about."""
        return {
            "split": self.split,
            "n_sets": len({row.labels for row in self.counts}),
            "n_models": len(cast("Sequence[object]", self.provenance.others["models"])),
        }


Row = TypeVar("Row", SetCounts, SetQuality, Biases, Likeness)
Line = Sequence[str | Cell]


def _by(rows: Sequence[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(getattr(row, name) for name in names), []).append(row)
    return groups


def _count_tables(appraisal: Appraisal) -> Iterator[Table]:
    header = [("labels",), ("positives",), ("times COCO's",), ("queries",), ("mean R",), ("quartiles",), ("largest",)]
    for (direction,), rows in _by(appraisal.counts, "direction").items():
        cells = [
            (
                row.labels,
                f"{row.counts.n_positives:,}",
                f"{row.times_original:.2f}",
                f"{row.counts.n_queries:,}",
                _cell(row.mean, "{:.2f}"),
                " / ".join(f"{value:g}" for value in row.counts.quartiles),
                f"{row.counts.largest:,}",
            )
            for row in rows
        ]
        counted = f"queries of {appraisal.queries}" if appraisal.queries else "all queries"
        notes = ["R is the number of positives of a query; mean, quartiles and largest are over queries with any."]
        yield Table(
            header,
            cells,
            f"Positive {ITEMS[direction]}, {direction}",
            f"{appraisal.split} split, {counted}",
            notes,
        )


def _worth_tables(worth: Sequence[SetQuality]) -> Iterator[Table]:
    for (name, direction), rows in _by(worth, "verified", "direction").items():
        seen = rows[0].asked
        precision = [("precision, %",), ("queries",)] if seen else []
        header = [("labels",), *precision, ("recall, %",), ("queries",), ("left out",)]
        cells = [
            (
                row.labels,
                *((_cell(row.precision, "{:.1f}", 100), f"{row.n_precision:,}") if seen else ()),
                _cell(row.recall, "{:.1f}", 100),
                f"{row.n_recall:,}",
                f"{row.n_unlabelled:,}",
            )
            for row in rows
        ]
        notes = [(SEEN if seen else UNSEEN).format(name=name)]
        notes += [KNOWN.format(n=rows[0].n_known)] if rows[0].n_known else []
        of = f", queries of {rows[0].queries}" if rows[0].queries else ""
        yield Table(header, cells, f"Precision and recall against {name}, {direction}{of}", notes=notes)


def _bias_tables(both: Sequence[Biases]) -> list[Table]:
    """The tables of one direction, with a section for each metric."""
    first = both[0]

    columns = _singles_and_all(first)
    without = ("without a label", *(f"{row.n_without:,}" for row in columns))
    return [
        Table(
            [("model",), *((row.annotators[0],) for row in columns[:-1]), ("all",)],
            [without, *_join_sections(both, _list_scores)],
            f"Graded scores on the labels of one annotator's proposals, {first.direction}",
            f"{first.n_positives:,} labels of {first.n_queries:,} queries",
            [
                "Queries without a label among an annotator's proposals count 0. "
                f"{first.n_unanswered:,} proposals without an answer count as no match; {first.n_unproposed:,} "
                "verified pairs that no model proposed are in no set."
            ],
        ),
        Table(
            [("annotators",), *((title,) for title in PARTS.values())],
            _join_sections(both, _list_biases),
            f"Bias of the annotators, {first.direction}",
            notes=["Mean absolute difference from the scores on the labels of all annotators, in points (eq. E.5)."],
        ),
        Table(
            [("joining annotator",), ("its own score",), ("others' scores",)],
            _join_sections(both, _list_gains),
            f"Gain from joining the annotators, {first.direction}",
            notes=["Mean over all sets of annotators that it can join, in points."],
        ),
    ]


def _join_sections(both: Sequence[Biases], lines_of: Callable[[Biases], Iterable[Line]]) -> list[Line]:
    return [line for biases in both for line in ((METRICS[biases.metric],), *lines_of(biases))]


def _list_scores(biases: Biases) -> Iterator[Line]:
    for model in biases.sets[0].scores:
        yield (model, *(_cell(row.scores[model], "{:.1f}", 100) for row in _singles_and_all(biases)))


def _list_biases(biases: Biases) -> Iterator[Line]:
    yield from ((row.annotators[0], *_points(row.bias, PARTS)) for row in _singles_and_all(biases)[:-1])
    sizes = [(size, bias) for size, bias in biases.by_size.items() if size > 1]
    yield from ((f"mean over sets of {size}", *_points(bias, PARTS)) for size, bias in sizes)


def _list_gains(biases: Biases) -> Iterator[Line]:
    yield from ((name, *_points(gain, ("own", "others"), "{:+.2f}")) for name, gain in biases.gains.items())


def _singles_and_all(biases: Biases) -> list[BiasOfSet]:
    """The sets of a single annotator, and of all."""
    return [row for row in biases.sets if len(row.annotators) in (1, len(biases.sets[-1].annotators))]


def _points(parts: Mapping[str, Estimate | None], names: Iterable[str], form: str = "{:.2f}") -> list[str | Cell]:
    return [_cell(parts[name], form, 100) for name in names]


def _diversity_tables(likenesses: Sequence[Likeness]) -> Iterator[Table]:
    for (direction,), rows in _by(likenesses, "direction").items():
        cells = {(row.one, row.other): row for row in rows}
        models = list(dict.fromkeys(row.one for row in rows))
        for part, (title, note) in LIKE.items():
            lines = [(model, *(_like(cells.get((model, other)), part) for other in models)) for model in models]
            notes = [note.format(depth=DEPTH)] if note else []
            if part == "correlation":
                notes += _say_undefined(rows)
            header = [("",), *((name,) for name in models)]
            yield Table(header, lines, f"{title.format(depth=DEPTH)}, {direction}", notes=notes)


def _say_undefined(rows: Sequence[Likeness]) -> list[str]:
    """The pairs of models without a tau-b on some queries; each pair once."""
    undefined: dict[frozenset[str], str] = {}
    for row in rows:
        if 0 < row.n_correlated < row.n_queries:
            left_out = f"{row.one} and {row.other}: {row.n_queries - row.n_correlated:,} of {row.n_queries:,}"
            undefined.setdefault(frozenset((row.one, row.other)), left_out)
    if not undefined:
        return []
    return [f"Queries left out, as a model gives all items one score: {'; '.join(undefined.values())}."]


def _like(row: Likeness | None, part: str) -> str | Cell:
    if row is None:
        return MISSING
    if part == "found":
        return f"{100 * row.n_placed / row.n_queries:.1f}%"
    return _cell(row.correlation, "{:.3f}") if part == "correlation" else _cell(row.place, "{:.2f}")


def _preference_tables(appraisal: Appraisal) -> list[Table]:
    if not appraisal.preferences:
        return []
    rows = [(row.name, _cell(row, "{:.2f}")) for row in appraisal.preferences]
    note = "Strengths of the Bradley-Terry model, which sum to 100; intervals from a bootstrap over choices."
    return [Table([("",), ("strength, %",)], rows, "Preferences", notes=[note])]


def _cell(number: Estimate | Strength | None, form: str, scale: float = 1) -> str | Cell:
    return MISSING if number is None else interval_cell(number.value, number.low, number.high, form, scale=scale)
