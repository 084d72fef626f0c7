"""Text simplification: a sentence of English Wikipedia entails its counterpart in Simple English Wikipedia."""

import numpy as np
import pyarrow as pa

from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, make_pairs


def pairs(library: Library, _split: str, _threshold: float) -> Pairs:
    """The sentence as premise, its simplification as hypothesis."""
    table = library.simplifications()
    normal = table["normal"].combine_chunks()
    offsets = pa.array(np.arange(table.num_rows + 1, dtype=np.int32))
    premises = pa.ListArray.from_arrays(offsets, normal)
    return make_pairs(premises, table["simple"], np.ones(table.num_rows, dtype=np.int8))


CORPUS = Corpus(
    name="simplification",
    title="TS",
    kinds=("text",),
    rule="a sentence and its simplification: always positive",
    groups=("simplification",),
    expected={"train": 167_689},
    pairs=pairs,
    published="167.6k",
    published_parts=("train",),
)
