"""Baselines without training; each file declares itself as BASELINE, under the name of the file."""
