"""What new labels change: values are those of two evaluations, intervals those of plain draws of images."""

import numpy as np
import pytest
from label_files import write_label_file
from report_samples import near_run

from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.evaluation import Request, evaluate
from cxc_eccv.runs import RankingsRun
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.annotation.changes import METRICS, TASKS, change_tables, measure_changes
from cxc_eccv.tables import tables_to_markdown

OLD = ("coco", "cxc", "eccv")
NEW = (*OLD, "mine")


def measure(runs, library, sources=OLD, added=("mine",), *, samples=1_000, **fields):
    request = Request(**{"tasks": TASKS, "metrics": METRICS, "sources": sources} | fields)
    return measure_changes(runs, library, request, added, samples=samples)


def label(path, library, pairs):
    """The sample with a label file that calls these pairs of image and caption positive."""
    return Library("sample", labels=[write_label_file(path, library, pairs, [1.0] * len(pairs))])


@pytest.fixture(scope="module")
def runs(sample_library):
    return {"near": near_run(sample_library, 0.9), "far": near_run(sample_library, 1.6, seed=1)}


@pytest.fixture(scope="module")
def labelled(sample_library, tmp_path_factory):
    """The sample, and labels on a random tenth of the captions with images that are not their own."""
    random = np.random.default_rng(0)
    content = sample_library.split("test")
    captions = random.permutation(content.caption_ids)[:30].tolist()
    pairs = list(zip(random.choice(content.image_ids, 30).tolist(), captions, strict=True))
    return label(tmp_path_factory.mktemp("labels") / "labels.parquet", sample_library, pairs)


@pytest.fixture(scope="module")
def changes(runs, labelled):
    return measure(runs, labelled)


def values_of(run, library, sources, key):
    """Query ids, values and images of a metric in an evaluation of its own."""
    task, direction, metric = key.split("/")
    metrics = ["recall_at_1", "r_precision", "map_at_r"]
    report = evaluate(
        run, task, metrics=metrics, data_dir=library, sources=sources, per_query=True, confidence=None, progress=False
    )
    rows = report.per_query.to_pylist()
    own = [row for row in rows if (row["task"], row["direction"], row["metric"]) == (task, direction, metric)]
    return report.scores[key], {row["query_id"]: (row["value"], row["cluster"]) for row in own}


@pytest.mark.parametrize("key", ["coco_5k/i2t/map_at_r", "coco_5k/t2i/recall_at_1", "coco_5k/t2i/r_precision"])
def test_values_are_those_of_two_evaluations(changes, runs, labelled, key):
    for row in (one for one in changes.changes if one.key == key):
        (before, old), (after, new) = (values_of(runs[row.model], labelled, sources, key) for sources in (OLD, NEW))
        assert (row.before, row.after) == (before, after)
        assert row.difference == pytest.approx(after - before)
        gains = {query: new[query][0] - old[query][0] for query in old}
        assert row.better == sum(gain > 0 for gain in gains.values())
        assert row.worse == sum(gain < 0 for gain in gains.values())
        assert (row.n_queries, row.n_images) == (len(old), len({image for _, image in old.values()}))
        assert row.low <= row.difference <= row.high


def test_intervals_equal_a_paired_bootstrap_over_images(changes, runs, labelled):
    """Other draws, so that bounds agree up to what a thousand samples leave open."""
    key = "coco_5k/t2i/r_precision"
    random = np.random.default_rng(9)
    (row,) = [one for one in changes.changes if one.key == key and one.model == "far"]
    old, new = (values_of(runs["far"], labelled, sources, key)[1] for sources in (OLD, NEW))
    by_image = {}
    for query, (value, image) in old.items():
        by_image.setdefault(image, []).append(new[query][0] - value)
    images = list(by_image)
    drawn = []
    for _ in range(1_000):
        sample = [gain for place in random.integers(len(images), size=len(images)) for gain in by_image[images[place]]]
        drawn.append(np.mean(sample))
    wanted = np.quantile(drawn, [0.025, 0.975])
    assert [row.low, row.high] == pytest.approx(wanted, abs=0.3 * (wanted[1] - wanted[0]))


