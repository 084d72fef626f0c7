"""Readers: right files give typed tables, wrong ones an error that names file, place, found and expected."""

import gzip
import json

import numpy as np
import pytest

from cxc_eccv.errors import MalformedSource, UnknownName
from cxc_eccv.sources.readers.coco_instances import read_category_sets
from cxc_eccv.sources.readers.cxc_ratings import read_annotators, read_ratings
from cxc_eccv.sources.readers.eccv_caption import read_positives
from cxc_eccv.sources.readers.entailment_labels import read_entailment
from cxc_eccv.sources.readers.karpathy import fold_restval, read_karpathy
from cxc_eccv.sources.reading import read_csv, read_ids

HEADER = "caption1,caption2,agg_score,sampling_method\n"
ROW = "COCO_val2014:sentid:1,COCO_val2014:sentid:2,3.5,c2c_isim\n"


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def refused(read, path, *parts):
    with pytest.raises(MalformedSource) as caught:
        read(path)
    message = str(caught.value)
    for part in (path.name, *parts):
        assert str(part) in message


def karpathy_image(image_id, split, sentence_ids, **changes):
    sentences = [{"raw": f"caption {i}", "tokens": [], "imgid": 0, "sentid": i} for i in sentence_ids]
    record = {"filename": f"COCO_val2014_{image_id:012d}.jpg", "filepath": "val2014", "cocoid": image_id}
    return record | {"split": split, "sentids": list(sentence_ids), "sentences": sentences} | changes


