"""People's ratings of failures: exported, read back strictly, counted and correlated."""

import itertools
import sys
from collections import Counter

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from answer_tables import read_rows, write_rows
from damages import damages
from hypothesis import given, settings
from scipy.stats import spearmanr

from cxc_eccv.errors import InvalidOption, MalformedSource
from cxc_eccv.parquet import write_parquet
from cxc_eccv.studies.annotation.proposing import CANDIDATES, ProposalOptions
from cxc_eccv.studies.annotation.source_labels import find_matches
from cxc_eccv.studies.asking.sheet_quality import KnownAnswers
from cxc_eccv.studies.explain.exported_failures import export_failures, read_failures
from cxc_eccv.studies.explain.ratings import (
    CLASSES,
    find_rules,
    read_ratings,
    report_ratings,
)

MEASURES = ("concept_agreement", "non_common_similarity", "concept_enumeration", "size_disagreement")
PRINTED = dict(zip(CLASSES, (23.30, 5.83, 17.48, 11.65, 6.14, 7.77, 54.37), strict=True))
"""Table 2."""


@pytest.fixture(scope="module")
def explained(sample_library):
    """Failures of the sample's captions, each with the next image in its own one's place; numbers at random."""
    content = sample_library.split()
    random = np.random.default_rng(0)
    truths = content.caption_image_ids
    places = {image: place for place, image in enumerate(content.image_ids.tolist())}
    others = content.image_ids[[(places[image] + 1) % content.image_ids.size for image in truths.tolist()]]
    size = truths.size
    table = {
        "direction": ["t2i"] * size,
        "query_id": content.caption_ids,
        "truth_id": truths,
        "retrieved_id": others,
        "item_id": others,
        "matched_keywords": pa.array(range(size), pa.int64()),
    }
    for name in MEASURES:
        table[name] = random.random(size).round(1)
        table[f"{name}_informed"] = pa.nulls(size, pa.float64())
    return pa.table(table)


@pytest.fixture
def exported(explained, sample_library, tmp_path):
    def export(form="jsonl", folder="asked", table=explained, **options):
        given = {"images": "images/{file_name}", "sample": 10} | options
        return export_failures(table, tmp_path / folder, sample_library.split(), form=form, **given)[0]

    return export


def keep(explained, folder, facts=b'{"ridge": {"split": "test", "collection": "coco"}}'):
    write_parquet(explained.replace_schema_metadata({b"explained": facts}), folder / "failures.parquet")


def test_failures_are_read_as_explain_wrote_them(sample_library, explained, tmp_path):
    keep(explained, tmp_path)
    table, split = read_failures(tmp_path, sample_library)
    assert (split.name, table.equals(explained)) == ("test", True)


@pytest.mark.thorough
@settings(max_examples=60, derandomize=True, deadline=None)
@given(damage=damages())
def test_damaged_table_is_refused_or_unchanged(sample_library, explained, tmp_path_factory, damage):
    folder = tmp_path_factory.mktemp("damaged")
    keep(explained, folder)
    path = folder / "failures.parquet"
    path.write_bytes(damage(path.read_bytes()))
    try:
        table, split = read_failures(folder, sample_library)
    except MalformedSource:
        return
    assert (split.name, table.equals(explained)) == ("test", True)


def test_a_table_that_lacks_a_column_is_refused(sample_library, explained, tmp_path):
    keep(explained.drop_columns(["direction"]), tmp_path)
    with pytest.raises(MalformedSource, match=r"direction.*expected the file that cxc-eccv explain"):
        read_failures(tmp_path, sample_library)


@pytest.mark.parametrize(
    "facts",
    [
        None,
        b"{",
        b"null",
        b'{"a": null}',
        b'{"a": {"split": "train", "collection": "coco"}}',
        b"\xff",
        b"[" * 9999,
        b'{"a": {"split": "test"}}',
        b'{"a": {"split": "test", "collection": "coco"}, "b": {"split": "validation", "collection": "coco"}}',
        b'{"a": {"split": "\\ud800", "collection": "coco"}}',
    ],
)
def test_table_without_its_split_is_refused(sample_library, facts, explained, tmp_path):
    write_parquet(explained.replace_schema_metadata(facts and {b"explained": facts}), tmp_path / "failures.parquet")
    with pytest.raises(MalformedSource, match=r"failures\.parquet"):
        read_failures(tmp_path, sample_library)


