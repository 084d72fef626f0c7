"""Pairs drawn for a number, people's answers about them, and the number that follows: on the sample."""

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from annotated_projects import judge_all, knows, noisy_run, write_answers

import cxc_eccv as ce
from cxc_eccv.cli.app import main
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation.answers import read_answers
from cxc_eccv.parquet import write_parquet
from cxc_eccv.runs import RankingsRun
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.readers import FACTS_KEY
from cxc_eccv.statistics import estimate_mean
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.project import Project
from cxc_eccv.studies.annotation.proposing import ProposalOptions

pytestmark = pytest.mark.thorough

KEY = "coco_5k/t2i/recall_at_1"


def weak_run(library, seed):
    """A model that ranks many pairs first that nobody judged."""
    return noisy_run(library, seed, width=4)


def judge(library):
    return judge_all(library, partial(np.random.default_rng(0).beta, 1, 3))


def draw(folder, library, name="mine", **options):
    """A project with drawn pairs."""
    asked = {"strategy": "active", "number": KEY, "budget": 60, "judge": judge(library)} | options
    return Project.create(folder / name, library, name=name).propose(
        {"first": weak_run(library, 0)}, ProposalOptions(**asked)
    )


def merge(folder, project, **options):
    """The same with answers, to all pairs if no sheets are given, and its labels."""
    answers = write_answers(folder / "ann.jsonl", project, "ann", knows(project), **options)
    project = project.add_answers([answers]).project
    return project, merge_labels(project)


def estimate(library, path, key, seed=0, **options):
    """The bounds of a number with its estimate."""
    task, _, metric = key.rpartition("/")
    asked = {"metrics": [metric], "data_dir": library, "bounds": True, "judge": judge(library)}
    report = ce.evaluate(weak_run(library, seed), task, answers=path, **{**asked, **options})
    return next(result.bounds for result in report.results if result.key == key)


@pytest.mark.parametrize(
    "key", [KEY, "coco_5k/i2t/recall_at_5", "coco_5k/i2t/map_at_r", "entailment/i2t/entail_at_5", "cxc/t2i/mrr_at_3"]
)
def test_estimate_from_all_answers_equals_the_score(tmp_path, sample_library, key):
    _, labels = merge(tmp_path, draw(tmp_path, sample_library, number=key, budget=20_000))
    task, _, metric = key.rpartition("/")
    bounds = estimate(sample_library, labels.path, key)
    own = {"entailment": "coco,cxc,eccv,entailment", "cxc": "coco,cxc"}.get(task.partition("/")[0], "coco").split(",")
    labelled = ce.Library("sample", labels=[labels.path])
    if metric.startswith("entail"):
        rows = zip(*(labels.table[name].to_pylist() for name in ("image_id", "caption_id", "positive")), strict=True)
        known = {(image, caption): positive for image, caption, positive in rows}
        run = weak_run(sample_library, 0)
        answer = lambda images, captions: [known[pair] for pair in zip(images.tolist(), captions.tolist(), strict=True)]  # noqa: E731
        report = ce.evaluate(run, task, metrics=[metric], data_dir=sample_library, judge=answer)
    else:
        run = weak_run(sample_library, 0)
        sources = [*own, "mine"]
        report = ce.evaluate(run, task, metrics=[metric], data_dir=labelled, sources=sources)
    assert bounds.estimate == pytest.approx(report.scores[key])
    assert bounds.low <= bounds.estimate <= bounds.high
    assert bounds.estimate_low < bounds.estimate < bounds.estimate_high


def test_drawn_answers_are_weighted_by_their_probabilities(tmp_path, sample_library):
    project, labels = merge(tmp_path, draw(tmp_path, sample_library))
    content = sample_library.split("test")
    run = weak_run(sample_library, 0)
    vectors = [
        side.vectors / np.linalg.norm(side.vectors, axis=1, keepdims=True) for side in (run.captions, run.images)
    ]
    top = run.images.ids[(vectors[0] @ vectors[1].T).argmax(axis=1)]
    is_open = top != content.caption_image_ids
    chances = dict(zip(*_columns(judge(sample_library), "probability"), strict=True))
    drawn = dict(zip(*_columns(labels.table, "drawn"), strict=True))
    answers = dict(zip(*_columns(labels.table, "positive"), strict=True))
    pairs = list(zip(top.tolist(), content.caption_ids.tolist(), strict=True))
    known = [place for place, pair in enumerate(pairs) if pair in drawn or not is_open[place]]
    values = [float(answers[pairs[place]]) if is_open[place] else 1.0 for place in known]
    odds = [drawn[pairs[place]] if is_open[place] else 1.0 for place in known]
    predictions = [chances[pair] if is_open[place] else 1.0 for place, pair in enumerate(pairs)]
    expected = estimate_mean(predictions, known, values, odds, clusters=content.caption_image_ids)
    bounds = estimate(sample_library, project.folder, KEY)
    assert len(drawn) == labels.table.num_rows == 60
    ends = (bounds.estimate_low, bounds.estimate, bounds.estimate_high)
    assert ends == pytest.approx((expected.low, expected.value, expected.high))


