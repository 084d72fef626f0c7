"""Simulated annotation: people of known error, models of known quality, and counts taken anew from the raw files."""

import json
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from label_loop import simulation as module
from label_loop.sample_truth import Truth
from label_loop.simulation import (
    COUNTS,
    Simulation,
    answer_sheets,
    search_hidden,
    simulate,
    summarise,
)

import cxc_eccv
from cxc_eccv.errors import DataError
from cxc_eccv.runs import ScoresRun
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.asking.questions import KnownPairs, build_sheets
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import settle

pytestmark = pytest.mark.slow

SAMPLE = Path(cxc_eccv.__file__).parent / "sample"
PERFECT = [0.0] * 3
COINS = [0.5] * 60
LIARS = [1.0] * 4


def load(name):
    return json.loads((SAMPLE / name).read_text())


@pytest.fixture(scope="module")
def library():
    return Library("sample")


@pytest.fixture(scope="module")
def true_pairs():
    """Image and caption of every true pair of validation that is no link, read without the package."""
    images = [image for image in load("coco/dataset_coco.json")["images"] if image["split"] == "val"]
    truth = load("truth.json")
    return {
        (image["cocoid"], caption)
        for image in images
        for caption in truth[str(image["cocoid"])]
        if caption not in image["sentids"][:5]
    }


def random_run(library, split, seed=0):
    content = library.split(split)
    random = np.random.default_rng(seed)
    scores = random.standard_normal((content.image_ids.size, content.caption_ids.size))
    return ScoresRun(content.image_ids, content.caption_ids, scores)


def sheets_of(library, pairs, seed=0):
    content = library.split("validation")
    images, captions = (np.array(side) for side in zip(*sorted(pairs), strict=True))
    return build_sheets(
        pa.table({"image_id": images, "caption_id": captions}),
        KnownPairs(content, positive=(content.caption_image_ids, content.caption_ids)),
        seed=seed,
    )


def test_perfect_people_find_what_they_are_asked_about(library, true_pairs):
    content = library.split("validation")
    told = []
    wanted = [
        [(image, caption) in true_pairs for caption in content.caption_ids.tolist()]
        for image in content.image_ids.tolist()
    ]
    scores = np.random.default_rng(0).random(np.shape(wanted)) + wanted

    def retrain(labels, seed):
        told.append(labels)
        return {"knowing": ScoresRun(content.image_ids, content.caption_ids, scores)}

    options = {"strategies": ["eccv"], "rounds": 3, "budget": 105, "error_rates": PERFECT, "seeds": 1}
    found = simulate(library, retrain, **options).counts.to_pylist()
    assert len(true_pairs) == 315
    assert found[-1]["found"] > 140
    for number, row in enumerate(found, start=1):
        asked = number * 105
        sheets = number * 6
        assert (row["round"], row["candidates"], row["to_find"]) == (number, asked, 315)
        assert row["found"] == row["positives"] <= asked
        assert row["questions"] == 3 * (asked + 2 * sheets)
    assert told[0].num_rows == 0  # what models are fitted to are answers, and before the first there are none
    assert [labels.num_rows for labels in told] == [number * 105 for number in range(3)]


def test_unasked_pairs_change_no_answer_or_model(library, monkeypatch):
    def go(truth):
        seen = []

        def retrain(labels, seed):
            seen.append(labels.to_pylist())
            return {name: random_run(library, "validation", seed + place) for place, name in enumerate("ab")}

        monkeypatch.setattr(module, "Truth", truth)
        options = {"strategies": ["eccv", "disagreement"], "rounds": 2, "budget": 36, "seeds": 1}
        return seen, simulate(library, retrain, **options).counts

    asked = set()

    class Recorder(Truth):
        def __call__(self, pairs):
            asked.update(self.pairs.of_ids(*pairs, "").tolist())
            return super().__call__(pairs)

    class Others(Truth):
        def __init__(self, *given):
            super().__init__(*given)
            every = np.arange(self.content.image_ids.size * self.content.caption_ids.size)
            self._true = np.union1d(self._true, np.setdiff1d(every, sorted(asked)))

    seen, counts = go(Recorder)
    again, others = go(Others)
    assert seen == again
    assert counts.drop_columns("to_find") == others.drop_columns("to_find")
    assert counts["to_find"][0].as_py() == 315 < others["to_find"][0].as_py()


def test_random_annotators_tell_nothing_and_liars_are_rejected(library, true_pairs):
    content = library.split("validation")
    random = np.random.default_rng(0)
    others = set(product(content.image_ids.tolist(), content.caption_ids.tolist())) - true_pairs
    others -= set(zip(content.caption_image_ids.tolist(), content.caption_ids.tolist(), strict=True))
    false = [sorted(others)[place] for place in random.choice(len(others), 285, replace=False)]
    sheets = sheets_of(library, [*true_pairs, *false])
    truth = Truth(library, "validation")
    given, accepted = answer_sheets(sheets, truth, COINS, answers=3)
    labels = settle(accepted, schemes()["eccv"])
    assert labels.num_rows == 600
    positive = labels.filter(labels["positive"])
    right = truth((np.asarray(positive["image_id"]), np.asarray(positive["caption_id"])))
    share = 315 / 600
    deviation = np.sqrt(315 / 600 * 285 / 600 / right.size)
    assert abs(right.mean() - share) < 4 * deviation  # the share of true pairs among all that were asked about
    assert abs(positive.num_rows - 300) < 4 * np.sqrt(600) / 2
    assert abs(len(given) / len(accepted) - 4) < 0.8  # both known pairs are right on a quarter of the sheets
    given, accepted = answer_sheets(sheets, truth, LIARS, answers=3)
    assert (len(given), len(accepted)) == (4 * sum(map(len, sheets)), 0)


