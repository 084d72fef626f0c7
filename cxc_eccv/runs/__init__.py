"""Runs: a model's results as embeddings, score matrices or rankings."""

from cxc_eccv.runs.embeddings import load_embeddings, save_embeddings
from cxc_eccv.runs.gallery_shards import find_positives, make_shard, read_shard
from cxc_eccv.runs.load import Run, load_run
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.runs.run import EmbeddingsRun
from cxc_eccv.runs.scores import DirectionScoresRun, MatrixRun, ScoresRun, make_direction_scores, make_scores

__all__ = [
    "DirectionScoresRun",
    "EmbeddingsRun",
    "MatrixRun",
    "RankingsRun",
    "Run",
    "ScoresRun",
    "find_positives",
    "load_embeddings",
    "load_run",
    "make_direction_scores",
    "make_scores",
    "make_shard",
    "read_shard",
    "save_embeddings",
]
