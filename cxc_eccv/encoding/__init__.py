"""Encodes images and captions with Hugging Face models: batched, resumable, on several processes."""

from cxc_eccv.extras import needs_extra
from cxc_eccv.types.model_options import Encoding, TenCrops

with needs_extra("train", subject="encoding needs"):
    from cxc_eccv.encoding.cross_encoding import rerank, score_pairs
    from cxc_eccv.encoding.loading import LoadedModel, load_model
    from cxc_eccv.encoding.processes import sharded_ranks, split_ranks
    from cxc_eccv.encoding.towers import TextEncoder, text_encoder
    from cxc_eccv.encoding.whole_run import encode, encode_once, encode_to_file

__all__ = [
    "Encoding",
    "LoadedModel",
    "TenCrops",
    "TextEncoder",
    "encode",
    "encode_once",
    "encode_to_file",
    "load_model",
    "rerank",
    "score_pairs",
    "sharded_ranks",
    "split_ranks",
    "text_encoder",
]
