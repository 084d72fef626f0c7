"""The evaluation on small files of every layout: values, aggregates, counts, and what a bad encoder gets."""

import json

import numpy as np
import pytest
from scipy.stats import pearsonr

from cxc_eccv.errors import MalformedRun, UnknownName
from cxc_eccv.sources.library import Library
from cxc_eccv.sts import FittedPerTask, evaluate_sts, task_names, task_texts
from cxc_eccv.sts.classifiers import CrossEntropyClassifier
from cxc_eccv.sts.correlations import cosines
from cxc_eccv.sts.sentence_sets import SUBTASKS, supervised_pairs

WORDS = ["a", "dog", "cat", "bus", "man", "red", "runs", "sleeps", "on", "street", "two"]


def encoder(texts):
    """Counts of letters: crude, the same for the same text, and different enough."""
    return np.array([[text.count(letter) for letter in "abcdemnorstu"] for text in texts], dtype=np.float32)


def sentences(random):
    return " ".join(random.choice(WORDS, 4)), " ".join(random.choice(WORDS, 4))


@pytest.fixture(scope="module")
def small_library(tmp_path_factory):
    """Files of every layout, a few pairs each."""
    folder = tmp_path_factory.mktemp("mirror")
    random = np.random.default_rng(0)
    entries = Library(folder).catalog
    for entry in entries:
        if entry.group not in {"semeval_sts", "stsb", "sick"}:
            continue
        path = folder / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        count = 12 + len(entry.name) % 5
        scores = np.round(random.uniform(1, 5, count), 2)
        rows = ["\t".join(cells) for cells in (cells_of(entry.group, score, random) for score in scores)]
        head = {"sick": ["pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment"]}
        extra = ["\tno score\tat all"] if entry.name.startswith("sts2016") else []
        path.write_text("\n".join([*head.get(entry.group, []), *rows, *extra]) + "\n", encoding="utf-8")
    return Library(folder, allow_modified=True)


def cells_of(group, score, random):
    left, right = sentences(random)
    if group == "semeval_sts":
        return f"{score}", left, right
    if group == "stsb":
        return "main-captions", "MSRvid", "2012test", "1", f"{score}", left, right
    return "1", left, right, f"{score}", "NEUTRAL"


@pytest.fixture(scope="module")
def report(small_library):
    return evaluate_sts(encoder, small_library)


def test_every_task_has_its_table(report):
    assert list(report.tasks) == [*SUBTASKS, "stsb", "sick", "sts"]
    for task, subtasks in SUBTASKS.items():
        assert [row.name for row in report.tasks[task]] == [*subtasks, "mean", "weighted_mean", "all"]
    assert [row.name for row in report.tasks["sick"]] == ["cosine", "classifier", "cross_entropy_classifier"]


def test_a_subtask_and_the_aggregates_equal_loops(report, small_library):
    predicted = []
    scores = []
    each = []
    for subtask in SUBTASKS["sts2016"]:
        path = small_library.catalog.entry(f"sts2016_{subtask}").path
        rows = [line.split("\t") for line in (small_library.data_dir / path).read_text().splitlines()]
        rows = [row for row in rows if row[0]]
        found = cosines(encoder([row[1] for row in rows]), encoder([row[2] for row in rows]))
        gold = [float(row[0]) for row in rows]
        each.append((pearsonr(found, gold).statistic, len(rows)))
        predicted += found.tolist()
        scores += gold
        row = report.row("sts2016", subtask)
        assert row.pearson == pytest.approx(each[-1][0])
        assert (row.pairs, row.unscored) == (len(rows), 1)
    assert report.row("sts2016", "mean").pearson == pytest.approx(np.mean([r for r, _ in each]))
    weighted = sum(r * n for r, n in each) / sum(n for _, n in each)
    assert report.row("sts2016", "weighted_mean").pearson == pytest.approx(weighted)
    assert report.row("sts2016", "all").pearson == pytest.approx(pearsonr(predicted, scores).statistic)
    assert report.row("sts2016", "all").unscored == 5


def test_all_years_together(report):
    rows = [row for task in SUBTASKS for row in report.tasks[task] if row.name in SUBTASKS[task]]
    assert report.row("sts", "mean").pearson == pytest.approx(np.mean([row.pearson for row in rows]))
    assert report.row("sts", "mean").pairs == sum(row.pairs for row in rows)


