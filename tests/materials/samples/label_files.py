"""Label files for tests: pairs of a library's split with gains, as ``cxc-eccv annotate merge`` writes them."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from cxc_eccv.sources.readers import LABELS_SCHEMA, write_labels


def label_facts(library, split="test", /, **others):
    """Facts of labels that are of the library's data."""
    content = library.split(split)
    facts = {
        "name": "mine",
        "version": "1.0.0",
        "split": split,
        "rule": "majority",
        "scheme": "eccv",
        "people": 3,
        "models": [{"name": "a model", "fingerprint": "1"}],
        "searched": {},
        "data": {
            "edition": library.edition,
            "content": content.fingerprint,
            "images": content.image_ids.size,
            "captions": content.caption_ids.size,
        },
    }
    return facts | others


def label_table(pairs, gains):
    """Pairs of image and caption ids; a gain above 0 is positive."""
    images, captions = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    gains = np.array(gains, dtype=np.float64)
    columns = [images, captions, gains, gains > 0, np.full(gains.size, 3, np.int32)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=LABELS_SCHEMA)


def random_pairs(library, split="test", number=200, seed=0):
    """Random pairs, each once, and random gains of them: about half are positive."""
    content = library.split(split)
    random = np.random.default_rng(seed)
    drawn = np.stack(
        [random.choice(content.image_ids, 2 * number), random.choice(content.caption_ids, 2 * number)], axis=1
    )
    pairs = random.permutation(np.unique(drawn, axis=0))[:number]
    return [tuple(pair) for pair in pairs.tolist()], random.choice([0, 0, 0.5, 1], len(pairs)).tolist()


def write_label_file(path, library, pairs, gains, split="test", **facts):
    """Write them, by default as if people had been asked about lists of all these images and captions; the path."""
    images, captions = (sorted(set(ids)) for ids in zip(*pairs, strict=True))
    facts = {"searched": {"i2t": images, "t2i": captions}} | facts
    write_labels(path, label_table(pairs, gains), label_facts(library, split, **facts))
    return path


def write_table(path, table):
    """Write a table by its ending."""
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".jsonl":
        path.write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        pq.write_table(table, path)
    return path