class TestRatings:
    def test_typed_columns_in_file_order(self, tmp_path):
        path = written(tmp_path, "sts_val.csv", HEADER + ROW + ROW.replace("sentid:1", "sentid:7").replace("3.5", "0"))
        table = read_ratings(path, "sts")
        assert table.to_pydict() == {
            "left_id": [1, 7],
            "right_id": [2, 2],
            "rating": [3.5, 0.0],
            "sampling_method": ["c2c_isim", "c2c_isim"],
        }

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            ("", ["an empty file"]),
            (HEADER, ["a header and no rows"]),
            (HEADER.replace("agg_score", "score") + ROW, ["line 1", "a column 'agg_score'"]),
            (HEADER + ROW.replace("3.5", "5.01"), ["line 2", "'agg_score'", "5.01", "[0, 5]"]),
            (HEADER + ROW.replace("3.5", "nan"), ["line 2", "nan", "[0, 5]"]),
            (HEADER + ROW + ROW, ["line 3", "the pair (1, 2) again"]),
            (HEADER + ROW.replace("sentid:2", "sentid:1"), ["line 2", "item 1 paired with itself"]),
            (HEADER + ROW.replace("sentid:2", "2"), ["line 2, column 'caption2'", "COCO_val2014:sentid:190268"]),
            ((HEADER + ROW).encode() + b"\xff\xfe", ["0xff", "position 101", "UTF-8 text"]),
            (
                HEADER + ROW + '"' + ROW + ROW.replace("\n", '"\n'),
                ["line 3", "each closed on its line"],
            ),
            (HEADER + ROW.replace("3.5", '3"5'), ["line 2", "a number in [0, 5]"]),
            (HEADER + ROW.replace("c2c_isim", '"a" b'), ["line 2", "quotes around whole cells"]),
            (HEADER + ROW + "1,2,3\n", ["line 3", "3 cells", "rows of 4 cells"]),
            (HEADER + ROW + "\n" + ROW, ["line 3", "0 cells", "rows of 4 cells"]),
            ((HEADER + ROW).replace("\n", "\r"), ["line 1", "carriage return", r"\r\n"]),
            (HEADER + ROW.replace("3.5", "3.\x005"), ["line 2", "NUL"]),
            (HEADER.replace("sampling_method", "caption1") + ROW, ["line 1", "two columns 'caption1'", "once"]),
            ("\ufeff\ufeff" + HEADER + ROW, ["line 1", "a column 'caption1'"]),
        ],
    )
    def test_bad_files(self, tmp_path, content, parts):
        refused(lambda path: read_ratings(path, "sts"), written(tmp_path, "sts_val.csv", content), *parts)

    @pytest.mark.parametrize(
        "content",
        [
            "\ufeff" + HEADER + ROW,
            (HEADER + ROW).replace("\n", "\r\n"),
            HEADER + ROW.replace("c2c_isim", '"c2c_isim"') + "\n\n",
            (HEADER + ROW).rstrip("\n"),
        ],
        ids=["mark", "windows", "quoted", "no-last-line-end"],
    )
    def test_other_ways_to_write_the_same_rows(self, tmp_path, content):
        plain = read_ratings(written(tmp_path, "sts_val.csv", HEADER + ROW), "sts")
        assert read_ratings(written(tmp_path, "other.csv", content), "sts").equals(plain)

    def test_blank_line_is_refused_in_single_column(self, tmp_path):
        path = written(tmp_path, "names.csv", "name\na\n\nb\n")
        refused(read_csv, path, "line 3", "0 cells", "rows of 1 cells")

    def test_a_quote_within_a_cell_is_doubled(self, tmp_path):
        row = ROW.replace("c2c_isim", '"a ""b"", c"')
        table = read_ratings(written(tmp_path, "sts_val.csv", HEADER + row), "sts")
        assert table["sampling_method"].to_pylist() == ['a "b", c']

    def test_unknown_kind(self, tmp_path):
        with pytest.raises(UnknownName, match="did you mean 'sts'"):
            read_ratings(tmp_path / "x.csv", "stss")

    def test_single_ratings(self, tmp_path):
        text = HEADER.replace("agg_score", "any_name") + ROW.replace("3.5", "3") + ROW.replace("3.5", "4")
        table = read_annotators(written(tmp_path, "sts_val_raw.csv", text), "sts")
        assert table.to_pylist() == [{"left_id": 1, "right_id": 2, "rating": rating} for rating in (3.0, 4.0)]

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            (HEADER.replace("agg_score,", ""), ["line 1", "one column of scores"]),
            (HEADER.replace("agg_score", "a,b"), ["line 1", "one column of scores"]),
            (HEADER, ["line 2, column 'agg_score'", "'6'", "[0, 5]"]),
        ],
        ids=["none", "two", "range"],
    )
    def test_bad_single_ratings(self, tmp_path, content, parts):
        cells = [ROW.split(",")[0], ROW.split(",")[1], *"66"[: content.count(",") - 2], "m"]
        path = written(tmp_path, "sts_val_raw.csv", content + ",".join(cells) + "\n")
        refused(lambda one: read_annotators(one, "sts"), path, *parts)


