"""MSCOCO-FG: refined captions of the test images, ranked among a pool with many more images."""

import dataclasses
import io
import json

import numpy as np
import oracles
import pytest

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, MalformedSource, MissingIds, UnknownIds
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.readers import read_image_pool, read_refined_captions
from cxc_eccv.tasks import coco_fg
from cxc_eccv.types import Embeddings

CUTS = (1, 5, 10)


@pytest.fixture(scope="module")
def content(sample_library):
    return coco_fg.content(sample_library, "test")


def run_of(content, captions=None, seed=0, noise=1.5):
    """Random images of the pool, refined captions as noisy copies of these; and captions of the split or none."""
    random = np.random.default_rng(seed)
    images = Embeddings(content.image_ids, random.standard_normal((content.image_ids.size, 16)))
    at = np.searchsorted(images.ids, content.caption_image_ids, sorter=np.argsort(images.ids))
    own = images.vectors[np.argsort(images.ids)[at]]
    refined = (own + noise * random.standard_normal(own.shape)).astype(np.float32)
    arrays = {"coco_fg_ids": content.caption_ids, "coco_fg_embeddings": refined}
    return EmbeddingsRun(images, captions, further=arrays)


def slow_recalls(run, pool, links):
    """Recall at each cut from the pool's ids and the captions' ids by image."""
    vectors = dict(zip(run.images.ids.tolist(), run.images.vectors, strict=True))
    texts = dict(zip(run.further["coco_fg_ids"].tolist(), run.further["coco_fg_embeddings"], strict=True))
    captions = {caption: image for image, own in links.items() for caption in own}
    hits = {"i2t": [], "t2i": []}
    for image, own in links.items():
        scores = {caption: oracles.score_of(vectors[image], texts[caption]) for caption in captions}
        best = max(scores[caption] for caption in own)
        hits["i2t"].append(1 + sum(score >= best for caption, score in scores.items() if caption not in own))
        for caption in own:
            of_pool = {other: oracles.score_of(texts[caption], vectors[other]) for other in pool}
            hits["t2i"].append(sum(score >= of_pool[image] for score in of_pool.values()))
    return {
        f"coco_fg/{direction}/recall_at_{k}": np.mean([rank <= k for rank in ranks])
        for direction, ranks in hits.items()
        for k in CUTS
    }


def test_a_slow_loop_over_the_raw_files_gives_the_same(content, sample_library):
    folder = mirror_folder("sample")
    raw = json.loads((folder / "coco/fg/MSCOCO_FG_ann.json").read_text())
    sizes = {int(name.rpartition("_")[2]): len(captions) for name, captions in raw.items()}
    names = np.load(folder / "coco/fg/MSCOCO_FG_img_filenames.npy")
    pool = [int(name.removesuffix(".jpg").rpartition("_")[2]) for name in names.tolist()]
    karpathy = json.loads((folder / "coco/dataset_coco.json").read_text())["images"]
    links = {image["cocoid"]: image["sentids"][:5] for image in karpathy if image["split"] == "test"}
    run = run_of(content)
    report = ce.evaluate(run, "coco_fg", data_dir=sample_library)
    assert {image: len(own) for image, own in links.items()} == sizes
    expected = slow_recalls(run, pool, links)
    assert {key: report.scores[key] for key in expected} == pytest.approx(expected, abs=1e-12)
    assert report.scores["coco_fg/rsum"] == pytest.approx(100 * sum(expected.values()))
    assert 0.2 < expected["coco_fg/t2i/recall_at_1"] < 0.9, "a model that neither fails nor is perfect"


def test_facts_of_the_real_files(real_library):
    content, own = coco_fg.content(real_library, "test"), real_library.karpathy("test")
    assert (content.images.num_rows, content.captions.num_rows) == (31_244, 25_000)
    assert content.image_ids[:5_000].tolist() == own.image_ids.tolist()
    assert set(content.images["folder"].to_pylist()[5_000:]) == {"unlabeled2017"}
    refined, plain = ({row["caption_id"]: row for row in each.captions.to_pylist()} for each in (content, own))
    assert {number: row["image_id"] for number, row in refined.items()} == {
        number: row["image_id"] for number, row in plain.items()
    }
    letters = [
        {n: "".join(filter(str.isalnum, row["text"].lower())) for n, row in each.items()} for each in (refined, plain)
    ]
    assert sum(letters[0][number] == letters[1][number] for number in plain) == 13_988
    assert len({row["text"] for row in refined.values()}) == 24_906
    assert refined[770337]["text"] == "a man with a red helmet on a small moped on a muddy road"
    judged = task("coco_fg").judgments(real_library, "test", "t2i")
    assert (judged.query_ids.size, judged.gallery_ids.size, int(judged.n_positives.max())) == (25_000, 31_244, 1)


def test_other_tasks_keep_their_values_beside_it(content, make_run, sample_library, tmp_path):
    """The captions of the split and the refined ones have the same ids, and never take each other's place."""
    plain = make_run(sample_library)
    own = run_of(content, plain.captions)
    vectors = own.images.vectors.copy()
    vectors[: plain.images.ids.size] = plain.images.vectors
    assert own.images.ids[: plain.images.ids.size].tolist() == plain.images.ids.tolist()
    run = dataclasses.replace(own, images=Embeddings(own.images.ids, vectors))
    save_embeddings(tmp_path / "run.npz", run)
    report = ce.evaluate(load_embeddings(tmp_path / "run.npz"), data_dir=sample_library)
    before = ce.evaluate(plain, data_dir=sample_library)
    assert {key: report.scores[key] for key in before.scores} == before.scores
    assert report.scores["coco_fg/t2i/recall_at_1"] != report.scores["coco_5k/t2i/recall_at_1"]
    assert before.skipped["coco_fg"] == "the run has no vectors of MSCOCO-FG's captions (arrays coco_fg_*)"
    alone = ce.evaluate(dataclasses.replace(run, captions=None), "coco_fg", data_dir=sample_library)
    assert alone.scores == {key: value for key, value in report.scores.items() if key.startswith("coco_fg")}


