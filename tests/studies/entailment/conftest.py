"""Tests of models need the extra ``train``."""

from importlib.util import find_spec

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
NEED_TRAIN = ["classifier", "commands", "enhanced", "masking", "mining", "scoring"]
collect_ignore_glob = [] if HAS_TRAIN else [f"test_{name}.py" for name in NEED_TRAIN]
