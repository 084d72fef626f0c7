"""Encode captions (caption_id, text) or images (image_id, file) on Ray, into Parquet shards for LargeGallery.

python examples/encode_on_ray.py openai/clip-vit-base-patch32 captions.parquet shards
"""

import sys

import pyarrow as pa
import ray

from cxc_eccv.encoding import encode, load_model
from cxc_eccv.runs import make_shard

ROWS_PER_SHARD = 100_000


class Encoder:
    """The model of one worker, which encodes batches."""

    def __init__(self, model: str) -> None:
        self._model = load_model(model)

    def __call__(self, batch: pa.Table) -> pa.Table:
        """Ids and vectors of a batch; an item that cannot be encoded ends the work."""
        side = "captions" if "caption_id" in batch.column_names else "images"
        names = ("caption_id", "text") if side == "captions" else ("image_id", "file")
        pairs = zip(*(batch[name].to_pylist() for name in names), strict=True)
        encoded = encode(self._model, **{side: list(pairs)}, progress=False).find_vectors(side)
        return make_shard(encoded.ids, encoded.vectors)


if __name__ == "__main__":
    model, table, shards = sys.argv[1:]
    ray.init()
    cluster = ray.cluster_resources()
    n_gpus = int(cluster.get("GPU", 0))
    pool = ray.data.ActorPoolStrategy(min_size=1, max_size=n_gpus or int(cluster["CPU"]))
    rows = ray.data.read_parquet(table)
    options = {"fn_constructor_args": (model,), "batch_size": 1024, "batch_format": "pyarrow", "compute": pool}
    vectors = rows.map_batches(Encoder, num_gpus=1 if n_gpus else None, **options)
    vectors.write_parquet(shards, min_rows_per_file=ROWS_PER_SHARD, mode="error", use_dictionary=False)
