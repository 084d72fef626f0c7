"""SugarCrepe: an image against a caption and its hard negative, in seven parts and their mean."""

import dataclasses
import json
import re

import numpy as np
import oracles
import pytest

import cxc_eccv as ce
from cxc_eccv.cli.app import main
from cxc_eccv.comparison import ScoredReport, compare
from cxc_eccv.errors import DataError, InvalidOption, MalformedRun, MalformedSource, MissingIds, UnknownIds, UnknownName
from cxc_eccv.metrics.mean_pairwise_accuracy import mean_pairwise_accuracy
from cxc_eccv.metrics.pairwise_accuracy import pairwise_accuracy
from cxc_eccv.runs import EmbeddingsRun, RankingsRun, load_embeddings, save_embeddings
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.readers import SUGARCREPE_PARTS, read_sugarcrepe
from cxc_eccv.statistics import ClusterBootstrap, Draws
from cxc_eccv.types import Embeddings

MEAN = "sugarcrepe/mean_pairwise_accuracy"
ENDS = ("image_ids", "caption_embeddings", "negative_embeddings")
WIDTH = 16


def raw_items(folder):
    """Part to (image id, caption, negative) of its file, read without the package's readers."""
    parts = {}
    for part in SUGARCREPE_PARTS:
        content = json.loads((folder / "sugarcrepe" / f"{part}.json").read_text())
        parts[part] = [
            (int(item["filename"][:12]), item["caption"], item["negative_caption"]) for item in content.values()
        ]
    return parts


@pytest.fixture(scope="module")
def items():
    return raw_items(mirror_folder("sample"))


def vectors_of(items, seed=0, noise=(2.0, 2.6), parts=SUGARCREPE_PARTS):
    """Image vectors of all items, and arrays of noisy copies for captions and negatives."""
    random = np.random.default_rng(seed)
    ids = np.unique([image for part in items.values() for image, _, _ in part])
    images = Embeddings(ids, random.standard_normal((ids.size, WIDTH)))
    arrays = {}
    for part, own in items.items():
        rows = np.array([image for image, _, _ in own])
        shown = images.vectors[np.searchsorted(ids, rows)]
        made = [(shown + one * random.standard_normal(shown.shape)).astype(np.float32) for one in noise]
        if part in parts:
            arrays |= {f"sugarcrepe_{part}_{end}": array for end, array in zip(ENDS, [rows, *made], strict=True)}
    return images, arrays


def run_of(items, **options):
    images, arrays = vectors_of(items, **options)
    return EmbeddingsRun(images, None, further=arrays)


def beside(plain, images, arrays):
    """A run of the split's images and of those of all items."""
    more = ~np.isin(images.ids, plain.images.ids)
    ids = np.concatenate([plain.images.ids, images.ids[more]])
    both = Embeddings(ids, np.concatenate([plain.images.vectors, images.vectors[more]]))
    return EmbeddingsRun(both, plain.captions, further=arrays)


def slow_accuracies(run, items):
    """Part to the share of items whose image is nearer to the caption, one item after the other."""
    at = {image: row for row, image in enumerate(run.images.ids.tolist())}
    found = {}
    for part, own in items.items():
        captions, negatives = (run.further[f"sugarcrepe_{part}_{end}"] for end in ENDS[1:])
        right = [
            oracles.score_of(run.images.vectors[at[image]], captions[row])
            > oracles.score_of(run.images.vectors[at[image]], negatives[row])
            for row, (image, _, _) in enumerate(own)
        ]
        found[part] = sum(right) / len(right)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_a_slow_loop_gives_the_same(items, sample_library, seed):
    run = run_of(items, seed=seed)
    report, expected = ce.evaluate(run, data_dir=sample_library), slow_accuracies(run, items)
    keys = {f"sugarcrepe/{part}/pairwise_accuracy": value for part, value in expected.items()}
    assert report.scores == pytest.approx(keys | {MEAN: np.mean(list(expected.values()))}, abs=1e-15)
    whole = report.results[-1]
    assert (whole.key, whole.n_queries) == (MEAN, sum(map(len, items.values())))
    assert whole.low < whole.value < whole.high


@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_model_that_gives_everything_the_same_score_gets_nothing(items, sample_library, similarity):
    run = run_of(items)
    same = {
        name: array if name.endswith("_ids") else np.broadcast_to(run.images.vectors[0], array.shape).astype(np.float32)
        for name, array in run.further.items()
    }
    report = ce.evaluate(dataclasses.replace(run, further=same), data_dir=sample_library, similarity=similarity)
    assert set(report.scores.values()) == {0.0}
    assert [row.ties for row in report.results] == [*(len(own) for own in items.values()), 126]


