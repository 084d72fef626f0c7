r"""What weak positives are worth: make them, check them against the sample's scenes, and train with and without them.

Run from the root of the repository::

    python tools/experiments/weak_positives.py labelled --images 15 --output labelled.parquet
    python tools/experiments/weak_positives.py check weak.parquet
    python tools/experiments/weak_positives.py true --precision 0.8 --output true.parquet
    python tools/experiments/weak_positives.py compare true.parquet --seeds 5 --output compared

``labelled`` says of some images of the sample's train split which captions of other images are true of them, as a
person would who labels a retriever's lists: for ``cxc-eccv mine --labelled``. ``check`` tells precision and recall of
what ``cxc-eccv mine`` found there: the sample's generator knows which caption is true of which scene. ``true`` writes
pairs that are true, and others, at a precision of your choice. ``rated`` writes the pairs of images and captions that
Crisscrossed Captions rates from 3 on, for training on real data. ``compare`` trains a dual encoder on the sample with
and without, once for each seed, and prints the scores side by side; the options after ``--`` are those of ``cxc-eccv
train dual-encoder``, for the runs with weak positives alone.

The trial of ``docs/weak_positives.md``::

    cxc-eccv train entailment-classifier --data-dir sample --images sample --text-model sample \
        --visual-text-model sample --image-model sample --train-on entailment/val cxc/val --learning-rate 1e-3 \
        --per-device-train-batch-size 32 --num-train-epochs 12 --held-out 12 --report-on entailment/test \
        --output-dir classifier
    python tools/experiments/weak_positives.py true --output true.parquet
    python tools/experiments/weak_positives.py compare true.parquet --seeds 10 --output compared
    cxc-eccv --data-dir sample encode --model compared/without_0 --images sample --split train --output train.npz
    python tools/experiments/weak_positives.py labelled --images 15 --output labelled.parquet
    cxc-eccv --data-dir sample mine train.npz --images sample --classifier classifier --top-k 60 \
        --labelled labelled.parquet --output mined.parquet
    python tools/experiments/weak_positives.py compare mined.parquet --seeds 10 --output compared
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sample.collection import draw_collection, of_split
from sample.likeness import is_true
from scipy import stats

from cxc_eccv.hashing import hash_content
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import FACTS_KEY, MINED_SCHEMA, read_mined

Pair = tuple[int, int]

RECIPE = shlex.split("""
--data-dir sample --images sample --no-pretraining --text-model sample --image-model sample
--image-pooling max --train-text-model --extra-layers 0 --pooling mean --normalize --scale 15 --loss softmax
--learning-rate 3e-3 --schedule other --lr-scheduler-type cosine --warmup-steps 20 --train-on coco/train
--per-device-train-batch-size 30 --num-train-epochs 60 --max-grad-norm 1 --eval-strategy no --save-strategy no
--no-load-best-model-at-end --report-on test --use-cpu --disable-tqdm true --logging-steps 1000
""")

SHOWN = {
    "COCO i2t R@1": "coco_5k/i2t/recall_at_1",
    "COCO t2i R@1": "coco_5k/t2i/recall_at_1",
    "CxC i2t R@1": "cxc/i2t/recall_at_1",
    "CxC t2i R@1": "cxc/t2i/recall_at_1",
    "ECCV i2t mAP@R": "eccv_caption/i2t/map_at_r",
    "ECCV t2i mAP@R": "eccv_caption/t2i/map_at_r",
    "Entail@1": "entailment/i2t/entail_at_1",
    "Entail@5": "entailment/i2t/entail_at_5",
}


def true_pairs(split: str) -> tuple[set[Pair], set[Pair]]:
    """Pairs of an image and a caption of another one, of the sample: those that are true, and all others."""
    pictures = of_split(draw_collection(), split)
    found: tuple[set[Pair], set[Pair]] = set(), set()
    for picture in pictures:
        for other in pictures:
            for caption in other.counted if other is not picture else ():
                truth = is_true(caption.statement, picture.scene)
                found[not truth].add((picture.image_id, caption.caption_id))
    return found


def mixed_pairs(split: str, precision: float) -> list[Pair]:
    """All true pairs, and so many others, drawn by chance, that the true ones are this share."""
    true, false = (sorted(pairs) for pairs in true_pairs(split))
    wrong = round(len(true) * (1 - precision) / precision)
    return sorted([*true, *random.Random(0).sample(false, wrong)])  # noqa: S311 - drawn pairs keep no secret


def label(path: Path, library: Library, split: str, count: int) -> None:
    """All pairs of some images, drawn by chance, with captions of others, and whether they are true."""
    content, (true, false) = library.split(split), true_pairs(split)
    drawn = set(random.Random(0).sample(content.image_ids.tolist(), count))  # noqa: S311 - as above
    pairs = [(*pair, int(pair in true)) for pair in sorted(true | false) if pair[0] in drawn]
    files, texts = (
        dict(zip(table[key].to_pylist(), table[value].to_pylist(), strict=True))
        for table, key, value in ((content.images, "image_id", "file_name"), (content.captions, "caption_id", "text"))
    )
    columns = {
        "image": [files[image] for image, _, _ in pairs],
        "image_key": [f"coco/{image}" for image, _, _ in pairs],
    }
    columns |= {"hypothesis": [texts[caption] for _, caption, _ in pairs]}
    columns |= {"caption_key": [f"coco/{caption}" for _, caption, _ in pairs]}
    pq.write_table(pa.table(columns | {"label": [truth for _, _, truth in pairs]}), path)
    print(f"{path}: {len(pairs):,} pairs of {count} images, {sum(truth for _, _, truth in pairs):,} true")


def rated_pairs(library: Library, split: str) -> list[Pair]:
    """Images with captions of others, rated from 3 on."""
    content = library.split(split)
    own = set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    rated = library.split(split).ratings("sits").to_pylist()
    return sorted({(row["right_id"], row["left_id"]) for row in rated if row["rating"] >= 3} - own)


def write(path: Path, library: Library, split: str, pairs: Sequence[Pair], name: str) -> None:
    """A file as ``cxc-eccv mine`` writes it."""
    content = library.split(split)
    model = {"name": name, "fingerprint": name}
    data = {"edition": library.edition, "content": content.fingerprint, "images": len(content.image_ids)}
    data["captions"] = len(content.caption_ids)
    facts = {"schema": 1, "collection": "coco", "split": split, "classifier": model, "retriever": model}
    images, captions = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    by = pa.DictionaryArray.from_arrays(np.zeros(len(pairs), np.int32), pa.array([name]))
    columns = {"image_id": images, "caption_id": captions, "score": np.ones(len(pairs), np.float32)}
    columns |= {"rank": np.ones(len(pairs), np.int32), "classifier": by, "retriever": by, "rule": by}
    metadata = {FACTS_KEY: json.dumps(facts | {"rule": {"made": name}, "data": data})}
    pq.write_table(pa.table(columns, schema=MINED_SCHEMA.with_metadata(metadata)), path)
    print(f"{path}: {len(pairs):,} pairs of {len(set(images.tolist())):,} images")


def check(path: Path) -> None:
    """Print precision and recall of a file against what is true of the sample's scenes."""
    mined = read_mined(path)
    true, _ = true_pairs("val" if mined.split == "validation" else mined.split)
    columns = (mined.table[name].to_pylist() for name in ("image_id", "caption_id"))
    pairs = set(zip(*columns, strict=True))
    right = len(pairs & true)
    print(f"{path}: {len(pairs):,} pairs, {right:,} of {len(true):,} that are true")
    print(f"precision {100 * right / len(pairs):.1f}  recall {100 * right / len(true):.1f}")


