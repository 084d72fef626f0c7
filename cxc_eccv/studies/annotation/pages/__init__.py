"""Pages of the rounds of new labels and of what sets of labels are worth."""
