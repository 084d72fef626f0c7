"""Workers are importable by name; all tests train or score small random models, which needs the train extra."""

import sys
from importlib.util import find_spec
from pathlib import Path

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
collect_ignore_glob = [] if HAS_TRAIN else ["*"]
if not find_spec("torchmetrics"):
    collect_ignore_glob.append("*retrieval_scores*")

sys.path[:0] = [str(Path(__file__).parent)]
