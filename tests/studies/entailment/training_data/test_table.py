"""The paper's Table 2 with the counts at hand beside it, from Python and on the command line."""

import pytest
from command_line import run_command
from training_data_mirror import write_mirror

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import corpora, count_corpora, table_of_counts


def counts(library):
    return {count.corpus.name: count for count in count_corpora(library)}


def test_what_is_at_hand_is_counted_with_and_without_the_test_splits(sample_library):
    found = counts(sample_library)
    assert list(found) == list(corpora())
    assert {name: (*c.parts, c.pairs, c.positives, c.guarded) for name, c in found.items() if c.parts} == {
        "coco": ("train", "restval", "val", "test", 950, 950, 650),
        "cxc": ("val", "test", 160, 73, 80),
        "cxc_sts": ("val", "test", 216, 89, 108),
        "eccv": ("test", 173, 173, 0),
        "entailment": ("test", 38, 18, 0),
    }


def test_parts_that_the_paper_does_not_count_are_not_counted(tmp_path):
    found = counts(Library(write_mirror(tmp_path), offline=True))
    assert (found["stsb"].parts, found["stsb"].pairs, found["stsb"].guarded) == (("train",), 6, 4)
    assert (found["snli_ve"].parts, found["snli_ve"].pairs, found["snli_ve"].positives) == (("train",), 5, 2)
    assert (found["flickr30k"].parts, found["flickr30k"].pairs) == (("train", "val", "test"), 6)


def test_the_table_has_every_corpus_once_with_the_papers_count_and_a_licence(sample_library):
    table = table_of_counts(sample_library, count_corpora(sample_library))
    rows = [row for row in table.rows if len(row) > 1]
    assert sorted(row[0] for row in rows) == sorted(corpus.title for corpus in corpora().values())
    assert all(row[-1] for row in rows)
    by_title = {row[0]: row for row in rows}
    assert by_title["CxC, SITS"][1:6] == ("cxc/val cxc/test", "39.5k", "160", "73", "80")
    assert by_title["XNLI"][1:6] == ("xnli/train xnli/val xnli/test", "400.2k", "not found", "—", "—")
    assert by_title["SICK"][2] == "—"
    assert any("26,408" in note for note in table.notes)
    printed, _ = run_command("entailment", "data", "--data-dir", "sample")
    assert all(text in printed for text in ("cxc/val cxc/test", "39.5k", "not found"))


def test_where_there_are_no_files_every_corpus_is_not_at_hand(tmp_path, monkeypatch):
    monkeypatch.setenv("CXC_ECCV_CACHE", str(tmp_path / "cache"))
    (tmp_path / "empty").mkdir()
    library = Library(tmp_path / "empty", offline=True)
    found = count_corpora(library)
    assert all((count.parts, count.pairs, count.guarded) == ((), 0, None) for count in found)
    assert all(row[3] == "not found" for row in table_of_counts(library, found).rows if len(row) > 1)


def test_without_coco_other_corpora_are_counted_but_not_guarded(tmp_path):
    library = Library(write_mirror(tmp_path, without=("karpathy_coco",)), offline=True)
    found = {count.corpus.name: (count.pairs, count.guarded) for count in count_corpora(library)}
    assert found["stsb"] == (6, None)


def test_a_file_that_is_malformed_is_no_file_that_is_missing(tmp_path):
    folder = write_mirror(tmp_path)
    (folder / "sts/stsb/sts-train.csv").write_text("no tabs\n")
    with pytest.raises(MalformedSource, match="found 1 cells"):
        count_corpora(Library(folder, offline=True))
