"""Encodes images and captions with Hugging Face models: batched, resumable, on several processes."""

from typing import TYPE_CHECKING

from cxc_eccv.lazy import import_on_first_use
from cxc_eccv.types.model_options import Encoding, TenCrops

__all__ = [
    "Encoding",
    "LoadedModel",
    "TenCrops",
    "TextEncoder",
    "encode",
    "encode_once",
    "encode_to_file",
    "find_cache_file",
    "load_model",
    "rerank",
    "score_pairs",
    "sharded_ranks",
    "split_ranks",
    "text_encoder",
]

HOMES = {
    "LoadedModel": "cxc_eccv.encoding.loading",
    "TextEncoder": "cxc_eccv.encoding.texts",
    "encode": "cxc_eccv.encoding.encode_run",
    "encode_once": "cxc_eccv.encoding.encode_run",
    "encode_to_file": "cxc_eccv.encoding.encode_run",
    "find_cache_file": "cxc_eccv.encoding.encode_run",
    "load_model": "cxc_eccv.encoding.loading",
    "rerank": "cxc_eccv.encoding.cross_encoding",
    "score_pairs": "cxc_eccv.encoding.cross_encoding",
    "sharded_ranks": "cxc_eccv.encoding.processes",
    "split_ranks": "cxc_eccv.encoding.processes",
    "text_encoder": "cxc_eccv.encoding.texts",
}

if TYPE_CHECKING:
    from cxc_eccv.encoding.cross_encoding import rerank, score_pairs
    from cxc_eccv.encoding.encode_run import encode, encode_once, encode_to_file, find_cache_file
    from cxc_eccv.encoding.loading import LoadedModel, load_model
    from cxc_eccv.encoding.processes import sharded_ranks, split_ranks
    from cxc_eccv.encoding.texts import TextEncoder, text_encoder

__getattr__ = import_on_first_use(__name__, HOMES, "train")
