"""Count the available corpora beside the paper's Table 2."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import pyarrow.compute as pc

from cxc_eccv.errors import DataError, HashMismatch, MalformedSource
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpora import corpora
from cxc_eccv.studies.entailment.training_data.corpus import Corpus
from cxc_eccv.studies.entailment.training_data.leakage import EvaluationSplit, drop_members, evaluation_splits
from cxc_eccv.studies.entailment.training_data.load import THRESHOLD
from cxc_eccv.tables import MISSING, Table

Content = TypeVar("Content")


@dataclass(frozen=True, slots=True)
class Count:
    """The available pairs of a corpus; ``guarded`` pairs hold no test data, None if a test split is missing."""

    corpus: Corpus
    parts: tuple[str, ...]
    pairs: int
    positives: int
    guarded: int | None


def count_corpora(library: Library) -> list[Count]:
    """Count every corpus in the library; an ``offline`` library downloads nothing."""
    protected = _try_read(lambda: evaluation_splits(library, ("test",))[0])
    return [_count(library, corpus, protected) for corpus in corpora().values()]


def _count(library: Library, corpus: Corpus, protected: Sequence[EvaluationSplit] | None) -> Count:
    parts, pairs, positives, guarded = [], 0, 0, 0
    for part in corpus.published_parts or corpus.expected:
        part_pairs = _try_read(partial(corpus.pairs, library, part, THRESHOLD))
        if part_pairs is not None:
            parts.append(part)
            pairs += part_pairs.table.num_rows
            positives += pc.sum(part_pairs.table["label"]).as_py() or 0
            guarded += drop_members(part_pairs, protected)[0].num_rows if protected else 0
    return Count(corpus, tuple(parts), pairs, positives, None if protected is None else guarded)


def _try_read(read: Callable[[], Content]) -> Content | None:
    """The result of ``read``; None if a file, or a split of one, is missing."""
    try:
        return read()
    except (HashMismatch, MalformedSource):
        raise
    except DataError:
        return None


SECTIONS = {"text": "Text alone", "multimodal": "Images"}
OTHERS = "Not in the paper"
HEADINGS = ("corpus", "parts", "paper", "here", "positive", "no test data", "licence")
STACKED = (((0, 1), (2,), (3,), (4,), (5,), (6,)), ((0, 1, 6), (2,), (3,), (4,), (5,)))


def table_of_counts(library: Library, counts: Sequence[Count]) -> Table:
    """A table of the corpora, by their task in the paper; those not in the paper come last."""
    rows: list[tuple[str, ...]] = []
    for title, wanted in _sections(counts):
        rows.append((title,))
        rows += [_row(library, count) for count in wanted]
    notes = [f"{count.corpus.title}: {count.corpus.remark}." for count in counts if count.corpus.remark]
    header = [(heading,) for heading in HEADINGS]
    return Table(header, rows, "Labelled pairs", notes=notes, prose=frozenset({1, 6}), stacked=STACKED)


def _sections(counts: Sequence[Count]) -> list[tuple[str, list[Count]]]:
    published = [count for count in counts if count.corpus.published]
    sections = [(title, [c for c in published if c.corpus.kinds[-1] == kind]) for kind, title in SECTIONS.items()]
    sections.append((OTHERS, [count for count in counts if not count.corpus.published]))
    return [(title, members) for title, members in sections if members]


def _row(library: Library, count: Count) -> tuple[str, ...]:
    corpus = count.corpus
    licence = library.catalog.group(corpus.groups[0]).licence
    numbers = [MISSING if n is None else f"{n:,}" for n in (count.pairs, count.positives, count.guarded)]
    shown = numbers if count.parts else ["not found", MISSING, MISSING]
    parts = " ".join(f"{corpus.name}/{part}" for part in count.parts or corpus.published_parts or corpus.expected)
    return (corpus.title, parts, corpus.published or MISSING, *shown, licence)
