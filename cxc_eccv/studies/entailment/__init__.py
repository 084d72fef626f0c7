"""Entailment: does an image with its captions entail a sentence, and what follows for labels and for training."""
