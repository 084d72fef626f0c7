"""Keyword matching: how many words of a failed query name a concept that the texts of its right image name too."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cxc_eccv.sources.library import Split
from cxc_eccv.studies.explain.concepts import ImageConcepts, find_mentions, locate_mentions
from cxc_eccv.studies.explain.failed_queries import Failures


def match_keywords(failures: Failures, texts: Sequence[str], split: Split, concepts: ImageConcepts) -> list[int]:
    """For each failure, the number of mentions in the query whose concept the texts of the right image mention.

    These texts are the image's descriptions if its collection has some, else its other captions. People rate only
    failures with enough of them: a query that shares nothing with its own image's texts cannot find them, whatever the
    model (Lymperaiou et al., COLING 2022, section 4.2).
    """
    described = split.library.descriptions(split.collection)
    table = split.captions if described is None else described
    table = table.filter(np.isin(table["image_id"], failures.truth_ids))
    vocabulary = concepts.vocabulary
    columns = (table[name].to_pylist() for name in ("image_id", "caption_id", "text"))
    images, ids, sentences = columns
    by_image: dict[int, list[tuple[int, set[str]]]] = {}
    for image, number, mentions in zip(images, ids, find_mentions(sentences, vocabulary), strict=True):
        by_image.setdefault(image, []).append((number, mentions))
    counts = []
    rows = zip(failures.query_ids.tolist(), failures.truth_ids.tolist(), strict=True)
    for (query, truth), places in zip(rows, locate_mentions(texts, vocabulary), strict=True):
        others = [mentions for number, mentions in by_image[truth] if described is not None or number != query]
        counts.append(sum(not names.isdisjoint(set().union(*others)) for _, _, names in places))
    return counts
