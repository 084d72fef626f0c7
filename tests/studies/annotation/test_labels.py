"""Answers settled into labels by each rule, against slow loops; what does not count; the card, which datasets loads."""

import math
import statistics
from collections import Counter

import datasets
import numpy as np
import pyarrow as pa
import pytest
from annotated_samples import answer_row
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.sources.readers import LABELS_SCHEMA, read_labels, write_labels
from cxc_eccv.studies.annotation.card import label_card
from cxc_eccv.studies.asking.answers import SCHEMA
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import RIGHT, RULES, WRONG, describe_labels, estimate_truth, settle, weigh_workers

ECCV, CXC, ENTAILMENT = (schemes()[name] for name in ("eccv", "cxc", "entailment"))
BOTH, ONE = {"describes": True, "follows": True}, {"describes": True, "follows": False}


def table(*answers, scheme=ECCV, role="candidate"):
    """Answers from (image, caption, worker, answer), in this order."""
    rows = [answer_row(scheme, 0, worker, (image, caption), role, said) for image, caption, worker, said in answers]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def about_one_pair(*answers, scheme=ECCV):
    return table(*((1, 10, f"w{place}", answer) for place, answer in enumerate(answers)), scheme=scheme)


def settle_one(*answers, scheme=ECCV, rule="majority"):
    (row,) = settle(about_one_pair(*answers, scheme=scheme), scheme, rule).to_pylist()
    assert row["answers"] == len(answers)
    assert row["positive"] is (row["gain"] > 0)
    return row["gain"]


@pytest.mark.parametrize(
    ("answers", "majority", "unanimous"),
    [
        (["partially_yes"], 0.5, 0.5),
        (["mostly_no"], 0, 0),
        (["yes", "yes", "no"], 1, 0),
        (["yes", "partially_yes", "no"], 0.5, 0),
        (["yes", "yes", "partially_yes"], 1, 0.5),
        # Ties go to the lower gain: half of the answers is not more than half.
        (["yes", "no"], 0, 0),
        (["yes", "partially_yes"], 0.5, 0.5),
        (["yes", "yes", "partially_yes", "no"], 0.5, 0),
        # Below the least positive gain it is 0, as in equation E.4: ratings below 3 are no positives.
        ([3, 4.5, 2], 0.6, 0),
        ([2.9, 5, 2.9], 0, 0),
        ([5, 4], 0.8, 0.8),
        ([BOTH, BOTH, ONE], 1, 0),
        ([BOTH, ONE], 0, 0),
        ([BOTH, BOTH], 1, 1),
    ],
)
def test_a_gain_is_one_that_enough_answers_reach(answers, majority, unanimous):
    scheme = ECCV if isinstance(answers[0], str) else ENTAILMENT if isinstance(answers[0], dict) else CXC
    for order in (answers, answers[::-1]):
        assert settle_one(*order, scheme=scheme) == pytest.approx(majority)
        assert settle_one(*order, scheme=scheme, rule="all") == pytest.approx(unanimous)


def draw_answers(seed, n_pairs=60, n_workers=7):
    random = np.random.default_rng(seed)
    names = [own.name for own in ECCV.answers]
    rows = []
    for pair in range(n_pairs):
        workers = random.choice(n_workers, random.integers(1, 6), replace=False)
        rows += [(pair % 9, pair, f"w{worker}", names[random.integers(len(names))]) for worker in workers]
    return [rows[place] for place in random.permutation(len(rows))]


@pytest.mark.parametrize("seed", range(4))
def test_a_slow_loop_agrees(seed):
    rows, by_pair = draw_answers(seed), {}
    for image, caption, _, answer in rows:
        by_pair.setdefault((image, caption), []).append(ECCV.gain_of(answer))
    for rule, pick in (("majority", statistics.median_low), ("all", min)):
        expected = [
            {"image_id": image, "caption_id": caption, "gain": gain, "positive": gain >= 0.5, "answers": len(gains)}
            for (image, caption), gains in sorted(by_pair.items())
            for gain in [pick(gains)]
        ]
        found = settle(table(*rows), ECCV, rule)
        assert found.schema == LABELS_SCHEMA
        assert found.to_pylist() == expected


def draw_workers(seed, n_pairs=300, qualities=(0.95, 0.9, 0.6, 0.55, 0.5)):
    """What workers of known quality say of pairs of which 40% are right."""
    random = np.random.default_rng(seed)
    truth = random.random(n_pairs) < 0.4
    right = random.random((n_pairs, len(qualities))) < qualities
    said = np.where(right, truth[:, None], ~truth[:, None])
    rows = [(pair, 7, f"w{worker}", said[pair, worker]) for pair, worker in np.ndindex(said.shape)]
    return truth, rows


