"""Good run files of every format, and what they hold; the fuzzer damages them."""

import io
import json
import re
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_run, save_embeddings
from cxc_eccv.types import Embeddings

IMAGES = np.array([9, 25, 30])
CAPTIONS = np.array([29, 37, 38, 49])
RANDOM = np.random.default_rng(5)
RANKINGS = {
    "i2t": {int(image): RANDOM.permutation(CAPTIONS).tolist() for image in IMAGES},
    "t2i": {int(caption): RANDOM.permutation(IMAGES).tolist() for caption in CAPTIONS},
}


def embeddings():
    random = np.random.default_rng(3)
    sides = (Embeddings(ids, random.standard_normal((ids.size, 5))) for ids in (IMAGES, CAPTIONS))
    return EmbeddingsRun(*sides, similarity="dot")


def arrays():
    run = embeddings()
    return {
        "image_ids": run.images.ids,
        "image_embeddings": run.images.vectors,
        "caption_ids": run.captions.ids,
        "caption_embeddings": run.captions.vectors.astype(np.float64, order="F"),
        "similarity": np.array("dot"),
    }


def of_writer(write):
    def good(folder, name):
        write(folder / name)
        return (folder / name).read_bytes()

    return good


def save_scores(path):
    scores = np.random.default_rng(4).standard_normal((IMAGES.size, CAPTIONS.size))
    np.savez(path, image_ids=IMAGES, caption_ids=CAPTIONS, scores=scores)


def save_streamed(path):
    """An archive written to a pipe: sizes and checksums stand after the members."""

    class Pipe(io.RawIOBase):
        def __init__(self):
            self.content = b""

        def writable(self):
            return True

        def write(self, data):
            self.content += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w") as archive:
        for name, array in arrays().items():
            member = io.BytesIO()
            np.save(member, array)
            archive.writestr(f"{name}.npy", member.getvalue())
    path.write_bytes(pipe.content)


def save_long(path, **options):
    rows = [
        {"query_id": query, "direction": direction, "rank": rank, "item_id": item, "score": 1 / rank}
        for direction, lists in RANKINGS.items()
        for query, items in lists.items()
        for rank, item in enumerate(items, 1)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path, write_page_checksum=True, **options)


def save_lists(path):
    columns = {
        "query_id": [query for lists in RANKINGS.values() for query in lists],
        "direction": [direction for direction, lists in RANKINGS.items() for _ in lists],
        "item_ids": [items for lists in RANKINGS.values() for items in lists.values()],
    }
    pq.write_table(pa.table(columns), path, write_page_checksum=True, row_group_size=3)


def save_trec(path):
    lines = [
        f"{q} Q0 {item} {rank} {1 / rank} tag" for q, row in RANKINGS["i2t"].items() for rank, item in enumerate(row, 1)
    ]
    path.write_text("\n".join(lines) + "\n")


BINARY = {
    "stored.npz": of_writer(lambda path: np.savez(path, **arrays())),
    "packed.npz": of_writer(lambda path: np.savez_compressed(path, **arrays())),
    "ours.npz": of_writer(lambda path: save_embeddings(path, embeddings())),
    "streamed.npz": of_writer(save_streamed),
    "scores.npz": of_writer(save_scores),
    "long.parquet": of_writer(save_long),
    "zstd.parquet": of_writer(
        lambda path: save_long(path, compression="zstd", use_dictionary=False, data_page_version="2.0")
    ),
    "lists.parquet": of_writer(save_lists),
}
"""Formats with checksums: name of a file to a function that writes it and gives its bytes."""

TENSORS = {"ours.safetensors": of_writer(lambda path: save_embeddings(path, embeddings()))}
"""The binary format without."""

TEXT = {
    "run.json": of_writer(lambda path: path.write_text(json.dumps(RANKINGS))),
    "run_i2t.trec": of_writer(save_trec),
}
"""Texts, which have none either."""


def content(run):
    """Everything that a run holds but its file, in plain values."""
    if run.kind == "embeddings":
        sides = [(one.ids.tolist(), one.vectors.tolist()) for one in (run.images, run.captions)]
        return [run.similarity, *sides]
    if run.kind == "scores":
        return [run.image_ids.tolist(), run.caption_ids.tolist(), run.scores.tolist(), str(run.scores.dtype)]
    return rankings(run)


def rankings(run: RankingsRun):
    found = {}
    for direction, one in run.lists.items():
        rows = np.split(one.items, one.indptr[1:-1])
        scores = [None] * len(rows) if one.scores is None else np.split(one.scores, one.indptr[1:-1])
        found[direction] = {
            query: (row.tolist(), None if score is None else score.tolist())
            for query, row, score in zip(one.query_ids.tolist(), rows, scores, strict=True)
        }
    return found


def read(path):
    return content(load_run(path))


INTEGER = r"(-?(?:0|[1-9]\d*))"
ROW = rf'"(\d+)"\s*:\s*\[\s*({INTEGER}(?:\s*,\s*{INTEGER})*)\s*\]'
PART = rf'"(i2t|t2i|t2t|i2i)"\s*:\s*\{{\s*({ROW}(?:\s*,\s*{ROW})*)\s*\}}'
WHOLE = rf"\s*\{{\s*{PART}(?:\s*,\s*{PART})*\s*\}}\s*"


def said_by_json(text):
    """What the text says, by a grammar of rankings alone."""
    assert re.fullmatch(WHOLE, text, re.ASCII), text
    found = {}
    for part in re.finditer(PART, text, re.ASCII):
        rows = re.finditer(ROW, part[2], re.ASCII)
        found[part[1]] = {int(row[1]): ([int(item) for item in row[2].split(",")], None) for row in rows}
    return found


def said_by_trec(text):
    """What the text says, line by line."""
    found = {}
    for line in text.split("\n"):
        if line.split():
            query, _, item, rank, score, _ = line.split()
            assert all(re.fullmatch(r"[+-]?\d+", number, re.ASCII) for number in (query, item, rank)), line
            assert re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", score, re.ASCII), line
            found.setdefault(int(query), []).append((int(rank), int(item), float(score)))
    ordered = {}
    for query in sorted(found):
        ranks, items, scores = zip(*sorted(found[query]), strict=True)
        assert list(ranks) in (list(range(len(ranks))), list(range(1, len(ranks) + 1)))
        ordered[query] = (list(items), list(scores))
    return {"i2t": ordered}
