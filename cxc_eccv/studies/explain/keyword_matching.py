"""Keyword matching: how many words of a failed query name a concept that the texts of its right image name too."""

from __future__ import annotations

from collections import defaultdict
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
    table = table.filter(np.isin(table["image_id"], failures.rows["truth_id"]))
    by_image = defaultdict(list)
    mentions_of_texts = find_mentions(table["text"].to_pylist(), concepts.vocabulary)
    columns = (table["image_id"].to_pylist(), table["caption_id"].to_pylist(), mentions_of_texts)
    for image, number, mentions in zip(*columns, strict=True):
        by_image[image].append((number, mentions))
    counts = []
    pairs = zip(failures.rows["query_id"].tolist(), failures.rows["truth_id"].tolist(), strict=True)
    for (query, truth), places in zip(pairs, locate_mentions(texts, concepts.vocabulary), strict=True):
        named = set[str]()
        for number, mentions in by_image[truth]:
            if described is not None or number != query:
                named |= mentions
        counts.append(sum(not names.isdisjoint(named) for _, _, names in places))
    return counts
