"""Ranked lists, and the files they come in."""
