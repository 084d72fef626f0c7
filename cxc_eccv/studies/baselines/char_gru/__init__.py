"""The character GRU: sentence embeddings from captions alone, without words known beforehand."""