class TestKarpathy:
    def read(self, folder, *images):
        return read_karpathy([written(folder, "dataset_coco.json", json.dumps({"images": list(images)}))])

    @pytest.mark.parametrize("extra", [{"imgid": None}, {"imgid": 2**70, "sentids": "all"}, {"author": "me"}])
    def test_unneeded_entries_may_be_anything(self, tmp_path, extra):
        plain = self.read(tmp_path, karpathy_image(1, "test", [1, 2]))["test"]
        other = self.read(tmp_path, karpathy_image(1, "test", [1, 2], **extra))["test"]
        assert other.images.equals(plain.images)
        assert other.captions.equals(plain.captions)

    def test_unneeded_entry_may_not_be_repeated(self, tmp_path):
        content = json.dumps({"images": [karpathy_image(1, "test", [1])]}).replace('"tokens"', '"tokens": [], "tokens"')
        refused(
            lambda path: read_karpathy([path]), written(tmp_path, "dataset_coco.json", content), "'tokens'", "twice"
        )

    def test_splits_limit_and_order(self, tmp_path):
        splits = self.read(
            tmp_path,
            karpathy_image(30, "val", [1, 2, 3, 4, 5, 6]),
            karpathy_image(10, "train", [7, 8]),
            karpathy_image(20, "restval", [9]),
        )
        assert list(splits) == ["train", "restval", "validation"]
        assert splits["validation"].captions["caption_id"].to_pylist() == [1, 2, 3, 4, 5]
        assert splits["validation"].cut_caption_ids.tolist() == [6]
        folded = fold_restval(splits)
        assert list(folded) == ["train", "validation"]
        assert folded["train"].images["image_id"].to_pylist() == [10, 20]
        assert folded["train"].captions["image_id"].to_pylist() == [10, 10, 20]

    def test_text_is_kept_as_it_is(self, tmp_path):
        image = karpathy_image(1, "test", [1])
        image["sentences"][0]["raw"] = "A dog.\n runs \u00e9 "
        assert self.read(tmp_path, image)["test"].captions["text"].to_pylist() == ["A dog.\n runs \u00e9 "]

    def test_one_file_per_split_equals_one_file(self, tmp_path):
        images = [karpathy_image(1, "val", [1, 2]), karpathy_image(2, "test", [3])]
        whole = self.read(tmp_path, *images)
        parts = [written(tmp_path, f"{n}.json", json.dumps({"images": [image]})) for n, image in enumerate(images)]
        for name, split in read_karpathy(parts).items():
            assert split.captions.equals(whole[name].captions)
            assert split.images.equals(whole[name].images)

    @pytest.mark.parametrize(
        ("images", "parts"),
        [
            ([karpathy_image(1, "dev", [1])], ["images[0]", "split 'dev'"]),
            ([karpathy_image(1, "val", [])], ["images[0]", "no sentences"]),
            ([karpathy_image(1, "val", [1], cocoid="x")], ["images[0]", "images[0].cocoid", "'x'"]),
            (
                [karpathy_image(1, "val", [1]), karpathy_image(2, "test", [1])],
                ["caption 1 twice", "test and validation"],
            ),
            ([karpathy_image(1, "val", [1]), karpathy_image(1, "val", [2])], ["image 1 twice", "in split validation"]),
            ([karpathy_image(1, "val", [1], sentences=[{"raw": "a"}])], ["images[0].sentences[0]", "a key 'sentid'"]),
            ([{"split": "val"}], ["images[0]", "a key 'filename'"]),
            (["val"], ["images[0]", "'val'", "an object"]),
            ([karpathy_image(1, ["val"], [1])], ["images[0]", "split ['val']"]),
            ([karpathy_image(1, "val", [1], cocoid=2**63)], ["images[0].cocoid", "9223372036854775808"]),
            ([karpathy_image(1, "val", [1], filename=None)], ["images[0].filename", "None", "a text"]),
            ([karpathy_image(1, "val", [1], sentences={"raw": "a"})], ["images[0].sentences", "a list"]),
            ([karpathy_image(1, "val", [None])], ["images[0].sentences[0].sentid", "None"]),
            ([karpathy_image(1, "val", [1], sentences=[{"raw": 1, "sentid": 1}])], ["sentences[0].raw", "a text"]),
            (
                [{"filename": "x.jpg", "split": "val", "sentences": [{"raw": "a", "sentid": 1}]}],
                ["images[0].filename", "'x.jpg'", "Flickr photo number"],
            ),
        ],
    )
    def test_bad_records(self, tmp_path, images, parts):
        path = written(tmp_path, "dataset_coco.json", json.dumps({"images": images}))
        refused(lambda p: read_karpathy([p]), path, *parts)

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            (b'{"images": [', ["line 1 column 13", "valid JSON"]),
            (b'{"images": [1,,2]}', ["line 1 column 15", "valid JSON"]),
            (b'{"images": []}', ["no list under the key 'images'"]),
            (b'[{"a": 1}]', ["the layout of dataset_coco.json"]),
        ],
    )
    def test_bad_json(self, tmp_path, content, parts):
        refused(lambda p: read_karpathy([p]), written(tmp_path, "dataset_coco.json", content), *parts)


