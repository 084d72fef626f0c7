"""What a classifier of entailment has, for stand-ins that define ``score_and_count``."""


class StandInClassifier:
    name, fingerprint, threshold = "stand-in", "1", 0.5
    has_visual, training_data, source, commit = False, None, "", None
