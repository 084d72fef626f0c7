"""MRPC, QQP, RTE and XNLI: tables on the Hugging Face Hub, or copies of them in the mirror folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.sources.download import mirror_folder, why_not_in_edition
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import SPLITS, Corpus, Pairs, make_pairs

if TYPE_CHECKING:
    import datasets


@dataclass(frozen=True, slots=True, eq=False)
class HubTable:
    """A table of sentence pairs from the mirror's folder ``entailment/NAME``, else from the Hub."""

    name: str
    repository: str
    config: str
    premise: str
    hypothesis: str
    labels: tuple[str, ...]
    positive: str

    @property
    def place(self) -> str:
        """The address of the table, in words."""
        return f"{self.repository}, {self.config}"

    def corpus(self, title: str, rule: str, expected: Mapping[str, int], published: str) -> Corpus:
        """The corpus of this table; the paper counts all its parts."""
        return Corpus(
            name=self.name,
            title=title,
            kinds=("text",),
            rule=rule,
            groups=(self.name,),
            expected=expected,
            pairs=self.pairs,
            place=self.place,
            published=published,
            published_parts=tuple(expected),
        )

    def pairs(self, library: Library, split: str, _threshold: float) -> Pairs:
        """The pairs of a split; rows without a label (-1, as in hidden test sets) are left out."""
        table = library.once(("hub", self.name, split), lambda: self._read(library, split))
        labels = table["label"].combine_chunks()
        known = pc.is_valid(labels)
        table, without = table.filter(known), int(pc.sum(pc.invert(known)).as_py() or 0)
        premises, hypotheses = (table[name].cast(pa.string()).fill_null("") for name in (self.premise, self.hypothesis))
        offsets = pa.array(np.arange(len(premises) + 1, dtype=np.int32))
        left_out = {"no label": without} if without else {}
        listed = pa.ListArray.from_arrays(offsets, premises.combine_chunks())
        return make_pairs(listed, hypotheses, table["label"], left_out)

    def _read(self, library: Library, split: str) -> pa.Table:
        dataset = self._load(library, SPLITS[split])
        where = f"{self.name} ({self.place})", f"split {SPLITS[split]}"
        columns = [self.premise, self.hypothesis, "label"]
        for name in columns:
            if name not in dataset.column_names:
                raise MalformedSource(*where, f"columns {', '.join(dataset.column_names)}", f"a column {name!r}")
        table = dataset.select_columns(columns).with_format("arrow")[:]
        names = getattr(dataset.features["label"], "names", self.labels)
        if set(names) != set(self.labels):
            raise MalformedSource(*where, f"labels {', '.join(names)}", f"the labels {', '.join(self.labels)}")
        # A label is a name, or its number in the file's list of names.
        meanings: dict[object, int | None] = {
            value: int(name == self.positive) for place, name in enumerate(names) for value in (place, name)
        }
        meanings |= {None: None, -1: None}
        values = table["label"].to_pylist()
        for value in values:
            if value not in meanings:
                raise MalformedSource(
                    *where, f"label {value!r}", f"one of {', '.join(map(repr, names))}, or -1 for none"
                )
        labels = pa.array([meanings[value] for value in values], pa.int8())
        return table.set_column(table.column_names.index("label"), "label", labels)

    def _load(self, library: Library, split: str) -> datasets.Dataset:
        import datasets

        mirror = mirror_folder(library.data_dir)
        folder = mirror / "entailment" / self.name if mirror else None
        place = folder if folder is not None and folder.is_dir() else None
        if place is None:
            self._check_hub(library, folder)
        try:
            if place is None:
                return datasets.load_dataset(self.repository, self.config, split=split)
            # A snapshot may have several configs; a plain folder has none.
            has_config = self.config in datasets.get_dataset_config_names(str(place))
            return datasets.load_dataset(str(place), self.config if has_config else None, split=split)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise DataError(
                f"{self.name}, split {split}, of {place or self.place}: {error.__cause__ or error}"
            ) from error

    def _check_hub(self, library: Library, folder: Path | None) -> None:
        if lacking := why_not_in_edition(f"{self.name} ({self.place} on the Hugging Face Hub)", library.data_dir):
            raise SourceMissing(lacking)
        if not (reason := library.offline_reason):
            return
        raise SourceMissing(
            f"{self.name} is a table on the Hugging Face Hub ({self.place}), and downloads are off ({reason}).\n"
            f"  put a copy at: {folder or Path('MIRROR') / 'entailment' / self.name}\n"
            "Name the mirror folder with --data-dir or CXC_ECCV_DATA."
        )


GLUE, SENTENCES, QUESTIONS = "nyu-mll/glue", ("sentence1", "sentence2"), ("question1", "question2")
THREE = ("entailment", "neutral", "contradiction")

CORPORA = (
    HubTable("mrpc", GLUE, "mrpc", *SENTENCES, ("not_equivalent", "equivalent"), "equivalent").corpus(
        "MRPC", "equivalent sentences", {"train": 3_668, "val": 408, "test": 1_725}, "5.8k"
    ),
    HubTable("qqp", GLUE, "qqp", *QUESTIONS, ("not_duplicate", "duplicate"), "duplicate").corpus(
        "QQP", "duplicate questions", {"train": 363_846, "val": 40_430}, "404.2k"
    ),
    HubTable("rte", GLUE, "rte", *SENTENCES, ("entailment", "not_entailment"), "entailment").corpus(
        "RTE", "entailment", {"train": 2_490, "val": 277}, "2.7k"
    ),
    HubTable("xnli", "facebook/xnli", "en", "premise", "hypothesis", THREE, "entailment").corpus(
        "XNLI",
        "entailment against neutral and contradiction",
        {"train": 392_702, "val": 2_490, "test": 5_010},
        "400.2k",
    ),
)
