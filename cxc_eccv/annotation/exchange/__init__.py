"""Questions out, answers back: one ``FORMAT`` per file."""
