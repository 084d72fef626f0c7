"""Machine-in-the-loop labels: from models' disagreement to verified positives, and what a set of labels is worth."""
