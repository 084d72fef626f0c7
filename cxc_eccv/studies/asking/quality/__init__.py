"""Who took care, and how far people agree."""