def compare(path: Path, seeds: Sequence[int], output: Path, options: Sequence[str]) -> None:
    """Train with and without for each seed, and print the scores, and paired differences with intervals of 95%.

    A model that has its report in the folder already is not trained again.
    """
    if len(seeds) < 2:
        sys.exit("--seeds: an interval takes at least 2")
    arms = {"without": [], f"with_{path.stem}": ["--weak-positives", str(path), *options]}
    scores: dict[str, list[dict[str, float]]] = {arm: [] for arm in arms}
    for seed in seeds:
        for arm, added in arms.items():
            scores[arm].append(train(output / f"{arm}_{seed}", [*RECIPE, *added, "--seed", str(seed)]))
            print(f"{arm}, seed {seed}: {100 * scores[arm][-1][SHOWN['COCO i2t R@1']]:.1f}", file=sys.stderr)
    print(f"| of {len(seeds)} seeds, in percent | without | with | difference |\n|---|---|---|---|")
    for title, key in SHOWN.items():
        without, enhanced = (100 * np.array([found[key] for found in scores[arm]]) for arm in scores)
        change = enhanced - without
        spread = stats.t.ppf(0.975, len(seeds) - 1) * change.std(ddof=1) / np.sqrt(len(seeds))
        print(f"| {title} | {without.mean():.1f} | {enhanced.mean():.1f} | {change.mean():+.1f} ± {spread:.1f} |")


