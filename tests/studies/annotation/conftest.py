"""Commands run in an empty folder, with the sample as the data."""

from annotated_projects import command

__all__ = ["command"]
