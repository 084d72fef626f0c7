"""What a report holds: results with their provenance, and the text of ``report.json``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from cxc_eccv.errors import DataError
from cxc_eccv.terminal import visible
from cxc_eccv.types import RatingBin, Result
from cxc_eccv.types.json_records import from_json, make_shape, to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.types.scores import Scores
from cxc_eccv.types.strict_json import TEXT, Each, Json, Shape, check_shape, decode_json
from cxc_eccv.types.training_data import UNKNOWN_DATA, describe_training_data

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

REPORT_SCHEMA = 1

SIMILARITY_BY_RATING = "similarity_by_rating"
"""Key of an entry that only reports with rated pairs have."""

REPORT_SHAPE: Mapping[str, Shape] = {
    "results": [make_shape(Result)],
    "skipped": Each(TEXT),
    "doubts": Each(TEXT),
    "provenance": make_shape(Provenance),
}
BINS_SHAPE = Each([make_shape(RatingBin)])


@dataclass(frozen=True, slots=True, repr=False)
class ReportData:
    """All results of one run and their provenance.

    Attributes:
        results: one row per task, direction and metric.
        skipped: task or task/direction to the reason why it was skipped.
        provenance: version and hash of the data, package versions, run file, command.
        per_query: the value of every query, or None unless evaluated with ``per_query=True``. Columns: ``query_id``,
            ``task``, ``direction``, ``metric``, ``value``, and ``best_rank``, the rank of the query's best positive,
            null where the task ranks no positives, ``cluster``, the image that intervals resample, and ``fold``, null
            in a task without folds.
        examples: chosen queries with their top items, or None unless evaluated with ``per_query=True``.
        doubts: name to sentence of what makes the numbers suspect, which every form of the report shows first.
        similarity_by_rating: task/part to the quartiles of the model's similarities in each range of ratings, for
            the rated pairs of CxC that were scored.
    """

    results: tuple[Result, ...]
    skipped: Mapping[str, str] = field(default_factory=dict)
    provenance: Provenance = field(default_factory=Provenance)
    per_query: pa.Table | None = None
    examples: pa.Table | None = field(default=None, compare=False)
    doubts: Mapping[str, str] = field(default_factory=dict)
    similarity_by_rating: Mapping[str, tuple[RatingBin, ...]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of the model or of the run file, with the part of the split and the labels it was scored on.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> part = RestrictionFacts(images=SideShare(200, 5000))
            >>> ReportData((), provenance=Provenance(model="CLIP", restriction=part)).name
            'CLIP, on 200 of 5,000 images'
        """
        named = ", on ".join(filter(None, [self.model, *self.provenance.restriction.counts[:1]]))
        return ", ".join(filter(None, [named, f"labels {self.labels}" if self.labels else ""]))

    @property
    def model(self) -> str:
        """Name of the model or of the run file.

        Example:
            >>> from cxc_eccv.types.provenance import RunFacts
            >>> ReportData((), provenance=Provenance(run=RunFacts(file="clip.npz"))).model
            'clip.npz'
        """
        return self.provenance.model or self.provenance.run.file or ""

    @property
    def training_data(self) -> tuple[str, ...]:
        """What the model was trained on, as its run declares it; ``unknown`` if it does not.

        Example:
            >>> ReportData((), provenance=Provenance(trained_on=("coco_train",))).training_data
            ('coco_train',)
            >>> ReportData(()).training_data
            ('unknown',)
        """
        return self.provenance.trained_on or (UNKNOWN_DATA,)

    @property
    def trained_on(self) -> str:
        """The same in words, and that a model's card may lack some.

        Example:
            >>> ReportData((), provenance=Provenance(trained_on=("coco_train", "laion2b"))).trained_on
            'COCO train, laion2b'
        """
        return describe_training_data(self.training_data, self.provenance.trained_on_from)

    @property
    def labels(self) -> str:
        """The sources of labels that replace those of the tasks, or an empty string.

        Example:
            >>> from cxc_eccv.types.provenance import LabelFacts, LabelFileFacts
            >>> facts = LabelFacts(sources=("coco", "mine"), files={"mine": LabelFileFacts(version="1.0.0")})
            >>> ReportData((), provenance=Provenance(labels=facts)).labels
            'coco + mine 1.0.0'
        """
        return str(self.provenance.labels)

    @property
    def repeated_parts(self) -> Mapping[str, str]:
        """Part to the other part with the same queries and positives, where sources replace the labels of the tasks."""
        return self.provenance.labels.repeats

    def without_repeats(self, keys: Iterable[str]) -> list[str]:
        """The keys of results, of those with the same queries, positives and metric only one.

        Example:
            >>> from cxc_eccv.types.provenance import LabelFacts
            >>> report = ReportData((), provenance=Provenance(labels=LabelFacts(repeats={"cxc/i2t": "coco_5k/i2t"})))
            >>> report.without_repeats(["coco_5k/i2t/mrr", "cxc/i2t/mrr", "cxc/t2i/mrr"])
            ['coco_5k/i2t/mrr', 'cxc/t2i/mrr']
        """
        keys = list(keys)
        shown: dict[str, str] = {}
        for key in keys:
            part, _, metric = key.rpartition("/")
            other = f"{self.repeated_parts.get(part, part)}/{metric}"
            shown[other] = other if other in keys else shown.get(other, key)
        return [key for key in keys if key in shown.values()]

    @property
    def restriction(self) -> str:
        """The part of the split that was scored, in words; empty for the whole split.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> part = RestrictionFacts(limit=200, unreadable_images=2, images=SideShare(198, 5000))
            >>> ReportData((), provenance=Provenance(restriction=part)).restriction
            '198 of 5,000 images (the first 200 by id, without 2 that could not be read)'
        """
        return str(self.provenance.restriction)

    @property
    def departure(self) -> str:
        """What was scored instead of the whole split, the labels of each task and unmodified files; empty for these.

        Options that have no entry of their own are named too, if they differ from their defaults.

        Example:
            >>> from cxc_eccv.types.provenance import RestrictionFacts, SideShare
            >>> part = RestrictionFacts(images=SideShare(198, 5000))
            >>> ReportData((), provenance=Provenance(restriction=part)).departure
            'a part of the split, 198 of 5,000 images'
        """
        counts = self.provenance.restriction.counts
        modified = self.provenance.data.modified
        options = ", ".join(f"{name}={value}" for name, value in self.provenance.options.items())
        faults = [
            ", ".join(["a part of the split", *counts]) if counts else "",
            f"the labels {self.labels} instead of those of each task" if self.labels else "",
            f"modified raw files, {', '.join(modified)}" if modified else "",
            f"other options, {options}" if options else "",
        ]
        return " and ".join(filter(None, faults))

    @property
    def scores(self) -> Scores:
        """Key to value, as under ``scores`` in report.json; a wrong key raises an error that names the right ones."""
        return Scores({result.key: result.value for result in self.results}, self.skipped)

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with one row per result, in the report's units: fractions, plain ranks, RSUM in percent.

        Bounds over unjudged pairs, if the report has them, are in the columns ``bounds_low`` and so on.

        Example:
            >>> report = ReportData((Result("coco_5k", "i2t", "mrr", 0.5, 5000),))
            >>> frame = report.to_pandas()
            >>> frame.set_index(["task", "direction", "metric"]).loc[("coco_5k", "i2t", "mrr"), "value"].item()
            0.5
        """
        import pandas as pd

        added = self._bounds_columns
        frame = pd.DataFrame(self.records(), columns=[*COLUMNS, *added])
        return frame.astype(dict.fromkeys([*MAYBE_LACKING, *added], float))

    def records(self) -> list[dict[str, Json]]:
        """The rows of :meth:`to_pandas`."""
        rows = []
        for result in self.results:
            row = {name: getattr(result, name) for name in COLUMNS}
            row |= {column: getattr(result.bounds, name, None) for column, name in self._bounds_columns.items()}
            rows.append(row)
        return rows

    @property
    def _bounds_columns(self) -> dict[str, str]:
        """Column of each bound to its name; empty without bounds."""
        bounded = any(result.bounds is not None for result in self.results)
        return {f"bounds_{name}": name for name in OF_BOUNDS} if bounded else {}

    def record(self) -> dict[str, object]:
        """Schema, doubts, scores by key, all results, similarities by rating if there are some, skipped, provenance."""
        binned = {part: [to_json(each) for each in bins] for part, bins in self.similarity_by_rating.items()}
        return {
            "schema": REPORT_SCHEMA,
            "doubts": dict(self.doubts),
            "scores": self.scores,
            "results": [{"key": result.key, **to_json(result)} for result in self.results],
            **({SIMILARITY_BY_RATING: binned} if binned else {}),
            "skipped": dict(self.skipped),
            "provenance": to_json(self.provenance),
        }

    def to_json(self) -> str:
        """The text of ``report.json``."""
        return json.dumps(self.record(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The report of a text from :meth:`to_json`; raises DataError."""
        try:
            content = decode_json(text)
            if not isinstance(content, dict) or content.get("schema") != REPORT_SCHEMA:
                raise DataError(f"not a report.json of schema {REPORT_SCHEMA}")
            check_shape(content, REPORT_SHAPE)
            binned = content.get(SIMILARITY_BY_RATING, {})
            check_shape(binned, BINS_SHAPE, SIMILARITY_BY_RATING)
            results = tuple(from_json(Result, entry) for entry in content["results"])
        except ValueError as error:
            raise DataError(f"not a report.json of schema {REPORT_SCHEMA} ({error})") from None
        provenance = from_json(Provenance, content["provenance"])
        bins = {part: tuple(from_json(RatingBin, each) for each in entries) for part, entries in binned.items()}
        return cls(results, content["skipped"], provenance, doubts=content["doubts"], similarity_by_rating=bins)

    def __repr__(self) -> str:
        tasks = len({result.task for result in self.results})
        name = self.name or "a run"
        split = self.provenance.split or "unknown"
        return visible(f"<Report of {name}: {len(self.results)} results of {tasks} tasks, {split} split>")


COLUMNS = [
    *("task", "direction", "metric", "value", "low", "high", "n_queries", "ties"),
    *("if_ties_help", "decided_by_ties", "chance", "coverage", "interval_method"),
]
OF_BOUNDS = (
    *("low", "high", "expected", "estimate", "estimate_low", "estimate_high"),
    *("precision", "precision_low", "precision_high", "unjudged", "retrieved"),
)
MAYBE_LACKING = ("low", "high", "if_ties_help", "decided_by_ties", "chance", "coverage")
