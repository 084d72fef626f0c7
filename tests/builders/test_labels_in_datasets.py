"""Label files in built datasets: rows of a source with a name of its own, and what manifest and card say of them."""

import json

import pytest
from label_files import random_pairs, write_label_file

from cxc_eccv.builders import dataset_cards
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs
from cxc_eccv.builders.folder_writing import build_folder
from cxc_eccv.builders.load import cache_key
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import read_labels
from cxc_eccv.types.json_records import to_json


@pytest.fixture
def file(tmp_path, sample_library):
    return write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))


def build(folder, *files):
    options = BuildOptions(labels=tuple(map(str, files)))
    kept = {"configs": ["retrieval", "pairs"], "splits": ["validation", "test"], "data_dir": "sample"}
    return build_folder(folder, **kept, options=options, progress=False)


def judged_by(rows, name):
    """Query and item pairs, to whether the row calls them positive, that a source judged."""
    return {
        (row["direction"], row["query_id"], entry["id"]): (
            kind == "positives",
            f"{name}: majority, 1.0.0" in entry["rules"],
        )
        for row in rows
        for kind in ("positives", "negatives")
        for entry in row[kind]
        if name in entry["sources"]
    }


def test_rows_say_which_labels_are_of_the_file(file, sample_library):
    options = BuildOptions(labels=(str(file),))
    library = Library("sample", labels=[file])
    rows = dataset_configs()["retrieval"].rows(library.split("test"), options).table.to_pylist()
    pairs, gains = random_pairs(sample_library)
    wanted = dict(zip(pairs, gains, strict=True))
    names = ["i2t", "t2i", "t2t", "i2i"]
    found = {
        (names[direction] if isinstance(direction, int) else direction, query, item): said
        for (direction, query, item), said in judged_by(rows, "mine").items()
    }
    assert {direction for direction, _, _ in found} == {"i2t", "t2i"}
    for (direction, query, item), (positive, by_rule) in found.items():
        gain = wanted[query, item] if direction == "i2t" else wanted[item, query]
        assert by_rule == (gain > 0)
        assert positive or not by_rule
    assert len(found) == 2 * len(pairs)  # every query of the sample has a positive, so that no judgment is left out
    # Without the file the dataset is as it was.
    plain = dataset_configs()["retrieval"].rows(Library("sample").split("test"), BuildOptions()).table.to_pylist()
    assert not judged_by(plain, "mine")
    official = [entry for row in rows for entry in row["positives"] if entry["rules"] != ["mine: majority, 1.0.0"]]
    assert len(official) == sum(len(row["positives"]) for row in plain)
    library = Library("sample", labels=[file])
    rows = dataset_configs()["pairs"].rows(library.split("test"), BuildOptions(labels=(str(file),))).table.to_pylist()
    assert any("mine" in entry["sources"] for row in rows for entry in row["weak_positives"])


def test_manifest_and_card_name_the_label_file(tmp_path, file):
    plain = build(tmp_path / "plain")
    summary = build(tmp_path / "built", file)
    manifest = json.loads((tmp_path / "built" / "manifest.json").read_text())
    told = manifest["labels"]["labels_mine_test"]
    assert (told["name"], told["version"], told["rule"], told["pairs"]) == ("mine", "1.0.0", "majority", 200)
    assert manifest["sources"]["labels_mine_test"] == summary.provenance.sources["labels_mine_test"]
    assert "labels" not in manifest["options"]
    assert str(tmp_path) not in (tmp_path / "built" / "manifest.json").read_text()
    card = (tmp_path / "built" / "README.md").read_text()
    assert "`labels_mine_test`: source `mine` of `pairs` and `retrieval`, version 1.0.0: 200 pairs" in card
    other = json.loads((tmp_path / "plain" / "manifest.json").read_text())
    assert "labels" not in other
    assert other.keys() == manifest.keys() - {"labels"}
    assert "labels_mine" not in (tmp_path / "plain" / "README.md").read_text()
    assert plain.conflicts != summary.conflicts  # the file contradicts some
    told = {"name": "mine", **to_json(read_labels(file).summary)}
    assert "licence" not in dataset_cards._labels_line("labels_mine_test", told, "0")
    assert "labelled by 3 people, 106 of them positive by the rule `majority`; licence `cc-by-nc-4.0`; sha256" in (
        dataset_cards._labels_line("labels_mine_test", told | {"licence": "cc-by-nc-4.0"}, "0")
    )


def test_card_counts_the_labels_of_a_plain_table(tmp_path, sample_library):
    rows = "".join(f"{image},{caption}\n" for image, caption in random_pairs(sample_library)[0])
    (tmp_path / "mine.csv").write_text(f"image_id,caption_id\n{rows}")
    build(tmp_path / "built", tmp_path / "mine.csv")
    card = (tmp_path / "built" / "README.md").read_text()
    assert "`pairs` and `retrieval`: 200 pairs labelled, 200 of them positive; sha256 `" in card


def test_the_cache_follows_the_content_of_the_file(tmp_path, file, sample_library):
    config = dataset_configs()["pairs"]
    keys = {cache_key(config, "sample", BuildOptions()), cache_key(config, "sample", BuildOptions(labels=(str(file),)))}
    moved = file.rename(tmp_path / "moved.parquet")
    assert cache_key(config, "sample", BuildOptions(labels=(str(moved),))) in keys
    write_label_file(moved, sample_library, *random_pairs(sample_library, seed=3))
    keys.add(cache_key(config, "sample", BuildOptions(labels=(str(moved),))))
    assert len(keys) == 3
