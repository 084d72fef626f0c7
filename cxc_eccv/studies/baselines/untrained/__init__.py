"""Baselines without training: one ``BASELINE`` per file, named after the file."""

from cxc_eccv.studies.baselines.untrained.declared import Inputs, baseline_named
from cxc_eccv.studies.baselines.untrained.word_vectors import AveragedVectors, read_word_vectors

__all__ = ["AveragedVectors", "Inputs", "baseline_named", "read_word_vectors"]
