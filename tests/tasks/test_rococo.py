"""Tasks among altered captions: equal to plain loops, the tie rule, what runs without them see, and bad input."""

from dataclasses import replace

import numpy as np
import pytest
from altered_runs import altered_run, slow_scores

import cxc_eccv as ce
from cxc_eccv.errors import InvalidOption, MalformedRun, MissingIds, UnknownIds
from cxc_eccv.evaluation import evaluate
from cxc_eccv.judgments.qrels import coco_links, eccv_caption, merged_qrels
from cxc_eccv.registry import task
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, ScoresRun, load_run, save_embeddings
from cxc_eccv.statistics import ClusterBootstrap, Draws, interval
from cxc_eccv.types import Embeddings, positions_of
from cxc_eccv.types.altered import ALTERATIONS, altered_ids, without_altered
from cxc_eccv.types.ids import is_altered

LABELS = {
    "": lambda library: coco_links(library, "test", "i2t"),
    "_cxc": lambda library: merged_qrels(library, "test", "i2t"),
    "_eccv": lambda library: eccv_caption(library, "i2t"),
}
PLAIN = {"": "coco_5k", "_cxc": "cxc", "_eccv": "eccv_caption"}
RECALLS = {f"recall{what}_at_{k}" for what in ("", "_drop") for k in (1, 5, 10)}
METRICS = {"": RECALLS | {"false_rate"}, "_cxc": RECALLS, "_eccv": RECALLS}
NAMES = [f"rococo_{kind}{suffix}" for kind in ALTERATIONS for suffix in LABELS]


@pytest.fixture(scope="module")
def content(sample_library):
    return sample_library.karpathy("test")


@pytest.fixture(scope="module")
def run(content):
    return altered_run(content)


@pytest.fixture(scope="module")
def report(run, sample_library):
    return evaluate(run, data_dir=sample_library, per_query=True, progress=False)


def slow_means(run, library, name):
    kind, suffix = split(name)
    found = slow_scores(run, LABELS[suffix](library), kind)
    return {f"{name}/i2t/{metric}": np.mean(values) for metric, values in found.items() if metric in METRICS[suffix]}


def split(name):
    """Kind and labels of a task."""
    return next((kind, suffix) for kind in ALTERATIONS for suffix in LABELS if name == f"rococo_{kind}{suffix}")


@pytest.mark.parametrize("name", NAMES)
def test_a_task_equals_a_plain_loop(report, run, sample_library, name):
    own = {key: value for key, value in report.scores.items() if key.startswith(f"{name}/")}
    assert own == pytest.approx(slow_means(run, sample_library, name), abs=1e-12)
    assert own[f"{name}/i2t/recall_at_1"] < report.scores[f"{PLAIN[split(name)[1]]}/i2t/recall_at_1"]


@pytest.mark.parametrize("options", [{"block_size": 7}, {"tasks": ["rococo_danger", "coco_5k/t2i"]}, {"tasks": NAMES}])
def test_no_way_of_ranking_changes_a_number(report, run, sample_library, options):
    again = evaluate(run, data_dir=sample_library, progress=False, **options)
    assert again.scores == {key: report.scores[key] for key in again.scores}
    assert "rococo_danger/i2t/false_rate" in again.scores


def test_a_torch_device_finds_the_same(report, run, sample_library):
    pytest.importorskip("torch")
    again = evaluate(run, ["rococo_danger", "rococo_rand_voca_eccv"], data_dir=sample_library, device="cpu")
    assert again.scores == {key: report.scores[key] for key in again.scores}


