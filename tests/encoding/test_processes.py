"""Two processes under torchrun give the files and the ranks of one."""

import os
import socket
import subprocess
import sys
import tracemalloc
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import tiny_models
import torch
import torch.distributed as dist
from folded_judgments import in_folds

from cxc_eccv.encoding import encode, processes, sharded_ranks, split_ranks
from cxc_eccv.encoding.shards import Notes, Shard, encode_side
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MissingIds
from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.large_gallery import ShardCounts
from cxc_eccv.registry import task
from cxc_eccv.types import Embeddings

pytestmark = pytest.mark.thorough


def on_two_processes(script, *arguments):
    # A free port: a fixed one may be taken.
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command = [sys.executable, *launch, "--rdzv-endpoint", "localhost:0", script]
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(
        [*command, *map(str, arguments)], env=environment, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


ENCODE = """
import os, sys
from pathlib import Path
from types import SimpleNamespace
from cxc_eccv.encoding import encode, sides
for side in (sides.CaptionSide, sides.ImageSide):
    side.shard_size = 4
model, folder = sys.argv[1], Path(sys.argv[2])
prepare = sides.prepare_image
def note(*arguments):
    with (folder / f"prepared-{os.environ['RANK']}").open("a") as file:
        file.write("x")
    return prepare(*arguments)
sides.prepare_image = note
captions = [(number, "a dog" + " cat" * (number % 9)) for number in range(30)]
options = {"images": folder / "images", "captions": captions, "device": "cpu", "progress": False}
on_disk = encode(model, output=folder / "two.npz", **options)
in_memory = encode(model, **options)
for side in ("images", "captions"):
    one, other = getattr(on_disk, side), getattr(in_memory, side)
    assert one.ids.tolist() == other.ids.tolist() and (one.vectors == other.vectors).all()
"""


@pytest.mark.slow
def test_two_processes_write_the_file_of_one(tmp_path, monkeypatch):
    from cxc_eccv.encoding import sides

    for side in (sides.CaptionSide, sides.ImageSide):
        monkeypatch.setattr(side, "shard_size", 4)
    model = str(tiny_models.save(tiny_models.dual(), tmp_path / "model"))
    (tmp_path / "images").mkdir()
    tiny_models.picture_files(tmp_path / "images", 14)
    (tmp_path / "script.py").write_text(ENCODE)
    on_two_processes(tmp_path / "script.py", model, tmp_path)
    captions = [(number, "a dog" + " cat" * (number % 9)) for number in range(30)]
    options = {"images": tmp_path / "images", "captions": captions, "device": "cpu", "progress": False}
    encode(model, output=tmp_path / "one.npz", **options)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()
    # Twice: to the file, and in memory.
    prepared = [len((tmp_path / f"prepared-{rank}").read_text()) for rank in range(2)]
    assert prepared == [2 * 8, 2 * 6]


GROUPS = """
from cxc_eccv.encoding.processes import join_processes
for number in range(6):
    with join_processes() as processes:
        assert processes.gather((number, processes.rank)) == [(number, 0), (number, 1)]
"""


@pytest.mark.slow
def test_processes_join_again_and_again(tmp_path):
    (tmp_path / "script.py").write_text(GROUPS)
    on_two_processes(tmp_path / "script.py")


RANKS = """
import sys
from pathlib import Path
from types import SimpleNamespace
import numpy as np
import torch.distributed as dist
sys.path.insert(0, str(Path(sys.argv[3])))
from folded_judgments import in_folds
from cxc_eccv.encoding import split_ranks
from cxc_eccv.registry import task
from cxc_eccv.runs import load_embeddings
from cxc_eccv.sources.library import Library
run, split = load_embeddings(sys.argv[1]), Library("sample").split("test")
dist.init_process_group("gloo")
for direction in ("i2t", "t2i", "t2t", "i2i"):
    judgments = task("cxc").judgments(split, direction)
    for folds, asked in enumerate((judgments, in_folds(judgments))):
        found = split_ranks(run, direction, asked)
        place = f"{sys.argv[2]}/{direction}-{folds}-{dist.get_rank()}.npz"
        np.savez(place, ranks=found.ranks, ties=found.ties, indptr=found.indptr, n_gallery=found.n_gallery)
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_ranks_of_split_gallery_equal_one_process(tmp_path, make_run, sample_library):
    from cxc_eccv.runs import EmbeddingsRun, save_embeddings

    run = make_run(sample_library)
    captions = run.captions.vectors.copy()
    captions[1::7] = captions[0]
    run = EmbeddingsRun(run.images, Embeddings(run.captions.ids, captions))
    save_embeddings(tmp_path / "run.npz", run)
    (tmp_path / "script.py").write_text(RANKS)
    on_two_processes(
        tmp_path / "script.py", tmp_path / "run.npz", tmp_path, Path(__file__).parents[1] / "materials/samples"
    )
    for direction in ("i2t", "t2i", "t2t", "i2i"):
        judgments = task("cxc").judgments(sample_library.split("test"), direction)
        for folds, asked in enumerate((judgments, in_folds(judgments))):
            alone = ranked(run).rank(asked, direction)
            for rank in range(2):
                found = np.load(tmp_path / f"{direction}-{folds}-{rank}.npz")
                for name in ("ranks", "ties", "indptr", "n_gallery"):
                    np.testing.assert_array_equal(found[name], getattr(alone, name))
            assert alone.ties.sum() > 0 or direction in ("t2i", "i2i")


def test_one_process_alone_ranks_the_whole_gallery(make_run, sample_library):
    """The similarity is that of the run unless it is overridden."""
    run = make_run(sample_library)
    for direction in ("i2t", "t2t"):
        judgments = task("cxc").judgments(sample_library.split("test"), direction)
        for asked in (judgments, in_folds(judgments)):
            expected = ranked(run).rank(asked, direction)
            np.testing.assert_array_equal(split_ranks(run, direction, asked).ranks, expected.ranks)
    plain = make_run(sample_library)
    longer = Embeddings(
        plain.captions.ids, plain.captions.vectors * np.linspace(1, 9, plain.captions.ids.size)[:, None]
    )
    run = type(plain)(plain.images, longer, similarity="dot")
    judgments = task("cxc").judgments(sample_library.split("test"), "i2t")
    expected = ranked(run, Options(similarity="dot")).rank(judgments, "i2t").ranks
    assert split_ranks(run, "i2t", judgments).ranks.tolist() == expected.tolist()
    assert split_ranks(run, "i2t", judgments, similarity="cosine").ranks.tolist() != expected.tolist()


@pytest.mark.slow
def test_coco_1k_is_split(make_run, real_library):
    # Whole numbers: their products are exact in any order, and tie.
    given = make_run(real_library)
    sides = (Embeddings(side.ids, np.rint(2 * side.vectors)) for side in (given.images, given.captions))
    run = type(given)(*sides)
    for direction in ("i2t", "t2i"):
        judgments = task("coco_1k").judgments(real_library.split("test"), direction)
        expected = ranked(run, Options(similarity="dot")).rank(judgments, direction)
        found = split_ranks(run, direction, judgments, similarity="dot")
        assert expected.ties.sum() > 0
        for name in ("ranks", "ties", "indptr", "n_gallery"):
            np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
        assert set(found.n_gallery.tolist()) == {5000 if direction == "i2t" else 1000}


def test_zero_vector_or_gap_in_shard_is_refused(make_run, sample_library):
    run = make_run(sample_library)
    judgments = task("cxc").judgments(sample_library.split("test"), "i2t")
    vectors = run.captions.vectors.copy()
    vectors[4] = 0
    with pytest.raises(MalformedRun, match=rf"zero vector, .* the first: {run.captions.ids[4]}"):
        sharded_ranks(run.images, judgments, run.captions.ids, vectors)
    with pytest.raises(MissingIds, match=r"positives have no vector"):
        sharded_ranks(run.images, judgments, run.captions.ids[5:], run.captions.vectors[5:])
    with pytest.raises(MissingIds, match="none of the positives is in a shard"):
        sharded_ranks(run.images, judgments, run.captions.ids + 10**9, run.captions.vectors)
    further = np.append(run.captions.ids, 10**9), np.concatenate([run.captions.vectors, np.ones((1, 16), np.float32)])
    with pytest.raises(DataError, match="1 items outside the gallery"):
        sharded_ranks(run.images, judgments, *further)
    with pytest.raises(InvalidOption, match="the run has no images"):
        split_ranks(type(run)(None, run.captions), "i2t", judgments)


@pytest.mark.parametrize(("covered", "repeated"), [([[0, 2, 9], [1, 9]], 1), ([[0, 2], [1], [0, 1, 2]], 3)])
def test_an_item_in_two_shards_is_refused(covered, repeated):
    counts, group = add_up(covered)
    with pytest.raises(DataError, match=f"^{repeated} items are in two shards; every item must be counted once"):
        processes._add_up(counts, group)


def test_process_with_other_queries_is_refused():
    counts, group = add_up([[0], [1]])
    group.gather = lambda value: [value, "another digest"]
    with pytest.raises(DataError, match="a shard was counted for other queries"):
        processes._add_up(counts, group)


def test_coverage_travels_as_bits():
    counts, group = add_up([[0, 2], [1, 9]])
    summed = processes._add_up(counts, group)
    assert np.unpackbits(summed.covered, count=ITEMS).nonzero()[0].tolist() == [0, 1, 2, 9]
    assert group.sent == ITEMS / 8


ITEMS = 800


def add_up(covered):
    """The counts of the first of several processes that cover these items, and what counts the bytes it sends."""
    shards = [np.packbits(np.isin(np.arange(ITEMS), items)) for items in covered]

    def gather(value):
        if isinstance(value, str):
            return [value] * len(covered)
        group.sent += value.nbytes
        return shards

    group = SimpleNamespace(count=len(covered), gather=gather, total=lambda counts: counts, sent=0)
    return ShardCounts(np.zeros(1, np.int64), np.zeros(1, np.int64), shards[0], "digest"), group


def test_processes_wait_for_days(monkeypatch):
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    for name, value in {"MASTER_ADDR": "localhost", "MASTER_PORT": port, "RANK": 0, "WORLD_SIZE": 1}.items():
        monkeypatch.setenv(name, str(value))
    processes._make_group()
    try:
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        assert backend.options._timeout == timedelta(days=7)
    finally:
        dist.destroy_process_group()


class OneOfTwo(processes.Processes):
    """A process whose partner has done its work."""

    def wait(self):
        pass


class Zeros:
    """A side of vectors without content."""

    name = "captions"
    shard_size = 64
    ids = np.arange(3000)

    def identity(self, part):
        return [str(part)]

    def shards(self, parts):
        for part in parts:
            yield Shard(self.ids[part], np.zeros((part.stop - part.start, 256), np.float32), Notes())


@pytest.mark.parametrize("on_disk", [True, False])
def test_process_that_joins_holds_the_run_once(tmp_path, on_disk):
    output = tmp_path / "run.npz" if on_disk else None
    tracemalloc.start()
    run, _ = encode_side(Zeros(), output, processes.Processes(), key="", progress=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert run.vectors.shape == (3000, 256)
    # In memory a lone process keeps its shards until each is copied.
    assert peak < (1.3 if on_disk else 2.3) * run.vectors.nbytes


def test_only_the_first_process_joins(tmp_path):
    output = tmp_path / "run.npz"
    options = {"key": "", "progress": False}
    assert encode_side(Zeros(), output, OneOfTwo(1, 2), **options) == (None, Notes())
    run, _ = encode_side(Zeros(), output, OneOfTwo(0, 2), **options)
    assert run.ids.tolist() == list(range(3000))
    everywhere, _ = encode_side(Zeros(), output, OneOfTwo(1, 2), **options, everywhere=True)
    assert everywhere.ids.tolist() == list(range(3000))
