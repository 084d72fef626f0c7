"""Corpora made for inference: pairs of sentences, from raw files or the Hugging Face Hub, and SNLI-VE."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.sources.collections.flickr30k import COLLECTION as FLICKR30K
from cxc_eccv.sources.download import mirror_folder, why_not_in_edition
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_aligned, read_entailment, read_sick, read_stsb
from cxc_eccv.studies.entailment.training_data.corpora import Corpus, Pairs, make_pairs, reaches
from cxc_eccv.studies.trainers.training_record import SPLIT_OF_PART

if TYPE_CHECKING:
    import datasets

STSB_FILES = {"train": "stsb_train", "val": "stsb_dev", "test": "stsb_test"}
SICK_FILES = {"train": "sick_train", "val": "sick_trial", "test": "sick_test"}


def stsb_pairs(library: Library, part: str) -> Pairs:
    """The first sentence as premise, the second as hypothesis, rated from 0 to 5."""
    scored = library.read(STSB_FILES[part], read_stsb)
    labels = reaches(scored.scores)
    return make_pairs([[text] for text in scored.left], scored.right, labels, rating=scored.scores)


def sick_pairs(library: Library, part: str) -> Pairs:
    """Sentence A as premise, sentence B as hypothesis; relatedness is not a rating of entailment."""
    scored = library.read(SICK_FILES[part], read_sick)
    labels = np.array([judgment == "ENTAILMENT" for judgment in scored.table["judgment"].to_pylist()], dtype=np.int8)
    return make_pairs([[text] for text in scored.left], scored.right, labels)


def simplification_pairs(library: Library, _part: str) -> Pairs:
    """A sentence of English Wikipedia as premise, its counterpart in Simple English Wikipedia as hypothesis."""
    paths = [library.path(name) for name in ("simplification_normal", "simplification_simple")]
    table = library.cached("simplifications", lambda: read_aligned(paths))
    offsets = pa.array(np.arange(table.num_rows + 1, dtype=np.int32))
    premises = pa.ListArray.from_arrays(offsets, table["normal"].combine_chunks())
    return make_pairs(premises, table["simple"], np.ones(table.num_rows, dtype=np.int8))


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

    def pairs(self, library: Library, part: str) -> Pairs:
        """The pairs of a part; rows without a label (-1, as in hidden test sets) are left out."""
        table = library.cached(("hub", self.name, part), lambda: self._read(library, part))
        labels = table["label"].combine_chunks()
        known = pc.is_valid(labels)
        table = table.filter(known)
        without = int(pc.sum(pc.invert(known)).as_py() or 0)
        premises, hypotheses = (table[name].cast(pa.string()).fill_null("") for name in (self.premise, self.hypothesis))
        offsets = pa.array(np.arange(len(premises) + 1, dtype=np.int32))
        left_out = {"no label": without} if without else {}
        listed = pa.ListArray.from_arrays(offsets, premises.combine_chunks())
        return make_pairs(listed, hypotheses, table["label"], left_out)

    def _read(self, library: Library, part: str) -> pa.Table:
        dataset = self._load(library, SPLIT_OF_PART[part])
        where = f"{self.name} ({self.place})", f"split {SPLIT_OF_PART[part]}"
        columns = [self.premise, self.hypothesis, "label"]
        for name in columns:
            if name not in dataset.column_names:
                raise MalformedSource(*where, f"columns {', '.join(dataset.column_names)}", f"a column {name!r}")
        table = dataset.select_columns(columns).with_format("arrow")[:]
        names = getattr(dataset.features["label"], "names", self.labels)
        if set(names) != set(self.labels):
            raise MalformedSource(*where, f"labels {', '.join(names)}", f"the labels {', '.join(self.labels)}")
        # A label is a name, or its number in the file's list of names.
        meanings: dict[object, int | None] = {None: None, -1: None}
        for place, name in enumerate(names):
            meanings[place] = meanings[name] = int(name == self.positive)
        values = table["label"].to_pylist()
        for value in values:
            if value not in meanings:
                raise MalformedSource(
                    *where, f"label {value!r}", f"one of {', '.join(map(repr, names))}, or -1 for none"
                )
        labels = pa.array([meanings[value] for value in values], pa.int8())
        return table.set_column(table.column_names.index("label"), "label", labels)

    def _load(self, library: Library, part: str) -> datasets.Dataset:
        import datasets

        mirror = mirror_folder(library.data_dir)
        folder = mirror / "entailment" / self.name if mirror else None
        place = folder if folder is not None and folder.is_dir() else None
        if place is None:
            self._check_hub(library, folder)
        try:
            if place is None:
                return datasets.load_dataset(self.repository, self.config, split=part)
            # A snapshot may have several configs; a plain folder has none.
            has_config = self.config in datasets.get_dataset_config_names(str(place))
            return datasets.load_dataset(str(place), self.config if has_config else None, split=part)
        except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
            raise DataError(
                f"{self.name}, split {part}, of {place or self.place}: {error.__cause__ or error}"
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


GLUE = "nyu-mll/glue"

FILES = {
    "snli_ve": {"train": "snli_ve_train", "val": "snli_ve_val", "test": "snli_ve_test"},
    "esnli_ve": {"val": "esnlive_dev", "test": "esnlive_test"},
}
"""Corpus to the raw file of each part; the parts are SNLI-VE's splits, not Karpathy's."""


def photograph_pairs(corpus: str, library: Library, part: str) -> Pairs:
    """The photograph with its captions in Flickr30k if available, else with the premise of the file."""
    labelled = library.read(FILES[corpus][part], read_entailment)
    captions = library.cached("captions of photographs", lambda: _captions(library))
    names = [Path(name).name for name in labelled.table["image"].to_pylist()]
    photos = [_photo(name) for name in names]
    given = labelled.table["premise"].to_pylist()
    return make_pairs(
        [captions.get(photo, premise) for photo, premise in zip(photos, given, strict=True)],
        labelled.table["hypothesis"],
        labelled.table["label"],
        labelled.left_out,
        image=[f"{photo}.jpg" for photo in photos],
        image_key=[f"flickr30k/{photo}" for photo in photos],
    )


def _captions(library: Library) -> Mapping[int, list[str]]:
    """Photo number to its captions in Flickr30k, if that is available."""
    captions: dict[int, list[str]] = {}
    if library.has_collection(FLICKR30K):
        for name in library.read_splits(FLICKR30K):
            split = library.split(name, FLICKR30K)
            texts = split.captions_of(split.image_ids).to_pylist()
            captions |= dict(zip(split.image_ids.tolist(), texts, strict=True))
    return captions


def _photo(name: str) -> int:
    stem = Path(name).stem
    if not (stem.isascii() and stem.isdigit() and len(stem) < 19):
        raise MalformedSource(
            "the labelled pairs of photographs", "", f"image {name!r}", "a name such as 1000092795.jpg"
        )
    return int(stem)


INFERRED = "entailment against neutral and contradiction"
RATED = "rating at or above the threshold"
ALWAYS = "a sentence and its simplification: always positive"
SPLIT_PARTS = ("train", "val", "test")
PARAPHRASE = ("not_equivalent", "equivalent")
DUPLICATE = ("not_duplicate", "duplicate")
INFERENCE = ("entailment", "neutral", "contradiction")

TABLES = {
    "mrpc": HubTable(
        name="mrpc",
        repository=GLUE,
        config="mrpc",
        premise="sentence1",
        hypothesis="sentence2",
        labels=PARAPHRASE,
        positive="equivalent",
    ),
    "qqp": HubTable(
        name="qqp",
        repository=GLUE,
        config="qqp",
        premise="question1",
        hypothesis="question2",
        labels=DUPLICATE,
        positive="duplicate",
    ),
    "rte": HubTable(
        name="rte",
        repository=GLUE,
        config="rte",
        premise="sentence1",
        hypothesis="sentence2",
        labels=("entailment", "not_entailment"),
        positive="entailment",
    ),
    "xnli": HubTable(
        name="xnli",
        repository="facebook/xnli",
        config="en",
        premise="premise",
        hypothesis="hypothesis",
        labels=INFERENCE,
        positive="entailment",
    ),
}

CORPORA = (
    Corpus("stsb", RATED, ("stsb",), SPLIT_PARTS, stsb_pairs),
    Corpus("sick", INFERRED, ("sick",), SPLIT_PARTS, sick_pairs),
    Corpus("simplification", ALWAYS, ("simplification",), ("train",), simplification_pairs),
    Corpus("mrpc", "equivalent sentences", ("mrpc",), SPLIT_PARTS, TABLES["mrpc"].pairs),
    Corpus("qqp", "duplicate questions", ("qqp",), ("train", "val"), TABLES["qqp"].pairs),
    Corpus("rte", "entailment", ("rte",), ("train", "val"), TABLES["rte"].pairs),
    Corpus("xnli", INFERRED, ("xnli",), SPLIT_PARTS, TABLES["xnli"].pairs),
    Corpus("snli_ve", INFERRED, ("snli_ve", "flickr30k"), SPLIT_PARTS, partial(photograph_pairs, "snli_ve")),
    Corpus("esnli_ve", INFERRED, ("esnlive", "flickr30k"), ("val", "test"), partial(photograph_pairs, "esnli_ve")),
)
