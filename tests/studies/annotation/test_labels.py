"""Answers settled into labels by each rule; what does not count; the card, which datasets loads."""

import statistics
from collections import Counter

import datasets
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from annotated_samples import answer_row
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt

from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.hub.upload import plan_upload
from cxc_eccv.sources.readers import LABELS_SCHEMA, read_labels, write_labels
from cxc_eccv.studies.annotation.merging import SAID, label_card
from cxc_eccv.studies.asking.answer_files import tabulate
from cxc_eccv.studies.asking.questionnaire import Handout
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.studies.asking.settling import RULES, describe_labels, settle
from cxc_eccv.studies.asking.sheet_quality import Checks

ECCV, CXC, ENTAILMENT = (schemes()[name] for name in ("eccv", "cxc", "entailment"))
BOTH = {"describes": True, "follows": True}
ONE = {"describes": True, "follows": False}


def table(*answers, scheme=ECCV, role="candidate"):
    """Answers from (image, caption, worker, answer), in this order."""
    rows = [answer_row(scheme, 0, worker, (image, caption), role, said) for image, caption, worker, said in answers]
    return tabulate(rows)


def about_one_pair(*answers, scheme=ECCV):
    return table(*((1, 10, f"w{place}", answer) for place, answer in enumerate(answers)), scheme=scheme)


def settle_one(*answers, scheme=ECCV, rule="majority"):
    (row,) = settle(about_one_pair(*answers, scheme=scheme), scheme, rule).to_pylist()
    assert row["answers"] == len(answers)
    assert row["positive"] is (row["gain"] > 0)
    return row["gain"]


@pytest.mark.parametrize(
    ("answers", "majority"),
    [
        (["partially_yes"], 0.5),
        (["mostly_no"], 0),
        (["yes", "yes", "no"], 1),
        (["yes", "partially_yes", "no"], 0.5),
        (["yes", "yes", "partially_yes"], 1),
        # Ties go to the lower gain: half of the answers is not more than half.
        (["yes", "no"], 0),
        (["yes", "partially_yes"], 0.5),
        (["yes", "yes", "partially_yes", "no"], 0.5),
        # Below the least positive gain it is 0, as in equation E.4: ratings below 3 are no positives.
        ([3, 4.5, 2], 0.6),
        ([2.9, 5, 2.9], 0),
        ([5, 4], 0.8),
        ([BOTH, BOTH, ONE], 1),
        ([BOTH, ONE], 0),
        ([BOTH, BOTH], 1),
    ],
)
def test_a_gain_is_one_that_enough_answers_reach(answers, majority):
    scheme = ECCV if isinstance(answers[0], str) else ENTAILMENT if isinstance(answers[0], dict) else CXC
    for order in (answers, answers[::-1]):
        assert settle_one(*order, scheme=scheme) == pytest.approx(majority)


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
    rows = draw_answers(seed)
    by_pair = {}
    for image, caption, _, answer in rows:
        by_pair.setdefault((image, caption), []).append(ECCV.compute_gain(answer))
    expected = [
        {"image_id": image, "caption_id": caption, "gain": gain, "positive": gain >= 0.5, "answers": len(gains)}
        for (image, caption), gains in sorted(by_pair.items())
        for gain in [statistics.median_low(gains)]
    ]
    found = settle(table(*rows), ECCV, "majority")
    assert found.schema == LABELS_SCHEMA
    assert found.to_pylist() == expected


def test_known_pairs_are_no_labels():
    known = table((1, 11, "a", "yes"), role="known positive"), table((2, 10, "a", "no"), role="known negative")
    answers = pd.concat([table((1, 10, "a", "yes")), *known])
    assert settle(answers, ECCV)["caption_id"].to_pylist() == [10]
    with pytest.raises(DataError, match="no candidate has an answer"):
        settle(answers.iloc[1:], ECCV)


