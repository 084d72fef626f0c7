"""Who is positive for whom, and why: merge rules with provenance, and plausible matches."""
