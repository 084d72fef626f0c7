"""Commands of the classifier of entailment."""
