"""Tasks: one TASK per file, found by the registry."""
