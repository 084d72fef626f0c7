"""Corpora that are tables on the Hugging Face Hub, or copies of them in the mirror folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.entailment.training_data.corpus import SPLITS, Pairs, make_pairs
from cxc_eccv.errors import DataError, SourceMissing
from cxc_eccv.sources.catalog import OFFICIAL
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library

if TYPE_CHECKING:
    import datasets

__all__ = ["HubTable"]

WITHOUT = "no label"


@dataclass(frozen=True, slots=True, eq=False)
class HubTable:
    """A labelled table of sentence pairs that ``datasets.load_dataset`` reads.

    A folder ``entailment/NAME`` of the mirror folder is taken in place of the Hub: a snapshot of the repository, or
    files of Parquet, CSV or JSON lines that ``load_dataset`` finds the splits of.

    Attributes:
        name: of the folder; the corpus' name.
        repository, config: on the Hub.
        premise, hypothesis: columns of texts.
        labels: of the column ``label``, in the order of their numbers.
        positive: the one of them that is entailment.
    """

    name: str
    repository: str
    config: str
    premise: str
    hypothesis: str
    labels: tuple[str, ...]
    positive: str

    @property
    def place(self) -> str:
        """Where the table is, in words."""
        return f"{self.repository}, {self.config}"

    def pairs(self, library: Library, split: str, _threshold: float) -> Pairs:
        """The pairs of a split; rows without a label (-1, as in hidden test sets) are left out.

        Raises:
            SourceMissing: no folder, and no way to the Hub.
            DataError: not the columns or labels that the table is known by.
        """
        table = library.once(("hub", self.name, split), lambda: self._read(library, split))
        labels = table["label"].combine_chunks()
        known = pc.is_valid(labels)
        table, without = table.filter(known), int(pc.sum(pc.invert(known)).as_py() or 0)
        premises = table[self.premise].combine_chunks().cast(pa.string())
        offsets = pa.array(np.arange(len(premises) + 1, dtype=np.int32))
        left_out = {WITHOUT: without} if without else {}
        return make_pairs(pa.ListArray.from_arrays(offsets, premises), table[self.hypothesis], table["label"], left_out)

    def _read(self, library: Library, split: str) -> pa.Table:
        """Both texts and the label as 0, 1 or null."""
        dataset = self._load(library, SPLITS[split])
        columns = (self.premise, self.hypothesis, "label")
        lacking = [name for name in columns if name not in dataset.column_names]
        if lacking:
            found = ", ".join(dataset.column_names)
            raise DataError(f"{self.name}, split {SPLITS[split]}: no column {lacking[0]!r}; it has {found}")
        table = dataset.select_columns(list(columns)).with_format("arrow")[:]
        names = getattr(dataset.features["label"], "names", self.labels)
        if set(names) != set(self.labels):
            raise DataError(f"{self.name}: labels {', '.join(names)}; expected {', '.join(self.labels)}")
        numbers = {value: int(name == self.positive) for place, name in enumerate(names) for value in (place, name)}
        found = [_label(self.name, value, numbers) for value in table["label"].to_pylist()]
        return table.set_column(table.column_names.index("label"), "label", pa.array(found, pa.int8()))

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
            return datasets.load_dataset(str(place), self._config_of(place), split=split)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise DataError(f"{self.name}, split {split}, of {place or self.place}: {error}") from error

    def _config_of(self, folder: Path) -> str | None:
        """The config of a snapshot that has several; a plain folder has none."""
        import datasets

        return self.config if self.config in datasets.get_dataset_config_names(str(folder)) else None

    def _check_hub(self, library: Library, folder: Path | None) -> None:
        if library.edition != OFFICIAL:
            obstacle = f"the edition {library.edition!r} stands alone and does not hold it"
        elif reason := library.offline_reason:
            obstacle = f"downloads are off ({reason})"
        else:
            return
        raise SourceMissing(
            f"{self.name} is a table on the Hugging Face Hub ({self.place}), and {obstacle}.\n"
            f"  put a copy at: {folder or Path('MIRROR') / 'entailment' / self.name}\n"
            "Name the mirror folder with --data-dir or CXC_ECCV_DATA."
        )


def _label(name: str, value: Any, numbers: Mapping[Any, int]) -> int | None:  # noqa: ANN401 - a cell
    if value is None or value == -1:
        return None
    if value not in numbers:
        raise DataError(f"{name}: label {value!r}; expected one of {', '.join(map(repr, numbers))}, or -1 for none")
    return numbers[value]