def test_other_tasks_keep_their_values(items, make_run, sample_library, tmp_path):
    plain = make_run(sample_library)
    save_embeddings(tmp_path / "both.npz", beside(plain, *vectors_of(items)))
    before = ce.evaluate(plain, data_dir=sample_library)
    after = ce.evaluate(load_embeddings(tmp_path / "both.npz"), data_dir=sample_library)
    rows = {row.key: row for row in after.results}
    assert [rows.pop(row.key) for row in before.results] == list(before.results)
    assert {key.split("/")[0] for key in rows} == {"sugarcrepe"}
    alone = ce.evaluate(load_embeddings(tmp_path / "both.npz"), "sugarcrepe", data_dir=ce.Library("sample"))
    assert list(alone.results) == list(rows.values()), "the vectors of the split beside it disturb nothing"
    assert before.skipped["sugarcrepe"] == "the run has no vectors of SugarCrepe's captions (arrays sugarcrepe_*)"


def test_a_run_without_them_reads_no_file_of_them(make_run, sample_library):
    report = ce.evaluate(make_run(sample_library), data_dir="sample")
    assert not [name for name in report.provenance["data"]["files"] if "sugarcrepe" in name or "coco_fg" in name]


def test_its_images_are_known_where_another_task_is_named(items, make_run, sample_copy):
    """Of a mirror that holds only the test split of COCO, the images of other splits would else be strangers."""
    path = sample_copy / "coco/dataset_coco.json"
    content = json.loads(path.read_text())
    path.write_text(json.dumps(content | {"images": [own for own in content["images"] if own["split"] == "test"]}))
    library = ce.Library(sample_copy, allow_modified=True)
    plain = make_run(library)
    run = beside(plain, *vectors_of(items))
    scores = [ce.evaluate(own, "coco_5k", data_dir=library).scores for own in (run, plain)]
    assert scores[0] == scores[1]
    with pytest.raises(UnknownIds, match="16 of 76 images are unknown to the data"):
        ce.evaluate(dataclasses.replace(run, further={}), "coco_5k", data_dir=library)


def test_parts_that_the_run_lacks_are_skipped_with_the_reason(items, sample_library):
    report = ce.evaluate(run_of(items, parts=("swap_obj", "add_att")), data_dir=sample_library)
    assert {row.direction for row in report.results} == {"swap_obj", "add_att"}
    assert report.skipped["sugarcrepe/replace_obj"] == "the run has no arrays sugarcrepe_replace_obj_..."
    assert report.skipped[MEAN] == "needs replace_obj and replace_att and replace_rel and swap_att and add_obj too"


def test_one_part_may_be_named(items, sample_library):
    run = run_of(items)
    report = ce.evaluate(run, "sugarcrepe/swap_att", data_dir=sample_library)
    assert list(report.scores) == ["sugarcrepe/swap_att/pairwise_accuracy"]
    with pytest.raises(UnknownName, match="did you mean 'swap_att'"):
        ce.evaluate(run, "sugarcrepe/swap_at", data_dir=sample_library)


def test_a_model_without_images_is_skipped(items, make_run, sample_library):
    _, arrays = vectors_of(items)
    text = EmbeddingsRun(None, make_run(sample_library).captions, further=arrays)
    report = ce.evaluate(text, data_dir=sample_library)
    assert {report.skipped[f"sugarcrepe/{part}"] for part in SUGARCREPE_PARTS} == {"the run has no images"}
    assert "co_captions/t2t/recall_at_1" in report.scores
    with pytest.raises(InvalidOption, match="sugarcrepe cannot be computed: the run has no images"):
        ce.evaluate(text, "sugarcrepe", data_dir=sample_library)


def test_rankings_hold_no_vectors(sample_library):
    run = RankingsRun.from_dicts(i2t={image: [7] for image in sample_library.karpathy("test").image_ids.tolist()})
    with pytest.raises(InvalidOption, match="sugarcrepe cannot be computed"):
        ce.evaluate(run, "sugarcrepe", data_dir=sample_library)


def of_all(edit):
    """A change of every array of one part."""
    return {f"sugarcrepe_add_att_{end}": edit for end in ENDS}


