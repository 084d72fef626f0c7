"""The recipe for PCME++ and ProLIP on the page about one's own model, against the distance by a double loop."""

import numpy as np
import pytest
from pages import DOCS, blocks_of

import cxc_eccv as ce
from cxc_eccv.runs import ScoresRun


@pytest.fixture
def recipe(sample_library, tmp_path, monkeypatch):
    """The names of the page's block after it ran on the sample."""
    monkeypatch.chdir(tmp_path)
    block = next(block for block in blocks_of(DOCS / "score_a_model.md") if "probabilistic.npz" in block.text)
    split = sample_library.split("test")
    names = {"np": np, "images": split.images, "captions": split.captions, "random": np.random.default_rng(0)}
    exec(block.text, names)
    return names


def find_distances(recipe):
    """By Python's own numbers."""
    rows = []
    for image_mean, image_variance in zip(recipe["image_means"], recipe["image_variances"], strict=True):
        row = []
        for caption_mean, caption_variance in zip(recipe["caption_means"], recipe["caption_variances"], strict=True):
            squares = [(a - b) ** 2 for a, b in zip(image_mean.tolist(), caption_mean.tolist(), strict=True)]
            row.append(sum(squares) + sum(image_variance.tolist()) + sum(caption_variance.tolist()))
        rows.append(row)
    return np.array(rows)


def test_recipe_gives_the_numbers_of_the_distance(recipe, sample_library):
    run = ce.load_run("probabilistic.npz")
    distances = find_distances(recipe)
    np.testing.assert_allclose(run.scores, -distances, rtol=1e-5)
    expected = ce.evaluate(ScoresRun(run.image_ids, run.caption_ids, -distances), data_dir=sample_library)
    report = ce.evaluate(run, data_dir=sample_library)
    assert report.scores.keys() == expected.scores.keys()
    assert len(report.scores) > 40
    for key, value in expected.scores.items():
        assert report.scores[key] == pytest.approx(value, abs=1e-5 if "spearman" in key else 1e-12), key
