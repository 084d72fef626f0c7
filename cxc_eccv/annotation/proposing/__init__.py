"""Which pairs people are asked about: one ``STRATEGY`` per file."""