def test_pair_asked_twice_counts_each_worker_once():
    """In a later round one of them thinks otherwise: the last answer counts."""
    first = table((1, 10, "a", "no"), (1, 10, "b", "yes"), (2, 20, "a", "yes"))
    second = table((1, 10, "c", "yes"), (1, 10, "a", "partially_yes"))
    found = settle(pd.concat([first, second]), ECCV).to_pylist()
    assert [(row["image_id"], row["gain"], row["answers"]) for row in found] == [(1, 1.0, 3), (2, 1.0, 1)]
    assert settle(pd.concat([first, second]), ECCV, "mean")["gain"].to_pylist() == [2.5 / 3, 1.0]
    assert settle(pd.concat([second, first]), ECCV, "mean")["gain"].to_pylist() == [2 / 3, 1.0]


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
def test_cxc_ratings_are_averaged_and_kept(ratings, mean):
    """A pair is positive if the mean is at least 3."""
    (row,) = settle(about_one_pair(*ratings, scheme=CXC), CXC).to_pylist()
    assert (row["rating"], row["positive"]) == (pytest.approx(mean), mean >= 3)
    assert row["gain"] == pytest.approx(mean / 5 if mean >= 3 else 0)
    (other,) = settle(about_one_pair(*ratings, scheme=CXC), CXC, "majority").to_pylist()
    assert other["rating"] == row["rating"]


def test_rules_have_names_and_mean_averages_gains():
    assert settle_one("yes", "partially_yes", "no", rule="mean") == 0.5
    assert settle_one("partially_yes", "partially_yes", "no", rule="mean") == 0
    with pytest.raises(UnknownName, match="did you mean 'majority'"):
        settle(about_one_pair("yes"), ECCV, "majorty")


def test_what_does_not_count_is_counted():
    asked = table(
        (1, 10, "a", "yes"), (1, 10, "b", "yes"), (1, 10, "a", "no"), (2, 20, "a", "yes"), (2, 20, "b", "no"),
        (3, 30, "a", "yes"), (4, 40, "bad", "yes"), (1, 10, "bad", "no"),
    )  # fmt: skip
    accepted = asked.iloc[:6]
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
    content = sample_library.split("test")
    rows = [
        (int(content.image_ids[image % 60]), int(content.caption_ids[caption % 300]), worker, answer)
        for image, caption, worker, answer in draw_answers(0)
    ]
    answers = table(*rows)
    found = settle(answers, ECCV)
    facts = {"name": "mine", "version": "1.0.0", "split": "test", "rule": "majority", "scheme": "eccv"}
    facts |= {
        "models": ["clip|x", "vse"],
        "searched": {},
        "sources": ["coco", "cxc", "eccv"],
        "data": {"content": content.fingerprint, "edition": "sample"},
    }
    words = Handout(ECCV).words
    facts |= {"rounds": [{"options": {"sources": ["coco"]}}, {"options": {"sources": ["cxc"], "ask_known": True}}]}
    facts |= {"asked": [{"sheets": 3, **words}, {"sheets": 1, **words, "language": "de", "question": "Passt <es>?"}]}
    facts |= {
        "accepts": Checks().rule,
        "known_pairs": {name: {"right": 9, "answered": 12} for name in ("all", "accepted")},
    }
    return found, facts | describe_labels(answers, answers, found)


def save(folder, found, facts):
    write_labels(folder / "labels.parquet", found, facts)
    (folder / "README.md").write_text(label_card(facts, found), encoding="utf-8")