NEGATIVES, CAPTIONS = "sugarcrepe_add_att_negative_embeddings", "sugarcrepe_add_att_caption_embeddings"

FAULTS = {
    "a missing row": (of_all(lambda a: np.delete(a, 4, axis=0)), MalformedRun, "row .* 17 rows.* 18 items"),
    "a missing last row": (of_all(lambda a: a[:-1]), MalformedRun, "there is no row 17, expected item 17 of image"),
    "an extra row": (
        of_all(lambda a: np.concatenate([a, a[:1]])),
        MalformedRun,
        "row 18 is image.* expected no further row",
    ),
    "rows in another order": (of_all(lambda a: a[::-1]), MalformedRun, "row 0 is image.* item 0 of image"),
    "no negatives": ({NEGATIVES: None}, MalformedRun, "but not sugarcrepe_add_att_neg"),
    "fewer vectors": ({NEGATIVES: lambda a: a[:-1]}, MalformedRun, r"\(17, 16\)"),
    "another width": ({NEGATIVES: lambda a: a[:, :-1]}, MalformedRun, "one space"),
    "a name of no part": (
        {"sugarcrepe_add_atr_image_ids": lambda _: np.array([7])},
        UnknownName,
        "did you mean 'sugarcrepe_add_att_image_ids'",
    ),
    "a vector of zeros": ({CAPTIONS: lambda a: a * (np.arange(len(a)) > 0)[:, None]}, MalformedRun, "zero vector"),
}


