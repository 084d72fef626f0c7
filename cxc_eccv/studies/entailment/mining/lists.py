"""The lists to mine: a retriever's top captions of other images for every image, and the labelled pairs in them."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from cxc_eccv.encoding.processes import Processes
from cxc_eccv.errors import InvalidOption
from cxc_eccv.ranking.rank import top_k as rank_top
from cxc_eccv.ranking.scores import one_blas_thread, refuse_zero_vectors, similarity_of, to_unit_length
from cxc_eccv.runs import EmbeddingsRun, Run
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import KarpathySplit
from cxc_eccv.studies.entailment.quality.labelled import LabelledPairs
from cxc_eccv.tasks.task import COCO, FLICKR30K
from cxc_eccv.types import Embeddings, IntArray, Judgments, positions_of

SPLITS = ("train", "restval", "validation")

COLLECTIONS = {"coco": COCO, "flickr30k": FLICKR30K}


class Candidates(NamedTuple):
    """(P,) rows of images and of captions in the split, and ranks from 1 among the captions of other images."""

    images: IntArray
    captions: IntArray
    ranks: IntArray


def with_image_vectors(run: Run, content: KarpathySplit) -> Run:
    """The run; one of texts only gets the mean vector of an image's own captions as the image's vector."""
    if not isinstance(run, EmbeddingsRun) or run.captions is None or run.images is not None:
        return run
    places, known = positions_of(content.caption_ids, run.captions.ids)
    if not known.all():
        return run  # ranking reports the missing ids
    vectors = run.captions.vectors[places]
    if similarity_of(run) == "cosine":
        refuse_zero_vectors(content.caption_ids[~vectors.any(axis=1)], len(vectors), "captions", run.path or "run")
        vectors = to_unit_length(vectors)
    owners = positions_of(content.caption_image_ids, content.image_ids)[0]
    sums = np.zeros((content.image_ids.size, vectors.shape[1]))
    np.add.at(sums, owners, vectors)
    means = sums / np.bincount(owners, minlength=len(sums))[:, None]
    return replace(run, images=Embeddings(content.image_ids, means.astype(np.float32)))


def rank_captions(run: Run, content: KarpathySplit, *, top_k: int, processes: Processes, progress: bool) -> Candidates:
    """Rank the top captions of other images for every image; each process ranks a part of the images."""
    run = with_image_vectors(run, content)
    owners = positions_of(content.caption_image_ids, content.image_ids)[0]
    part = np.array_split(np.arange(content.image_ids.size), processes.count)[processes.rank]
    depth = top_k + int(np.bincount(owners).max())
    parts: list[tuple[IntArray, IntArray, IntArray]] = []
    if part.size:
        linked = np.isin(owners, part)
        links = Judgments.from_pairs(
            content.image_ids[part],
            content.caption_ids,
            content.caption_image_ids[linked],
            content.caption_ids[linked],
        )
        with one_blas_thread():
            best = rank_top(run, links, "i2t", depth, progress=progress).ids
        captions = positions_of(best.ravel(), content.caption_ids)[0].reshape(best.shape)
        others = owners[captions] != part[:, None]
        ranks = np.cumsum(others, axis=1)
        kept = others & (ranks <= top_k)
        parts.append((np.broadcast_to(part[:, None], best.shape)[kept], captions[kept], ranks[kept]))
    gathered = [piece for pieces in processes.gather(parts) for piece in pieces]
    return Candidates(*(np.concatenate(column) for column in zip(*gathered, strict=True)))


def labelled_part(labelled: LabelledPairs, library: Library) -> tuple[str, str]:
    """The collection and the split of most images of labelled pairs, as ``("coco", "validation")``."""
    keys = {key for key in labelled.table["image_key"].to_pylist() if key is not None}
    counts = {}
    for name, collection in COLLECTIONS.items():
        ids = (key.partition("/")[2] for key in keys if key.startswith(f"{name}/"))
        numbers = np.array(sorted(int(number) for number in ids if number.isdecimal()), dtype=np.int64)
        for split in collection.splits(library) if numbers.size else ():
            if split in SPLITS:
                counts[name, split] = int(np.isin(numbers, collection.content(library, split).image_ids).sum())
    best = max(counts, key=lambda part: counts[part], default=None)
    if best is None or not counts[best]:
        raise InvalidOption(
            f"none of the labelled pairs {labelled.name} has an image of an available train, restval or val split of "
            "COCO or Flickr30k. Label pairs of the retriever's lists there (cxc-eccv entailment export --split val)"
        )
    return best


def require_labelled_run(run: Run | None, labelled: LabelledPairs, part: tuple[str, str]) -> Run:
    """The retriever's run of the split of the labelled pairs; InvalidOption if it is missing."""
    if run is None:
        raise InvalidOption(
            f"labelled pairs {labelled.name} are of {'/'.join(part)}: give the same retriever's file for that split "
            "too (--labelled-retriever)"
        )
    return run


def find_labelled_pairs(
    labelled: LabelledPairs, part: tuple[str, str], content: KarpathySplit, lists: Candidates
) -> tuple[Candidates, IntArray]:
    """The distinct labelled pairs that are in the lists, and their labels."""
    size = content.caption_ids.size
    captions = {f"{part[0]}/{number}": place for place, number in enumerate(content.caption_ids.tolist())}
    by_words = {text.strip(): place for place, text in enumerate(content.captions["text"].to_pylist())}
    images = {f"{part[0]}/{number}": place for place, number in enumerate(content.image_ids.tolist())}
    table = labelled.table.select(["image_key", "caption_key", "hypothesis", "label"]).to_pylist()
    known: dict[int, int] = {}
    for row in table:
        image, key = images.get(row["image_key"]), row["caption_key"]
        caption = by_words.get(row["hypothesis"].strip()) if key is None else captions.get(key)
        if image is not None and caption is not None:
            known.setdefault(image * size + caption, row["label"])
    numbers = lists.images * size + lists.captions
    has_label = np.isin(numbers, np.array(list(known), dtype=np.int64))
    listed = Candidates(*(column[has_label] for column in lists))
    if not listed.ranks.size:
        raise InvalidOption(
            f"none of {labelled.table.num_rows:,} labelled pairs {labelled.name} is in the retriever's lists of "
            f"{'/'.join(part)}. Label pairs of its lists (cxc-eccv entailment export), or raise --top-k"
        )
    return listed, np.array([known[number] for number in numbers[has_label].tolist()], dtype=np.int64)


def warn_of_gaps(labelled: LabelledPairs, listed: Candidates, lists: Candidates) -> None:
    """Warn if labels cover only a part of the lists: labelled pairs may be entailed more often than the others."""
    whole = int(np.isin(lists.images, listed.images).sum())
    if listed.ranks.size < whole:
        warnings.warn(
            f"labelled pairs {labelled.name} cover {listed.ranks.size:,} of {whole:,} pairs in the lists of their "
            "images. Unless these were drawn at random, give the share of entailed pairs in the lists (--share)",
            stacklevel=3,
        )
