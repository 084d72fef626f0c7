"""What a classifier of entailment has, for stand-ins that define ``score_and_count``."""


class StandInClassifier:
    name = "stand-in"
    fingerprint = "1"
    threshold = 0.5
    has_visual = False
    training_data = None
    source = ""
    commit = None
