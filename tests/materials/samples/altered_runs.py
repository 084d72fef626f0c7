"""Runs with altered captions, whose scores are exact whatever adds them up, and what plain loops find in them."""

import numpy as np

from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings
from cxc_eccv.types.altered import ALTERATIONS

AT_ONCE = 200


def altered_run(content, seed=0, *, width=16, largest=8, share=0.5, kinds=ALTERATIONS, **fields):
    """Small whole numbers as vectors: scores are exact, and some tie. A share of the numbers is altered."""
    rng = np.random.default_rng(seed)
    images = rng.integers(-largest, largest + 1, (content.image_ids.size, width))
    places = {image: place for place, image in enumerate(content.image_ids.tolist())}
    own = images[[places[image] for image in content.caption_image_ids.tolist()]]
    captions = own + rng.integers(-largest, largest + 1, own.shape)
    further = {}
    for kind in kinds:
        order = rng.permutation(content.caption_ids.size)  # nothing depends on the order of rows
        further[f"rococo_{kind}_ids"] = content.caption_ids[order]
        made = captions[order] + rng.integers(-5, 6, own.shape) * (rng.random(own.shape) < share)
        further[f"rococo_{kind}_embeddings"] = made.astype(np.float32)
    return EmbeddingsRun(
        Embeddings(content.image_ids, images),
        Embeddings(content.caption_ids, captions),
        further=further,
        **{"similarity": "dot", **fields},
    )


def slow_scores(run, judgments, kind, depths=(1, 5, 10)):
    """Metric to value of every query, by a loop over queries and one comparison with each caption.

    The judgments are those of the task without altered captions.
    """
    gallery = judgments.gallery_ids.tolist()
    vectors = dict(zip(run.captions.ids.tolist(), run.captions.vectors.tolist(), strict=True))
    originals = np.array([vectors[caption] for caption in gallery], dtype=float)
    names = f"rococo_{kind}_ids", f"rococo_{kind}_embeddings"
    made = dict(zip(*(run.further[name].astype(int).tolist() for name in names), strict=True))
    altered = np.array([made[caption] for caption in gallery], dtype=float)
    images = dict(zip(run.images.ids.tolist(), run.images.vectors.astype(float), strict=True))
    found = {f"recall_at_{k}": [] for k in depths} | {f"recall_drop_at_{k}": [] for k in depths} | {"false_rate": []}
    queries = np.array([images[query] for query in judgments.query_ids.tolist()])
    for row in range(len(queries)):
        if row % AT_ONCE == 0:
            of_originals, of_altered = (queries[row : row + AT_ONCE] @ items.T for items in (originals, altered))
        own = judgments.indices[judgments.indptr[row] : judgments.indptr[row + 1]]
        plain, other = of_originals[row % AT_ONCE], of_altered[row % AT_ONCE]
        best = plain[own].max()
        ranked_above = np.count_nonzero(np.delete(plain, own) >= best)  # what ties with a positive stands above it
        among_altered = ranked_above + np.count_nonzero(other >= best)
        for k in depths:
            found[f"recall_at_{k}"].append(float(among_altered < k))
            found[f"recall_drop_at_{k}"].append(float(ranked_above < k) - float(among_altered < k))
        found["false_rate"].append(float(other.max() >= plain.max()))
    return found
