"""The report on the failures of one or several models, and its table of all failures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
import pyarrow as pa
from markupsafe import Markup

from cxc_eccv.presentation import Section, ShownResult, list_facts
from cxc_eccv.presentation.thumbnails import page_images
from cxc_eccv.studies.explain.explained_page import COLOURS, LISTED, PER_CONCEPT, SHOWN, make_anchor, show_failures
from cxc_eccv.studies.explain.explanation import Explanation, make_tables, summarize
from cxc_eccv.studies.explain.failure_kinds import FAILURE_KINDS, UNEXPLAINED, tabulate_kinds
from cxc_eccv.studies.explain.reranking import Reranking, reranking_tables
from cxc_eccv.studies.explain.separating_concepts import Separation
from cxc_eccv.tables import Table
from cxc_eccv.terminal import upper_first
from cxc_eccv.types.json_records import to_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import direction_name

STUDY = "cxc_eccv.studies.explain"

SIDE = 384
"""Pixels of an image's longer side."""

NUMBERS_LEAD = "Shares of concepts in all failures, their means over the failures on which they are defined, and sums."


@dataclass(frozen=True, slots=True, eq=False)
class FailureReport(ShownResult):
    """The explained failures of models, of which the first is the baseline.

    Attributes:
        explanations: one per model.
        paired: differences of the others from the first.
        reranked: what altered queries do to the ranks of a single model.
        separation: the concepts that separate the models.
        shown: failures on the page of each kind and direction, and of those drawn at random.
        seed: draws the failures that the page shows.
    """

    page_template: ClassVar[tuple[str, str]] = ("explained.html.jinja", STUDY)

    explanations: Sequence[Explanation]
    paired: pd.DataFrame | None = None
    reranked: Reranking | None = None
    separation: Separation | None = None
    shown: int = SHOWN
    seed: int = 0

    @property
    def models(self) -> list[str]:
        """Names of the models."""
        return [explanation.model for explanation in self.explanations]

    @property
    def title(self) -> str:
        """The models."""
        return f"Failures of {', '.join(self.models)}"

    @property
    def data(self) -> str:
        """The split and the edition of the data in words."""
        return self.explanations[0].data

    @property
    def number_tables(self) -> list[Table]:
        """The numbers of the models, and those of altered queries."""
        altered = [] if self.reranked is None else reranking_tables(self.reranked)
        return [*make_tables(self.explanations, self.paired), *altered]

    @property
    def separating_tables(self) -> list[Table]:
        """The concepts that separate the models."""
        return [] if self.separation is None else self.separation.tables()

    def tables(self) -> list[Table]:
        """Kinds of failures, the numbers, and what separates the models."""
        return [tabulate_kinds(self.explanations), *self.number_tables, *self.separating_tables]

    def all_tables(self) -> list[Table]:
        """The same, with the long tables of numbers last."""
        return [tabulate_kinds(self.explanations), *self.separating_tables, *self.number_tables]

    def facts(self) -> list[tuple[str, str]]:
        """Those of the first model."""
        return _list_origin(self.explanations[0].provenance)

    def record(self) -> dict[str, object]:
        """The first model's numbers, and further models under ``others``.

        ``paired`` has their differences from the first, ``separating`` the concepts that separate them; numbers of
        altered queries are among the first's, and with intervals under ``adversarial``.
        """
        first, *others = map(_describe, self.explanations)
        content: dict[str, Any] = {"schema": 1, **first}
        if self.reranked is not None:
            content["scores"] = {**content["scores"], **self.reranked.scores}
            content["adversarial"] = {**self.reranked.facts, "rows": self.reranked.list_rows()}
        if others:
            paired = [] if self.paired is None else self.paired.to_dict("records")
            content |= {"others": others, "paired": paired}
        if self.separation is not None:
            content["separating"] = self.separation.facts
        return content

    def sections(self) -> list[Section]:
        """Kinds, numbers, what separates the models, the search, and the failures of each model and direction."""
        beside = " The models are side by side." if len(self.models) > 1 else ""
        kinds = Section("kinds", "Near misses and others", name="Kinds of failures")
        numbers = Section("numbers", "Numbers", self.number_tables, f"{NUMBERS_LEAD}{beside}")
        separating = Section(
            "separating",
            "What separates the models",
            lead="Concepts that one model misses significantly more often than the other.",
            name="What separates them",
        )
        search = Section("show", "Which failures to show", name="Search")
        failures = []
        for number, explanation in enumerate(self.explanations, start=1):
            for direction, explained in explanation.directions.items():
                if len(explained.failures):
                    title = self.name_direction(explanation.model, direction)
                    failures.append(Section(make_anchor(number, direction), title))
        return [kinds, numbers, *([separating] if self.separation else []), search, *failures]

    def name_direction(self, model: str, direction: str) -> str:
        """The direction in words, with the model if there are several."""
        words = direction_name(direction)
        return f"{model}, {words}" if len(self.models) > 1 else upper_first(words)

    def page_content(self, images: str | Path | None = None) -> dict[str, Any]:
        """The failures as cards, with the photographs of the folder ``images`` if there is one, and the search."""
        pages = show_failures(self.explanations, self.shown, self.seed)
        files = sorted({image.file for page in pages for card in page.cards for image in (card.truth, card.retrieved)})
        uris = page_images(images, files, SIDE)
        script = resources.files(STUDY).joinpath("templates/explained.js").read_text(encoding="utf-8")
        skipped = {
            f"{explanation.model}, {direction_name(direction)}": why
            for explanation in self.explanations
            for direction, why in explanation.skipped.items()
        }
        return {
            "first": self.explanations[0],
            "models": self.models,
            "skipped": skipped,
            "separation": self.separation,
            "pages": {page.anchor: page for page in pages},
            "title_of": lambda page: self.name_direction(page.model, page.direction),
            "kinds": FAILURE_KINDS,
            "unexplained": UNEXPLAINED,
            "names": sorted(set().union(*(page.concept_names for page in pages))),
            "per_concept": PER_CONCEPT,
            "most": LISTED,
            "seed": self.seed,
            "script": Markup(script),  # noqa: S704 - our own file
            "images": uris,
            "absent": [] if uris is None else [file for file in files if file not in uris],
            "colours": COLOURS,
            "origins": [(each.model, _list_origin(each.provenance)) for each in self.explanations],
        }


