"""Bad runs: how a good file is spoilt, the error it must get and words the message must hold.

Each entry is a row of docs/bad_input.md.
"""

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from spoilt_runs import (
    STRANGER,
    assign,
    change_first,
    columns,
    cut,
    fill,
    lengthen,
    npz,
    overflow,
    pickled,
    rankings,
    rename_query,
    repeat,
    scores,
    shorten,
    swap,
    swap_directions,
    swap_ids,
    swap_items,
    swap_scores,
    trec,
    without_query,
)


@dataclass(frozen=True)
class BadInput:
    """What is written, what it gets, and with which tasks and metrics it is met."""

    write: object
    error: str
    words: list[str]
    options: dict[str, list[str]] = field(default_factory=dict)


NAMED = {"tasks": ["coco_5k"], "metrics": ["recall_at_10"]}
BAD_INPUTS = {
    ("NaN values", "embeddings"): BadInput(
        npz(fill("image_embeddings", np.nan)), "MalformedRun", ["image_embeddings", "nan in row 3, column 2", "id "]
    ),
    ("NaN values", "scores"): BadInput(
        scores(fill("scores", np.nan)), "MalformedRun", ["scores", "nan in row 3, column 2", "save rankings"]
    ),
    ("infinite values", "embeddings"): BadInput(
        npz(fill("caption_embeddings", -np.inf)), "MalformedRun", ["caption_embeddings", "-inf", "Check the model"]
    ),
    ("infinite values", "scores"): BadInput(
        scores(fill("scores", np.inf)), "MalformedRun", ["scores", "inf in row 3, column 2", "image ", "caption "]
    ),
    ("float16 overflow", "embeddings"): BadInput(
        npz(overflow("image_embeddings")), "MalformedRun", ["image_embeddings", "float16 overflows", "save float32"]
    ),
    ("float16 overflow", "scores"): BadInput(
        scores(overflow("scores")), "MalformedRun", ["scores", "float16 overflows", "save float32"]
    ),
    ("duplicated ids", "embeddings"): BadInput(
        npz(repeat("caption_ids")), "MalformedRun", ["caption_ids", "rows 1 and 4", "one row per id"]
    ),
    ("duplicated ids", "scores"): BadInput(
        scores(repeat("image_ids")), "MalformedRun", ["image_ids", "rows 1 and 4", "one row per id"]
    ),
    ("duplicated queries", "rankings"): BadInput(
        columns(assign(query_id=lambda ids: pa.array([ids[1].as_py(), *ids[1:].to_pylist()]))),
        "MalformedRun",
        ["run.parquet, t2i", "rows 0 and 1"],
    ),
    ("duplicated ids in a ranking", "rankings"): BadInput(
        rankings(change_first(lambda items: [*items[:5], items[2], *items[6:]])),
        "MalformedRun",
        ["run.json, t2i", "twice, at ranks 3 and 6", "one rank"],
    ),
    ("unknown ids", "embeddings"): BadInput(
        npz(lengthen("image_ids", "image_embeddings")), "UnknownIds", ["1 of 61 images", str(STRANGER), "COCO ids"]
    ),
    ("unknown ids", "scores"): BadInput(
        scores(lengthen("caption_ids", "scores", axis=1)), "UnknownIds", ["1 of 301 captions", str(STRANGER)]
    ),
    ("unknown ids", "rankings"): BadInput(
        rankings(change_first(lambda items: [STRANGER, *items])), "UnknownIds", ["1 of 61 images", str(STRANGER)]
    ),
    ("missing queries", "embeddings"): BadInput(
        npz(shorten("image_ids", "image_embeddings")), "MissingIds", ["lacks 1 of 60 images", "Encode the missing"]
    ),
    ("missing queries", "scores"): BadInput(
        scores(shorten("image_ids", "scores")), "MissingIds", ["lacks 1 of 60 images", "score them"]
    ),
    ("missing queries", "rankings"): BadInput(
        rankings(without_query), "MissingIds", ["run.json, t2i", "lacks the rankings of 1 of", "name the"]
    ),
    ("missing gallery items", "embeddings"): BadInput(
        npz(shorten("caption_ids", "caption_embeddings")), "MissingIds", ["lacks 1 of 300 captions", "not comparable"]
    ),
    ("missing gallery items", "scores"): BadInput(
        scores(shorten("caption_ids", "scores", axis=1)), "MissingIds", ["lacks 1 of 300 captions", "not comparable"]
    ),
    ("ranking cut short, metric named", "rankings"): BadInput(
        rankings(lambda content: None, depth=7),
        "RunTooShallow",
        ["recall_at_k(k=10) of query", "Rank at least 10"],
        NAMED,
    ),
    ("swapped images and captions", "embeddings"): BadInput(npz(swap), "MissingIds", ["look swapped in the file"]),
    ("swapped images and captions", "scores"): BadInput(
        scores(swap_scores), "MissingIds", ["look swapped in the file"]
    ),
    ("scores turned round", "scores"): BadInput(scores(swap_ids), "MalformedRun", ["save scores.T"]),
    ("swapped images and captions", "rankings"): BadInput(
        rankings(swap_directions), "MissingIds", ["the two directions look swapped"]
    ),
    ("items of the wrong modality", "rankings"): BadInput(rankings(swap_items), "UnknownIds", ["look swapped"]),
    ("mismatched dimensions", "embeddings"): BadInput(
        npz(assign(caption_embeddings=lambda vectors: vectors[:, :5])), "MalformedRun", ["8 dimensions", "shared space"]
    ),
    ("mismatched rows", "embeddings"): BadInput(
        npz(assign(image_ids=lambda ids: ids[1:])), "MalformedRun", ["image_ids has 59 rows", "has 60"]
    ),
    ("mismatched rows", "scores"): BadInput(
        scores(assign(image_ids=lambda ids: ids[1:])), "MalformedRun", ["(60, 300), expected (59, 300)"]
    ),
    ("empty arrays", "embeddings"): BadInput(
        npz(assign(image_ids=lambda ids: ids[:0], image_embeddings=lambda vectors: vectors[:0])),
        "MalformedRun",
        ["image_ids", "at least one id"],
    ),
    ("empty arrays", "scores"): BadInput(
        scores(assign(caption_ids=lambda ids: ids[:0], scores=lambda matrix: matrix[:, :0])),
        "MalformedRun",
        ["caption_ids", "at least one id"],
    ),
    ("empty dict", "rankings"): BadInput(
        rankings(lambda content: {"i2t": {}, "t2i": {}}), "MalformedRun", ["run.json, i2t: holds no query"]
    ),
    ("empty ranking", "rankings"): BadInput(
        rankings(change_first(lambda items: [])), "MalformedRun", ["run.json, t2i", "is empty", "rank its gallery"]
    ),
    ("object arrays", "embeddings"): BadInput(
        npz(assign(image_embeddings=lambda vectors: vectors.astype(object))),
        "MalformedRun",
        ["image_embeddings", "never unpickled", "np.stack"],
    ),
    ("object arrays", "scores"): BadInput(
        scores(assign(scores=lambda matrix: matrix.astype(object))), "MalformedRun", ["scores", "never unpickled"]
    ),
    ("pickles", "any"): BadInput(pickled, "MalformedRun", ["unknown format '.pkl'", "never loaded"]),
    ("text ids", "embeddings"): BadInput(
        npz(assign(image_ids=lambda ids: ids.astype(str))), "MalformedRun", ["image_ids", "must be integers"]
    ),
    ("text ids", "scores"): BadInput(
        scores(assign(caption_ids=lambda ids: ids.astype(str))), "MalformedRun", ["caption_ids", "must be integers"]
    ),
    ("text ids", "rankings"): BadInput(
        rankings(change_first(lambda items: [str(item) for item in items])),
        "MalformedRun",
        ["run.json, t2i", "whole-number ids"],
    ),
    ("queries that are no ids", "rankings"): BadInput(
        rankings(rename_query), "MalformedRun", ["query id 'caption_7'", "COCO ids"]
    ),
    ("float ids", "embeddings"): BadInput(
        npz(assign(caption_ids=lambda ids: ids.astype(float))), "MalformedRun", ["caption_ids", "astype('int64')"]
    ),
    ("float ids", "rankings"): BadInput(
        columns(assign(query_id=lambda ids: ids.cast(pa.float64()))),
        "MalformedRun",
        ["run.parquet", "column query_id", "double", "whole numbers"],
    ),
    ("a file cut short", "embeddings"): BadInput(
        cut(npz(lambda arrays: None), 0.6), "MalformedRun", ["run.npz", "cut short", "save it again"]
    ),
    ("a file cut short", "scores"): BadInput(
        cut(scores(lambda arrays: None), 0.6), "MalformedRun", ["run.npz", "cut short", "save it again"]
    ),
    ("a file cut short", "rankings (JSON)"): BadInput(
        cut(rankings(lambda content: None), 0.6), "MalformedRun", ["run.json", "cut short", "save it again"]
    ),
    ("a file cut short", "rankings (Parquet)"): BadInput(
        cut(columns(lambda table: None), 0.6), "MalformedRun", ["run.parquet", "cut short", "save it again"]
    ),
    ("a file cut short", "rankings (TREC)"): BadInput(
        trec("{query} Q0 {item} 2"), "MalformedRun", ["run_t2i.trec, line 2", "has 4 fields, expected 6"]
    ),
    ("scores that rise down the ranks", "rankings (TREC)"): BadInput(
        trec("{query} Q0 {item} 2 5.0 run"), "MalformedRun", ["score 5.0 at rank 2", "Sort each ranking"]
    ),
    ("scores that are not finite", "rankings (TREC)"): BadInput(
        trec("{query} Q0 {item} 2 nan run"), "MalformedRun", ["run_t2i.trec, line 2", "score nan is not finite"]
    ),
    ("ranks with gaps", "rankings (TREC)"): BadInput(
        trec("{query} Q0 {item} 12 -12 run"), "MalformedRun", ["ranks of query", "number the items"]
    ),
}