def _columns(table, name):
    pairs = zip(table["image_id"].to_pylist(), table["caption_id"].to_pylist(), strict=True)
    return list(pairs), table[name].to_pylist()


def test_estimate_does_not_depend_on_other_metrics(tmp_path, sample_library):
    key = "coco_5k/t2i/map_at_r"
    project, _ = merge(tmp_path, draw(tmp_path, sample_library, number=key, budget=3_500))
    alone = estimate(sample_library, project.folder, key)
    assert estimate(sample_library, project.folder, key, metrics=["map_at_r", "recall_at_60"]) == alone


def test_a_budget_in_whole_queries_is_not_exceeded(tmp_path, sample_library):
    project = draw(tmp_path, sample_library, number="coco_5k/t2i/recall_at_5", budget=200)
    facts = project.rounds[0].facts
    assert 150 < facts.counts["candidates"] <= 200 < facts.options["open_pairs"]


def test_nearly_full_budget_leaves_an_interval(tmp_path, sample_library):
    open_pairs = draw(tmp_path, sample_library, "all", budget=999).rounds[0].facts.options["open_pairs"]
    project, _ = merge(tmp_path, draw(tmp_path, sample_library, budget=open_pairs - 3))
    bounds = estimate(sample_library, project.folder, KEY)
    assert bounds.estimate_low < bounds.estimate < bounds.estimate_high


def test_a_sure_judge_draws_all_queries_alike(tmp_path, sample_library):
    """Rounding once decided here: of 200 intervals 73% held."""
    pairs = judge(sample_library)
    sure = pairs.set_column(2, "probability", pc.greater(pairs["probability"], 0.3).cast("float64"))
    key = "coco_5k/t2i/map_at_r"
    project = draw(tmp_path, sample_library, number=key, budget=3_500, judge=sure)
    assert np.ptp(project.candidates["priority"].to_numpy()) < 0.01


def test_gallery_below_k_has_fewer_units(tmp_path, sample_library):
    project, labels = merge(tmp_path, draw(tmp_path, sample_library, number="entailment/i2t/entail_at_400", budget=90))
    bounds = estimate(sample_library, project.folder, "entailment/i2t/entail_at_400")
    assert labels.table.num_rows == 90
    assert bounds.low < bounds.estimate < bounds.high


def test_answers_that_do_not_fit_are_refused(tmp_path, sample_library):
    project, _ = merge(tmp_path, draw(tmp_path, sample_library))
    path = project.folder
    for key, options, message in (
        (KEY, {"seed": 1}, "of another run"),
        ("coco_5k/i2t/recall_at_1", {}, "add --tasks coco_5k/t2i --metrics recall_at_1"),
        (KEY, {"judge": None}, "need a judge"),
    ):
        with pytest.raises((DataError, InvalidOption), match=message):
            estimate(sample_library, path, key, **options)
    asked = {"strategy": "active", "number": KEY, "budget": 60, "judge": judge(sample_library)}
    with pytest.raises(InvalidOption, match="first round"):
        project.propose({"first": weak_run(sample_library, 0)}, ProposalOptions(**asked))
    (path / "earlier.parquet").write_bytes((path / "labels.parquet").read_bytes())
    with pytest.raises(InvalidOption, match=r"several label files, earlier\.parquet, labels\.parquet"):
        estimate(sample_library, path, KEY)


@pytest.mark.parametrize("metric", ["recall_at_1", "recall_at_5"])
def test_answers_about_other_pairs_are_refused(tmp_path, sample_library, metric):
    key = f"coco_5k/t2i/{metric}"
    _, labels = merge(tmp_path, draw(tmp_path, sample_library, number=key, budget=200))
    answers = read_answers(labels.path)
    others = sample_library.split("test").image_ids
    known = set(zip(answers.images.tolist(), answers.captions.tolist(), strict=True))
    other = next(image for image in others.tolist() if (image, answers.captions[0]) not in known)
    changed = replace(answers, images=np.append(other, answers.images[1:]))
    with pytest.raises(DataError, match="not those that were drawn"):
        estimate(sample_library, changed, key)


