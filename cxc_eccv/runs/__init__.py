"""Runs: a model's results as embeddings, score matrices or rankings."""

from cxc_eccv.runs.embeddings import load_embeddings, save_embeddings
from cxc_eccv.runs.load import Run, load_run
from cxc_eccv.runs.rankings import RankingsRun
from cxc_eccv.runs.run import EmbeddingsRun, ScoresRun

__all__ = [
    "EmbeddingsRun",
    "RankingsRun",
    "Run",
    "ScoresRun",
    "load_embeddings",
    "load_run",
    "save_embeddings",
]
