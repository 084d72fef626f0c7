"""A model's file becomes arrays: embeddings today, score matrices and rankings beside them."""

from cxc_eccv.runs.embeddings import EmbeddingsRun
from cxc_eccv.runs.embeddings_file import load_embeddings, save_embeddings

__all__ = ["EmbeddingsRun", "load_embeddings", "save_embeddings"]
