"""The training script of the entailment classifier: arguments, data, Trainer, report."""
