"""A Report as something to look at."""
