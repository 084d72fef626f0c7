"""What makes a checkpoint bring code, which the tests of studies share."""

from foreign_code import bring_code

__all__ = ["bring_code"]