@pytest.mark.parametrize("suffix", LABELS)
def test_the_drop_is_the_difference_to_the_plain_task_with_a_paired_interval(report, suffix):
    name, plain = f"rococo_same_concept{suffix}", PLAIN[suffix]
    values = {
        (row["task"], row["metric"], row["query_id"]): row["value"]
        for row in report.per_query.to_pylist()
        if row["task"] in (name, plain) and row["direction"] == "i2t"
    }
    for k in (1, 5, 10):
        drop = next(row for row in report.results if row.key == f"{name}/i2t/recall_drop_at_{k}")
        queries = [query for own, metric, query in values if (own, metric) == (name, f"recall_at_{k}")]
        lost = np.array(
            [values[plain, f"recall_at_{k}", query] - values[name, f"recall_at_{k}", query] for query in queries]
        )
        recalls = [report.scores[f"{own}/i2t/recall_at_{k}"] for own in (plain, name)]
        assert drop.value == pytest.approx(recalls[0] - recalls[1], abs=1e-12)
        samples = ClusterBootstrap(np.array(queries), Draws(seed=0)).means(lost[:, None])[0]
        assert (drop.low, drop.high) == pytest.approx(interval(samples, 0.95))


def scored(content, originals, altered, tasks="rococo_danger"):
    """One image that looks along one axis: the first value of a vector is its score."""
    image, captions = content.image_ids[:1], content.caption_ids[: len(originals)]
    run = EmbeddingsRun(
        Embeddings(image, [[1.0, 0.0]]),
        Embeddings(captions, [[score, 1.0] for score in originals]),
        similarity="dot",
        further={
            "rococo_danger_ids": captions,
            "rococo_danger_embeddings": np.array([[score, 1.0] for score in altered], dtype=np.float32),
        },
    )
    return evaluate(run, tasks, data_dir="sample", limit=1, allow_missing=True, intervals="none", progress=False)


@pytest.mark.parametrize(
    ("altered", "recall", "false", "ties"),
    [
        ([4, 0, 0, 0, 0], 1.0, 0.0, 0),  # below the best original
        ([5, 0, 0, 0, 0], 0.0, 1.0, 1),  # ties with it: the altered caption stands first
        ([6, 5, 0, 0, 0], 0.0, 1.0, 0),  # above all: what ties below the top decides nothing
        ([6, 6, 0, 0, 0], 0.0, 1.0, 0),  # altered captions that tie with each other
    ],
)
def test_an_original_that_ties_with_an_altered_caption_loses(content, altered, recall, false, ties):
    first = content.image_ids.min()
    shown = replace(content, images=content.images.filter(content.images["image_id"].to_numpy() == first))
    captions = content.captions.filter(content.captions["image_id"].to_numpy() == first)
    report = scored(replace(shown, captions=captions), [5, 1, 1, 1, 1], altered)
    results = {result.metric: result for result in report.results}
    assert (results["recall_at_1"].value, results["false_rate"].value) == (recall, false)
    assert results["recall_drop_at_1"].value == 1 - recall
    assert results["false_rate"].ties == ties


def test_a_tie_at_the_top_is_false_though_the_original_there_is_no_positive(content, sample_library):
    """Whose caption ties with the altered one is of no matter."""
    run = altered_run(content, kinds=("danger",))
    captions, altered = run.captions.vectors.copy(), run.further["rococo_danger_embeddings"] * 0
    query = run.images.vectors[0]
    stranger = np.flatnonzero(content.caption_image_ids != content.image_ids[0])[0]
    captions[stranger] = altered[0] = 9 * query
    tied = replace(
        run,
        captions=Embeddings(content.caption_ids, captions),
        further={**run.further, "rococo_danger_embeddings": altered},
    )
    nearly = {**tied.further, "rococo_danger_embeddings": altered - np.sign(query) * (altered != 0)}
    for made, false_rate in ((tied, 1), (replace(tied, further=nearly), 0)):
        report = evaluate(made, "rococo_danger", data_dir=sample_library, per_query=True, progress=False)
        rows = [row for row in report.per_query.to_pylist() if row["query_id"] == content.image_ids[0]]
        assert {row["metric"]: row["value"] for row in rows}["false_rate"] == false_rate


def test_without_altered_captions_a_report_is_as_it_was(report, run, sample_library):
    plain = evaluate(replace(run, further={}), data_dir=sample_library, progress=False)
    assert plain.scores == {key: value for key, value in report.scores.items() if not key.startswith("rococo_")}
    skipped = {key: reason for key, reason in plain.skipped.items() if key in NAMES}
    assert sorted(skipped) == sorted(NAMES)
    assert len(set(skipped.values())) == 1
    assert {key: why for key, why in plain.skipped.items() if key not in NAMES} == report.skipped


