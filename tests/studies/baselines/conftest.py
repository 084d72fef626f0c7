"""The message of a command on a full disk."""

from full_disk import told

__all__ = ["told"]
