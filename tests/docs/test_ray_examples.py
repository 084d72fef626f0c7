"""``examples/rank_on_ray.py`` and ``encode_on_ray.py`` on two workers, which die, as the driver does."""

import os
import runpy
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
from pages import ROOT
from plain_ranks import assert_equal_ranks

import cxc_eccv as ce
from cxc_eccv.encoding import encode
from cxc_eccv.ranking import LargeGallery, ShardCounts, ranked
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, find_positives, make_shard, read_shard, save_embeddings
from cxc_eccv.types import Embeddings, find_positions

pytest.importorskip("ray", reason="Ray is not installed: pip install '.[ray]'")
pytestmark = pytest.mark.slow

SHARDS = 6


@pytest.fixture
def files(tmp_path, make_run, sample_library):
    """Queries and shards of a gallery with ties, and the run that has both."""
    run = make_run(sample_library)
    ids, vectors = run.captions.ids, run.captions.vectors.astype(np.float16)
    vectors[1::7] = vectors[0]
    (tmp_path / "shards").mkdir()
    for number, rows in enumerate(np.array_split(np.arange(ids.size), SHARDS)):
        pq.write_table(make_shard(ids[rows], vectors[rows]), tmp_path / "shards" / f"{number}.parquet")
    save_embeddings(tmp_path / "queries.npz", EmbeddingsRun(run.images, None))
    return tmp_path, EmbeddingsRun(run.images, Embeddings(ids, vectors))


def start(folder, *command):
    settings = {
        "CXC_ECCV_DATA": "sample",
        "PYTHONPATH": str(ROOT),
        "HF_HUB_OFFLINE": "1",
        "RAY_AUTH_MODE": "disabled",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    }
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=folder,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


ARGUMENTS = ("queries.npz", "shards", "cxc", "i2t", "report")
RANK = ROOT / "examples" / "rank_on_ray.py"

DYING = f"""
import os, runpy, signal, sys, time
from pathlib import Path
import ray
from cxc_eccv import ranking

here, driver, victim = Path.cwd(), os.getpid(), sys.argv.pop(1)

class Dying(ranking.LargeGallery):
    def count(self, *shard, **options):
        with (here / "started").open("a") as file:
            file.write("x")
        if (here / "started").stat().st_size == 4 and victim == "worker":
            os._exit(1)
        if (here / "started").stat().st_size == 4 and victim == "driver":
            os.kill(driver, signal.SIGKILL)
            time.sleep(60)
        return super().count(*shard, **options)

ranking.LargeGallery = Dying
ray.init(num_cpus=2)
runpy.run_path({str(RANK)!r}, run_name="__main__")
"""


def check_ranks(folder, run, library):
    """The kept counts give the ranks of one process, and the report its scores."""
    judgments = task("cxc").judgments(library.split("test"), "i2t")
    positives = find_positives(sorted((folder / "shards").glob("*.parquet")), judgments)
    gallery = LargeGallery(run.images, judgments, positives)
    counts = [ShardCounts.load(path, gallery) for path in (folder / "report.counts").glob("*.npz")]
    assert len(counts) == SHARDS
    expected = ranked(run).rank(judgments, "i2t")
    assert_equal_ranks(gallery.ranks(sum(counts[1:], start=counts[0])), expected)
    assert expected.ties.sum() > 0
    scores = ce.load_report(folder / "report").scores
    alone = ce.evaluate(run, data_dir="sample", tasks="cxc").scores
    for key, value in scores.items():
        assert value == alone[key], key
    assert "cxc/i2t/recall_at_1" in scores


def test_two_workers_rank_like_one_process(files, sample_library):
    folder, run = files
    done = start(folder, RANK, *ARGUMENTS)
    assert done.returncode == 0, done.stderr[-3000:]
    check_ranks(folder, run, sample_library)


def test_killed_worker_changes_no_rank(files, sample_library):
    folder, run = files
    (folder / "dying.py").write_text(DYING)
    done = start(folder, "dying.py", "worker", *ARGUMENTS)
    assert done.returncode == 0, done.stderr[-3000:]
    # The shard of the killed worker was counted again, and perhaps another one that died with its worker.
    assert (folder / "started").stat().st_size > SHARDS
    check_ranks(folder, run, sample_library)


def test_killed_driver_continues_from_kept_counts(files, sample_library):
    folder, run = files
    (folder / "dying.py").write_text(DYING)
    assert start(folder, "dying.py", "driver", *ARGUMENTS).returncode < 0
    kept = {path: path.stat().st_mtime_ns for path in (folder / "report.counts").glob("*.npz")}
    assert 2 <= len(kept) < SHARDS
    done = start(folder, RANK, *ARGUMENTS)
    assert done.returncode == 0, done.stderr[-3000:]
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    check_ranks(folder, run, sample_library)


def test_shard_that_changed_is_counted_again(tmp_path):
    count = runpy.run_path(str(RANK))["count"]._function
    shard, counts = tmp_path / "0.parquet", tmp_path / "0.npz"
    pq.write_table(make_shard(np.arange(2), np.eye(2)), shard)
    saved = []
    gallery = SimpleNamespace(count=lambda *shard, threads: SimpleNamespace(save=lambda path: saved.append(path)))
    count(gallery, shard, counts)
    counts.touch()
    count(gallery, shard, counts)
    assert saved == [counts]
    os.utime(shard, (2e9, 2e9))
    count(gallery, shard, counts)
    assert saved == [counts, counts]


def test_shards_of_ray_rank_like_a_run(tmp_path, sample_library):
    pytest.importorskip("transformers", reason="transformers is not installed: pip install '.[train]'")
    import tiny_models

    model = str(tiny_models.save(tiny_models.dual(), tmp_path / "model"))
    split = sample_library.split("test")
    pq.write_table(split.captions.select(["caption_id", "text"]), tmp_path / "captions.parquet")
    done = start(tmp_path, ROOT / "examples" / "encode_on_ray.py", model, "captions.parquet", "shards")
    assert done.returncode == 0, done.stderr[-3000:]
    shards = [read_shard(path) for path in (tmp_path / "shards").glob("*.parquet")]
    found = Embeddings(*map(np.concatenate, zip(*shards, strict=True)))
    alone = encode(model, captions=split.captions, device="cpu", progress=False).captions
    assert sorted(found.ids) == sorted(alone.ids)
    rows = find_positions(alone.ids, found.ids)[0]
    np.testing.assert_allclose(found.vectors[rows], alone.vectors, rtol=1e-4, atol=1e-5)