def test_one_kind_alone_is_computed(content, sample_library):
    run = altered_run(content, kinds=("rand_voca",))
    report = evaluate(run, data_dir=sample_library, progress=False, intervals="none")
    assert {result.task for result in report.results if result.task.startswith("rococo")} == {
        name for name in NAMES if "rand_voca" in name
    }


def test_scores_and_rankings_say_why_not(content):
    scores = ScoresRun(content.image_ids, content.caption_ids, np.random.default_rng(0).random((60, 300)))
    ranked = RankingsRun.from_dicts(i2t=dict.fromkeys(content.image_ids.tolist(), content.caption_ids))
    for run in (scores, ranked):
        report = evaluate(run, data_dir="sample", progress=False, intervals="none")
        assert (
            f"altered captions need vectors in an embeddings file, but this run has {run.kind}"
            in report.skipped.values()
        )
        with pytest.raises(
            InvalidOption, match=f"rococo_danger cannot be computed: altered .* this run has {run.kind}"
        ):
            evaluate(run, "rococo_danger", data_dir="sample", progress=False)


def test_a_task_that_is_named_says_which_arrays_are_missing(run, sample_library):
    with pytest.raises(InvalidOption, match="rococo_danger_ids and rococo_danger_embeddings in its file"):
        evaluate(replace(run, further={}), "rococo_danger", data_dir=sample_library)
    assert (
        ce.evaluate(replace(run, images=None), data_dir=sample_library, progress=False).skipped["rococo_danger/i2t"]
        == "the run has no images"
    )


IDS, VECTORS = "rococo_danger_ids", "rococo_danger_embeddings"


def spoil(run, changes):
    """A run with arrays changed, or left out where the change is None."""
    further = run.further | {name: change and change(run.further[name]) for name, change in changes.items()}
    return replace(run, further={name: array for name, array in further.items() if array is not None})


BAD = {
    "ids without vectors": ({VECTORS: None}, MalformedRun, f"'{IDS}' but not '{VECTORS}'"),
    "vectors without ids": ({IDS: None}, MalformedRun, f"'{VECTORS}' but not '{IDS}'"),
    "a missing id": (
        dict.fromkeys((IDS, VECTORS), lambda array: array[1:]),
        MissingIds,
        rf"{IDS}: lacks 1 of 300 captions, the first: \d+. Save the vector of every altered caption",
    ),
    "an unknown id": (
        {IDS: lambda ids: np.append(ids, 424242), VECTORS: lambda own: np.vstack([own, np.ones_like(own[:1])])},
        UnknownIds,
        f"{IDS}: 1 of 301 captions are unknown to the data, the first: 424242",
    ),
    "negative ids": (
        {IDS: lambda ids: -1 - ids},
        MissingIds,
        "(?s)lacks 300 of 300 captions.*300 of 300 captions are unknown to the data",
    ),
    "an id twice": (
        {IDS: lambda ids: np.append(ids[:-1], ids[0])},
        MalformedRun,
        f"{IDS}: id .* is in rows 0 and 299",
    ),
    "fewer vectors": ({VECTORS: lambda own: own[:-1]}, MalformedRun, f"{IDS} has 300 rows, {VECTORS} has 299"),
    "another width": (
        {VECTORS: lambda own: own[:, :8]},
        MalformedRun,
        f"{VECTORS} have 8 dimensions, the other vectors 16",
    ),
    "NaN": ({VECTORS: lambda own: own * np.nan}, MalformedRun, f"{VECTORS}: value nan in row 0"),
    "zeros": ({VECTORS: lambda own: own * 0}, MalformedRun, f"{VECTORS}: 300 of 300 vectors are zero"),
}


@pytest.mark.parametrize("tasks", ["all", "rococo_danger"])
@pytest.mark.parametrize(("changes", "error", "message"), BAD.values(), ids=BAD)
def test_bad_altered_captions_yield_no_number(run, sample_library, tasks, changes, error, message):
    with pytest.raises(error, match=message):
        evaluate(replace(spoil(run, changes), similarity="cosine"), tasks, data_dir=sample_library, progress=False)


