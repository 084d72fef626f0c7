"""The message of a command on a full disk, which the tests of studies share."""

from full_disk import told

__all__ = ["told"]
