"""Tasks of human judgments on real data equal slow loops."""

import numpy as np
import pytest

from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.flickr8k import read_votes
from cxc_eccv.runs import ScoresRun

TASKS = ["flickr8k_human", "flickr8k_expert", "flickr8k_crowd"]


@pytest.fixture(scope="module")
def scores(real_library):
    """Seeded scores of all images and captions."""
    content = real_library.split("test", "flickr8k")
    values = np.random.default_rng(0).standard_normal((content.image_ids.size, content.caption_ids.size))
    return ScoresRun(content.image_ids, content.caption_ids, values.astype(np.float32))


def test_judged_tasks_equal_a_count_of_top_ten(real_library, scores):
    report = evaluate(scores, TASKS, data_dir=real_library)
    votes = read_votes(real_library.split("test", "flickr8k"))
    asked = np.unique(votes.captions)
    columns = np.flatnonzero(np.isin(scores.caption_ids, asked))
    said = dict(
        zip(
            zip(votes.images.tolist(), votes.captions.tolist(), strict=True),
            (votes.yes - votes.no).tolist(),
            strict=True,
        )
    )
    owners = real_library.split("test", "flickr8k").caption_image_ids
    judged = []
    found = []
    for row, image in enumerate(scores.image_ids.tolist()):
        best = columns[np.argsort(-scores.scores[row, columns], kind="stable")[:10]]
        names = [
            (caption, owners[place] == image)
            for place, caption in zip(best, scores.caption_ids[best].tolist(), strict=True)
        ]
        judged.append(np.mean([own or said.get((image, caption), 0) != 0 for caption, own in names]))
        found.append(np.mean([not own and said.get((image, caption), 0) > 0 for caption, own in names]))
    assert report.scores["flickr8k_human/i2t/judged_at_10"] == pytest.approx(np.mean(judged))
    assert report.scores["flickr8k_human/i2t/false_negatives_at_10"] == pytest.approx(np.mean(found))
    assert {result.task for result in report.results} == set(TASKS)
    assert all(result.low <= result.value <= result.high for result in report.results)
    whole = evaluate(scores, "flickr8k", data_dir=real_library)
    assert not {result.task for result in whole.results} & set(TASKS)
