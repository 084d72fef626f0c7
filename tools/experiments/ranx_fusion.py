"""Records what ranx makes of the runs in tests/materials/fused_runs.py, for tests/reference/test_ranx_fusion.py.

pip install ranx==0.3.21
PYTHONPATH=tests/materials python tools/experiments/ranx_fusion.py > tests/materials/ranx_fusion.json
"""

from __future__ import annotations

import json

from fused_runs import WEIGHTS, make_runs


def main() -> None:
    """Print method to query to item to fused score."""
    import ranx

    runs = [ranx.Run({str(query): lists for query, lists in run.items()}) for run in make_runs()]
    fused = {
        "rrf": ranx.fuse(runs, norm=None, method="rrf"),
        "sum": ranx.fuse(runs, norm="min-max", method="sum"),
        "weighted sum": ranx.fuse(runs, norm="min-max", method="wsum", params={"weights": WEIGHTS}),
    }
    print(json.dumps({name: run.to_dict() for name, run in fused.items()}, indent=1))


if __name__ == "__main__":
    main()
