"""Mined weak positives: exactly the retriever's best captions that the classifier keeps, whoever shares the work."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("transformers", reason="transformers is not installed: pip install 'cxc_eccv[train]'")

from cxc_eccv.encoding.distributed.shards import FolderStore
from cxc_eccv.entailment import mining
from cxc_eccv.entailment.labelled import read_labelled
from cxc_eccv.entailment.measures import measure_classifier
from cxc_eccv.entailment.mining import mine
from cxc_eccv.errors import InvalidOption, MissingIds, RunTooShallow, SourceMissing
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_mined
from cxc_eccv.types import Embeddings


class SharedWords:
    """A classifier whose probability is the share of the hypothesis' words that the premise has."""

    name, fingerprint, context = "shared-words", "f" * 64, 10_000
    model = SimpleNamespace(config=SimpleNamespace(has_visual=False, threshold=0.75, training_data={"holds": {}}))

    def __init__(self):
        self.asked = []

    def score_and_count(self, premises, images, hypotheses, *, batch_size=64, progress=True):
        assert (images is not None) == self.model.config.has_visual
        self.asked += zip(premises, hypotheses, strict=True)
        cut = sum(len(premise) > self.context for premise in premises)
        return np.array([share(*pair) for pair in zip(premises, hypotheses, strict=True)]), cut


def share(premise, hypothesis):
    words = hypothesis.lower().rstrip(".").split()
    return sum(word in premise.lower() for word in words) / len(words)


@pytest.fixture(scope="module")
def library():
    return Library("sample")


def vectors_of(library, split="train", seed=0):
    content, rng = library.karpathy(split), np.random.default_rng(seed)
    sides = [Embeddings(ids, rng.standard_normal((ids.size, 6))) for ids in (content.image_ids, content.caption_ids)]
    return EmbeddingsRun(*sides, model="random")


@pytest.fixture(scope="module")
def run(library):
    return vectors_of(library)


def by_hand(content, scores, top_k, threshold):
    """(image, caption, rank, probability) by a loop over images and sorted captions."""
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    found = []
    for row, image in enumerate(content.image_ids.tolist()):
        premise = " ".join(texts[caption].strip() for caption in texts if owners[caption] == image)
        ranked = sorted(zip(-scores[row], content.caption_ids.tolist(), strict=True))
        others = [caption for _, caption in ranked if owners[caption] != image][:top_k]
        for rank, caption in enumerate(others, start=1):
            if share(premise, texts[caption]) >= threshold:
                found.append((image, caption, rank, share(premise, texts[caption])))
    return found


def cosines(run):
    sides = [side.vectors / np.linalg.norm(side.vectors, axis=1, keepdims=True) for side in (run.images, run.captions)]
    return sides[0] @ sides[1].T


def rows_of(mined):
    return list(zip(*(mined.table[name].to_pylist() for name in ("image_id", "caption_id", "rank")), strict=True))


@pytest.mark.parametrize("top_k", [1, 7, 30])
def test_pairs_are_those_of_a_loop_over_images(library, run, top_k, tmp_path):
    content, file = library.karpathy("train"), tmp_path / "weak.parquet"
    mined = mine(run, SharedWords(), library, top_k=top_k, threshold=0.6, output=file, progress=False)
    expected = by_hand(content, cosines(run), top_k, np.float32(0.6))
    assert expected
    assert rows_of(mined) == [row[:3] for row in expected]
    assert mined.table["score"].to_pylist() == pytest.approx([row[3] for row in expected])
    again = read_mined(file)
    assert again.table.equals(mined.table)
    assert again.facts == mined.facts
    assert again.facts["rule"] == {"top_k": top_k, "threshold": 0.6, "pairs_scored": 60 * top_k, "pairs_cut": 0}
    assert again.facts["classifier"]["name"] == "shared-words"
    assert again.facts["classifier"]["training_data"] == {"holds": {}}
    assert again.facts["retriever"]["name"] == "random"
    assert again.facts["data"]["content"] == content.fingerprint
    assert set(again.table["rule"].to_pylist()) == {f"top {top_k}, p >= 0.6"}
    assert [path.name for path in tmp_path.iterdir()] == ["weak.parquet"]


def test_scores_and_lists_give_what_vectors_give(library, run):
    content, table = library.karpathy("train"), cosines(run).astype(np.float64)
    options = {"top_k": 5, "progress": False}
    wanted = rows_of(mine(run, SharedWords(), library, **options))
    scores = ScoresRun(content.image_ids, content.caption_ids, table)
    assert rows_of(mine(scores, SharedWords(), library, **options)) == wanted
    lists = {
        image: content.caption_ids[np.argsort(-row)][:10]
        for image, row in zip(content.image_ids.tolist(), table, strict=True)
    }
    assert rows_of(mine(RankingsRun.from_dicts(i2t=lists), SharedWords(), library, **options)) == wanted
    with pytest.raises(RunTooShallow):
        mine(RankingsRun.from_dicts(i2t=lists), SharedWords(), library, top_k=6, progress=False)


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_retriever_of_texts_ranks_by_the_mean_of_the_images_own_captions(library, run, similarity):
    content = library.karpathy("train")
    texts = EmbeddingsRun(None, run.captions, similarity=similarity)
    vectors = run.captions.vectors.astype(np.float64)
    if similarity == "cosine":
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    means = np.stack([vectors[content.caption_image_ids == image].mean(axis=0) for image in content.image_ids])
    mined = mine(texts, SharedWords(), library, top_k=9, progress=False)
    assert rows_of(mined) == [row[:3] for row in by_hand(content, means @ vectors.T, 9, 0.75)]
    assert mined.facts["retriever"]["image_vectors"] == "mean of the image's own captions"


