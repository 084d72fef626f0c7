"""Letters: a caption as the number of times that it has each letter."""

import string

import numpy as np

from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import Embeddings


def run(split: Split, inputs: Inputs) -> tuple[Report, EmbeddingsRun]:
    """Text-text retrieval and similarity."""
    captions = split.captions
    counts = [[text.count(letter) for letter in string.ascii_lowercase] for text in captions["text"].to_pylist()]
    embeddings = Embeddings(captions["caption_id"].to_numpy(), np.array(counts, dtype=np.float32))
    found = EmbeddingsRun(None, embeddings)
    return evaluate(found, split=split.name, data_dir=split.library, per_query=True), found


BASELINE = Baseline(name="letters", summary="counts of letters; text-text retrieval and similarity", run=run)