def train(folder: Path, options: Sequence[str]) -> dict[str, float]:
    """The scores of a model, which is trained unless they are there."""
    report = folder / "report" / "report.json"
    record = folder / "made_of.json"
    made_of = json.dumps([hash_content(option) if option.endswith(".parquet") else option for option in options])
    if not report.exists():
        from cxc_eccv.studies.baselines.dual_encoder import script

        trained = script.train([*options, "--output-dir", str(folder)])
        assert trained.report is not None  # noqa: S101 - the recipe asks for one
        record.write_text(made_of, encoding="utf-8")
        trained.report.save(report.parent)
    elif not record.exists() or record.read_text(encoding="utf-8") != made_of:
        sys.exit(f"{folder} is of other options or another file: choose another --output")
    found: dict[str, float] = json.loads(report.read_text(encoding="utf-8"))["scores"]
    return found


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    given = sys.argv[1:] if arguments is None else arguments
    given, options = (given[: given.index("--")], given[given.index("--") + 1 :]) if "--" in given else (given, [])
    about, _, rest = str(__doc__).partition("\n\n")
    parser = argparse.ArgumentParser(
        description=about, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    made_of = {
        "true": "true pairs of the sample, and others",
        "rated": "pairs that CxC rates from 3 on",
        "labelled": "labels of all pairs of some images of the sample",
    }
    for name, about in made_of.items():
        made = commands.add_parser(name, help=about)
        made.add_argument("--split", default="validation" if name == "rated" else "train")
        made.add_argument("--output", type=Path, required=True, help="file to write")
    commands.choices["true"].add_argument("--precision", type=float, default=1.0, help="share of true pairs")
    commands.choices["rated"].add_argument("--data-dir", help="folder with the raw files")
    commands.choices["labelled"].add_argument("--images", type=int, default=15, help="how many")
    for name, about in (("check", "precision and recall on the sample"), ("compare", "train with and without")):
        commands.add_parser(name, help=about).add_argument("file", type=Path)
    commands.choices["compare"].add_argument("--seeds", type=int, default=5, help="how many runs of each")
    commands.choices["compare"].add_argument("--output", type=Path, required=True, help="folder of the models")
    found = parser.parse_args(given)
    if found.command == "true":
        write(found.output, Library("sample"), found.split, mixed_pairs(found.split, found.precision), "the scenes")
    elif found.command == "labelled":
        label(found.output, Library("sample"), found.split, found.images)
    elif found.command == "rated":
        library = Library(found.data_dir)
        write(found.output, library, found.split, rated_pairs(library, found.split), "CxC's ratings")
    elif found.command == "check":
        check(found.file)
    else:
        compare(found.file, range(found.seeds), found.output, options)


if __name__ == "__main__":
    main()
