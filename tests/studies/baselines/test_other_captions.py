"""A text model that scores a caption by an image's other captions equals a slow loop on real captions."""

from statistics import harmonic_mean

import numpy as np
import pytest

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.studies.baselines.untrained.other_captions import score_by_other_captions
from cxc_eccv.types import Embeddings


def test_an_image_stands_for_its_other_captions(real_library):
    content = real_library.flickr8k_split("validation")
    vectors = np.random.default_rng(1).standard_normal((content.caption_ids.size, 8)).astype(np.float32)
    run = EmbeddingsRun(None, Embeddings(content.caption_ids[::-1].copy(), vectors[::-1].copy()))
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    for pool, summarize in (("max", np.max), ("mean", np.mean)):
        found = score_by_other_captions(run, content, pool)
        drawn = np.random.default_rng(2).integers(0, (1_000, 5_000), (200, 2)).tolist()
        for row, column in [*drawn, [3, 17], [3, 15]]:
            others = np.flatnonzero(content.caption_image_ids == content.image_ids[row])
            others = others[others != column]
            expected = summarize(units[others] @ units[column])
            assert found.scores[row, column] == pytest.approx(expected, abs=1e-6)
    pictures = np.random.default_rng(4).standard_normal((content.image_ids.size, 8)).astype(np.float32)
    both = EmbeddingsRun(Embeddings(content.image_ids, pictures), run.captions)
    found, nearest = (score_by_other_captions(both, content, pool).scores for pool in ("harmonic", "max"))
    for row, column in drawn:
        cosine = pictures[row] @ units[column] / np.linalg.norm(pictures[row])
        factors = [max(2.5 * cosine, 0), max(nearest[row, column], 0)]
        expected = harmonic_mean(factors) if min(factors) > 0 else 0
        assert found[row, column] == pytest.approx(expected, abs=1e-6)
    with pytest.raises(MalformedRun, match="run holds no image_ids"):
        score_by_other_captions(run, content, "harmonic")
    with pytest.raises(MalformedRun, match="lacks 1 captions of the split"):
        score_by_other_captions(EmbeddingsRun(None, Embeddings(content.caption_ids[1:], vectors[1:])), content)
    with pytest.raises(UnknownName, match="way to pool"):
        score_by_other_captions(run, content, "median")
