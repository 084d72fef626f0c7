"""TF-IDF bag of words: text-text retrieval by shared words."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cxc_eccv.cli.demo import TfIdf
from cxc_eccv.evaluation import Request, report_of_ranks
from cxc_eccv.ranking.by_scores import rank_rows
from cxc_eccv.registry import task
from cxc_eccv.report import Report
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types import IntArray


def run(split: Split, _inputs: Inputs) -> tuple[Report, None]:
    """Text-text retrieval on Crisscrossed Captions."""
    return evaluate_bow(split), None


BASELINE = Baseline(
    name="bow",
    summary="TF-IDF bag of words with document frequencies of the validation captions; text-text retrieval on CxC",
    run=run,
)


def evaluate_bow(split: Split) -> Report:
    """Rank the captions of a split against each other by TF-IDF cosine, fitted on the validation captions."""
    library = split.library
    model = TfIdf.fit(library.split("validation").captions["text"].to_pylist())
    vectors = model.encode(split.captions["text"].to_pylist())
    transposed = vectors.T.tocsr()

    def score_rows(rows: IntArray) -> NDArray[np.float32]:
        return np.asarray((vectors[rows] @ transposed).toarray(), dtype=np.float32)

    judgments = task("cxc").judgments(split, "t2t")
    ranks = rank_rows(score_rows, split.caption_ids, split.caption_ids, {"cxc/t2t": judgments})
    request = Request(split=split.name, per_query=True, name="TF-IDF bag of words")
    return report_of_ranks({"cxc/t2t": (judgments, ranks["cxc/t2t"])}, library, request)
