"""The character GRU: sentence embeddings from captions, without a vocabulary of words."""