def test_a_file_holds_them_beside_the_others(run, report, tmp_path):
    for suffix in (".npz", ".safetensors"):
        save_embeddings(tmp_path / f"run{suffix}", run)
        again = evaluate(load_run(tmp_path / f"run{suffix}"), "rococo_danger", data_dir="sample", progress=False)
        assert again.scores == {key: report.scores[key] for key in again.scores}
        assert again.provenance["run"]["captions"] == {"count": 300, "dimensions": 16, "outside_the_tasks": 0}
        assert again.provenance["run"]["further"]["rococo_danger_ids"] == 300


@pytest.mark.parametrize("name", ["rococo_diff_concept", "rococo_diff_concept_eccv"])
def test_a_part_of_the_split_is_scored_as_if_the_rest_had_never_been(run, sample_library, content, name):
    limit = 25
    report = evaluate(run, name, data_dir=sample_library, limit=limit, progress=False, intervals="none")
    images = np.setdiff1d(content.image_ids, np.sort(content.image_ids)[:limit])
    captions = content.caption_ids[np.isin(content.caption_image_ids, images)]
    judgments = LABELS["_eccv" if name.endswith("eccv") else ""](sample_library).without(images, captions)
    expected = {
        f"{name}/i2t/{metric}": np.mean(own) for metric, own in slow_scores(run, judgments, "diff_concept").items()
    }
    assert report.scores == pytest.approx({key: expected[key] for key in report.scores})


def test_the_altered_captions_of_what_is_left_out_may_be_missing(run, sample_library, content):
    first = np.isin(content.caption_image_ids, np.sort(content.image_ids)[:25])
    kept = positions_of(run.further[IDS], content.caption_ids[first])[1]
    few = spoil(run, dict.fromkeys((IDS, VECTORS), lambda array: array[kept]))
    one, other = (
        evaluate(own, "rococo_danger", data_dir=sample_library, limit=25, progress=False) for own in (few, run)
    )
    assert one.scores == other.scores
    with pytest.raises(MissingIds, match="lacks 175 of 300"):
        evaluate(few, "rococo_danger", data_dir=sample_library, progress=False)


def test_no_label_makes_an_altered_caption_right(run, sample_library):
    report = evaluate(run, data_dir=sample_library, bounds=True, progress=False, intervals="none")
    results = {result.key: result for result in report.results}
    for kind in ALTERATIONS:
        false = results[f"rococo_{kind}/i2t/false_rate"]
        assert (false.bounds.low, false.bounds.high, false.bounds.unjudged) == (false.value, false.value, 0)
        # Every original at the top could be right, and no altered caption there.
        assert results[f"rococo_{kind}/i2t/recall_at_1"].bounds.high == pytest.approx(1 - false.value)
        assert results[f"rococo_{kind}/i2t/recall_drop_at_1"].bounds is None


def test_ids_of_altered_captions_are_nobody_elses():
    captions = np.arange(1000)
    ids = np.concatenate([captions, *(altered_ids(kind, captions) for kind in ALTERATIONS)])
    assert np.unique(ids).size == ids.size
    assert np.flatnonzero(is_altered(ids)).tolist() == list(range(1000, 5000))
    with pytest.raises(ce.errors.UnknownName, match="did you mean 'danger'"):
        altered_ids("dangers", captions)


@pytest.mark.parametrize("name", NAMES)
def test_judgments_are_those_of_the_plain_task_with_altered_captions_behind(sample_library, name):
    own, plain_task = task(name), task(PLAIN[split(name)[1]])
    judged, plain = (one.judgments(sample_library, "test", "i2t") for one in (own, plain_task))
    for field in ("query_ids", "indptr", "indices", "unreachable"):
        assert np.array_equal(getattr(judged, field), getattr(plain, field))
    assert judged.gallery_ids.size == 2 * plain.gallery_ids.size
    assert np.array_equal(without_altered(judged).gallery_ids, plain.gallery_ids)
    assert own.label_sources == plain_task.label_sources
    assert own.citation.startswith("Park et al., 2023")
