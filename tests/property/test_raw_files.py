"""A damaged raw file is refused by our error, or read as a plain and strict reading of its own says; never a traceback.

Hashes would notice every damage; they are not checked here, as with ``allow_modified``.
"""

import csv
import gzip
import io
import json
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from changed_files import places_of, replaced
from damages import damages
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cxc_eccv.errors import MalformedSource
from cxc_eccv.sources.readers.coco_instances import read_category_sets
from cxc_eccv.sources.readers.cxc_ratings import read_annotators, read_ratings
from cxc_eccv.sources.readers.eccv_caption import read_positives
from cxc_eccv.sources.readers.entailment_labels import read_entailment
from cxc_eccv.sources.readers.flickr8k import read_flickr8k
from cxc_eccv.sources.readers.karpathy import read_karpathy
from cxc_eccv.sources.readers.sentence_pairs import read_semeval, read_sick, read_stsb
from cxc_eccv.sources.reading import read_ids


@dataclass(frozen=True)
class Format:
    """One raw format.

    Attributes:
        name: of the file.
        content: a right file.
        read: the reader under test, to plain Python values.
        plain: the strict reading of the decoded bytes; raises whatever it likes for a bad file.
    """

    name: str
    content: bytes
    read: Any
    plain: Any


def lines_of(data):
    text = data.decode("utf-8-sig").replace("\r\n", "\n")
    assert "\r" not in text
    assert "\0" not in text
    return text.rstrip("\n").split("\n")


def csv_rows(data):
    """Rows as dicts; a line is a row."""
    header, *rest = ((list(csv.reader([line], strict=True)) or [[""]])[0] or [""] for line in lines_of(data))
    assert len(set(header)) == len(header)
    return [dict(zip(header, row, strict=True)) for row in rest]


def number(text):
    assert re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text)
    assert 0 <= float(text) <= 5
    return float(text)


def item(text):
    match = re.fullmatch(r"COCO_(?:train|val)2014(?::sentid:(\d{1,18})|_(\d{12})\.jpg)", text)
    return int(match[1] or match[2])


def ratings(left, right, score):
    def plain(data):
        return [(item(row[left]), item(row[right]), number(row[score])) for row in csv_rows(data)]

    return plain


def json_value(data):
    def table(pairs):
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def refuse(_):
        raise ValueError

    return json.loads(data.decode("utf-8-sig"), object_pairs_hook=table, parse_constant=refuse)


def whole(value):
    assert type(value) is int
    return value


def karpathy(data):
    return sorted(
        (whole(image["cocoid"]), image["filename"], image["split"], whole(sentence["sentid"]), sentence["raw"])
        for image in json_value(data)["images"]
        for sentence in image["sentences"][:5]
    )


def read_karpathy_rows(path):
    names = {"validation": "val"}
    rows = []
    for name, split in read_karpathy([path]).items():
        files = dict(zip(*(split.images[name].to_pylist() for name in ("image_id", "file_name")), strict=True))
        rows += [
            (row["image_id"], files[row["image_id"]], names.get(name, name), row["caption_id"], row["text"])
            for row in split.captions.to_pylist()
        ]
    return sorted(rows)


def category_sets(data):
    content = json_value(data)
    names = {whole(one["id"]): one["name"] for one in content["categories"]}
    found = {whole(one["id"]): set() for one in content["images"]}
    for one in content["annotations"]:
        found[whole(one["image_id"])].add(names[whole(one["category_id"])])
    return found


def read_categories(path):
    sets = read_category_sets(path)
    rows = zip(sets.image_ids.tolist(), sets.present, strict=True)
    return {number: {sets.category_names[place] for place in np.flatnonzero(row)} for number, row in rows}


def positives(data):
    return [(int(query), whole(one)) for query, items in json_value(data).items() for one in items]


LABELS = {"entailment": 1, "neutral": 0, "contradiction": 0, "1": 1, "0": 0, "true": 1, "false": 0}


def entailment(rows):
    kept = [row for row in rows if str(row["gold_label"]).strip().lower() != "-"]
    return [
        (
            str(row["Flickr30kID"]),
            str(row.get("hypothesis", row.get("sentence2"))),
            LABELS[str(row["gold_label"]).strip().lower()],
        )
        for row in kept
    ]


