"""Bad runs: how a good file is spoilt, the error it must get and words the message must hold.

docs/error_messages.md explains the message of each entry.
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
    directions,
    fill,
    keep_square,
    lengthen,
    mask_others,
    npz,
    number_items,
    number_rows,
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
    words: tuple[str, ...]
    options: dict[str, list[str]] = field(default_factory=dict)


def malformed(write, *words):
    return BadInput(write, "MalformedRun", words)


def missing(write, *words):
    return BadInput(write, "MissingIds", words)


def unknown(write, *words):
    return BadInput(write, "UnknownIds", words)


NAMED = {"tasks": ["coco_5k"], "metrics": ["recall_at_10"]}
CASES = {}
CASES["embeddings"] = {
    "NaN values": malformed(npz(fill("image_embeddings", np.nan)), "image_embeddings", "nan in row 3, column 2", "id "),
    "infinite values": malformed(
        npz(fill("caption_embeddings", -np.inf)), "caption_embeddings", "-inf", "Check the model"
    ),
    "float16 overflow": malformed(
        npz(overflow("image_embeddings")), "image_embeddings", "float16 overflows", "save float32"
    ),
    "duplicated ids": malformed(npz(repeat("caption_ids")), "caption_ids", "rows 1 and 4", "one row per id"),
    "unknown ids": unknown(npz(lengthen("image_ids", "image_embeddings")), "1 of 61 images", str(STRANGER), "COCO ids"),
    "missing queries": missing(
        npz(shorten("image_ids", "image_embeddings")), "lacks 1 of 60 images", "Encode the missing"
    ),
    "missing gallery items": missing(
        npz(shorten("caption_ids", "caption_embeddings")), "lacks 1 of 300 captions", "not comparable"
    ),
    "swapped images and captions": missing(
        npz(swap), "images and captions are swapped", "image_ids, caption_ids = caption_ids, image_ids"
    ),
    "row numbers as ids": missing(
        npz(number_rows), "the image ids (0 to 59) and", "image_ids = split.image_ids[image_ids]"
    ),
    "mismatched dimensions": malformed(
        npz(assign(caption_embeddings=lambda vectors: vectors[:, :5])), "8 dimensions", "shared space"
    ),
    "mismatched rows": malformed(
        npz(assign(image_ids=lambda ids: ids[1:])), "image_embeddings: has 60 rows for 59 ids"
    ),
    "empty arrays": malformed(
        npz(assign(image_ids=lambda ids: ids[:0], image_embeddings=lambda vectors: vectors[:0])),
        "image_ids",
        "at least one id",
    ),
    "vectors of integers": malformed(
        npz(assign(image_embeddings=lambda vectors: np.packbits(vectors > 0, axis=1))),
        "image_embeddings: has type uint8",
        "np.unpackbits",
        "bfloat16 numbers read as int16",
    ),
    "object arrays": malformed(
        npz(assign(image_embeddings=lambda vectors: vectors.astype(object))),
        "image_embeddings",
        "never unpickled",
        "np.stack",
    ),
    "text ids": malformed(npz(assign(image_ids=lambda ids: ids.astype(str))), "image_ids", "must be integers"),
    "float ids": malformed(npz(assign(caption_ids=lambda ids: ids.astype(float))), "caption_ids", "astype('int64')"),
    "a file cut short": malformed(cut(npz(lambda arrays: None), 0.6), "run.npz", "cut short", "save it again"),
}
CASES["scores"] = {
    "NaN values": malformed(scores(fill("scores", np.nan)), "scores", "nan in row 3, column 2", "save rankings"),
    "infinite values": malformed(
        scores(fill("scores", np.inf)), "scores", "inf in row 3, column 2", "image ", "caption "
    ),
    "float16 overflow": malformed(scores(overflow("scores")), "scores", "float16 overflows", "save float32"),
    "duplicated ids": malformed(scores(repeat("image_ids")), "image_ids", "rows 1 and 4", "one row per id"),
    "unknown ids": unknown(scores(lengthen("caption_ids", "scores", axis=1)), "1 of 301 captions", str(STRANGER)),
    "missing queries": missing(scores(shorten("image_ids", "scores")), "lacks 1 of 60 images", "score them"),
    "missing gallery items": missing(
        scores(shorten("caption_ids", "scores", axis=1)), "lacks 1 of 300 captions", "not comparable"
    ),
    "swapped images and captions": missing(scores(swap_scores), "images and captions are swapped"),
    "row numbers as ids": missing(scores(number_rows), "caption ids (0 to 299) are row numbers", "split.caption_ids["),
    "scores turned round": malformed(scores(swap_ids), "save scores.T"),
    "mismatched rows": malformed(scores(assign(image_ids=lambda ids: ids[1:])), "(60, 300), expected (59, 300)"),
    "empty arrays": malformed(
        scores(assign(caption_ids=lambda ids: ids[:0], scores=lambda matrix: matrix[:, :0])),
        "caption_ids",
        "at least one id",
    ),
    "object arrays": malformed(
        scores(assign(scores=lambda matrix: matrix.astype(object))), "scores", "never unpickled"
    ),
    "text ids": malformed(scores(assign(caption_ids=lambda ids: ids.astype(str))), "caption_ids", "must be integers"),
    "a file cut short": malformed(cut(scores(lambda arrays: None), 0.6), "run.npz", "cut short", "save it again"),
}
CASES["scores by direction"] = {
    "NaN values": malformed(
        directions(fill("scores_t2i", np.nan)), "scores_t2i: value nan", "a mask scored_t2i", "unscored=-100"
    ),
    "scores turned round": malformed(
        directions(assign(scores_t2i=lambda scores: scores.T)), "scores_t2i: has shape (60, 300)", "save scores_t2i.T"
    ),
    "a square matrix without axes": malformed(directions(keep_square), "as many images as captions", "Save axes_i2t="),
    "one matrix beside others": malformed(
        directions(lambda arrays: arrays.update(scores=arrays["scores_i2t"])), "both scores and", "save scores alone"
    ),
    "a filler that no pair has": malformed(
        directions(lambda arrays: arrays.update(unscored=-100)), "unscored is -100, but no pair", "leave unscored out"
    ),
    "a mask that marks the others": malformed(directions(mask_others), "scores_i2t", "True means scored"),
}
CASES["rankings"] = {
    "duplicated queries": malformed(
        columns(assign(query_id=lambda ids: pa.array([ids[1].as_py(), *ids[1:].to_pylist()]))),
        "run.parquet, t2i",
        "rows 0 and 1",
    ),
    "duplicated ids in a ranking": malformed(
        rankings(change_first(lambda items: [*items[:5], items[2], *items[6:]])),
        "run.json, t2i",
        "twice, at ranks 3 and 6",
        "one rank",
    ),
    "unknown ids": unknown(rankings(change_first(lambda items: [STRANGER, *items])), "1 of 61 images", str(STRANGER)),
    "missing queries": missing(rankings(without_query), "run.json, t2i", "lacks the rankings of 1 of", "name the"),
    "ranking cut short, metric named": BadInput(
        rankings(lambda content: None, depth=7),
        "RunTooShallow",
        ["recall_at_k(k=10) of query", "Rank at least 10"],
        NAMED,
    ),
    "swapped images and captions": missing(rankings(swap_directions), "are swapped", "i2t, t2i = t2i, i2t"),
    "row numbers as ids": missing(rankings(number_items), "caption ids (0 to 299) are row numbers"),
    "items of the wrong modality": unknown(
        rankings(swap_items), "the image ids are caption ids", "image_ids = split.image_ids"
    ),
    "empty dict": malformed(rankings(lambda content: {"i2t": {}, "t2i": {}}), "run.json, i2t: holds no query"),
    "empty ranking": malformed(
        rankings(change_first(lambda items: [])), "run.json, t2i", "is empty", "rank its gallery"
    ),
    "text ids": malformed(
        rankings(change_first(lambda items: [str(item) for item in items])), "run.json, t2i", "whole-number ids"
    ),
    "queries that are no ids": malformed(rankings(rename_query), "query id 'caption_7'", "COCO ids"),
    "float ids": malformed(
        columns(assign(query_id=lambda ids: ids.cast(pa.float64()))),
        "run.parquet",
        "column query_id",
        "double",
        "whole numbers",
    ),
}
CASES["any"] = {
    "pickles": malformed(pickled, "unknown format '.pkl'", "never loaded"),
}
CASES["rankings (JSON)"] = {
    "a file cut short": malformed(cut(rankings(lambda content: None), 0.6), "run.json", "cut short", "save it again"),
    "lists and scores mixed": malformed(
        rankings(change_first(lambda items: dict.fromkeys(items, 0.5))), "run.json, t2i", "give every query a dict"
    ),
    "scores that are not finite": malformed(
        rankings(lambda content: {"t2i": {query: {7: float("nan")} for query in content["t2i"]}}),
        "run.json",
        "found NaN, expected finite numbers",
    ),
    "scores that are no numbers": malformed(
        rankings(lambda content: {"t2i": {query: {7: "high"} for query in content["t2i"]}}),
        "run.json, t2i",
        "a score is one number, higher is better",
    ),
    "rankings of the other direction": missing(
        rankings(lambda content: {"t2i": content["i2t"]}), "are of i2t", "--direction i2t"
    ),
}
CASES["rankings (Parquet)"] = {
    "a file cut short": malformed(cut(columns(lambda table: None), 0.6), "run.parquet", "cut short", "save it again"),
}
CASES["rankings (TREC)"] = {
    "a file cut short": malformed(trec("{query} Q0 {item} 2"), "run_t2i.trec, line 2", "a line has query id"),
    "scores that rise down the ranks": malformed(
        trec("{query} Q0 {item} 2 5.0 run"), "score 5.0 at rank 2", "Sort each ranking"
    ),
    "scores that are not finite": malformed(
        trec("{query} Q0 {item} 2 nan run"), "run_t2i.trec", "has score nan at rank 2"
    ),
    "ranks with gaps": malformed(trec("{query} Q0 {item} 12 -12 run"), "ranks of query", "Number the items"),
}
BAD_INPUTS = {(what, form): case for form, cases in CASES.items() for what, case in cases.items()}
