"""Commands of new labels."""