def read_pairs(path):
    table = read_entailment(path).table
    return list(zip(*(table[name].to_pylist() for name in ("image", "hypothesis", "label")), strict=True))


def tabbed(left, right, score, skip=0):
    def plain(data):
        rows = [line.split("\t") for line in lines_of(data) if line][skip:]
        return [(row[left], row[right], float(row[score])) for row in rows if row[score].strip()]

    return plain


def sentence_pairs(read):
    def rows(path):
        pairs = read(path)
        return list(zip(pairs.left, pairs.right, pairs.scores.tolist(), strict=True))

    return rows


def tokens(data):
    rows = []
    for line in lines_of(data):
        key, text = line.split("\t", 1)
        photo, position = re.fullmatch(r"(\d+)_[0-9a-f]+\.jpg(?:\.1)?#(\d)", key).groups()
        rows.append((int(photo) * 10 + int(position), int(photo), text))
    return rows


def values(read, *names):
    return lambda path: list(zip(*(read(path)[name].to_pylist() for name in names), strict=True))


def npy(array):
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def image(number, split, *captions):
    sentences = [{"raw": f'caption "{n}" é', "sentid": n, "tokens": []} for n in captions]
    name = f"COCO_val2014_{number:012d}.jpg"
    return {"cocoid": number, "filename": name, "filepath": "val2014", "split": split, "sentences": sentences}


KARPATHY = {"images": [image(9, "val", 3, 1), image(4, "test", 7), image(5, "train", 8, 2, 11, 12, 13, 14)]}
INSTANCES = {
    "images": [{"id": 7}, {"id": 3}],
    "categories": [{"id": 1, "name": "cat"}, {"id": 90, "name": "brush"}],
    "annotations": [
        {"id": n, "image_id": 3, "category_id": category, "bbox": [1, 2.5, 3, 4], "area": 6.0, "iscrowd": 0}
        for n, category in ((5, 90), (6, 1))
    ],
}
CAPTION = "COCO_val2014:sentid:{}"
IMAGE = "COCO_val2014_{:012d}.jpg"
STS = "caption1,caption2,agg_score,sampling_method\n" + "".join(
    f"{CAPTION.format(a)},{CAPTION.format(b)},{score},c2c_isim\n"
    for a, b, score in ((1, 2, 3.5), (2, 11, 0), (3, 1, 5))
)
SITS = STS.replace("caption1,caption2", "caption,image").replace("COCO_val2014:sentid:2,3.5", IMAGE.format(2) + ",3.5")
SITS = re.sub(r",COCO_val2014:sentid:(\d+),", lambda match: f",{IMAGE.format(int(match[1]))},", SITS)
ESNLI = (
    ",pairID,Flickr30kID,hypothesis,gold_label,explanation\n"
    '0,a,9.jpg,"A man, a ""dog"".",entailment,x\n1,b,9.jpg,B,-,y\n'
)
JSONL = "".join(
    json.dumps({"Flickr30kID": "9.jpg", "hypothesis": f"h {n}", "gold_label": label, "pairID": f"p{n}"}) + "\n"
    for n, label in enumerate(("entailment", "neutral", "-"))
)
SICK = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n1\tA dog\tA cat\t2.5\tNEUTRAL\r\n"
EDGES = ("left_id", "right_id", "rating")

