"""Altered sentences: what is chosen depends on seed, kind and id alone, and what is wrong is told."""

import builtins
import collections

import pytest

from cxc_eccv.errors import InvalidOption, SourceMissing, UnknownName
from cxc_eccv.studies.explain.altering import all_kinds, alter, alter_tagged
from cxc_eccv.studies.explain.altering.sentences import Sentence, describe_tagger, tag_sentences

TEXTS = [
    f"{number} {size} {colour} dogs next to a {size} cat"
    for number in ("Two", "Three")
    for size in ("big", "small")
    for colour in ("red", "blue")
]


def test_a_subset_gives_the_same_rows(tagger):
    whole = {row.query_id: row for row in alter(TEXTS, "size", tagger=tagger)}
    ids = [5, 2]
    assert alter([TEXTS[place] for place in ids], "size", ids=ids, tagger=tagger) == [whole[place] for place in ids]


def test_the_seed_decides_and_every_change_of_every_place_is_as_likely(tagger):
    sentences = tag_sentences(["A small dog and a small cat"] * 400, tagger)
    one, other = (alter_tagged(sentences, range(400), all_kinds()["size"], seed) for seed in (0, 1))
    assert [row.altered for row in one] != [row.altered for row in other]
    assert {row.new_word for row in one} == {"big", "enormous", "huge", "large"}
    assert {row.seed for row in other} == {1}
    counts = collections.Counter(row.altered for row in one)
    assert len(counts) == 8  # two places, four words
    assert min(counts.values()) > 25


@pytest.mark.thorough
def test_processes_change_nothing(tagger):
    texts = TEXTS * 40
    assert tag_sentences(texts, tagger, num_proc=2) == tag_sentences(texts, tagger)
    assert tag_sentences(TEXTS, tagger) == [tag_sentences([text], tagger)[0] for text in TEXTS]


def test_what_a_row_holds(tagger):
    (row,) = alter(["no place", "A BIG dog, big!"], "size", ids=[7, 9], seed=3, tagger=tagger)
    assert (row.query_id, row.kind, row.seed, row.original) == (9, "size", 3, "A BIG dog, big!")
    tail = row.original[row.span_end :]
    assert row.altered.startswith(row.original[: row.span_start])
    assert row.altered.endswith(tail)
    assert row.replaced in row.original[row.span_start : row.span_end]
    assert row.new_word in row.altered[row.span_start : len(row.altered) - len(tail)]


def test_no_sentence_is_no_row(tagger):
    assert alter([], "size", tagger=tagger) == []
    assert alter(["", "  ", "?"], "number", tagger=tagger) == []


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"kind": "sizes"}, UnknownName, "unknown kind of alteration 'sizes'; did you mean 'size'"),
        ({"seed": 1.5}, InvalidOption, "seed=1.5: give a whole number"),
        ({"seed": True}, InvalidOption, "seed=True"),
        ({"seed": 2**63}, InvalidOption, "seed=9223372036854775808"),
        ({"ids": [1, 1]}, InvalidOption, "2 sentences need as many distinct ids"),
        ({"ids": [1]}, InvalidOption, "2 sentences need as many distinct ids"),
        ({"num_proc": 0}, InvalidOption, "num_proc=0"),
        ({"tagger": "en_core_web_none"}, SourceMissing, r"(?s)'en_core_web_none'.*spacy download.*--tagger"),
    ],
)
def test_wrong_requests_are_refused(wrong, error, message, tagger):
    with pytest.raises(error, match=message):
        alter(["A big dog", "A cat"], **{"kind": "size", "tagger": tagger} | wrong)


def test_a_tagger_that_does_not_parse_is_refused(tmp_path):
    import spacy

    spacy.blank("en").to_disk(tmp_path / "blank")
    with pytest.raises(SourceMissing, match="has no tagger, parser, attribute_ruler, lemmatizer"):
        describe_tagger(str(tmp_path / "blank"))


def test_without_spacy(monkeypatch):
    from cxc_eccv.studies.explain.altering import sentences

    monkeypatch.setattr(sentences, "find_spec", lambda name: None)
    with pytest.raises(SourceMissing, match=r"pip install 'cxc_eccv\[explain\]'"):
        tag_sentences(["A dog"], "another_pipeline")


def test_the_kinds():
    names = "antonym colour_all colour_in number plural rare_synonym size spatial verb_antonym"
    assert list(all_kinds()) == names.split()
    assert [name for name, kind in all_kinds().items() if kind.same_meaning] == ["rare_synonym"]


def test_spacy_and_nltk_are_imported_late(monkeypatch):
    taken = []
    genuine = builtins.__import__

    def watch(name, *rest):
        taken.append(name.partition(".")[0])
        return genuine(name, *rest)

    monkeypatch.setattr(builtins, "__import__", watch)
    all_kinds.cache_clear()
    all_kinds()
    assert {"spacy", "nltk"}.isdisjoint(taken)
    assert Sentence("", ()).lower == ()
