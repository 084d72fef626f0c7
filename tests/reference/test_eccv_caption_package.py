"""Equal to the PyPI package eccv_caption, for all its metrics, over the real ids.

Vectors of whole numbers make every score exact, so that both sides rank by the same scores. The package breaks ties by
the order it is given: tied positives are handed to it last, as our rule has them.
"""

import numpy as np
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.registry import metric, task
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.reference

eccv_caption = pytest.importorskip("eccv_caption", reason="the eccv_caption package is not installed")

DIRECTIONS = ("i2t", "t2i")
TASK_OF = {"coco_1k": "coco_1k", "coco_5k": "coco_5k", "cxc": "cxc_rated", "eccv": "eccv_caption"}


class Rankings(dict):
    """Query id to ranked gallery ids, each list made when it is asked for: all of them at once take 12 GB."""

    def __init__(self, judgments, scores, queries, gallery, depth=None):
        super().__init__()
        self.judgments = judgments
        self.scores = scores
        self.gallery = gallery
        self.depth = depth
        self.rows = {int(query): row for row, query in enumerate(queries)}
        self.judged = {int(query): row for row, query in enumerate(judgments.query_ids)}

    def __getitem__(self, query):
        row = self.judged[int(query)]
        scores = self.scores[self.rows[int(query)]].astype(np.float64)
        positives = self.judgments.indices[self.judgments.indptr[row] : self.judgments.indptr[row + 1]]
        scores[positives] -= 0.5
        if self.judgments.gallery_folds is not None and self.depth:
            scores[self.judgments.gallery_folds != self.judgments.query_folds[row]] = -np.inf
        if self.depth:
            top = np.argpartition(-scores, self.depth)[: self.depth]
            return self.gallery[top[np.argsort(-scores[top])]].tolist()
        return self.gallery[np.argsort(-scores)].tolist()


def whole_number_run(library, seed):
    random = np.random.default_rng(seed)
    ids = library.split("test").images["image_id"].to_numpy(), library.split("test").captions["caption_id"].to_numpy()
    return EmbeddingsRun(*(Embeddings(one, random.integers(-500, 501, (one.size, 20)).astype(float)) for one in ids))


def rankings_of(run, library, name, depth=None):
    """What the package is given: rankings of both directions for one of its data sets."""
    scores = run.images.vectors @ run.captions.vectors.T
    sides = {"i2t": (scores, run.images.ids, run.captions.ids), "t2i": (scores.T, run.captions.ids, run.images.ids)}
    return {
        direction: Rankings(task(TASK_OF[name]).judgments(library.split("test"), direction), *sides[direction], depth)
        for direction in DIRECTIONS
    }


def test_eccv_metrics(real_library):
    """Of rankings as deep as these metrics look."""
    run = whole_number_run(real_library, seed=0)
    peer = eccv_caption.Metrics()
    rankings = rankings_of(run, real_library, "eccv", depth=1000)
    theirs = peer.eccv_metrics(rankings, "all")
    for direction in DIRECTIONS:
        judgments = task("eccv_caption").judgments(real_library.split("test"), direction)
        ranks = ranked(run, Options(similarity="dot")).rank(judgments, direction)
        for ours, name in (
            ("map_at_r", "eccv_map_at_r"),
            ("r_precision", "eccv_rprecision"),
            ("recall_at_k", "eccv_r1"),
        ):
            assert abs(metric(ours).function(ranks).mean() - theirs[name][direction]) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "depth"), [(0, 10), (1, 10), (2, 10), (3, None)])
def test_all_metrics(real_library, seed, depth):
    """With depth 10 the package gets the lists that R@10 needs, for COCO 1K those of the fold; with None full ones."""
    run = whole_number_run(real_library, seed)
    scores = evaluate(run, list(TASK_OF.values()), data_dir=real_library, similarity="dot", confidence=None).scores
    peer = eccv_caption.Metrics()
    for name, ours in TASK_OF.items():
        rankings = rankings_of(run, real_library, name, depth)
        for k in (1, 5, 10):
            theirs = getattr(peer, f"{name}_recalls")(rankings, "all", K=k)
            for direction in DIRECTIONS:
                assert abs(scores[f"{ours}/{direction}/recall_at_{k}"] - theirs[direction]) < 1e-12
