"""The folder that a page's commands run in: what a reader has by the time, made of the embedded sample."""

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from label_files import write_label_file
from mined_files import write_mined
from pages import DOCS, ROOT, blocks_of
from PIL import Image

from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.evaluation import evaluate
from cxc_eccv.runs import EmbeddingsRun, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.types import Embeddings, find_positions

RAW = Path(mirror_folder("sample"))

MODELS = {
    "openai/clip-vit-base-patch32": "clip",
    "openai/clip-vit-base-patch16": "clip",
    "google/siglip-base-patch16-224": "siglip",
    "sentence-transformers/all-MiniLM-L6-v2": "bert",
    "Salesforce/blip-itm-base-coco": "blip",
    "Salesforce/blip2-itm-vit-g": "blip2",
    "google/vit-base-patch16-224": "vit",
}
"""Hub ids of the pages to the small random model that stands in for each, in a folder of that name."""

CHECKPOINTS = ("logs/run/checkpoints/epoch_1.pt", "logs/run/checkpoints/epoch_2.pt", "checkpoints/epoch_32.pt")
"""Files of open_clip's training."""


def model(seed, splits=("test",), noise=0.9, library=None):
    """A model that places every caption near its image, of the sample or another library."""
    random = np.random.default_rng(seed)
    parts = [(library or Library("sample")).split(split) for split in splits]
    image_ids = np.concatenate([part.image_ids for part in parts])
    caption_ids = np.concatenate([part.caption_ids for part in parts])
    places = find_positions(np.concatenate([part.caption_image_ids for part in parts]), image_ids)[0]
    images = random.standard_normal((image_ids.size, 16))
    captions = images[places] + noise * random.standard_normal((places.size, 16))
    return EmbeddingsRun(Embeddings(image_ids, images), Embeddings(caption_ids, captions))


def trec(run, direction):
    """Whole rankings as TREC lines; scores are unrounded, so that equal lines stay ties."""
    queries, gallery = (run.images, run.captions) if direction == "i2t" else (run.captions, run.images)
    scores = queries.vectors @ gallery.vectors.T
    for query, row in zip(queries.ids.tolist(), scores, strict=True):
        for rank, place in enumerate(np.argsort(-row, kind="stable"), start=1):
            yield f"{query} Q0 {gallery.ids[place]} {rank} {float(row[place])!r} clip\n"


def label_best(run):
    """Every image with the best five captions, of which people call one a match, one in part, and three none."""
    scores = run.images.vectors @ run.captions.vectors.T
    best = run.captions.ids[np.argsort(-scores, axis=1)[:, :5]]
    pairs = zip(np.repeat(run.images.ids, 5).tolist(), best.ravel().tolist(), strict=True)
    return list(pairs), [0, 0.5, 0, 1, 0] * len(best)


def save_models(folder):
    """The models that stand in for those of the Hub and of open_clip, where PyTorch is installed."""
    if importlib.util.find_spec("torch") is not None:
        import open_clip_stand_in
        import tiny_models

        for name, kind in MODELS.items():
            tiny_models.save(getattr(tiny_models, kind)(), folder / name)
        for name in CHECKPOINTS:
            open_clip_stand_in.save_checkpoint(open_clip_stand_in.Model(), folder / name, prefix="module.")


def make_official_workplace(folder, library):
    """Models, vectors, a table of labels, and files of noise under the names of the test split's photographs."""
    (folder / "val2014").mkdir(parents=True)
    (folder / "examples").symlink_to(ROOT / "examples")
    save_models(folder)
    random = np.random.default_rng(0)
    content = library.split("test")
    pairs = {"image_id": content.image_ids, "caption_id": np.roll(content.caption_ids, -5)[::5]}
    pq.write_table(pa.table(pairs), folder / "mine.parquet")
    for seed, name in enumerate(("clip", "blip", "mine")):
        save_embeddings(folder / f"{name}.npz", model(seed, library=library))
    (folder / "matches.csv").write_text(blocks_of(DOCS / "own_labels.md")[0].text)
    (folder / "pilot").mkdir()
    (folder / "pilot" / "README.md").write_text("# My labels\n")
    labelled = list(zip(content.image_ids[1:].tolist(), content.caption_ids[:-5:5].tolist(), strict=True))
    gains = [place % 2 for place in range(len(labelled))]
    write_label_file(folder / "pilot" / "labels.parquet", library, labelled, gains, name="pilot")
    for name in content.images["file_name"].to_pylist():
        Image.fromarray(random.integers(0, 256, (32, 32, 3), np.uint8)).save(folder / "val2014" / name)


def make_workplace(folder):
    """Everything that a page may take as given."""
    folder.mkdir(parents=True)
    shutil.copytree(RAW, folder / "mirror")
    shutil.copytree(RAW / "coco" / "images", folder / "val2014")
    (folder / "coco").symlink_to("val2014")
    (folder / "examples").symlink_to(ROOT / "examples")
    build_folder(folder / "cxc_eccv_data", data_dir="sample", images=folder / "val2014", progress=False)
    save_models(folder)
    save_embeddings(folder / "clip.npz", model(0, ("validation", "test")))
    save_embeddings(folder / "blip.npz", model(1, ("test",)))
    save_embeddings(folder / "mine.npz", model(2, ("test",)))
    library = Library("sample")
    content = library.split("validation")
    following = zip(content.image_ids.tolist(), np.roll(content.caption_ids, -5)[::5].tolist(), strict=True)
    write_mined(folder / "weak.parquet", library, "validation", list(following))
    for name in ("my_labels", "pilot"):
        (folder / name).mkdir()
        (folder / name / "README.md").write_text("# My labels\n")
    write_label_file(folder / "my_labels" / "labels.parquet", library, *label_best(model(0)))
    write_label_file(folder / "pilot" / "labels.parquet", library, *label_best(model(0)), name="pilot")
    shutil.copy(folder / "my_labels" / "labels.parquet", folder / "mine.parquet")
    images = library.split("test").images["image_id"]
    captions = library.split("test").captions["caption_id"][5::5]
    rows = (f"{image},{caption}\n" for image, caption in zip(images, captions, strict=False))
    (folder / "matches.csv").write_text(f"image_id,caption_id\n{''.join(rows)}")
    (folder / "choices.csv").write_text("winner,loser,count\nA,B,30\nB,A,10\n")
    (folder / "glove.6B.300d.txt").write_text("red 1 0\nblue 0 1\ncircle 1 1\nsquare 1 -1\na 0.5 0\n")
    for direction in ("i2t", "t2i"):
        (folder / f"clip_{direction}.trec").write_text("".join(trec(model(0), direction)))
    for name, seed in (("baseline", 1), ("new", 0), ("out", 0)):
        evaluate(model(seed), data_dir="sample", per_query=True).save(folder / name)
    for labels, sources in (("old", ["coco"]), ("new", ["coco", "cxc", "eccv"])):
        for seed, name in enumerate("abc"):
            report = evaluate(model(seed), "coco_5k", data_dir="sample", sources=sources, per_query=True)
            report.save(folder / labels / name)
    return folder
