"""Experiments are no part of the package: their folder is on the path."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "tools" / "experiments"))
