"""The quartiles of similarities by rating, against plain loops over the raw files of CxC."""

import csv
import json
import math
import re

import numpy as np
import pytest
from report_samples import sample_report

from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, ScoresRun
from cxc_eccv.types import Embeddings
from cxc_eccv.types.rating_bin import bin_similarities

COLUMNS = {"sts": ("caption1", "caption2"), "sis": ("image1", "image2"), "sits": ("image", "caption")}


@pytest.fixture(scope="module")
def sample(sample_library):
    return sample_report(sample_library)


def read_number(name):
    """The id in the name of a photograph, or in that of a caption."""
    return int(re.search(r"(\d+)(\.jpg)?$", name)[1])


def read_pairs(library, kind, split):
    """Left id, right id and rating of each row of the raw file."""
    left, right = COLUMNS[kind]
    with library.path(f"{kind}_{split}").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            yield read_number(row[left]), read_number(row[right]), float(row["agg_score"])


def find_vectors(run):
    """Name of a side to its vectors of length one by id."""
    sides = {}
    for side in ("images", "captions"):
        embeddings = getattr(run, side)
        vectors = np.asarray(embeddings.vectors, dtype=np.float64)
        lengths = np.sqrt((vectors**2).sum(axis=1, keepdims=True))
        sides[side] = dict(zip(embeddings.ids.tolist(), vectors / lengths, strict=True))
    return sides


def collect_similarities(library, run, kind, split="test"):
    """Half point to the cosines of its pairs, those of one kind of item in both orders."""
    sides = find_vectors(run)
    left_side, right_side = ("captions" if "caption" in name else "images" for name in COLUMNS[kind])
    found = {}
    for left, right, rating in read_pairs(library, kind, split):
        cosine = float(sides[left_side][left] @ sides[right_side][right])
        place = min(math.floor(rating / 0.5), 9)
        found.setdefault(place, []).extend([cosine] * (1 if kind == "sits" else 2))
    return found


def interpolate(values, share):
    """A quantile, between the two values nearest to it."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def assert_bins_equal(bins, expected):
    assert [each.rating_from for each in bins] == [place / 2 for place in sorted(expected)]
    assert [each.rating_to for each in bins] == [place / 2 + 0.5 for place in sorted(expected)]
    for each, place in zip(bins, sorted(expected), strict=True):
        values = expected[place]
        assert each.n_pairs == len(values)
        quartiles = (each.first_quartile, each.median, each.third_quartile)
        assert quartiles == pytest.approx([interpolate(values, share) for share in (0.25, 0.5, 0.75)], abs=1e-6)
        assert quartiles == pytest.approx(np.percentile(values, (25, 50, 75)), abs=1e-6)


@pytest.mark.parametrize("kind", COLUMNS)
def test_quartiles_of_sample_equal_plain_loop(kind, sample, sample_library):
    run, report = sample
    bins = report.similarity_by_rating[f"cxc/{kind}"]
    assert_bins_equal(bins, collect_similarities(sample_library, run, kind))
    assert len(bins) >= 9


@pytest.mark.parametrize("kind", COLUMNS)
def test_quartiles_of_real_data_equal_plain_loop(kind, real_library):
    """All pairs of the validation split; their number is that of the rows, or twice that."""
    run = near_validation_run(real_library)
    report = evaluate(run, f"cxc/{kind}", data_dir=real_library, split="validation", confidence=None, progress=False)
    expected = collect_similarities(real_library, run, kind, "val")
    bins = report.similarity_by_rating[f"cxc/{kind}"]
    assert_bins_equal(bins, expected)
    with real_library.path(f"{kind}_val").open(encoding="utf-8") as file:
        n_rows = sum(1 for _ in file) - 1
    assert sum(each.n_pairs for each in bins) == n_rows * (1 if kind == "sits" else 2)
    medians = [each.median for each in bins]
    assert kind != "sits" or medians[-1] > medians[0]


def near_validation_run(library):
    random = np.random.default_rng(3)
    split = library.split("validation")
    images = random.standard_normal((split.image_ids.size, 8))
    places = {image_id: row for row, image_id in enumerate(split.image_ids.tolist())}
    rows = np.array([places[image_id] for image_id in split.caption_image_ids.tolist()])
    captions = images[rows] + random.standard_normal((rows.size, 8))
    return EmbeddingsRun(Embeddings(split.image_ids, images), Embeddings(split.caption_ids, captions))


def test_last_range_holds_the_highest_rating():
    """A rating at an edge is in the range above it, but for the highest."""
    ratings = np.array([0.0, 0.49, 0.5, 4.5, 5.0])
    bins = bin_similarities(ratings, np.arange(5.0), [half / 2 for half in range(11)])
    assert [(each.rating_from, each.n_pairs, each.median) for each in bins] == [
        (0.0, 2, 0.5),
        (0.5, 1, 2.0),
        (4.5, 2, 3.5),
    ]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e13])
def test_similarities_that_json_lacks_have_no_bins(value):
    assert bin_similarities(np.array([1.0, 2.0]), np.array([value, 0.5]), (0.0, 5.0)) == ()


def test_report_json_keeps_the_bins(sample):
    report = sample[1]
    content = json.loads(report.to_json())
    assert list(content["similarity_by_rating"]) == ["cxc/sts", "cxc/sis", "cxc/sits"]
    assert set(content["similarity_by_rating"]["cxc/sts"][0]) == {
        *("rating_from", "rating_to", "n_pairs"),
        *("first_quartile", "median", "third_quartile"),
    }
    again = Report.from_json(report.to_json())
    assert again.similarity_by_rating == report.similarity_by_rating
    assert again.to_json() == report.to_json()


def test_older_report_json_loads_without_bins(sample):
    content = json.loads(sample[1].to_json())
    del content["similarity_by_rating"]
    older = Report.from_json(json.dumps(content))
    assert older.similarity_by_rating == {}
    assert json.loads(older.to_json()) == content
    assert 'id="ratings"' not in older.to_html()
    assert "Similarity by rating" not in older.to_markdown()


def test_scores_have_bins_of_image_caption_pairs_alone(sample, sample_library):
    run, report = sample
    lengths = [np.linalg.norm(side.vectors, axis=1, keepdims=True) for side in (run.images, run.captions)]
    cosines = (run.images.vectors / lengths[0]) @ (run.captions.vectors / lengths[1]).T
    scores = evaluate(
        ScoresRun(run.images.ids, run.captions.ids, cosines), "cxc", data_dir=sample_library, progress=False
    )
    assert list(scores.similarity_by_rating) == ["cxc/sits"]
    for one, other in zip(
        scores.similarity_by_rating["cxc/sits"], report.similarity_by_rating["cxc/sits"], strict=True
    ):
        assert one.n_pairs == other.n_pairs
        assert one.median == pytest.approx(other.median, abs=1e-6)


def test_report_without_correlations_has_no_bins(sample, sample_library):
    report = evaluate(sample[0], "cxc", metrics="recall_at_1", data_dir=sample_library, progress=False)
    assert report.similarity_by_rating == {}
    assert "similarity_by_rating" not in json.loads(report.to_json())