def test_datasets_library_loads_a_merged_folder(labelled, tmp_path, monkeypatch):
    """Also beside other Parquet files, as those of a project's rounds; new labels are no old ones from a cache."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    found, facts = labelled
    folder = tmp_path / "mine"
    cache = str(tmp_path / "cache")
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


def test_a_merged_folder_loads_without_answers(labelled, tmp_path, monkeypatch):
    monkeypatch.setattr("datasets.config.HF_DATASETS_OFFLINE", True)
    found, facts = labelled
    said = pa.array([[{"person": "p1", "answer": "1", "gain": 1.0}]] * found.num_rows, SAID)
    save(tmp_path, found.append_column("said", said), facts)
    plan_upload(tmp_path, "me/mine", answers=False).write(tmp_path / "sent")
    loaded = datasets.load_dataset(str(tmp_path / "sent"), cache_dir=str(tmp_path / "cache"), split="test")
    assert loaded.to_list() == found.to_pylist()
    card = (tmp_path / "sent" / "README.md").read_text()
    assert 'load_dataset("me/mine", split="test")' in card
    assert "--labels me/mine --sources" in card
    assert "said`" not in card
    assert "name: said" not in card


def test_card_states_rule_counts_and_agreement(labelled):
    found, facts = labelled
    card = DatasetCard(label_card(facts, found))
    assert card.data.license == "unknown"
    assert [info["splits"][0]["num_examples"] for info in [*card.data.dataset_info]] == [found.num_rows]
    for part in (
        Checks().rule,
        RULES["majority"],
        ECCV.question,
        facts["data"]["content"],
        "1.0.0",
        "chun2022eccv",
        "No licence",
    ):
        assert str(part) in card.text
    assert f"| mine | test | {found.num_rows} | {facts['counts']['positives']} | 7 | 1.0.0 |" in card.text
    assert f"Several people judged {facts['agreement']['pairs']} pairs" in card.text
    tables = Counter(token.type for token in MarkdownIt("commonmark").enable("table").parse(card.text))["table_open"]
    assert tables == 3
    assert r"<code>clip\|x</code>, `vse`" in card.text


def test_card_states_instructions_and_known_pair_accuracy(labelled):
    found, facts = labelled
    text = label_card(facts, found)
    assert "3 answered sheets that count had these words, in the language `en`:" in text
    assert f"> {ECCV.instructions[0]}\n>\n> {ECCV.question}\n>\n> • 100% YES\n" in text
    assert "1 answered sheets that count had these words, in the language `de`:" in text
    assert "> Passt &lt;es&gt;?" in text
    assert "people answered 9 of 12 [47%, 91%] of the known pairs correctly, and 9 of 12 [47%, 91%] on all" in text
    none = {name: {"right": 0, "answered": 0} for name in ("all", "accepted")}
    assert "The sheets had no known pairs." in label_card(facts | {"known_pairs": none}, found)


def test_card_of_other_editions_says_so_first(labelled):
    found, facts = labelled
    sample = DatasetCard(label_card(facts, found))
    assert sample.text.split("\n\n")[1].startswith("**These labels are no matches of MS-COCO.**")
    assert sample.data.pretty_name == "mine: matches of the edition sample that people verified"
    official = label_card(facts | {"data": facts["data"] | {"edition": "official"}}, found)
    assert "People judged whether images and captions of MS-COCO match." in official
    assert "pretty_name: 'mine: matches of MS-COCO that people verified'" in official


def test_card_states_which_labels_were_known(labelled):
    found, facts = labelled
    text = label_card(facts, found)
    assert "Known labels: `coco`; no pair that these sources judge was asked about." in text
    assert "Known labels: `cxc`; positives of these sources were asked about too." in text


def test_card_states_given_terms_and_escapes_markup(labelled):
    found, facts = labelled
    others = {"licence": "cc-by-4.0", "citation": "@misc{mine, title={Mine}}", "models": [], "version": "<b>1</b>"}
    card = DatasetCard(label_card(facts | others, found))
    assert card.data.license == "cc-by-4.0"
    assert "@misc{mine, title={Mine}}" in card.text
    assert "No model; the pairs were drawn at random." in card.text
    assert "<b>" not in card.text
    alone = facts | {"agreement": {"pairs": 0, "unanimous": 0, "falotico_quatto_kappa": None}}
    assert "No pair was judged by several people" in label_card(alone, found)
