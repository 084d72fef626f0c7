"""From answers to a set of labels: settled, described, and what changes with them."""