def estimate_slowly(item, worker, answer, classes, rounds):
    """Expectation maximisation in plain Python."""
    items, workers = range(max(item) + 1), range(max(worker) + 1)
    own = {i: [(w, a) for j, w, a in zip(item, worker, answer, strict=True) if j == i] for i in items}
    truth = {i: [sum(a == c for _, a in own[i]) / len(own[i]) for c in range(classes)] for i in items}
    for _ in range(rounds):
        prior = [sum(truth[i][c] for i in items) / len(items) for c in range(classes)]
        cells = [(w, c, k) for w in workers for c in range(classes) for k in range(classes)]
        table = {(w, c, k): RIGHT if c == k else WRONG for w, c, k in cells}
        for i, w, a in zip(item, worker, answer, strict=True):
            for c in range(classes):
                table[w, c, a] += truth[i][c]
        total = {(w, c): sum(table[w, c, k] for k in range(classes)) for w in workers for c in range(classes)}
        for i in items:
            weights = [prior[c] * math.prod(table[w, c, a] / total[w, c] for w, a in own[i]) for c in range(classes)]
            truth[i] = [weight / sum(weights) for weight in weights]
    return [truth[i] for i in items]


def test_dawid_and_skene_s_model_is_that_of_a_slow_loop():
    random = np.random.default_rng(1)
    item, worker = (grid.ravel() for grid in np.mgrid[:12, :3])
    answer = random.integers(0, 3, item.size)
    answer[: 2 * 3] = 0
    slow = estimate_slowly(item.tolist(), worker.tolist(), answer.tolist(), 3, 2_000)
    assert estimate_truth(item, worker, answer, 3).probabilities == pytest.approx(np.array(slow), abs=1e-5)


def test_what_has_not_settled_is_no_answer(monkeypatch):
    monkeypatch.setattr("cxc_eccv.studies.asking.settling.PATIENCE", 1)
    with pytest.raises(DataError, match="did not converge in 1 steps; use the rule majority"):
        estimate_truth([0, 0, 0, 1, 1, 1], [0, 1, 2, 0, 1, 2], [1, 1, 0, 0, 0, 1], 2)


@pytest.mark.parametrize("scheme", [ECCV, CXC, ENTAILMENT], ids=lambda scheme: scheme.name)
def test_answers_are_weighed_by_how_reliable_a_worker_is(scheme):
    yes, no = {"eccv": ("yes", "no"), "cxc": (4, 1), "entailment": (BOTH, ONE)}[scheme.name]
    truth, rows = draw_workers(0)
    answers = table(*((*pair, yes if said else no) for *pair, said in rows), scheme=scheme)
    found = {rule: np.asarray(settle(answers, scheme, rule)["positive"]) for rule in RULES}
    share = {rule: (positive == truth).mean() for rule, positive in found.items()}
    assert share["dawid_skene"] > share["majority"] + 0.05
    assert share["dawid_skene"] > share["all"]
    gains = np.asarray(settle(answers, scheme, "dawid_skene")["gain"])
    assert set(gains[found["dawid_skene"]]) == {scheme.gain_of(yes)}
    assert set(gains[~found["dawid_skene"]]) == {0.0}
    quality = weigh_workers(answers, scheme)
    assert list(quality) == [f"w{number}" for number in range(5)]
    assert list(quality.values()) == pytest.approx([0.95, 0.9, 0.6, 0.55, 0.5], abs=0.08)


@pytest.mark.parametrize("seed", range(2))
def test_degrees_are_weighed_too(seed):
    """Workers who err give any other of the four answers; gains are always those of answers."""
    random, names = np.random.default_rng(seed), [own.name for own in ECCV.answers]
    truth, rows = random.choice(4, 400, p=[0.3, 0.2, 0.2, 0.3]), []
    for pair, right in enumerate(truth.tolist()):
        for worker, quality in enumerate((0.95, 0.9, 0.5, 0.45, 0.4)):
            said = right if random.random() < quality else random.choice([own for own in range(4) if own != right])
            rows.append((pair, 7, f"w{worker}", names[said]))
    expected = np.array([ECCV.gain_of(names[own]) for own in truth])
    found = {rule: np.asarray(settle(table(*rows), ECCV, rule)["gain"]) for rule in RULES}
    share = {rule: (gains == expected).mean() for rule, gains in found.items()}
    assert share["dawid_skene"] > max(share["majority"] + 0.05, 0.9)
    assert all(set(found[rule]) <= {0.0, 0.5, 1.0} for rule in RULES if rule != "mean")
    answers = table(*rows[:5])
    other = answers.set_column(answers.column_names.index("answer"), "answer", pa.array(['"maybe"'] * 5))
    with pytest.raises(InvalidOption, match="give one of yes"):
        settle(other, ECCV, "dawid_skene")


