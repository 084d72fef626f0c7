"""Corpora that are tables on the Hub: what is asked for there, and copies in the mirror folder, by their schema."""

import shutil
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from training_data_mirror import write_mirror

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing
from cxc_eccv.sources.download import mirror_folder
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.entailment.training_data import corpora, load_training_data

pytestmark = pytest.mark.thorough

TABLES = {
    "xnli": ("facebook/xnli, en", "premise hypothesis", ["entailment", "neutral", "contradiction"], [1, 0, 0]),
    "mrpc": ("nyu-mll/glue, mrpc", "sentence1 sentence2", ["not_equivalent", "equivalent"], [0, 1]),
    "rte": ("nyu-mll/glue, rte", "sentence1 sentence2", ["entailment", "not_entailment"], [1, 0]),
    "qqp": ("nyu-mll/glue, qqp", "question1 question2", ["not_duplicate", "duplicate"], [0, 1]),
}
"""Corpus to its place, its columns, its labels in the order of their numbers, and which of them is entailment."""


@pytest.fixture(autouse=True)
def _own_hub_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    datasets.disable_progress_bars()


@pytest.fixture
def mirror(tmp_path):
    return write_mirror(tmp_path / "mirror")


def table(name, labels):
    left, right = TABLES[name][1].split()
    numbers = list(range(len(labels)))
    texts = {left: [f"premise {number}" for number in numbers], right: [f"hypothesis {number}" for number in numbers]}
    return {**texts, "label": labels, "idx": numbers}


def write_plain(folder, columns):
    """A file of Parquet that says nothing of labels."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / "train.parquet")


def write(mirror, name, labels, names):
    """A file of Parquet as ``datasets`` writes it, with the names of the labels in its schema."""
    folder = mirror / "entailment" / name
    folder.mkdir(parents=True)
    dataset = datasets.Dataset.from_dict(table(name, labels)).cast_column("label", datasets.ClassLabel(names=names))
    dataset.to_parquet(str(folder / "train-00000-of-00001.parquet"))


def pairs(mirror, name):
    """What is loaded, and what of the files was left out."""
    data = load_training_data(Library(mirror, offline=True), [name])
    rows = [(row["premise"], row["hypothesis"], row["label"]) for row in data.pairs.to_pylist()]
    return rows, next(iter(data.provenance["sources"].values()))["left_out"]


@pytest.mark.parametrize(
    ("name", "names", "labels"),
    [*((name, *how[2:]) for name, how in TABLES.items()), ("rte", ["not_entailment", "entailment"], [0, 1])],
)
def test_hub_labels_are_read_in_any_order(mirror, name, names, labels):
    write(mirror, name, list(range(len(names))), names)
    expected = [(f"premise {number}", f"hypothesis {number}", label) for number, label in enumerate(labels)]
    assert pairs(mirror, f"{name}/train") == (expected, {})


@pytest.mark.parametrize("labels", [[1, 0], ["equivalent", "not_equivalent"]])
def test_plain_numbers_and_plain_names_are_read_too(mirror, labels):
    write_plain(mirror / "entailment/mrpc", table("mrpc", labels))
    assert [label for *_, label in pairs(mirror, "mrpc/train")[0]] == [1, 0]


def test_repository_snapshot_with_configs_is_read(mirror):
    folder = mirror / "entailment/rte"
    for config, labels in (("rte", [0, 1]), ("other", [1, 1])):
        write_plain(folder / config, table("rte", labels))
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: other\n  data_files:\n  - split: train\n    path: other/train.parquet\n"
        "- config_name: rte\n  data_files:\n  - split: train\n    path: rte/train.parquet\n---\n"
    )
    assert [label for *_, label in pairs(mirror, "rte/train")[0]] == [1, 0]


def test_rows_without_label_or_words_are_counted(mirror):
    columns = {"question1": ["a", "b", "c", None], "question2": ["d", "e", " ", "f"], "label": [1, -1, 0, 0]}
    write_plain(mirror / "entailment/qqp", columns)
    rows, left_out = pairs(mirror, "qqp/train")
    assert rows == [("a", "d", 1)]
    assert left_out == {"no label": 1, "no words to judge": 1, "neither captions nor an image as premise": 1}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"sentence1": ["a"], "sentence2": ["b"], "label": [2]}, "found label 2, expected one of"),
        ({"sentence1": ["a"], "text": ["b"], "label": [1]}, "found columns sentence1, text, label, expected a column"),
    ],
)
def test_another_layout_is_refused(mirror, columns, said):
    write_plain(mirror / "entailment/mrpc", columns)
    with pytest.raises(MalformedSource, match=f"mrpc.*{said}"):
        pairs(mirror, "mrpc/train")
    with pytest.raises(DataError, match=r"mrpc, split validation, of .*entailment/mrpc"):
        pairs(mirror, "mrpc/val")
    write(mirror, "rte", [0, 1], ["yes", "no"])
    with pytest.raises(MalformedSource, match="found labels yes, no, expected the labels entailment, not_entailment"):
        pairs(mirror, "rte/train")


@pytest.mark.parametrize("name", TABLES)
def test_hub_is_asked_without_a_local_folder(tmp_path, monkeypatch, name):
    folder = Path(shutil.copytree(mirror_folder("sample"), tmp_path / "official"))
    (folder / "catalog.toml").unlink()
    asked = []

    def load_dataset(*place, split):
        asked.append((*place, split))
        return datasets.Dataset.from_dict(table(name, [0, 1]))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    for variable in ("CXC_ECCV_OFFLINE", "HF_HUB_OFFLINE"):
        monkeypatch.delenv(variable, raising=False)
    found = corpora()[name].pairs(Library(folder), "val")
    assert asked == [(*TABLES[name][0].split(", "), "validation")]
    assert found.table.num_rows == 2


@pytest.mark.parametrize(
    ("data_dir", "message"),
    [
        ("official", r"rte is a table on the Hugging Face Hub \(nyu-mll/glue, rte\), and .*\n  put a copy at: "),
        ("sample", r"rte \(nyu-mll/glue, rte on the Hugging Face Hub\) is not part of the embedded sample\."),
    ],
)
def test_hub_is_not_asked_when_offline(tmp_path, monkeypatch, data_dir, message):
    """It is not asked either where the edition of the data lacks the corpus."""
    (tmp_path / "official").mkdir()
    monkeypatch.setattr(datasets, "load_dataset", None)
    library = Library(data_dir if data_dir == "sample" else tmp_path / "official", offline=True)
    with pytest.raises(SourceMissing, match=message):
        corpora()["rte"].pairs(library, "train")