class TestPositives:
    def test_rows(self, tmp_path):
        table = read_positives(written(tmp_path, "e.json", '{"5": [2, 1], "4": [2]}'))
        assert table.to_pydict() == {"query_id": [5, 5, 4], "item_id": [2, 1, 2]}

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            ('{"5": [1], "5": [2]}', ["key '5'", "twice"]),
            ('{"five": [1]}', ["key 'five'", "a whole number"]),
            ('{"373119": [1], "0373119": [2]}', ["key '0373119'", "without leading zeros"]),
            ('{"5": []}', ["key '5'", "at least one positive"]),
            ('{"5": ["1"]}', ["key '5'", "'1'"]),
            ('{"5": [true]}', ["key '5'", "True"]),
            ('{"5": [1, 1]}', ["key '5'", "a positive twice"]),
            ("[]", ["an object"]),
        ],
        ids=["key-twice", "key", "zero", "no-positive", "text", "bool", "twice", "list"],
    )
    def test_bad_files(self, tmp_path, content, parts):
        refused(read_positives, written(tmp_path, "e.json", content), *parts)


class TestIds:
    @pytest.mark.parametrize(
        ("array", "part"),
        [
            (np.array([1.5]), "float64"),
            (np.array([[1]]), "(1, 1)"),
            (np.array([], dtype=np.int64), "(0,)"),
            (np.array([3, 3]), "id 3 a second time"),
            (np.array([3, -3]), "position 1: found id -3"),
            (np.array([3, 2**63], dtype=np.uint64), "position 1: found id 9223372036854775808"),
            (np.array([True]), "bool"),
            (np.array([{}], dtype=object), "an npy file of integers"),
        ],
    )
    def test_bad_arrays(self, tmp_path, array, part):
        np.save(tmp_path / "ids.npy", array)
        refused(read_ids, tmp_path / "ids.npy", part)

    def test_gzipped(self, tmp_path):
        np.save(tmp_path / "ids.npy", np.array([4, 2]))
        path = written(tmp_path, "ids.npy.gz", gzip.compress((tmp_path / "ids.npy").read_bytes()))
        assert read_ids(path).tolist() == [4, 2]


INSTANCES = {
    "images": [{"id": 7}, {"id": 3}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 90, "name": "brush"}],
    "annotations": [{"id": 1, "image_id": 3, "category_id": 90}, {"id": 2, "image_id": 3, "category_id": 90}],
}
OWN = {"image": "a.jpg", "premise": ["x", "y"], "hypothesis": "z", "label": 1, "votes": [1, 1, 0]}


class TestInstances:
    def test_category_sets(self, tmp_path):
        sets = read_category_sets(written(tmp_path, "i.json", json.dumps(INSTANCES)))
        assert sets.category_names == ("cat", "brush")
        assert sets.of(np.array([3, 7])).present.tolist() == [[False, True], [False, False]]

    @pytest.mark.parametrize(
        ("change", "parts"),
        [
            ({"categories": None}, ["the key 'categories'"]),
            ({"annotations": [{"id": 1, "image_id": 4, "category_id": 1}]}, ["annotations[0]", "unlisted image_id 4"]),
            ({"annotations": [{"id": 1, "image_id": 3, "category_id": 2}]}, ["annotations[0]", "category_id 2"]),
            (
                {"annotations": [{"id": 1, "image_id": 3, "category_id": 1}] * 2},
                ["annotations[1]", "id 1 a second time"],
            ),
            ({"annotations": [None]}, ["annotations[0]", "an object"]),
            ({"annotations": [{"id": 1, "image_id": "3", "category_id": 1}]}, ["annotations[0].image_id", "'3'"]),
            ({"images": [{"id": 3}, {"id": 3}]}, ["images[1]", "id 3 a second time"]),
            ({"categories": [{"id": 1}]}, ["categories[0]", "a key 'name'"]),
            ({"categories": [{"id": 1, "name": 5}]}, ["categories[0].name", "a text"]),
        ],
    )
    def test_bad_files(self, tmp_path, change, parts):
        refused(read_category_sets, written(tmp_path, "i.json", json.dumps(INSTANCES | change)), *parts)