def test_the_threshold_is_the_classifiers_own_or_reaches_a_precision(library, run):
    classifier, labelled = SharedWords(), read_labelled("cxc/val", library)
    assert mine(run, classifier, library, progress=False).facts["rule"]["threshold"] == 0.75
    chosen = mine(run, classifier, library, precision=0.8, labelled=labelled, progress=False)
    rule = chosen.facts["rule"]
    assert (rule["precision"], rule["labelled"]) == (0.8, "cxc/val")
    said = [
        share(*pair)
        for pair in zip(*(labelled.table[name].to_pylist() for name in ("premise", "hypothesis")), strict=True)
    ]
    measured = measure_classifier(labelled.labels, np.float32(said), rule["threshold"], labelled.images)
    assert {rate.name: rate.value for rate in measured}["precision"] >= 0.8
    assert min(chosen.table["score"].to_pylist()) >= rule["threshold"]


def test_a_precision_that_is_out_of_reach_is_told_before_any_pair_is_scored(library, run):
    classifier, labelled = SharedWords(), read_labelled("cxc/val", library)
    pairs = zip(*(labelled.table[name].to_pylist() for name in ("premise", "hypothesis")), strict=True)
    shares = [share(*pair) for pair in pairs]
    column = labelled.table.schema.get_field_index("label")
    labels = pa.array([value == min(shares) for value in shares]).cast(labelled.table.schema.field("label").type)
    wrong = replace(labelled, table=labelled.table.set_column(column, "label", labels))
    with pytest.raises(InvalidOption, match=r"no threshold reaches a precision of 0\.9 on these 80 pairs"):
        mine(run, classifier, library, precision=0.9, labelled=wrong, progress=False)
    assert len(classifier.asked) == 80


def test_a_classifier_that_looks_at_images_gets_the_files(library, run, tmp_path):
    from cxc_eccv.sources.download import mirror_folder

    class Looks(SharedWords):
        model = SimpleNamespace(config=SimpleNamespace(has_visual=True, threshold=0.75))

        def score_and_count(self, premises, images, hypotheses, **options):
            self.seen = images
            return super().score_and_count(premises, images, hypotheses, **options)

    classifier = Looks()
    folder = mirror_folder("sample")
    mined = mine(run, classifier, library, images=folder, top_k=2, threshold=0.0, progress=False)
    names = dict(zip(*(library.images("train")[name].to_pylist() for name in ("image_id", "file_name")), strict=True))
    assert [path.name for path in classifier.seen] == [names[image] for image in mined.table["image_id"].to_pylist()]
    assert mined.facts["classifier"]["premise"] == "image and captions"
    with pytest.raises(InvalidOption, match="give their folder"):
        mine(run, classifier, library, progress=False)
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceMissing, match="60 of 60 images are not below"):
        mine(run, classifier, library, images=tmp_path / "empty", progress=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"split": "test"}, "weak positives are for training"),
        ({"threshold": 90}, "probabilities run from 0 to 1"),
        ({"threshold": 0.9, "precision": 0.9}, "give one of them"),
        ({"precision": 0.9}, "give both or none"),
        ({"top_k": 0}, "top_k"),
        ({"output": "weak.csv"}, "must end in .parquet"),
    ],
)
def test_what_cannot_be_mined_is_refused_before_the_work(library, run, options, told):
    classifier = SharedWords()
    with pytest.raises(InvalidOption, match=told):
        mine(run, classifier, library, **options)
    assert not classifier.asked


def test_a_threshold_is_not_chosen_on_test_data(library, run):
    with pytest.raises(InvalidOption, match="Choose it on cxc/val"):
        mine(run, SharedWords(), library, precision=0.9, labelled=read_labelled("cxc/test", library))


def test_a_file_that_holds_test_pairs_chooses_no_threshold(library, run, tmp_path):
    """As entailment score leaves one, under a name that says nothing of test data."""
    for part, refused in (("cxc/test", True), ("cxc/val", False)):
        pq.write_table(read_labelled(part, library).table, tmp_path / "probabilities.parquet")
        labelled = read_labelled(str(tmp_path / "probabilities.parquet"), library)
        if refused:
            with pytest.raises(InvalidOption, match=r"of 80, 80 hold an image or a caption of coco/test; a threshold"):
                mine(run, SharedWords(), library, precision=0.8, labelled=labelled, progress=False)
        else:
            mined = mine(run, SharedWords(), library, precision=0.8, labelled=labelled, progress=False)
            assert mined.facts["rule"]["labelled"] == "probabilities.parquet"