def answer(path, target, rater="ann", classes=("detail",), rating=7, fourth=()):
    """A rater's copy of a file with the same answer in every row, but for the fourth."""
    of_table = path.suffix == ".csv"
    said = {"classes": "; ".join(classes)} if of_table else {"details": {"classes": list(classes)}}
    rows = [{**row, "worker": rater, "answer": rating, **said} for row in read_rows(path)]
    rows[3] |= dict(fourth)
    return write_rows(target, rows)


def ratings_of(explained, marks, ratings, pairs=None):
    """Answers of one rater on the first failures."""
    pairs = np.arange(len(marks)) if pairs is None else np.asarray(pairs)
    ids = np.array(names_of(explained.slice(0, pairs.max() + 1)))
    answers = pd.DataFrame(np.asarray(marks, dtype=bool), columns=list(CLASSES))
    return answers.assign(pair_id=ids[pairs], worker="ann", rating=np.asarray(ratings))


def report_of(answers, explained, known=None):
    return report_ratings(answers, known or {}, explained)


def mark(*names):
    return [name in names for name in CLASSES]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_exported_row_has_everything_a_rater_needs(form, exported, sample_library):
    rows = read_rows(exported(form))
    content = sample_library.split()
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    files = dict(zip(content.image_ids.tolist(), content.images["file_name"].to_pylist(), strict=True))
    assert len({row["pair_id"] for row in rows}) == 12  # ten failures and two known pairs
    for row in rows:
        way, query, truth, retrieved = row["pair_id"].split("-")
        assert (way, int(query), int(retrieved)) == ("t2i", int(row["caption_id"]), int(row["image_id"]))
        assert row["caption"] == " ".join(texts[int(query)].split())
        assert (row["other"], row["file_name"]) == (files[int(truth)], files[int(retrieved)])
        assert (row["other_image"], row["image"]) == tuple(f"images/{row[name]}" for name in ("other", "file_name"))
        assert not row["answer"]
        assert not row["worker"]


def test_draw_depends_on_seed_not_on_order(explained, exported):
    shuffled = explained.take(np.random.default_rng(1).permutation(explained.num_rows))
    first, again, other = (
        exported(folder=str(place), table=table, seed=seed)
        for place, (table, seed) in enumerate([(explained, 0), (shuffled, 0), (explained, 1)])
    )
    assert first.read_bytes() == again.read_bytes()
    assert first.read_bytes() != other.read_bytes()


def test_failures_of_image_queries_are_not_exported(explained, exported):
    images = explained.set_column(0, "direction", pa.array(["i2t"] * explained.num_rows))
    with pytest.raises(InvalidOption, match="only 0 failures of text queries with 1 matched keyword or more, not 10"):
        exported(table=images)


@pytest.mark.parametrize(
    ("options", "told"), [({"sample": 10_000}, "not 10,000"), ({"sample": 0}, "sample"), ({"seed": -1}, "seed")]
)
def test_what_cannot_be_exported(options, told, exported):
    with pytest.raises(InvalidOption, match=told):
        exported(**options)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_answers_of_several_raters_come_back(form, exported, explained, sample_library, tmp_path):
    path = exported(form)
    some = write_rows(path.with_name(f"some.{form}"), read_rows(path)[:4])
    ann = answer(path, tmp_path / f"ann.{form}", classes=["colour", "detail"])
    ben = answer(some, tmp_path / f"ben.{form}", rater="Ben ", classes=["alternatives"], rating=10)
    answers, _ = read_ratings([ann, ben], explained, sample_library.split())
    assert answers["pair_id"].nunique() == 10
    assert Counter(answers["worker"]) == {"ann": 10, "ben": 4}
    assert Counter(answers["rating"]) == {7: 10, 10: 4}
    assert answers[list(CLASSES)].sum().tolist() == [4, 0, 10, 0, 0, 0, 10]
    both = answers["pair_id"].isin([row["pair_id"] for row in read_rows(ben)])
    assert both.sum() == 8
    assert (answers.loc[~both, "rating"] == 7).all()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"details": {"classes": ["color"]}}, "'color'; tick one or more of alternatives, object class, colour"),
        ({"answer": 11}, "answer 11.*give a whole number from 1 to 10"),
        ({"pair_id": "t2i-1-2-3"}, "pair_id 't2i-1-2-3'.*expected an exported question"),
    ],
)
def test_a_wrong_row_is_refused_with_its_place(changed, told, exported, explained, sample_library, tmp_path):
    path = answer(exported(), tmp_path / "ann.jsonl", fourth=changed)
    with pytest.raises(MalformedSource, match=rf"ann\.jsonl, line 4.*{told}"):
        read_ratings([path], explained, sample_library.split())


