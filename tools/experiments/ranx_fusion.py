"""Records what ranx makes of the seeded runs of the tests of fusion.

pip install ranx==0.3.21
python tools/experiments/ranx_fusion.py > tests/materials/ranx_fusion.json
"""

from __future__ import annotations

import importlib
import json
import runpy
from pathlib import Path

RUNS = Path(__file__).parents[2] / "tests" / "materials" / "fused_runs.py"


def main() -> None:
    """Print method to query to item to fused score."""
    ranx, made = importlib.import_module("ranx"), runpy.run_path(str(RUNS))
    runs = [ranx.Run({str(query): lists for query, lists in run.items()}) for run in made["make_runs"]()]
    fused = {
        "rrf": ranx.fuse(runs, norm=None, method="rrf"),
        "sum": ranx.fuse(runs, norm="min-max", method="sum"),
        "weighted sum": ranx.fuse(runs, norm="min-max", method="wsum", params={"weights": made["WEIGHTS"]}),
    }
    print(json.dumps({name: run.to_dict() for name, run in fused.items()}, indent=1))


if __name__ == "__main__":
    main()