def _list_origin(provenance: Provenance) -> list[tuple[str, str]]:
    """Titles and texts of what the numbers of a model were computed from."""
    return list_facts(
        {
            "Command": provenance.command,
            "Run file": provenance.run.file,
            "Run file, sha256": provenance.run.sha256,
            "Images as": provenance.run.corpus,
            "Similarity": provenance.similarity,
            "WordNet": provenance.others.get("wordnet"),
            "Data edition": provenance.data.edition,
            "Package version": provenance.package.version,
        }
    )


def _describe(model: Explanation) -> dict[str, Any]:
    """The entry of a model in ``explain.json``."""
    return {"model": model.model, **_list_entries(model), "provenance": to_json(model.provenance)}


def join_tables(explanations: Sequence[Explanation]) -> pa.Table:
    """A row per model, direction and failure, with their provenance in the metadata."""
    parts = []
    for explanation in explanations:
        for direction, explained in explanation.directions.items():
            table = explained.table
            for name, text in (("direction", direction), ("model", explanation.model)):
                column = pa.array([text] * table.num_rows, pa.string()).dictionary_encode()
                table = table.add_column(0, name, column)
            parts.append(table)
    facts = {
        explanation.model: {
            "not_computed": _list_entries(explanation)["not_computed"],
            **to_json(explanation.provenance),
        }
        for explanation in explanations
    }
    joined = pa.concat_tables(parts).unify_dictionaries().combine_chunks()
    return joined.replace_schema_metadata({"explained": json.dumps(facts, ensure_ascii=False)})


def _list_entries(explanation: Explanation) -> dict[str, dict[str, Any]]:
    summaries = {direction: summarize(explained) for direction, explained in explanation.directions.items()}
    entries: dict[str, dict[str, Any]] = {"scores": {}, "counts": {}, "not_computed": {**explanation.skipped}}
    for direction, summary in summaries.items():
        for part, entry in entries.items():
            entry |= {f"{direction}/{name}": value for name, value in getattr(summary, part).items()}
    return entries
