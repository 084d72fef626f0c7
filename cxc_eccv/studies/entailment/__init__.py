"""Entailment: does an image with its captions entail a sentence, and what follows for labels and for training.

A classifier answers the question; its training data comes from many corpora in one form; what it says of a retriever's
best captions becomes weak positives, and these train any retriever.
"""
