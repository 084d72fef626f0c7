"""Label files: strict reading, and people's labels as a source of a library, of the data that they are of."""

import shutil
from dataclasses import replace

import numpy as np
import pytest
from label_files import label_facts, label_table, random_pairs, write_label_file
from mined_files import write_mined

from cxc_eccv.errors import DataError, MalformedSource, SourceMissing, UnknownName
from cxc_eccv.judgments.evidence.source import label_sources, list_sources
from cxc_eccv.judgments.merging import judged_pairs, merge, merged_qrels
from cxc_eccv.sources.library import Library
from cxc_eccv.sources.readers import LABELS_SCHEMA, read_labels, write_labels
from cxc_eccv.types.provenance import LabelFileFacts

PAIRS = [(1, 10), (1, 11), (2, 10)]
GAINS = [1.0, 0.0, 0.5]


@pytest.fixture
def file(tmp_path, sample_library):
    """A label file of random pairs of the sample's test split."""
    return write_label_file(tmp_path / "mine.parquet", sample_library, *random_pairs(sample_library))


def test_what_is_written_is_read(tmp_path, sample_library):
    facts = label_facts(sample_library, agreement={"kappa": 0.5})
    written = write_labels(tmp_path / "mine.parquet", label_table(PAIRS, GAINS), facts)
    found = read_labels(tmp_path / "mine.parquet")
    assert found.table.schema.equals(LABELS_SCHEMA)
    assert found.table.to_pylist() == written.table.to_pylist()
    assert found.facts == written.facts == {**facts, "schema": 1, "kind": "labels", "collection": "coco"}
    assert (found.name, found.split) == ("mine", "test")


def test_label_file_is_ordered_between_papers_and_machines(file):
    library = Library("sample", labels=[file])
    assert list(list_sources(library)) == [*list(label_sources())[:-1], "mine", "mined"]
    assert "mine" not in list_sources(Library("sample"))
    assert Library("sample", labels=str(file)).label_names == ("mine",)
    assert library.label_names == ("mine",)
    assert library.files_used() == {}  # not before they are asked for
    merged = merge(library.split("test"), "i2t", sources=("mine", "coco"))
    assert merged.sources == ("coco", "mine")
    assert merged.rules == ("coco: original link", "mine: majority, 1.0.0")
    assert "labels_mine_test" in library.files_used()
    found = read_labels(file)
    positive = int(np.asarray(found.table["positive"]).sum())
    said = {"version": "1.0.0", "scheme": "eccv", "rule": "majority", "people": 3, "pairs": 200, "positive": positive}
    assert found.summary == LabelFileFacts(**said)
    licensed = replace(found, facts={**found.facts, "licence": "cc-by-4.0", "citation": "@misc{mine,}"})
    assert licensed.summary == replace(found.summary, licence="cc-by-4.0")
    origin = {"repository": "org/mine", "revision": "0" * 40}
    assert replace(found, origin=origin).summary == replace(found.summary, **origin)


def test_label_file_judges_pairs_in_both_directions(file, sample_library):
    """Other directions and other splits get nothing from it."""
    library = Library("sample", labels=[file])
    pairs = read_labels(file).table
    asked = set(zip(pairs["image_id"].to_pylist(), pairs["caption_id"].to_pylist(), strict=True))
    right = pairs.filter(pairs["positive"])
    positive = set(zip(right["image_id"].to_pylist(), right["caption_id"].to_pylist(), strict=True))
    for direction, turn in (("i2t", 1), ("t2i", -1)):
        queries, items = (ids.tolist() for ids in judged_pairs(library.split("test"), direction, ["mine"]))
        assert {pair[::turn] for pair in zip(queries, items, strict=True)} == asked
        found = merged_qrels(library.split("test"), direction, sources=["mine"])
        rows = found.query_ids[found.rows].tolist()
        items = found.gallery_ids[found.indices].tolist()
        assert {pair[::turn] for pair in zip(rows, items, strict=True)} == positive
    for direction in ("t2t", "i2i"):
        with_labels, without = (merge(one.split("test"), direction) for one in (library, sample_library))
        assert with_labels.sources == without.sources
        assert np.array_equal(with_labels.positive, without.positive)
    assert "mine" not in merge(library.split("validation"), "i2t").sources