FORMATS = {
    "sts": Format(
        "sts.csv",
        STS.encode(),
        values(lambda path: read_ratings(path, "sts"), *EDGES),
        ratings("caption1", "caption2", "agg_score"),
    ),
    "sits": Format(
        "sits.csv",
        SITS.encode(),
        values(lambda path: read_ratings(path, "sits"), *EDGES),
        ratings("caption", "image", "agg_score"),
    ),
    "single ratings": Format(
        "sts_raw.csv",
        (STS + STS.partition("\n")[2]).encode(),
        values(lambda path: read_annotators(path, "sts"), *EDGES),
        lambda data: [
            (item(row["caption1"]), item(row["caption2"]), number(next(v for k, v in row.items() if k not in NAMED)))
            for row in csv_rows(data)
        ],
    ),
    "karpathy": Format("dataset_coco.json", json.dumps(KARPATHY).encode(), read_karpathy_rows, karpathy),
    "category sets": Format("instances.json", json.dumps(INSTANCES).encode(), read_categories, category_sets),
    "positives": Format(
        "eccv.json", b'{"5": [2, 1], "14": [12]}', values(read_positives, "query_id", "item_id"), positives
    ),
    "ids": Format(
        "ids.npy",
        npy(np.array([4, 2, 77])),
        lambda path: read_ids(path).tolist(),
        lambda data: np.load(io.BytesIO(data), allow_pickle=False).tolist(),
    ),
    "e-SNLI-VE": Format("esnlive.csv", ESNLI.encode(), read_pairs, lambda data: entailment(csv_rows(data))),
    "SNLI-VE": Format(
        "snli_ve.jsonl",
        JSONL.encode(),
        read_pairs,
        lambda data: entailment([json_value(line.encode()) for line in lines_of(data) if line.strip()]),
    ),
    "semeval": Format(
        "images.tsv",
        b'4.4\tA "pair.\tTwo dogs.\n\tA\tB\n0.25\tC\tD\n',
        sentence_pairs(read_semeval),
        tabbed(1, 2, 0),
    ),
    "stsb": Format(
        "sts-dev.csv",
        b"g\tf\t2012\t1\t3.5\tA\tB\ng\tf\t2012\t1\t.5\tC\tD\tx\ty\n",
        sentence_pairs(read_stsb),
        tabbed(5, 6, 4),
    ),
    "sick": Format("SICK.txt", SICK.encode(), sentence_pairs(read_sick), tabbed(1, 2, 3, skip=1)),
    "flickr8k": Format(
        "tokens.txt",
        b"1000268201_693b08cb0e.jpg#0\tA child .\n1000268201_693b08cb0e.jpg.1#1\tA girl\xe2\x80\xa8 .\n",
        values(read_flickr8k, "caption_id", "image_id", "text"),
        tokens,
    ),
}
NAMED = {"caption1", "caption2", "sampling_method"}

WEIRD = [None, True, [], {}, [1], {"id": 1}, "", "7", "\0", -1, 0.5, 1e300, 2**63, 10**400, "x" * 5000]


def check(form, data, path):
    """Read a file; True where it was accepted."""
    path.write_bytes(data)
    message = ""
    found = None
    try:
        found = form.read(path)
    except MalformedSource as error:
        message = str(error)
    if message:
        assert str(path) in message
        assert len(message) < 1000
        return False
    plain = gzip.decompress(data) if path.suffix == ".gz" else data
    assert found == form.plain(plain)
    return True


@pytest.mark.parametrize("name", FORMATS)
def test_the_right_file_is_read(name, tmp_path):
    form = FORMATS[name]
    assert check(form, form.content, tmp_path / form.name)
    assert check(form, gzip.compress(form.content), tmp_path / f"{form.name}.gz")


@pytest.mark.parametrize("name", FORMATS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(several=st.lists(damages(), min_size=1, max_size=3), compressed=st.booleans())
@example(several=[lambda data: data[: len(data) // 2] + b'"' + data[len(data) // 2 + 1 :]], compressed=False)
@example(several=[lambda data: data[:-9] + bytes([data[-9] ^ 8]) + data[-8:]], compressed=True)
def test_damaged_bytes(name, several, compressed, tmp_path):
    form = FORMATS[name]
    data = gzip.compress(form.content, mtime=0) if compressed else form.content
    for damage in several:
        data = damage(data) if data else data
    check(form, data, tmp_path / (form.name + ".gz" * compressed))


@pytest.mark.parametrize("name", ["karpathy", "category sets", "positives"])
@pytest.mark.parametrize("new", WEIRD, ids=lambda value: f"{value!r:.12}")
def test_another_value_anywhere(name, new, tmp_path):
    form = FORMATS[name]
    content = json.loads(form.content)
    for place in places_of(content):
        check(form, json.dumps(replaced(content, place, new)).encode(), tmp_path / form.name)


@pytest.mark.parametrize("new", WEIRD, ids=lambda value: f"{value!r:.12}")
def test_another_value_in_a_line(new, tmp_path):
    form = FORMATS["SNLI-VE"]
    record = json.loads(JSONL.splitlines()[0])
    for place in places_of(record):
        check(form, json.dumps(replaced(record, place, new)).encode(), tmp_path / form.name)
