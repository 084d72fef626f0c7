"""Metrics: one pure function and its SPEC per file, found by the registry."""
