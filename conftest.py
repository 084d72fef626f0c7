"""Modules that need the extra ``train`` are not collected where it is not installed."""

from importlib.util import find_spec

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
HELPERS = (
    "tests/char_gru_worker.py",
    "tests/dual_encoder_models.py",
    "tests/gathering_worker.py",
    "tests/tiny_models.py",
)
MODULES = tuple(f"cxc_eccv/{part}/*" for part in ("encoding", "baselines/dual_encoder", "baselines/char_gru"))
collect_ignore_glob = [] if HAS_TRAIN else [*HELPERS, *MODULES]