def test_ratings_hold_for_every_model_failing_alike(exported, explained, sample_library, tmp_path):
    path = answer(exported(), tmp_path / "ann.jsonl")
    pairs = {row["pair_id"] for row in read_rows(path)}
    ids = names_of(explained)
    known = pairs - set(ids)
    kept = [place for place, name in enumerate(ids) if name in pairs or place % 3 == 0]
    of_another_model = explained.take(kept[::-1])
    answers, _ = read_ratings([path], of_another_model, sample_library.split())
    assert set(answers["pair_id"]) == pairs - known
    lacking = explained.take([place for place, name in enumerate(ids) if name not in pairs])
    with pytest.raises(MalformedSource, match="an exported question; remove the line"):
        read_ratings([path], lacking, sample_library.split())


def names_of(explained):
    return ["{direction}-{query_id}-{truth_id}-{retrieved_id}".format(**row) for row in explained.to_pylist()]


@pytest.fixture(scope="module")
def matches(sample_library):
    """Image id and caption id of every pair that a source of the sample calls positive."""
    found = find_matches(sample_library.split("test"), ProposalOptions(), CANDIDATES.empty_table())
    return set(zip(*(ids.tolist() for ids in found), strict=True))


def test_known_pairs_are_among_the_failures(exported, explained, matches, sample_library):
    """A match and a mismatch to every 18 failures, which no column tells from them."""
    rows = read_rows(exported(sample=30))
    known = [row for row in rows if row["pair_id"] not in set(names_of(explained))]
    assert (len(rows), len(known)) == (34, 4)
    is_match = [(row["image_id"], row["caption_id"]) in matches for row in known]
    assert sorted(is_match) == [False, False, True, True]
    assert all(row["file_name"] != row["other"] for row in known)
    assert {tuple(row) for row in rows} == {tuple(rows[0])}


def test_known_pairs_are_counted_per_rater(exported, explained, matches, sample_library, tmp_path):
    path = exported(sample=30)
    files = [answer(path, tmp_path / f"{rater}.jsonl", rater=rater) for rater in ("ann", "ben")]
    rows = read_rows(files[1])
    for row in rows:
        row["answer"] = 9 if (row["image_id"], row["caption_id"]) in matches else 2
    write_rows(files[1], rows)
    answers, known = read_ratings(files, explained, sample_library.split())
    assert answers["pair_id"].nunique() == 30
    assert known == {"ann": KnownAnswers(2, 4), "ben": KnownAnswers(4, 4)}
    raters, *_ = report_ratings(answers, known, explained).tables()
    assert raters.rows == [("ann", "2 of 4 [15%, 85%]"), ("ben", "4 of 4 [51%, 100%]")]


