"""Modules that need the extra ``train`` are not collected where it is not installed."""

from importlib.util import find_spec

HAS_TRAIN = all(find_spec(name) for name in ("torch", "transformers", "accelerate"))
collect_ignore_glob = (
    [] if HAS_TRAIN else [f"cxc_eccv/{part}/*" for part in ("encoding", "baselines/dual_encoder", "baselines/char_gru")]
)
