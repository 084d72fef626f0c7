"""Explain failures: concepts of the retrieved images, altered queries, and people's ratings."""
