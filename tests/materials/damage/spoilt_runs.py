"""A good run of the embedded sample's test split, in all forms, and ways to spoil it before it is written."""

import json
import pickle
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

STRANGER = 10**9


@dataclass(frozen=True)
class Good:
    """A good run in all forms, to be spoilt."""

    images: np.ndarray
    captions: np.ndarray
    image_vectors: np.ndarray
    caption_vectors: np.ndarray

    @classmethod
    def of(cls, library):
        random = np.random.default_rng(0)
        images = library.split("test").images["image_id"].to_numpy()
        captions = library.split("test").captions["caption_id"].to_numpy()
        return cls(images, captions, *(random.standard_normal((ids.size, 8)) for ids in (images, captions)))

    @property
    def scores(self):
        return self.image_vectors @ self.caption_vectors.T

    def rankings(self, depth=None):
        i2t = np.argsort(-self.scores, axis=1)
        t2i = np.argsort(-self.scores.T, axis=1)
        return {
            "i2t": dict(zip(map(str, self.images), self.captions[i2t][:, :depth].tolist(), strict=True)),
            "t2i": dict(zip(map(str, self.captions), self.images[t2i][:, :depth].tolist(), strict=True)),
        }

    def arrays(self):
        return {
            "image_ids": self.images,
            "image_embeddings": self.image_vectors.astype(np.float32),
            "caption_ids": self.captions,
            "caption_embeddings": self.caption_vectors.astype(np.float32),
        }

    def matrix(self):
        return {"image_ids": self.images, "caption_ids": self.captions, "scores": self.scores.astype(np.float32)}

    def directions(self):
        scores = self.scores.astype(np.float32)
        return {
            "image_ids": self.images,
            "caption_ids": self.captions,
            "scores_i2t": scores,
            "scores_t2i": np.ascontiguousarray(scores.T),
        }


def npz(change, form="arrays"):
    """Write an archive after ``change`` has spoilt its arrays."""

    def write(good, folder):
        arrays = getattr(good, form)()
        change(arrays)
        np.savez(folder / "run.npz", **arrays)
        return folder / "run.npz"

    return write


def scores(change):
    return npz(change, "matrix")


def directions(change):
    return npz(change, "directions")


def mask_others(arrays):
    """Fill all but the best captions of every image, and mark those that were filled."""
    scores = arrays["scores_i2t"]
    arrays["scored_i2t"] = scores < np.sort(scores, axis=1)[:, -20][:, None]
    scores[arrays["scored_i2t"]] = -100


def keep_square(arrays):
    """Keep as many captions as there are images."""
    count = arrays["image_ids"].size
    arrays["caption_ids"] = arrays["caption_ids"][:count]
    arrays["scores_i2t"] = arrays["scores_i2t"][:, :count]
    arrays["scores_t2i"] = arrays["scores_t2i"][:count]


def rankings(change, depth=None):
    def write(good, folder):
        content = good.rankings(depth)
        content = change(content) or content
        (folder / "run.json").write_text(json.dumps(content))
        return folder / "run.json"

    return write


def columns(change):
    """A row per query in Parquet."""

    def write(good, folder):
        lists = good.rankings()["t2i"]
        table = {"query_id": pa.array(map(int, lists)), "item_ids": pa.array(lists.values())}
        table["direction"] = pa.array(["t2i"] * len(lists))
        change(table)
        pq.write_table(pa.table(table), folder / "run.parquet")
        return folder / "run.parquet"

    return write


def trec(line):
    """A TREC run of which a line is spoilt: rank 2 of the first query."""

    def write(good, folder):
        lines = [
            f"{query} Q0 {item} {rank} {-rank} run"
            for query, items in good.rankings(10)["t2i"].items()
            for rank, item in enumerate(items, 1)
        ]
        query, _, item, *_ = lines[1].split()
        lines[1] = line.format(query=query, item=item)
        (folder / "run_t2i.trec").write_text("\n".join(lines))
        return folder / "run_t2i.trec"

    return write


def cut(write, keep):
    """The first part of the bytes of a good file."""

    def write_part(good, folder):
        path = write(good, folder)
        content = path.read_bytes()
        path.write_bytes(content[: int(keep * len(content))])
        return path

    return write_part


def pickled(good, folder):
    (folder / "run.pkl").write_bytes(pickle.dumps(good.arrays()))
    return folder / "run.pkl"


def assign(**new):
    """Replace arrays by functions of themselves."""

    def change(arrays):
        arrays.update({name: make(arrays[name]) for name, make in new.items()})

    return change


def fill(name, value):
    """Put a value into row 3, column 2."""
    return assign(**{name: lambda array: with_value(array, (3, 2), value)})


def repeat(name):
    return assign(**{name: lambda ids: with_value(ids, 4, ids[1])})


def with_value(array, place, value):
    changed = array.copy()
    changed[place] = value
    return changed


def overflow(name):
    def to_halves(array):
        with np.errstate(over="ignore"):
            return (array * 1e5).astype(np.float16)

    return assign(**{name: to_halves})


def shorten(ids, values, axis=0):
    return assign(**{ids: lambda array: array[1:], values: lambda array: np.delete(array, 0, axis=axis)})


def lengthen(ids, values, axis=0):
    changes = {ids: lambda array: np.append(array, STRANGER)}
    return assign(**changes, **{values: lambda array: np.insert(array, array.shape[axis], 1, axis=axis)})


def swap(arrays):
    for end in ("ids", "embeddings"):
        one = f"image_{end}"
        other = f"caption_{end}"
        arrays[one], arrays[other] = arrays[other], arrays[one]


def swap_ids(arrays):
    arrays["image_ids"], arrays["caption_ids"] = arrays["caption_ids"], arrays["image_ids"]


def number_rows(arrays):
    for name in ("image_ids", "caption_ids"):
        arrays[name] = np.arange(arrays[name].size)


def number_items(content):
    """Every query ranks the items by their row numbers."""
    return {"i2t": {str(image): [*range(300)] for image in range(60)}}


def swap_scores(arrays):
    swap_ids(arrays)
    arrays["scores"] = arrays["scores"].T


def first(content, direction="t2i"):
    return next(iter(content[direction]))


def change_first(edit):
    """Replace the first ranking of t2i."""

    def change(content):
        query = first(content)
        content["t2i"][query] = edit(content["t2i"][query])

    return change


def swap_directions(content):
    return {"i2t": content["t2i"], "t2i": content["i2t"]}


def swap_items(content):
    """Captions ranked by captions: queries are right, items are of the wrong kind."""
    query = next(iter(content["i2t"]))
    return {"t2i": dict.fromkeys(content["t2i"], content["i2t"][query])}


def without_query(content):
    del content["t2i"][first(content)]


def rename_query(content):
    content["t2i"]["caption_7"] = content["t2i"].pop(first(content))
