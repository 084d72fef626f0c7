"""Reports of earlier releases count as long as the numbers are the same: this holds the numbers to their release."""

import numpy as np
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.hub.checks import COMPARABLE_SINCE
from cxc_eccv.hub.leaderboard import leaderboard_tasks
from cxc_eccv.runs import EmbeddingsRun
from cxc_eccv.types import Embeddings, find_positions

NUMBERS = {
    "eccv_caption/i2t/map_at_r": 0.3733692303,
    "eccv_caption/t2i/map_at_r": 0.3192395361,
    "cxc/i2t/recall_at_1": 0.9333333333,
    "cxc/t2i/recall_at_1": 0.8433333333,
    "cxc/t2t/recall_at_1": 0.5866666667,
    "cxc/i2i/recall_at_1": 0.0,
    "cxc/sts/bootstrap_spearman": 0.4331609018,
    "cxc/sis/bootstrap_spearman": -0.0105294880,
    "cxc/sits/bootstrap_spearman": 0.5071976919,
    "coco_5k/i2t/recall_at_1": 0.9333333333,
    "coco_5k/t2i/recall_at_1": 0.8433333333,
    "plausible_match/i2t/pmrp": 0.4154886945,
    "plausible_match/t2i/pmrp": 0.4172883555,
    "entailment/i2t/entail_at_1": 0.9333333333,
    "cxc_rated/i2t/recall_at_1": 0.1333333333,
    "cxc_rated/t2i/recall_at_1": 0.5747126437,
    "co_captions/t2t/recall_at_1": 0.5866666667,
}
"""Main results of one run on the sample, as the release COMPARABLE_SINCE computed them."""

NOT_IN_THE_SAMPLE = {"coco_1k/rsum"}

RAISE = f"numbers differ from those of {COMPARABLE_SINCE}: set COMPARABLE_SINCE to the next release, then NUMBERS"


def test_numbers_are_those_of_comparable_release(sample_library):
    content = sample_library.split("test")
    random = np.random.default_rng(0)
    images = random.standard_normal((content.image_ids.size, 16))
    own_image = find_positions(content.caption_image_ids, content.image_ids)[0]
    captions = images[own_image] + 0.9 * random.standard_normal((own_image.size, 16))
    run = EmbeddingsRun(Embeddings(content.image_ids, images), Embeddings(content.caption_ids, captions))
    scores = evaluate(run, data_dir=sample_library, confidence=None).scores
    assert {key: scores[key] for key in NUMBERS} == pytest.approx(NUMBERS, abs=1e-9), RAISE


def test_every_main_result_is_held():
    assert {key for key, task in leaderboard_tasks().items() if task.main} == NUMBERS.keys() | NOT_IN_THE_SAMPLE
