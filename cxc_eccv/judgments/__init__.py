"""Which items are positive for which queries, and why: merge rules with provenance, and plausible matches."""
