"""The training script of the classifier of entailment."""