@pytest.mark.parametrize(
    ("scheme", "yes", "no"), [(ECCV, "yes", "no"), (CXC, 5, 0), (ENTAILMENT, BOTH, ONE)], ids=["eccv", "cxc", "entails"]
)
def test_two_who_contradict_each_other_make_no_positive(scheme, yes, no):
    rows = [(pair, 1, worker, answer) for pair in range(6) for worker, answer in (("a", yes), ("b", no))]
    assert not any(settle(table(*rows, scheme=scheme), scheme, "dawid_skene")["positive"].to_pylist())


def test_one_who_always_contradicts_the_others_is_believed_the_other_way_round():
    """The model then finds positives that nobody with a positive answer was asked about: of the least positive gain."""
    random = np.random.default_rng(3)
    truth = random.random(200) < 0.5
    rows = [(pair, 1, f"w{worker}", 4.0 if truth[pair] else 1.0) for pair in range(150) for worker in range(3)]
    rows += [(pair, 1, "liar", 1.0 if truth[pair] else 4.0) for pair in range(200)]
    found = settle(table(*rows, scheme=CXC), CXC, "dawid_skene")
    assert found["positive"].to_pylist() == truth.tolist()
    gains = np.asarray(found["gain"])
    assert set(gains[:150][truth[:150]]) == {0.8}
    assert set(gains[150:][truth[150:]]) == {CXC.positive}


def test_known_pairs_are_no_labels():
    known = table((1, 11, "a", "yes"), role="known positive"), table((2, 10, "a", "no"), role="known negative")
    answers = pa.concat_tables([table((1, 10, "a", "yes")), *known])
    assert settle(answers, ECCV)["caption_id"].to_pylist() == [10]
    with pytest.raises(DataError, match="no candidate has an answer"):
        settle(answers.slice(1), ECCV)


def test_a_pair_asked_twice_is_settled_over_all_answers_and_a_worker_counts_once():
    """In a later round one of them thinks otherwise: the last answer counts."""
    first = table((1, 10, "a", "no"), (1, 10, "b", "yes"), (2, 20, "a", "yes"))
    second = table((1, 10, "c", "yes"), (1, 10, "a", "partially_yes"))
    found = settle(pa.concat_tables([first, second]), ECCV).to_pylist()
    assert [(row["image_id"], row["gain"], row["answers"]) for row in found] == [(1, 1.0, 3), (2, 1.0, 1)]
    assert settle(pa.concat_tables([first, second]), ECCV, "all")["gain"].to_pylist() == [0.5, 1.0]
    assert settle(pa.concat_tables([second, first]), ECCV, "all")["gain"].to_pylist() == [0.0, 1.0]


def test_pairs_with_too_few_answers_get_no_label():
    answers = table((1, 10, "a", "yes"), (1, 10, "b", "yes"), (2, 20, "a", "yes"))
    for rule in RULES:
        assert settle(answers, ECCV, rule, least_answers=2)["image_id"].to_pylist() == [1]
        assert settle(answers, ECCV, rule, least_answers=1)["image_id"].to_pylist() == [1, 2]
        with pytest.raises(DataError, match="none of 2 candidates has 3 accepted answers; ask more people"):
            settle(answers, ECCV, rule, least_answers=3)
    with pytest.raises(InvalidOption, match="least_answers"):
        settle(answers, ECCV, least_answers=0)


@pytest.mark.reference
@pytest.mark.parametrize(
    ("ratings", "mean"), [([5, 5, 2.9, 2.9, 2.9], 3.74), ([3.1, 3.1, 3.1, 0, 0], 1.86), ([3, 3, 3], 3), ([2, 4], 3)]
)
def test_ratings_are_averaged_as_in_cxc_and_the_mean_is_kept(ratings, mean):
    (row,) = settle(about_one_pair(*ratings, scheme=CXC), CXC).to_pylist()
    assert (row["rating"], row["positive"]) == (pytest.approx(mean), mean >= 3)
    assert row["gain"] == pytest.approx(mean / 5 if mean >= 3 else 0)
    (other,) = settle(about_one_pair(*ratings, scheme=CXC), CXC, "majority").to_pylist()
    assert other["rating"] == row["rating"]


def test_rules_are_known_by_name_and_the_mean_is_of_gains():
    assert settle_one("yes", "partially_yes", "no", rule="mean") == 0.5
    assert settle_one("partially_yes", "partially_yes", "no", rule="mean") == 0
    with pytest.raises(UnknownName, match="did you mean 'majority'"):
        settle(about_one_pair("yes"), ECCV, "majorty")