@pytest.mark.parametrize(("changes", "error", "message"), FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("tasks", ["all", "sugarcrepe"])
def test_bad_arrays_never_yield_a_number(items, sample_library, changes, error, message, tasks):
    run = run_of(items)
    spoilt = {name: change and change(run.further.get(name)) for name, change in changes.items()}
    arrays = {name: array for name, array in (run.further | spoilt).items() if array is not None}
    with pytest.raises(error, match=f"(?s){message}"):
        ce.evaluate(dataclasses.replace(run, further=arrays), tasks, data_dir=sample_library)


def test_a_missing_image_is_named(items, sample_library):
    run = run_of(items)
    fewer = dataclasses.replace(run, images=Embeddings(run.images.ids[1:], run.images.vectors[1:]))
    with pytest.raises(MissingIds, match=f"lacks 1 of 24 images the task needs, the first: {run.images.ids[0]}"):
        ce.evaluate(fewer, data_dir=sample_library)


@pytest.mark.parametrize("options", [{"limit": 10}, {"allow_missing": True}])
def test_on_a_part_of_the_split_it_is_left_out(items, make_run, sample_library, options):
    """Its images are not those of the split, so that no part of the split is a part of it."""
    plain = make_run(sample_library)
    run = beside(plain, *vectors_of(items))
    report = ce.evaluate(run, data_dir=sample_library, **options)
    assert report.skipped["sugarcrepe"].startswith("it cannot be scored on a part of the split")
    assert report.scores == ce.evaluate(plain, data_dir=sample_library, **options).scores
    with pytest.raises(InvalidOption, match="sugarcrepe cannot be computed: it cannot be scored"):
        ce.evaluate(run, "sugarcrepe", data_dir=sample_library, **options)


def test_intervals_draw_the_images_of_all_parts_together(items, sample_library):
    """The mean of a sample is that of seven parts over the same drawn images, as a plain loop has it."""
    run = run_of(items)
    rows = {row.key: row for row in ce.evaluate(run, data_dir=sample_library, seed=3, per_query=True).results}
    table = ce.evaluate(run, data_dir=sample_library, per_query=True).per_query
    images = np.unique([image for own in items.values() for image, _, _ in own])
    times = Draws(seed=3).times(images.size)
    means = []
    for sample in times:
        weight = dict(zip(images.tolist(), sample.tolist(), strict=True))
        parts = []
        for part, own in items.items():
            values = table.filter(np.asarray(table["direction"]) == part)["value"].to_pylist()
            weights = [weight[image] for image, _, _ in own]
            parts.append(sum(w * v for w, v in zip(weights, values, strict=True)) / sum(weights))
        means.append(parts)
    drawn = np.array(means)
    for column, part in zip(drawn.T, items, strict=True):
        row = rows[f"sugarcrepe/{part}/pairwise_accuracy"]
        assert (row.low, row.high) == pytest.approx(tuple(np.quantile(column, [0.025, 0.975])), rel=1e-9)
    bounds = tuple(np.quantile(drawn.mean(axis=1), [0.025, 0.975]))
    assert (rows[MEAN].low, rows[MEAN].high) == pytest.approx(bounds, rel=1e-9)


def test_too_few_images_have_no_interval():
    with pytest.raises(DataError, match="1 of 40 images have queries, which is too few for an interval"):
        ClusterBootstrap(np.array([7]), Draws(seed=0), among=np.arange(40))


def test_two_models_are_compared_item_by_item(items, sample_library):
    weak, strong = (
        ce.evaluate(run_of(items, seed=seed, noise=noise), data_dir=sample_library, per_query=True, name=name)
        for name, seed, noise in (("weak", 0, (4.0, 4.0)), ("strong", 1, (0.5, 4.0)))
    )
    found = compare(weak, strong, samples=500, metrics="all", progress=False)
    assert [row.metric for row in found.differences] == ["pairwise_accuracy"] * 7 + ["mean_pairwise_accuracy"]
    mean = found.differences[-1]
    assert mean.difference == pytest.approx(strong.scores[MEAN] - weak.scores[MEAN])
    assert mean.low < mean.difference < mean.high
    assert (mean.n_images, mean.n_queries) == (24, 126)
    (alone,) = compare(weak, strong, samples=500, progress=False).differences
    assert (alone.low, alone.high) == (mean.low, mean.high)
    same = compare(weak, ScoredReport.of("again", weak), samples=100, progress=False).differences[0]
    assert (same.low, same.difference, same.high) == (0, 0, 0)


def test_the_command_shows_a_table_for_each_way(items, tmp_path, capsys):
    save_embeddings(tmp_path / "run.npz", run_of(items))
    with pytest.raises(SystemExit, match="0"):
        main(["evaluate", str(tmp_path / "run.npz"), "--data-dir", "sample", "--output", str(tmp_path / "report")])
    shown = capsys.readouterr().out
    assert re.search(r"replace_obj +replace_att +replace_rel\n", re.sub(r" +\n", "\n", shown))
    assert re.search(r"swap_obj +swap_att\n", re.sub(r" +\n", "\n", shown))
    assert "mean accuracy" in shown
    page = (tmp_path / "report/report.html").read_text()
    assert "Mean pairwise accuracy</b>, all parts" in page
    assert "both directions" not in page


def test_its_metrics():
    assert pairwise_accuracy([0.9, 0.3, 0.5], [0.1, 0.4, 0.5]).tolist() == [1, 0, 0]
    for captions, negatives in (([], []), ([1.0], [1.0, 2.0]), ([np.nan], [1.0]), ([["a"]], [["b"]])):
        with pytest.raises(MalformedRun):
            pairwise_accuracy(captions, negatives)
    assert float(mean_pairwise_accuracy(np.array([0.5, 1.0]))) == 0.75
    assert mean_pairwise_accuracy(np.array([[0.5, 1.0], [0.0, 0.0]])).tolist() == [0.75, 0]
    for accuracies in ([], [1.5], [np.nan], ["a"]):
        with pytest.raises(MalformedRun):
            mean_pairwise_accuracy(np.array(accuracies))


ITEM = {"filename": "000000000007.jpg", "caption": "A dog.", "negative_caption": "A cat."}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "an object"),
        ({}, "an object"),
        ({"a": ITEM}, "a whole number"),
        ({"01": ITEM}, "a whole number"),
        ({"1": ITEM, "0": {**ITEM, "caption": "A hound."}}, "ascending keys"),
        ({"0": ITEM, "1": ITEM}, "item 0 again"),
        ({"0": {**ITEM, "filename": "7.jpg"}}, "a file name of COCO 2017"),
        ({"0": {**ITEM, "filename": "COCO_val2014_000000000007.jpg"}}, "a file name of COCO 2017"),
        ({"0": {**ITEM, "caption": " \n"}}, "a sentence"),
        ({"0": {**ITEM, "negative_caption": "A dog."}}, "a negative equal to its caption"),
        ({"0": {**ITEM, "negative_caption": 7}}, "a text"),
        ({"0": {"filename": ITEM["filename"], "caption": "A dog."}}, "a key 'negative_caption'"),
        ({"0": {**ITEM, "label": 1}}, "no other than filename"),
    ],
)
def test_a_malformed_file_is_refused(tmp_path, content, words):
    path = tmp_path / "add_att.json"
    path.write_text(json.dumps(content))
    with pytest.raises(MalformedSource, match=words):
        read_sugarcrepe(path)