@pytest.mark.parametrize("tasks", [["sts2013"], [*SUBTASKS][:-1], ["stsb", *[*SUBTASKS][1:]]])
def test_average_over_years_needs_all_five(small_library, monkeypatch, tasks):
    monkeypatch.setattr("cxc_eccv.sts.evaluate._evaluate_test_part", lambda *_: [])
    assert set(evaluate_sts(encoder, small_library, tasks).tasks) == set(tasks)
    assert "sts" in evaluate_sts(encoder, small_library, list(SUBTASKS)).tasks


@pytest.mark.parametrize(("task", "grades"), [("stsb", (0, 5)), ("sick", (1, 5))])
def test_classifier_predicts_the_human_grades(small_library, monkeypatch, task, grades):
    """STS Benchmark is scored from 0, SICK from 1."""
    fitted = []
    fit = CrossEntropyClassifier.fit
    monkeypatch.setattr(CrossEntropyClassifier, "fit", lambda *given: fitted.append(given[2:]) or fit(*given))
    evaluate_sts(encoder, small_library, [task])
    assert fitted == [grades]


def test_written_out(report):
    content = json.loads(report.to_json())
    assert content["tasks"]["sick"][0]["name"] == "cosine"
    assert content["provenance"]["model"] == "a text encoder"
    text = report.to_markdown()
    assert "## STS 2014" in text
    assert f"| deft forum | {report.row('sts2014', 'deft_forum').pairs} |" in text


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (lambda texts: encoder(texts)[:-1], r"vectors of 28 texts.*has 27 rows for 28 ids"),
        (lambda texts: encoder(texts) * np.nan, r"vectors of 28 texts.*value nan in row 0.*28 of 28 vectors are not"),
        (lambda texts: np.ones((len(texts), 3), dtype=np.float32), "the same similarity"),
        (lambda texts: encoder(texts)[:, 0], r"vectors of 28 texts.*has shape \(28,\), expected \(N, D\)"),
        (lambda texts: [[1.0]] * 27 + [[1.0, 2.0]], "rows of unequal length"),
        (lambda texts: [["a"]] * 28, "has type <U1"),
        (lambda texts: encoder(texts).astype(np.int8), "has type int8"),
        (lambda texts: np.ma.masked_array(encoder(texts)), "masked array"),
    ],
    ids=["one-lacks", "nan", "all-equal", "flat", "ragged", "texts", "integers", "masked"],
)
def test_an_encoder_that_gives_nonsense(small_library, bad, words):
    with pytest.raises(MalformedRun, match=words):
        evaluate_sts(bad, small_library, ["sts2013"])


@pytest.mark.parametrize("task", ["sts2013", "stsb"])
def test_a_zero_vector_has_no_cosine(small_library, task):
    def forgetful(texts):
        vectors = encoder(texts)
        vectors[3] = 0
        return vectors

    with pytest.raises(MalformedRun, match=r"the zero vector, .* for 1 of \d+ texts, the first: '[a-z ]+'"):
        evaluate_sts(forgetful, small_library, [task])
    with pytest.raises(MalformedRun, match="too small for float32"):
        evaluate_sts(lambda texts: encoder(texts) * np.float64(1e-60), small_library, [task])


def test_a_task_is_named_once():
    assert task_names(["sick", "sts2013", "sick"]) == ["sick", "sts2013"]
    assert task_names(None) == [*SUBTASKS, "stsb", "sick"]


def test_an_unknown_task(small_library):
    with pytest.raises(UnknownName, match="did you mean 'sts2013'"):
        evaluate_sts(encoder, small_library, ["sts20133"])


def test_encoder_is_fitted_per_task(small_library):
    seen = []

    def fit(texts):
        seen.append(texts)
        return lambda some: encoder(some) * (1 + np.arange(12) * len(texts))

    together = evaluate_sts(FittedPerTask(fit), small_library, ["sts2013", "sick"], classifier=False)
    for place, task in enumerate(("sts2013", "sick")):
        alone = evaluate_sts(FittedPerTask(fit), small_library, [task], classifier=False)
        assert alone.tasks[task] == together.tasks[task]
        assert seen[place] == seen[2 + place] == task_texts(small_library, task)
        assert len(set(seen[place])) == len(seen[place])
    train, dev, test = supervised_pairs(small_library, "sick")
    assert set(seen[1]) == {text for part in (train, dev, test) for text in (*part.left, *part.right)}
    assert [row.name for row in together.tasks["sick"]] == ["cosine"]
    assert together.provenance.others == {}