def test_what_does_not_count_is_counted():
    asked = table(
        (1, 10, "a", "yes"), (1, 10, "b", "yes"), (1, 10, "a", "no"), (2, 20, "a", "yes"), (2, 20, "b", "no"),
        (3, 30, "a", "yes"), (4, 40, "bad", "yes"), (1, 10, "bad", "no"),
    )  # fmt: skip
    accepted = asked.slice(0, 6)
    assert describe_labels(asked, accepted, settle(accepted, ECCV, least_answers=2)) == {
        "people": 2,
        "counts": {
            "answers": 8,
            "answers_not_accepted": 2,
            "answers_given_again": 1,
            "pairs": 4,
            "pairs_without_accepted_answer": 1,
            "pairs_with_too_few_answers": 1,
            "labels": 2,
            "positives": 0,
        },
        "agreement": {"pairs": 2, "unanimous": 0, "falotico_quatto_kappa": -1.0},
    }
    alone = about_one_pair("yes")
    agreement = describe_labels(alone, alone, settle(alone, ECCV))["agreement"]
    assert agreement == {"pairs": 0, "unanimous": 0, "falotico_quatto_kappa": None}


@pytest.fixture
def labelled(sample_library):
    """Labels of the sample's pairs, and their facts."""
    content = sample_library.karpathy("test")
    rows = [
        (int(content.image_ids[image % 60]), int(content.caption_ids[caption % 300]), worker, answer)
        for image, caption, worker, answer in draw_answers(0)
    ]
    answers = table(*rows)
    found = settle(answers, ECCV)
    facts = {"name": "mine", "version": "1.0.0", "split": "test", "rule": "majority", "scheme": "eccv"}
    facts |= {"models": ["clip|x", "vse"], "data": {"content": content.fingerprint, "edition": "sample"}}
    return found, facts | describe_labels(answers, answers, found)


def save(folder, found, facts):
    write_labels(folder / "labels.parquet", found, facts)
    (folder / "README.md").write_text(label_card(facts, found), encoding="utf-8")


def test_a_merged_folder_is_a_dataset_that_plain_datasets_loads(labelled, tmp_path, monkeypatch):
    """Also beside other Parquet files, as those of a project's rounds; new labels are no old ones from a cache."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    found, facts = labelled
    folder, cache = tmp_path / "mine", str(tmp_path / "cache")
    (folder / "rounds" / "1").mkdir(parents=True)
    write_labels(folder / "rounds" / "1" / "others.parquet", found.slice(0, 3), facts)
    save(folder, found, facts)
    loaded = datasets.load_dataset(str(folder), cache_dir=cache)
    assert list(loaded) == ["test"]
    assert loaded["test"].to_list() == found.to_pylist()
    streamed = datasets.load_dataset(str(folder), split="test", streaming=True)
    assert list(streamed) == found.to_pylist()
    turned = np.asarray(found["gain"])[::-1]
    again = found.set_column(2, LABELS_SCHEMA.field("gain"), pa.array(turned))
    again = again.set_column(3, LABELS_SCHEMA.field("positive"), pa.array(turned > 0))
    save(folder, again, facts)
    assert datasets.load_dataset(str(folder), cache_dir=cache, split="test").to_list() == again.to_pylist()
    assert read_labels(folder / "labels.parquet").facts["counts"] == facts["counts"]


def test_the_card_tells_the_rule_the_counts_and_the_agreement(labelled):
    found, facts = labelled
    card = DatasetCard(label_card(facts, found))
    assert card.data.license == "unknown"
    assert [info["splits"][0]["num_examples"] for info in [*card.data.dataset_info]] == [found.num_rows]
    for part in (RULES["majority"], ECCV.question, facts["data"]["content"], "1.0.0", "chun2022eccv", "No licence"):
        assert str(part) in card.text
    assert f"| mine | test | {found.num_rows} | {facts['counts']['positives']} | 7 | 1.0.0 |" in card.text
    assert f"Several people judged {facts['agreement']['pairs']} pairs" in card.text
    tables = Counter(token.type for token in MarkdownIt("commonmark").enable("table").parse(card.text))["table_open"]
    assert tables == 3
    assert r"<code>clip\|x</code>, `vse`" in card.text


def test_the_card_has_what_is_known_and_nothing_acts_in_it(labelled):
    found, facts = labelled
    few = {name: fact for name, fact in facts.items() if name not in ("counts", "agreement")}
    others = {"licence": "cc-by-4.0", "citation": "@misc{mine, title={Mine}}", "models": [], "version": "<b>1</b>"}
    card = DatasetCard(label_card(few | others, found))
    assert card.data.license == "cc-by-4.0"
    assert "@misc{mine, title={Mine}}" in card.text
    assert "No model; the pairs were drawn at random." in card.text
    assert "<b>" not in card.text
    assert "answers about candidates" not in card.text
    alone = facts | {"agreement": {"pairs": 0, "unanimous": 0, "falotico_quatto_kappa": None}}
    assert "No pair was judged by several people" in label_card(alone, found)