def test_a_run_of_another_split_is_refused(library):
    with pytest.raises(MissingIds, match="lacks"):
        mine(vectors_of(library, "validation"), SharedWords(), library, progress=False)


def test_what_is_scored_before_a_kill_is_not_scored_again(library, run, tmp_path, monkeypatch):
    monkeypatch.setattr(mining._PairSide, "shard_size", 100)
    file, put, stored = tmp_path / "weak.parquet", FolderStore.put, []

    def put_or_die(store, start, fingerprint, shard):
        if len(stored) == 2:
            raise KeyboardInterrupt
        stored.append(start)
        put(store, start, fingerprint, shard)

    monkeypatch.setattr(FolderStore, "put", put_or_die)
    with pytest.raises(KeyboardInterrupt):
        mine(run, SharedWords(), library, top_k=5, output=file, progress=False)
    monkeypatch.setattr(FolderStore, "put", put)
    assert not file.exists()
    second = SharedWords()
    mine(run, second, library, top_k=5, output=file, progress=False)
    assert len(second.asked) == 300 - 200
    whole = tmp_path / "whole.parquet"
    mine(run, SharedWords(), library, top_k=5, output=whole, progress=False)
    assert file.read_bytes() == whole.read_bytes()

    class Other(SharedWords):
        fingerprint = "0" * 64

    stored.clear()
    monkeypatch.setattr(FolderStore, "put", put_or_die)
    with pytest.raises(KeyboardInterrupt):
        mine(run, SharedWords(), library, top_k=5, output=file, progress=False)
    monkeypatch.setattr(FolderStore, "put", put)
    other = Other()
    with pytest.warns(UserWarning, match="2 kept shards of pairs were damaged, or of another model"):
        mine(run, other, library, top_k=5, output=file, progress=False)
    assert len(other.asked) == 300


def test_cut_premises_are_counted_once_for_all_slices_and_after_a_kill(library, run, tmp_path, monkeypatch):
    class Short(SharedWords):
        context = 200

    monkeypatch.setattr(mining._PairSide, "shard_size", 50)
    premises = {}
    for row in library.captions("train").to_pylist():
        premises.setdefault(row["image_id"], []).append(row["text"].strip())
    long = 5 * sum(len(" ".join(texts)) > 200 for texts in premises.values())
    with pytest.warns(UserWarning, match=f"^{long} of 300 pairs are longer than the context of shared-words") as told:
        mined = mine(run, Short(), library, top_k=5, output=tmp_path / "weak.parquet", progress=False)
    assert len(told) == 1
    assert mined.facts["rule"]["pairs_cut"] == long > 0


def test_a_threshold_that_nothing_reaches_costs_no_scores(library, run, tmp_path):
    class Cautious(SharedWords):
        def score_and_count(self, premises, images, hypotheses, **options):
            scores, cut = super().score_and_count(premises, images, hypotheses, **options)
            return 0.5 * scores, cut

    file = tmp_path / "weak.parquet"
    with pytest.raises(InvalidOption, match=r"none of 300 pairs reaches the threshold 0\.9, the highest probability"):
        mine(run, Cautious(), library, top_k=5, threshold=0.9, output=file, progress=False)
    assert not file.exists()
    again = Cautious()
    assert mine(run, again, library, top_k=5, threshold=0.3, output=file, progress=False).table.num_rows
    assert not again.asked


SCRIPT = """
import sys
import numpy as np
sys.path.insert(0, sys.argv[2])
from test_mining import SharedWords, vectors_of
from cxc_eccv.entailment import mining
from cxc_eccv.sources.library import Library
mining._PairSide.shard_size = 50
library, classifier = Library("sample"), SharedWords()
mined = mining.mine(vectors_of(library), classifier, library, top_k=7, output=sys.argv[1], progress=False)
in_memory = mining.mine(vectors_of(library), SharedWords(), library, top_k=7, progress=False)
assert in_memory.table.equals(mined.table)
assert len(classifier.asked) < 60 * 7, "the processes did not share the work"
"""


@pytest.mark.slow
def test_two_processes_mine_the_file_of_one(library, run, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    launch = ["-m", "torch.distributed.run", "--nproc-per-node", "2", "--rdzv-backend", "c10d"]
    command = [*launch, "--rdzv-endpoint", "localhost:0", "script.py", "two.parquet", str(Path(__file__).parent)]
    done = subprocess.run(
        [sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=280
    )
    assert done.returncode == 0, done.stderr[-3000:]
    mine(run, SharedWords(), library, top_k=7, output=tmp_path / "one.parquet", progress=False)
    assert (tmp_path / "two.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_the_metadata_is_json_with_the_contract_s_names(library, run, tmp_path):
    file = tmp_path / "weak.parquet"
    mine(run, SharedWords(), library, top_k=3, output=file, progress=False)
    facts = json.loads(pq.read_schema(file).metadata[b"cxc_eccv"])
    assert (facts["schema"], facts["collection"], facts["split"]) == (1, "coco", "train")
    assert {"name", "fingerprint"} <= set(facts["classifier"]) & set(facts["retriever"])
    assert {"edition", "version", "content", "files"} <= set(facts["data"])
