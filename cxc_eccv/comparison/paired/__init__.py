"""Two or more reports of ours, query by query."""
