"""The text and image towers of models, which turn items into vectors."""
