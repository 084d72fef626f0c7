"""Failures on the embedded sample with what its images show, for pages of them; no WordNet is needed."""

import re

import numpy as np
import pandas as pd
from shown_concepts import alike, failed_rows

from cxc_eccv.studies.explain.concepts import load_concepts
from cxc_eccv.studies.explain.explanation import Explanation
from cxc_eccv.studies.explain.failed_queries import Failures, explain_failures
from cxc_eccv.types.provenance import DataFacts, Provenance


def locate_words(texts, vocabulary):
    """Mentions by the word of a synset alone."""
    words = {name.partition(".")[0]: name for name in vocabulary}
    pattern = re.compile("|".join(map(re.escape, words)) or r"(?!)")
    return [[(*found.span(), {words[found[0]]}) for found in pattern.finditer(text)] for text in texts]


def without_wordnet(patch):
    """Have pages and numbers made from the stand-ins above."""
    patch.setattr("cxc_eccv.studies.explain.explained_page.locate_mentions", locate_words)
    patch.setattr("cxc_eccv.studies.explain.explained_page.similarity_matrix", alike)
    patch.setattr(
        "cxc_eccv.studies.explain.failed_queries.find_mentions",
        lambda texts, vocabulary: [
            {name for _, _, names in places for name in names} for places in locate_words(texts, vocabulary)
        ],
    )


def failures_of(library, direction, concepts, shift=7):
    """Every query of the sample's test split with the image some places further on at its top."""
    content = library.split("test")
    images = content.image_ids
    texts = content.captions["text"].to_pylist()
    places = {image: place for place, image in enumerate(images.tolist())}
    if direction == "i2t":
        queries = images
        truths = images
        texts = None
    else:
        queries = content.caption_ids
        truths = content.caption_image_ids
    steps = shift + np.arange(truths.size) % 3
    tops = images[[(places[image] + step) % images.size for image, step in zip(truths.tolist(), steps, strict=True)]]
    first = dict(zip(content.caption_image_ids[::-1].tolist(), content.caption_ids[::-1].tolist(), strict=True))
    items = tops if direction == "t2i" else np.array([first[image] for image in tops.tolist()])
    ranks = [2 + place % 40 if place % 9 else None for place in range(queries.size)]
    nobody = np.full((queries.size, 1), -1)
    asked = pd.DataFrame({"query_id": queries, "truth_id": truths})
    failures = Failures(direction, asked, failed_rows(queries, truths, tops, items, ranks), nobody)
    return explain_failures(failures, concepts, texts, similarity=alike)


def explanation_of(library, directions=("t2i", "i2t", "t2t"), model="ridge", concepts=None):
    """An explanation in which every query has failed."""
    concepts = concepts or load_concepts(library.split("test"))
    explained = {direction: failures_of(library, direction, concepts) for direction in directions}
    return Explanation(
        model, library.split("test"), concepts, explained, {}, Provenance(data=DataFacts(edition="sample"))
    )