def test_captions_that_no_task_used_are_counted(content, make_run, sample_library):
    run = run_of(content, make_run(sample_library).captions)
    facts = ce.evaluate(run, "coco_fg", data_dir=sample_library).provenance["run"]
    assert facts["images"]["outside_the_tasks"] == 0
    assert facts["captions"]["outside_the_tasks"] == 300


FAULTS = {
    "no vectors": (lambda ids, own: {"coco_fg_ids": ids}, MalformedRun, "has 'coco_fg_ids' but not"),
    "an id twice": (lambda ids, own: (np.append(ids[:-1], ids[0]), own), MalformedRun, "one row per id"),
    "a missing caption": (lambda ids, own: (ids[1:], own[1:]), MissingIds, "lacks 1 of 300 captions"),
    "a stranger": (
        lambda ids, own: (np.append(ids, 10**9), np.concatenate([own, own[:1]])),
        UnknownIds,
        "1 of 301 captions are unknown to the data, the first: 1000000000",
    ),
    "another width": (
        lambda ids, own: (ids, own[:, 1:]),
        MalformedRun,
        "have 16 dimensions, caption_embeddings have 15",
    ),
}


@pytest.mark.parametrize(("spoil", "error", "message"), FAULTS.values(), ids=FAULTS)
def test_bad_arrays_never_yield_a_number(content, sample_library, spoil, error, message):
    run = run_of(content)
    spoilt = spoil(*run.further.values())
    arrays = spoilt if isinstance(spoilt, dict) else dict(zip(run.further, spoilt, strict=True))
    with pytest.raises(error, match=message):
        ce.evaluate(dataclasses.replace(run, further=arrays), data_dir=sample_library)


def test_a_pool_image_that_is_missing_is_named(content, sample_library):
    run = run_of(content)
    fewer = Embeddings(run.images.ids[:-1], run.images.vectors[:-1])
    with pytest.raises(MissingIds, match=f"lacks 1 of 70 images the task needs, the first: {run.images.ids[-1]}"):
        ce.evaluate(dataclasses.replace(run, images=fewer), "coco_fg", data_dir=sample_library)


def test_without_its_files_the_error_says_where_to_put_them(content, tmp_path, make_run, sample_library):
    run = run_of(content, make_run(sample_library).captions)
    with pytest.raises(InvalidOption, match="coco_fg cannot be computed: the run has no arrays coco_fg_ids and"):
        ce.evaluate(make_run(sample_library), "coco_fg", data_dir=sample_library)
    with pytest.raises(ce.errors.SourceMissing, match=r"MSCOCO_FG_img_filenames\.npy"):
        ce.evaluate(run, "coco_fg", data_dir=ce.Library(tmp_path, offline=True))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "an object"),
        ({}, "an object"),
        ({"000000000007": ["a"] * 5}, "a name such as"),
        ({"COCO_val2014_000000000007.jpg": ["a"] * 5}, "a name such as"),
        ({"COCO_val2014_000000000007": ["a"] * 4}, "a list of 5 captions"),
        ({"COCO_val2014_000000000007": ["a", "b", "c", "d", " "]}, "an empty caption"),
        ({"COCO_val2014_000000000007": ["a", "b", "c", "d", 5]}, "a text"),
    ],
)
def test_malformed_captions_are_refused(tmp_path, content, words):
    (tmp_path / "ann.json").write_text(json.dumps(content))
    with pytest.raises(MalformedSource, match=words):
        read_refined_captions(tmp_path / "ann.json")


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["000000000007.jpg", "COCO_val2014_000000000007.jpg"], "image 7 a second time"),
        (["000000000007.png"], "a file name of COCO"),
        (["COCO_train2014_000000000007.jpg"], "a file name of COCO"),
        ([7], "texts of shape"),
        ([["000000000007.jpg"]], "texts of shape"),
    ],
)
def test_a_malformed_pool_is_refused(tmp_path, names, words):
    np.save(tmp_path / "names.npy", np.array(names))
    with pytest.raises(MalformedSource, match=words):
        read_image_pool(tmp_path / "names.npy")
    buffer = io.BytesIO()
    np.save(buffer, np.array(["000000000007.jpg"]))
    (tmp_path / "cut.npy").write_bytes(buffer.getvalue()[:-1])
    with pytest.raises(MalformedSource, match=r"a header for .* before .* bytes"):
        read_image_pool(tmp_path / "cut.npy")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda raw: dict(list(raw.items())[1:]), "no image"),
        (lambda raw: raw | {"COCO_val2014_000000000007": ["a", "b", "c", "d", "e"]}, "image 7"),
    ],
)
def test_its_images_are_those_of_the_split(content, sample_copy, change, words):
    path = sample_copy / "coco/fg/MSCOCO_FG_ann.json"
    path.write_text(json.dumps(change(json.loads(path.read_text()))))
    library = ce.Library(sample_copy, allow_modified=True)
    with pytest.raises(MalformedSource, match=words):
        ce.evaluate(run_of(content), "coco_fg", data_dir=library)
