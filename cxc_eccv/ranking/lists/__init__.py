"""Given rankings, which have no scores: what is known from positions alone."""