def test_a_changed_probability_is_refused(tmp_path, sample_library):
    _, labels = merge(tmp_path, draw(tmp_path, sample_library))
    table = pq.read_table(labels.path)
    place = table.column_names.index("drawn")
    drawn = table["drawn"].to_numpy().copy()
    drawn[3] = 1e-45
    pq.write_table(table.set_column(place, table.field("drawn"), [drawn]), labels.path)
    with pytest.raises(DataError, match="are not those with which pairs were drawn"):
        read_answers(labels.path)


@pytest.mark.parametrize(
    "name", ["rounds", "counts", "options", "metric", "frame", "sum_of_probabilities", "open_pairs"]
)
def test_damaged_name_in_the_metadata_is_no_traceback(tmp_path, sample_library, name):
    _, labels = merge(tmp_path, draw(tmp_path, sample_library))
    table = pq.read_table(labels.path)
    facts = table.schema.metadata[FACTS_KEY].replace(f'"{name}"'.encode(), f'"{name[:-1]}_"'.encode())
    write_parquet(table.replace_schema_metadata({FACTS_KEY: facts}), labels.path)
    if name == "open_pairs":  # only recorded
        assert read_answers(labels.path).key == KEY
    else:
        with pytest.raises(MalformedSource, match=f"expected an entry '{name}'"):
            read_answers(labels.path)


def test_missing_answers_and_chosen_pairs_are_refused(tmp_path, sample_library):
    project, _ = merge(tmp_path, draw(tmp_path, sample_library), sheets=[0, 1])
    with pytest.raises(DataError, match="of the 60 drawn pairs have no label"):
        estimate(sample_library, project.folder, KEY)
    chosen = {"strategy": "eccv", "budget": 36, "number": None, "judge": None}
    project, _ = merge(tmp_path, draw(tmp_path, sample_library, "other", **chosen))
    with pytest.raises(DataError, match="chosen, not drawn"):
        estimate(sample_library, project.folder, KEY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"number": "map_at_r"}, "coco_5k/t2i/recall_at_1"),
        ({"number": "coco_5k/t2i/median_rank"}, "cannot be estimated"),
        ({"number": "cxc/t2t/recall_at_1"}, "cannot be estimated"),
        ({"judge": None}, "needs a judge"),
        ({"budget": 5}, "at least"),
    ],
)
def test_numbers_that_cannot_be_estimated_are_refused(tmp_path, sample_library, options, message):
    with pytest.raises(InvalidOption, match=message):
        draw(tmp_path, sample_library, **options)


def test_rankings_ending_before_open_pairs_are_refused(tmp_path, sample_library):
    content = sample_library.split("test")
    tops = RankingsRun.from_dicts(t2i=dict.fromkeys(content.caption_ids.tolist(), content.image_ids[:5].tolist()))
    asked = {"strategy": "active", "number": "coco_5k/t2i/map_at_r", "budget": 500}
    asked["judge"] = judge(sample_library)
    with pytest.raises(InvalidOption, match="the rankings hold 5 items"):
        Project.create(tmp_path / "mine", sample_library, name="mine").propose(
            {"short": tops}, ProposalOptions(**asked)
        )


@pytest.mark.filterwarnings("ignore::UserWarning")  # random weights: texts that are cut, ties
def test_evaluate_model_estimates_with_judge_and_answers(command, tmp_path, sample_library, monkeypatch):
    pytest.importorskip("transformers", reason="transformers is not installed")
    import tiny_models

    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    images = mirror_folder("sample") / "coco" / "images"
    model = tiny_models.save(tiny_models.dual(), tmp_path / "model")
    pq.write_table(judge(sample_library), tmp_path / "judge.parquet")
    encode_file = ["encode", "--model", model, "--images", images, "--output", tmp_path / "run.npz"]
    with pytest.raises(SystemExit):
        main([*map(str, encode_file)])
    drawn = ("--number", KEY, "--budget", 60, "--judge", "judge.parquet")
    command("propose", "mine", tmp_path / "run.npz", *drawn)
    project = Project.open(tmp_path / "mine", sample_library)
    command("import", "mine", write_answers(tmp_path / "ann.jsonl", project, "ann", knows(project)))
    command("merge", "mine")
    asked = ("--tasks", "coco_5k", "--metrics", "recall_at_1", "--judge", "judge.parquet", "--answers", "mine")
    printed = command("evaluate", "--model", model, "--images", images, *asked)
    assert re.search(r"estimate\D+\d+\.\d \[\d+\.\d, \d+\.\d\]", printed)
