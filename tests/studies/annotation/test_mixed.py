"""People's labels and a judge's probabilities in one config, and the card's word on the judge."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from annotated_projects import judge_all, knows, noisy_run, pairs_of, write_answers
from datasets import load_dataset

from cxc_eccv.errors import DataError
from cxc_eccv.evaluation.answers import Answers, answers_of
from cxc_eccv.hub.upload import plan_upload
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels
from cxc_eccv.statistics import choose_probabilities, draw
from cxc_eccv.studies.annotation.merging import merge_labels
from cxc_eccv.studies.annotation.mixed import measure_judge, mix
from cxc_eccv.studies.annotation.project import Project

KEY = "coco_5k/t2i/recall_at_1"


@pytest.fixture
def judge(sample_library):
    return judge_all(sample_library, np.random.default_rng(0).random)


def answered(folder, library, judge, **asked):
    """A project whose pairs are all answered."""
    project = Project.create(folder / "mine", library, name="mine")
    project = project.propose({"first": noisy_run(library, 0, width=4)}, **asked)
    answers = write_answers(folder / "ann.jsonl", project, "ann", knows(project))
    return project.add_answers([answers]).project


def test_the_folder_loads_both_configs_and_people_alone_stay_a_source(tmp_path, sample_library, judge, command):
    asked = {"strategy": "active", "metric": KEY, "budget": 60, "probabilities": judge}
    project = answered(tmp_path, sample_library, judge, **asked)
    command("merge", "mine")
    people = (project.folder / "labels.parquet").read_bytes()
    pq.write_table(judge.slice(1), "judge.parquet")
    assert "mixed/labels.parquet" in command("merge", "mine", "--probabilities", "judge.parquet")
    assert (project.folder / "labels.parquet").read_bytes() == people
    assert set(Library("sample", labels=[project.folder]).label_files) == {"labels_mine_test"}
    labels = read_labels(project.folder / "labels.parquet").table
    load = lambda *name: load_dataset("mine", *name, split="test", cache_dir=str(tmp_path / "cache"))  # noqa: E731
    assert load().num_rows == labels.num_rows == 60
    rows = {(row["image_id"], row["caption_id"]): row for row in load("mixed")}
    assert {pair for pair, row in rows.items() if row["judged_by"] != "judge"} == pairs_of(labels)
    assert len(rows) >= judge.num_rows - 1
    for given in judge.slice(1).to_pylist():
        row = rows[given["image_id"], given["caption_id"]]
        low, high = map(float, row["stratum"].split(" to "))
        assert low <= row["probability"] == given["probability"] < high
        assert (row["positive"] is None) == (row["drawn"] is None) == (row["judged_by"] == "judge")
    assert set(labels["positive"].to_pylist()) == {True, False}
    card = (project.folder / "README.md").read_text()
    assert "People judged 60 pairs that were drawn" in card
    assert "Cohen's kappa" in card
    assert "mixed/labels.parquet" in plan_upload("mine", "org/mine").files
    command("merge", "mine")
    assert not (project.folder / "mixed" / "labels.parquet").exists()
    assert "mixed" not in (project.folder / "README.md").read_text()


def test_with_all_pairs_drawn_the_quality_is_that_on_all_of_them(tmp_path, sample_library, judge):
    asked = {"strategy": "active", "metric": "coco_5k/t2i/recall_at_5", "budget": 20_000, "probabilities": judge}
    project = answered(tmp_path, sample_library, judge, **asked)
    merge_labels(project, probabilities=judge)
    labels = read_labels(project.folder / "labels.parquet")
    quality = mix(labels, judge, sample_library.karpathy("test")).quality
    answers = answers_of(labels)
    chances = {(row["image_id"], row["caption_id"]): row["probability"] for row in judge.to_pylist()}
    pairs = zip(answers.images.tolist(), answers.captions.tolist(), strict=True)
    says, truth = np.array([chances[pair] >= 0.5 for pair in pairs]), answers.labels == 1
    hits = (says & truth).sum()
    assert answers.units < answers.open_pairs == quality.pairs == truth.size
    expected = {"accuracy": (says == truth).mean(), "precision": hits / says.sum(), "recall": hits / truth.sum()}
    for name, value in expected.items():
        rate = quality.rates[name]
        assert (rate.value, rate.low, rate.high) == pytest.approx((value, value, value))
    chance = says.mean() * truth.mean() + (1 - says.mean()) * (1 - truth.mean())
    assert quality.kappa == pytest.approx((expected["accuracy"] - chance) / (1 - chance))
    assert [each.name for each in quality.strata] == [f"{n / 10:.1f} to {(n + 1) / 10:.1f}" for n in range(10)]


@pytest.mark.parametrize("per_query", [1, 4])
def test_intervals_from_drawn_answers_hold(per_query):
    random = np.random.default_rng(0)
    chances = random.random(per_query * 600)
    truth = (random.random(chances.size) < chances**2).astype(float)
    query, says = np.arange(chances.size) // per_query, chances >= 0.5
    true = {"accuracy": (says == truth).mean(), "precision": truth[says].mean(), "recall": says[truth == 1].mean()}
    odds = choose_probabilities(0.1 + chances[::per_query], 150)  # drawn pairs are not as all pairs are
    held, values = dict.fromkeys(true, 0), []
    for seed in range(200):
        rows = np.isin(query, draw(odds, seed))
        known = (query[rows], query[rows], truth[rows], odds[query[rows]], chances.size, 600)
        quality = measure_judge(Answers(Path("x"), "test", KEY, "", *known), chances[rows])
        values.append([quality.rates["precision"].value, quality.kappa, quality.calibration_error])
        for name, value in true.items():
            held[name] += quality.rates[name].low <= value <= quality.rates[name].high
    assert all(180 <= count <= 199 for count in held.values()), held
    chance = says.mean() * truth.mean() + (1 - says.mean()) * (1 - truth.mean())
    kappa = (true["accuracy"] - chance) / (1 - chance)
    assert np.mean(values, axis=0)[:2] == pytest.approx([true["precision"], kappa], abs=0.01)


def test_no_interval_of_a_share_leaves_0_to_1():
    random = np.random.default_rng(0)
    truth = (random.random(1_500) < 0.1).astype(float)
    chances = np.clip(np.where(random.random(1_500) < 0.03, 1 - truth, truth), 0.1, 0.9)
    odds, pairs = choose_probabilities(chances, 100), np.arange(1_500)
    for seed in range(10):
        rows = draw(odds, seed)
        answers = Answers(Path("x"), "test", KEY, "", rows, rows, truth[rows], odds[rows], pairs.size, pairs.size)
        rates = measure_judge(answers, chances[rows]).rates.values()
        assert all(0 <= rate.low <= rate.high <= 1 for rate in rates if not isinstance(rate, str))


def test_chosen_pairs_say_nothing_of_the_judge(tmp_path, sample_library, judge):
    project = answered(tmp_path, sample_library, judge, budget=36)
    labels = merge_labels(project, probabilities=judge)
    card = (project.folder / "README.md").read_text()
    assert "chosen, not drawn" in card
    assert str(tmp_path) not in card
    content = sample_library.karpathy("test")
    table = mix(labels, judge, content).table
    assert table["drawn"].null_count == table.num_rows
    elsewhere = pa.table({"image_id": [1], "caption_id": [2], "probability": [0.5]})
    twice = pa.concat_tables([judge, judge.slice(0, 1)])
    for wrong, message in ((twice, "occurs twice"), (elsewhere, "image 1 is not in this split")):
        with pytest.raises(DataError, match=message):
            mix(labels, wrong, content)
