"""SICK: sentences made of captions of Flickr8k and of video descriptions, with a judgment of entailment."""

import numpy as np

from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_sick
from cxc_eccv.studies.entailment.training_data.corpus import Corpus, Pairs, make_pairs

FILES = {"train": "sick_train", "val": "sick_trial", "test": "sick_test"}


def pairs(library: Library, split: str, _threshold: float) -> Pairs:
    """Sentence A as premise, sentence B as hypothesis; relatedness is another judgment, and no rating of this one."""
    scored = library.read(FILES[split], read_sick)
    labels = np.array([judgment == "ENTAILMENT" for judgment in scored.table["judgment"].to_pylist()], dtype=np.int8)
    return make_pairs([[text] for text in scored.left], scored.right, labels)


CORPUS = Corpus(
    name="sick",
    title="SICK",
    kinds=("text",),
    rule="entailment against neutral and contradiction",
    groups=("sick",),
    expected={"train": 4_500, "val": 500, "test": 4_927},
    pairs=pairs,
)
