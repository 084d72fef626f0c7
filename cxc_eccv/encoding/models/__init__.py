"""A checkpoint, loaded with what belongs to it."""