@pytest.mark.parametrize(
    ("known", "second", "reason"),
    [
        ({}, [0, 1], "nobody answered a known pair"),
        ({"ann": KnownAnswers(4, 4)}, None, "fewer than two raters rated the same failures differently"),
        ({"ann": KnownAnswers(4, 4)}, [1, 0], "raters agree no better than chance"),
        ({"ann": KnownAnswers(4, 4)}, [0, 1], ""),
    ],
)
def test_verdict_needs_known_pairs_and_agreement(known, second, reason, explained):
    size = 30
    ratings = np.arange(size) % 10 + 1
    column = explained.schema.get_field_index("concept_agreement")
    table = explained.slice(0, size).set_column(column, "concept_agreement", pa.array(ratings / 10))
    both = ratings if second is None else np.append(ratings, ratings if second == [0, 1] else 11 - ratings)
    rated = ratings_of(table, [mark("detail")] * both.size, both, [*range(size)] * (both.size // size))
    report = report_of(rated, table, known)
    first, *_, last = report.tables()
    assert first.title == "Raters"
    assert report.no_verdict.startswith(reason)
    assert bool(report.no_verdict) == bool(reason)
    verdict = last.rows[0][-1]
    assert verdict == ("\N{EM DASH}" if reason else "agrees")
    assert (f"No verdict: {report.no_verdict}." in last.notes[0]) == bool(reason)


def paper_answers():
    """103 answers with the percentages of Table 2 and of section 6.3, size left out."""
    counts = {"alternatives": 24, "object class": 6, "colour": 5, "enumeration": 11, "detail": 39}
    counts |= {"colour+detail": 9, "enumeration+colour": 1, "action+detail": 5, "colour+action+detail": 3}
    return np.array([mark(*names.split("+")) for names, count in counts.items() for _ in range(count)])


@pytest.mark.reference
def test_shares_are_those_of_table_2(explained):
    report = report_of(ratings_of(explained, paper_answers(), [8] * 102 + [9], np.arange(103) % 50), explained)
    assert {row.name: f"{100 * row.share:.2f}" for row in report.classes.itertuples()} == {
        **{name: f"{percent:.2f}" for name, percent in PRINTED.items()},
        "size": "0.00",
    }
    assert [f"{100 * row.share:.2f}" for row in report.numbers.itertuples()] == ["82.52", "14.56", "2.91"]
    assert [row.name for row in report.numbers.itertuples()] == ["1 class", "2 classes", "3 classes"]


def slow_rules(marks):
    """Every rule between two disjoint sets of classes, counted answer by answer."""
    answers = [{name for name, marked in zip(CLASSES, row, strict=True) if marked} for row in marks]
    found = {}
    for size in range(2, len(CLASSES) + 1):
        for names in itertools.combinations(CLASSES, size):
            both = sum(set(names) <= answer for answer in answers)
            for first in range(1, size) if both else ():
                for before in itertools.combinations(names, first):
                    after = tuple(name for name in names if name not in before)
                    confidence = both / sum(set(before) <= answer for answer in answers)
                    lift = confidence / (sum(set(after) <= answer for answer in answers) / len(answers))
                    found[before, after] = (both, both / len(answers), confidence, lift)
    return found


@pytest.mark.parametrize("seed", range(3))
def test_rules_are_those_counted_one_by_one(seed):
    marks = np.random.default_rng(seed).random((30, 7)) < 0.3
    rules = find_rules(marks)
    found = {
        (rule.antecedents, rule.consequents): (rule.answers, rule.support, rule.confidence, rule.lift)
        for rule in rules.itertuples()
    }
    slow = slow_rules(marks)
    assert found.keys() == slow.keys()
    for rule, values in slow.items():
        np.testing.assert_allclose(found[rule], values, rtol=1e-12)
    order = [(-rule.answers, -rule.confidence) for rule in rules.itertuples()]
    assert order == sorted(order)


def test_missing_package_is_named_with_its_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend", None)
    with pytest.raises(InvalidOption, match=r"need mlxtend, which is not installed: .*pip install"):
        find_rules(np.eye(7, dtype=bool))


def test_no_rules_where_every_answer_has_one_class():
    assert find_rules(np.eye(7, dtype=bool)).empty


def test_shares_count_answers_and_intervals_draw_failures(explained):
    """One failure with four answers and nine with one: its answers come and go together."""
    marks = [mark("colour")] * 4 + [mark("detail")] * 9
    rated = ratings_of(explained, marks, [3] * 4 + [9] * 9, [0] * 4 + [*range(1, 10)])
    report = report_of(rated, explained)
    colour = report.classes.loc[CLASSES.index("colour")]
    assert (colour.answers, colour.share) == (4, 4 / 13)
    alone = report_of(ratings_of(explained, marks, [3] * 4 + [9] * 9), explained)
    single = alone.classes.loc[CLASSES.index("colour")]
    assert colour.high - colour.low > 1.3 * (single.high - single.low)
    assert report.mean_rating == (12 + 81) / 13
    assert report.ratings == (0, 0, 4, 0, 0, 0, 0, 0, 9, 0)
    assert (report.pairs, report.answers, report.raters) == (10, 13, 1)
    assert len(report.together) == len(report.rules) == 0


def test_what_is_marked_together_is_counted(explained):
    report = report_of(ratings_of(explained, paper_answers()[:50], [5] * 50), explained)
    assert report.together.empty
    report = report_of(ratings_of(explained, paper_answers(), [5] * 103, np.arange(103) % 50), explained)
    assert [(row.name, row.answers) for row in report.together.itertuples()] == [
        ("colour + detail", 12),
        ("action + detail", 8),
        ("colour + action", 3),
        ("colour + enumeration", 1),
    ]


def test_correlations_equal_scipy_on_defined_numbers(explained):
    random = np.random.default_rng(3)
    size = 40
    values = random.random(size).round(1)
    values[:5] = np.nan
    table = explained.slice(0, size)
    place = table.schema.get_field_index("size_disagreement")
    table = table.set_column(place, "size_disagreement", pa.array(values, from_pandas=True))
    ratings = random.integers(1, 11, 2 * size)
    rated = ratings_of(table, [mark("detail")] * 2 * size, ratings, [*range(size)] * 2)
    means = (ratings[:size] + ratings[size:]) / 2
    report = report_of(rated, table)
    rows = {row.metric: row for row in report.agreements.itertuples()}
    for name in MEASURES:
        own = table[name].to_numpy()
        there = ~np.isnan(own)
        assert rows[name].pairs == there.sum()
        assert rows[name].spearman == pytest.approx(spearmanr(own[there], means[there]).statistic, abs=1e-12)
        assert rows[name].low < rows[name].spearman < rows[name].high
    assert rows["size_disagreement"].pairs == 35


def test_the_interval_is_of_failures_drawn_anew(explained):
    from cxc_eccv.statistics import Draws

    size = 25
    random = np.random.default_rng(4)
    ratings = random.integers(1, 11, size)
    rated = ratings_of(explained, [mark("detail")] * size, ratings)
    row = report_of(rated, explained).agreements.loc[0]
    order = np.argsort(names_of(explained.slice(0, size)))
    values = explained["concept_agreement"].to_numpy()[order]
    ratings = ratings[order]
    samples = [
        spearmanr(np.repeat(values, times), np.repeat(ratings, times)).statistic for times in Draws(0).times(size)
    ]
    assert (row.low, row.high) == pytest.approx(tuple(np.quantile(samples, [0.025, 0.975])), abs=1e-12)


def test_better_numbers_agree_with_higher_ratings(explained):
    size = 30
    ratings = np.arange(size) % 10 + 1
    table = explained.slice(0, size)
    for name, values in (
        ("concept_agreement", ratings / 10),
        ("non_common_similarity", 1 - ratings / 10),
        ("concept_enumeration", 10.0 - ratings),
        ("size_disagreement", ratings / 10),
    ):
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values))
    report = report_of(ratings_of(table, [mark("detail")] * size, ratings), table)
    found = {
        row.metric: (round(row.spearman, 9), row.verdict)
        for row in report.agreements.dropna(subset="spearman").itertuples()
    }
    assert found == {
        "concept_agreement": (1.0, "agrees"),
        "non_common_similarity": (-1.0, "contradicts"),
        "concept_enumeration": (-1.0, "agrees"),
        "size_disagreement": (1.0, "contradicts"),
    }


def test_undefined_correlation_has_a_reason(explained):
    size = 6
    table = explained.slice(0, size)
    place = table.schema.get_field_index("size_disagreement")
    table = table.set_column(place, "size_disagreement", pa.array([0.5] * size))
    rated = ratings_of(table, [mark("detail")] * size, [9, 9, 9, 9, 9, 2])
    rows = {row.metric: row for row in report_of(rated, table).agreements.itertuples()}
    assert np.isnan(rows["size_disagreement"].spearman)
    assert rows["size_disagreement"].reason == "the number is the same for every failure that has one"
    assert rows["size_disagreement_informed"].reason == "no failure has this number"
    few = rows["concept_agreement"]
    assert np.isfinite(few.spearman)
    assert np.isnan([few.low, few.high]).all()
    assert few.verdict == "\N{EM DASH}"
    assert few.reason == "no interval: with so few failures, some bootstrap samples have equal values only"
    same = report_of(ratings_of(table, [mark("detail")] * size, [9] * size), table).agreements.loc[0]
    assert same.reason == "the mean rating is the same for every failure that has one"