def test_seed_determines_the_intervals(runs, labelled):
    one, again, other = (measure({"far": runs["far"]}, labelled, seed=seed, samples=200) for seed in (0, 0, 1))
    assert one == again
    assert all(table.headings[-1] == "better:worse" for table in change_tables(one))  # one model has no place
    assert [row.difference for row in one.changes] == [row.difference for row in other.changes]
    assert [(row.low, row.high) for row in one.changes] != [(row.low, row.high) for row in other.changes]


def test_new_positives_never_lower_recall(changes):
    """R-Precision may fall, since R grows."""
    recall = [row for row in changes.changes if row.metric == "recall_at_1"]
    assert all(row.difference >= 0 and row.worse == 0 for row in recall)
    assert any(row.difference < 0 for row in changes.changes if row.metric == "r_precision")
    assert "may fall although the ranking is the same" in tables_to_markdown(change_tables(changes))


@pytest.fixture(scope="module")
def turned(sample_library, tmp_path_factory):
    """Two rankings: one right for all captions but the first, one for none, until its choices are labelled."""
    content = sample_library.split("test")
    images = content.image_ids.tolist()
    owners = dict(zip(content.caption_ids.tolist(), content.caption_image_ids.tolist(), strict=True))
    first = next(iter(owners))
    after = {image: images[(place + 1) % len(images)] for place, image in enumerate(images)}

    def rank(top):
        return [top, *(image for image in images if image != top)]

    right = {caption: rank(after[image] if caption == first else image) for caption, image in owners.items()}
    wrong = {caption: rank(after[after[image]]) for caption, image in owners.items()}
    pairs = [(after[after[image]], caption) for caption, image in owners.items()]
    library = label(tmp_path_factory.mktemp("turned") / "labels.parquet", sample_library, pairs)
    runs = {"right": RankingsRun.from_dicts(t2i=right), "wrong": RankingsRun.from_dicts(t2i=wrong)}
    return measure(runs, library, "coco", metrics=["recall_at_1"])


def test_models_that_change_places_are_told(turned):
    places = {row.model: (row.place_before, row.place_after) for row in turned.changes}
    assert places == {"right": (1, 2), "wrong": (2, 1)}
    assert {row.direction for row in turned.changes} == {"t2i"}  # the rankings have no other
    assert "1 \N{RIGHTWARDS ARROW} 2" in tables_to_markdown(change_tables(turned))


def test_equal_models_share_the_better_place(runs, labelled):
    changes = measure({"one": runs["far"], "two": runs["far"]}, labelled, samples=100)
    assert {row.place_before for row in changes.changes} == {row.place_after for row in changes.changes} == {1}


def test_queries_positive_only_after_are_not_paired(runs, labelled):
    changes = measure({"far": runs["far"]}, labelled, "eccv")
    assert not changes.changes
    assert "scored on different queries" in tables_to_markdown(change_tables(changes))


def test_what_cannot_change_is_refused(runs, labelled):
    with pytest.raises(InvalidOption, match="give different sources"):
        measure(runs, labelled, NEW)
    with pytest.raises(UnknownName, match="mine"):
        measure(runs, Library("sample"))
    for options, message in (({"samples": 3}, "samples"), ({"confidence": 1.5}, "confidence"), ({"seed": -1}, "seed")):
        with pytest.raises(InvalidOption, match=message):
            measure(runs, labelled, **options)


@pytest.mark.slow
def test_eccv_caption_lowers_r_precision_on_test_split(real_library):
    """R-Precision falls in 2,911 of 5,000 queries, in which nothing moved; a verdict counts in both directions."""
    runs = {"noise 1.2": near_run(real_library, 1.2, width=32)}
    changes = measure(runs, real_library, ("coco", "cxc"), ["eccv"], samples=200)
    rows = {row.key: row for row in changes.changes}
    fallen = rows["coco_5k/i2t/r_precision"]
    assert [round(100 * value, 1) for value in (fallen.before, fallen.after)] == [50.8, 40.4]
    assert (fallen.better, fallen.worse) == (233, 2_911)
    assert rows["coco_5k/i2t/recall_at_1"].worse == rows["coco_5k/t2i/recall_at_1"].worse == 0
