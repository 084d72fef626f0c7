"""Aligned sentences of Wikipedia: a pair for every line of two files, and what is wrong with them."""

import pytest
from training_data_mirror import write_mirror

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import load_training_data

NORMAL = "Zebra\t0\tThe zebra is an African equine .\nPear\t3\tPears are fruits of trees .\n"
SIMPLE = "Zebra\t1\tA zebra is a horse from Africa .\nPear\t0\tPears grow on trees .\n"


@pytest.fixture
def library(tmp_path):
    folder = write_mirror(tmp_path)
    with (folder / "catalog.toml").open("a") as file:
        file.write("[entries.simplification_normal]\n[entries.simplification_simple]\n")
    (folder / "entailment/normal.aligned").write_text(NORMAL)
    (folder / "entailment/simple.aligned").write_text(SIMPLE)
    return Library(folder, offline=True)


def test_a_sentence_entails_its_simplification(library):
    pairs = load_training_data(library, ["simplification/train"]).pairs
    assert [(row["premise"], row["hypothesis"], row["label"]) for row in pairs.to_pylist()] == [
        ("The zebra is an African equine .", "A zebra is a horse from Africa .", 1),
        ("Pears are fruits of trees .", "Pears grow on trees .", 1),
    ]


@pytest.mark.parametrize(
    ("simple", "said"),
    [
        (SIMPLE.splitlines()[0], r"simple\.aligned: found 1 lines, expected as many as in normal\.aligned, 2"),
        (SIMPLE.replace("Pear\t", "Apple\t"), r"line 2: found article 'Apple', expected 'Pear'"),
        (SIMPLE.replace("\t1\t", " "), r"line 1: found 1 cells, expected 3 cells between tabs"),
    ],
)
def test_files_that_do_not_go_together_are_refused(library, simple, said):
    (library.data_dir / "entailment/simple.aligned").write_text(simple)
    with pytest.raises(MalformedSource, match=said):
        load_training_data(library, ["simplification/train"])