class TestEntailment:
    def test_own_layout_as_jsonl_and_csv(self, tmp_path):
        lines = written(tmp_path, "p.jsonl", json.dumps(OWN) + "\n")
        cells = 'image,premise,hypothesis,label,votes\na.jpg,"[""x"", ""y""]",z,1,"[1, 1, 0]"\n'
        table = read_entailment(lines).table
        assert table.equals(read_entailment(written(tmp_path, "p.csv", cells)).table)
        row = table.to_pylist()[0]
        assert (row["premise"], row["label"], row["votes"]) == (["x", "y"], 1, ["1", "1", "0"])

    def test_names_of_columns_are_folded(self, tmp_path):
        cells = 'Image,Premise ,hypothesis,LABEL,votes\na.jpg,"[""x"", ""y""]",z,1,"[1, 1, 0]"\n'
        table = read_entailment(written(tmp_path, "p.jsonl", json.dumps(OWN) + "\n")).table
        assert table.equals(read_entailment(written(tmp_path, "p.csv", cells)).table)

    def test_both_names_of_a_label_must_agree(self, tmp_path):
        """Hugging Face's copies number entailment 0, and keep the word beside it."""
        agreeing = written(tmp_path, "p.jsonl", json.dumps(OWN | {"label": 1, "gold_label": "entailment"}))
        assert read_entailment(agreeing).table["label"].to_pylist() == [1]
        other = written(tmp_path, "q.jsonl", json.dumps(OWN | {"label": 0, "gold_label": "entailment"}))
        refused(read_entailment, other, "line 1", "label 0 and gold_label 'entailment'", "one label")

    def test_snli_ve_columns(self, tmp_path):
        lines = [
            {"Flickr30K_ID": "9", "sentence1": "p", "sentence2": "h", "gold_label": gold, "pairID": gold}
            for gold in ("entailment", "neutral", "contradiction", "-")
        ]
        pairs = read_entailment(written(tmp_path, "s.jsonl", "\n".join(map(json.dumps, lines))))
        assert pairs.table["label"].to_pylist() == [1, 0, 0]
        assert pairs.table["premise"].to_pylist() == [["p"]] * 3
        assert pairs.left_out == {"no majority among the annotators": 1}

    @pytest.mark.parametrize(
        ("content", "parts"),
        [
            (json.dumps(OWN | {"label": "maybe"}), ["line 1", "'maybe'"]),
            (json.dumps({"image": "a.jpg", "label": 1}), ["line 1", "a value for 'hypothesis'"]),
            (json.dumps(OWN) + "\n" + json.dumps(OWN), ["line 2", "first: line 1"]),
            (json.dumps(OWN | {"image_id": "x"}), ["line 1, image_id", "'x'"]),
            (json.dumps(OWN | {"label": 0.5}), ["line 1, label", "0.5"]),
            (json.dumps(OWN | {"image": ["a"]}), ["line 1, image", "['a']"]),
            (json.dumps(OWN | {"premise": [["x"]]}), ["line 1, premise", "['x']"]),
            (json.dumps(OWN | {"premise": ["a", None]}), ["line 1, premise", "None"]),
            (json.dumps(OWN | {"premise": False}), ["line 1, premise", "False"]),
            (json.dumps(OWN | {"hypothesis": -1}), ["line 1, hypothesis", "-1"]),
            (json.dumps(OWN | {"image": -1}), ["line 1, image", "-1"]),
            (json.dumps(OWN | {"votes": 1.5}), ["line 1, votes", "1.5"]),
            (json.dumps(OWN | {"label": "-"}), ["no labelled pair"]),
        ],
    )
    def test_bad_files(self, tmp_path, content, parts):
        refused(read_entailment, written(tmp_path, "p.jsonl", content), *parts)

    def test_unicode_line_separator_ends_no_line(self, tmp_path):
        record = json.dumps(OWN | {"hypothesis": "one\u2028two"}, ensure_ascii=False)
        table = read_entailment(written(tmp_path, "p.jsonl", record + "\r\n")).table
        assert table["hypothesis"].to_pylist() == ["one\u2028two"]
