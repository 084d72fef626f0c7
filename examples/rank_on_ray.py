"""Rank a gallery in Parquet shards on Ray. Counts are kept, so that the same command continues after a kill.

python examples/rank_on_ray.py queries.npz shards cxc i2t report
"""

import sys
from functools import reduce
from operator import add
from pathlib import Path

import ray

import cxc_eccv as ce
from cxc_eccv.evaluation import Request, report_of_ranks
from cxc_eccv.ranking import LargeGallery, ShardCounts
from cxc_eccv.registry import task
from cxc_eccv.runs import find_positives, read_shard
from cxc_eccv.types import find_sides


@ray.remote(num_cpus=1, max_retries=5)
def count(gallery: LargeGallery, shard: Path, counts: Path) -> None:
    """Count a shard, unless its counts are newer than it is."""
    if not counts.exists() or counts.stat().st_mtime < shard.stat().st_mtime:
        gallery.count(*read_shard(shard), threads=1).save(counts)


if __name__ == "__main__":
    run, name, direction = ce.load_embeddings(sys.argv[1]), *sys.argv[3:5]
    shards, output = sorted(Path(sys.argv[2]).resolve().glob("*.parquet")), Path(sys.argv[5]).resolve()
    files = [output.with_name(f"{output.name}.counts") / f"{shard.stem}.npz" for shard in shards]
    library = ce.Library()
    judgments = task(name).judgments(library.split("test"), direction)
    queries, positives = run.find_vectors(find_sides(direction)[0], "query"), find_positives(shards, judgments)
    gallery = LargeGallery(queries, judgments, positives, similarity=run.choose_similarity())
    shared = ray.put(gallery)
    ray.get([count.remote(shared, shard, file) for shard, file in zip(shards, files, strict=True)])
    ranks = gallery.ranks(reduce(add, (ShardCounts.load(file, gallery) for file in files)))
    report_of_ranks({f"{name}/{direction}": (judgments, ranks)}, library, Request(name=run.model)).save(output)