def test_simulated_error_rates_are_as_given(library, true_pairs):
    sheets = sheets_of(library, true_pairs)
    truth = Truth(library, "validation")
    rates = [0.0, 0.1, 0.4]
    given, accepted = answer_sheets(sheets, truth, rates, answers=3, seed=3)
    assert len(given) == 3 * sum(map(len, sheets))  # nobody is left to ask instead
    right = truth((np.asarray(given["image_id"]), np.asarray(given["caption_id"])))
    errs = right != np.asarray(given["positive"])
    for worker, rate in enumerate(rates, start=1):
        own = np.asarray(given["worker"]) == f"person {worker}"
        assert own.sum() == sum(map(len, sheets))
        assert abs(errs[own].mean() - rate) <= 4 * np.sqrt(rate * (1 - rate) / own.sum())
    # What is accepted has its known pairs right, or wrong where they were known wrongly.
    rows = [
        row
        for row, err in zip(given.to_dict("records"), errs.tolist(), strict=True)
        if err and row["role"] != "candidate"
    ]
    missed = {(row["sheet"], row["worker"]) for row in rows if row["positive"] != (row["role"] == "known positive")}
    assert missed
    assert not missed & set(zip(accepted["sheet"], accepted["worker"], strict=True))


def hidden_pool():
    """ECCV Caption's pairs of the test split that no other file judges, read without the package."""
    images = [image for image in load("coco/dataset_coco.json")["images"] if image["split"] == "test"]
    names = {image["filename"]: image["cocoid"] for image in images}
    captions = {caption for image in images for caption in image["sentids"][:5]}
    verified = {(int(i), c) for i, own in load("eccv/eccv_image_to_caption.json").items() for c in own}
    verified |= {(i, int(c)) for c, own in load("eccv/eccv_caption_to_image.json").items() for i in own}
    verified = {(image, caption) for image, caption in verified if caption in captions}
    judged = {(image["cocoid"], caption) for image in images for caption in image["sentids"][:5]}
    for line in (SAMPLE / "cxc" / "sits_test.csv").read_text().splitlines()[1:]:
        caption, image, *_ = line.split(",")
        judged.add((names[image], int(caption.rsplit(":", 1)[1])))
    for line in (SAMPLE / "entailment" / "entailment_test.jsonl").read_text().splitlines():
        row = json.loads(line)
        judged.add((row["image_id"], row["caption_id"]))
    return verified, verified - judged


def test_hidden_are_pairs_that_eccv_caption_alone_judged(library):
    verified, pool = hidden_pool()
    content = library.split("test")
    scores = [
        [(image, caption) in pool for caption in content.caption_ids.tolist()] for image in content.image_ids.tolist()
    ]
    runs = {"knowing": ScoresRun(content.image_ids, content.caption_ids, np.array(scores, np.float32))}
    found = search_hidden(runs, library, strategies=["eccv"], seeds=3, questions=[40, 100])
    hides = round(len(pool) / 2)
    assert (found.facts["verified"], found.facts["known_to_eccv_alone"]) == (len(verified), len(pool))
    for row in found.counts.to_pylist():
        step = {1: 36, 2: 90}[row["round"]]
        assert row["candidates"] == step
        assert row["questions"] == {1: 40, 2: 100}[row["round"]]
        assert (row["to_find"], row["positives"]) == (hides, None)
        assert row["found"] > 0.6 * min(step, hides)


def test_numbers_over_seeds_are_quotients_of_sums():
    rows = [
        *[("eccv", 0, 1, 100, 90, 20, 10, 40), ("eccv", 1, 1, 140, 90, 20, 20, 40)],
        *[("other", 0, 1, 100, 90, 0, 0, 40), ("other", 1, 1, 100, 90, 8, 5, 40)],
    ]
    first, second = summarise(Simulation(pa.table(list(zip(*rows, strict=True)), schema=COUNTS), {}))
    assert (first["questions"], first["found"]) == (120, 15)
    # Of two seeds either is drawn twice in a quarter of the draws, so that the interval reaches from one to the other.
    assert first["recall"] == (30 / 80, 10 / 40, 20 / 40)
    assert first["precision"] == (30 / 40, 10 / 20, 20 / 20)
    assert first["cost"] == (240 / 30, 140 / 20, 100 / 10)
    assert first["yield"] == (30 / 240, 10 / 100, 20 / 140)
    assert first["ahead"] == (0, 0, 0)
    assert second["ahead"] == (-12.5, -15, -10)
    assert second["recall"] == (5 / 80, 0, 5 / 40)
    assert (second["cost"], second["precision"]) == (None, None)  # where seed 0 is drawn alone nothing was found


def test_real_data_know_no_truth(real_library):
    with pytest.raises(DataError, match=r"nobody knows .*--data-dir sample.*--hide eccv"):
        Truth(real_library, "test")


def test_hidden_positives_of_the_real_test_split(real_library):
    """Of 27,738 pairs, 18,457 are ECCV Caption's alone; noise about the links finds next to none of a half of these."""
    from label_loop.scorers import SCORERS

    content = real_library.split("test")
    runs = {"noise": SCORERS["noise"](content)}
    found = search_hidden(runs, real_library, strategies=["random", "eccv"], questions=[1_000], seeds=1)
    facts = found.facts
    assert (facts["verified"], facts["known_to_eccv_alone"], facts["to_find"]) == (27_738, 18_457, 9_228)
    assert all(row["found"] <= 20 for row in found.counts.to_pylist())