def test_override_policy_follows_the_latest_contradicting_label(tmp_path, sample_library):
    content = sample_library.split("test")
    own = (int(content.caption_image_ids[0]), int(content.caption_ids[0]))
    other = (int(content.image_ids[1]), int(content.caption_ids[0]))
    file = write_label_file(tmp_path / "mine.parquet", sample_library, [own, other], [0.0, 1.0])
    library = Library("sample", labels=[file])
    verdicts = {}
    for policy in ("union", "strict", "override"):
        merged = merge(library.split("test"), "i2t", sources=("coco", "mine"), policy=policy)
        keys = zip(merged.query_ids[merged.queries].tolist(), merged.gallery_ids[merged.items].tolist(), strict=True)
        place = {pair: row for row, pair in enumerate(keys)}
        verdicts[policy] = [bool(merged.positive[place[pair]]) for pair in (own, other)]
        assert merged.conflict[place[own]]
        assert merged.conflict.sum() == 1
    assert verdicts == {"union": [True, True], "strict": [False, True], "override": [False, True]}


def test_a_machine_says_nothing_where_people_answered(tmp_path, sample_library):
    queries, items = judged_pairs(sample_library.split("validation"), "i2t", ["coco", "cxc", "entailment"])
    linked = set(zip(queries.tolist(), items.tolist(), strict=True))
    pairs = [pair for pair in random_pairs(sample_library, "validation")[0] if pair not in linked]
    weak = write_mined(tmp_path / "mined.parquet", sample_library, "validation", pairs)
    file = write_label_file(tmp_path / "mine.parquet", sample_library, pairs[:2], [0.0, 1.0], "validation")
    merged = merge(Library("sample", mined=[weak], labels=[file]).split("validation"), "i2t")
    assert merged.sources[-2:] == ("mine", "mined")
    assert merged.judged[:, -1].sum() == len(pairs) - 2
    assert not merged.judged[:, -2:].all(axis=1).any()


def test_labels_of_other_data_are_refused_with_advice(tmp_path, sample_library):
    other = write_label_file(
        tmp_path / "other.parquet",
        sample_library,
        *random_pairs(sample_library),
        data={"edition": "official", "content": "0" * 64, "images": 5000, "captions": 25000},
    )
    with pytest.raises(DataError, match="edition official, with 5000 images and 25000 captions") as caught:
        Library("sample", labels=[other]).split("test").labels("mine")
    assert "60 images and 300 captions in that split" in str(caught.value)
    strange = write_label_file(tmp_path / "strange.parquet", sample_library, PAIRS, GAINS)
    with pytest.raises(MalformedSource, match="row 0: found image_id 1, expected an id of the test split"):
        Library("sample", labels=[strange]).split("test").labels("mine")


def test_repeated_or_declared_label_names_are_refused(tmp_path, sample_library, file):
    with pytest.raises(DataError, match="both hold labels 'mine' of test: name only one"):
        merge(Library("sample", labels=[file, shutil.copy(file, tmp_path / "again.parquet")]).split("test"), "i2t")
    pairs = random_pairs(sample_library, "validation")
    other = write_label_file(tmp_path / "validation.parquet", sample_library, *pairs, "validation")
    second = write_label_file(
        tmp_path / "second.parquet", sample_library, *random_pairs(sample_library, seed=1), name="theirs"
    )
    library = Library("sample", labels=[file, other, second])
    assert library.label_names == ("mine", "theirs")
    assert list(library.label_files) == ["labels_mine_test", "labels_mine_val", "labels_theirs_test"]
    assert library.split("validation").labels("mine").split == "validation"
    assert library.split("validation").labels("theirs") is None
    with pytest.raises(UnknownName, match="did you mean 'mine'"):
        library.split("test").labels("mines")
    file = write_label_file(tmp_path / "x.parquet", sample_library, *random_pairs(sample_library), name="eccv")
    with pytest.raises(DataError, match="which is the name of a declared source"):
        merge(Library("sample", labels=[file]).split("test"), "i2t")


def test_label_files_are_found_in_a_folder(tmp_path, sample_library, file):
    folder = tmp_path / "project"
    (folder / "rounds").mkdir(parents=True)
    shutil.copy(file, folder / "labels.parquet")
    (folder / "answers.jsonl").write_text('{"worker": "a"}\n')
    assert Library("sample", labels=[folder]).label_names == ("mine",)
    with pytest.raises(SourceMissing, match="holds no label file"):
        Library("sample", labels=[folder / "rounds"]).label_names  # noqa: B018
    with pytest.raises(SourceMissing, match=r"out/mine.parquet: there is no such file of labels"):
        Library("sample", labels=["out/mine.parquet"]).label_names  # noqa: B018
