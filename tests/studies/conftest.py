"""What the tests of studies are made with is importable by name, and so are the experiments of ``tools``."""

import sys
from pathlib import Path

from foreign_code import bring_code

__all__ = ["bring_code"]

MATERIALS = Path(__file__).parent / "materials"
EXPERIMENTS = Path(__file__).parents[2] / "tools" / "experiments"
sys.path[:0] = [str(EXPERIMENTS), *(str(MATERIALS / room) for room in ("models", "samples", "workers"))]
