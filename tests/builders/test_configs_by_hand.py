"""The rows of every config, written by hand for a world of three images."""

import numpy as np
import pytest
from datasets import ClassLabel
from tiny_world import TinyWorld, image

import cxc_eccv as ce
from cxc_eccv.builders.dataset_config import BuildOptions, dataset_configs
from cxc_eccv.builders.output import conform
from cxc_eccv.judgments.merging import entailment_labels, label_conflicts
from cxc_eccv.report.page_content import Page

INVALID_IMAGE = 578492
INVALID_CAPTION = 607516
"""On ECCV Caption's list."""

N1, N2, N3 = (image(number) for number in (1, 2, INVALID_IMAGE))


class World(TinyWorld):
    """Image 2 has six captions, image 3 and one of its captions are invalid."""

    captions = {  # noqa: RUF012
        1: (12, 11),  # Karpathy's order is that of the file, not of the ids
        2: (21, 22, 23, 24, 25, 26),
        INVALID_IMAGE: (31, INVALID_CAPTION),
    }
    sts = ((11, 21, 4.0), (12, 31, 2.0), (31, INVALID_CAPTION, 3.0))
    sis = ((1, 2, 2.4), (2, 1, 2.6), (1, INVALID_IMAGE, 1.0))
    sits = ((11, 1, 5.0), (12, 1, 2.9), (21, 1, 3.0), (31, 1, 4.0), (24, INVALID_IMAGE, 1.5))
    entailment = ((1, 31, 0), (1, 11, 0), (2, 11, 1), (1, 22, 0))
    categories = ((1, 90), (1, 1), (1, 1), (INVALID_IMAGE, 3), (INVALID_IMAGE, 1))
    single = {  # noqa: RUF012
        "sts": ((11, 21, 5), (12, 31, 2), (11, 21, 3), (11, 21, 4), (21, 11, 0)),
        "sis": ((2, 1, 2), (2, 1, 3)),
    }

    def __init__(self, folder):
        super().__init__(folder)
        self.eccv_i2t = {1: (144675, 31, 12), INVALID_IMAGE: (11,)}
        self.eccv_t2i = {21: (2, INVALID_IMAGE)}


@pytest.fixture
def rows(tmp_path):
    """The rows of a config on the test split, and what was left out of them."""
    library = World(tmp_path).write()

    def build(name, **options):
        config = dataset_configs()[name]
        built = config.rows(library.split("test"), BuildOptions(**options))
        found = conform(built.table, config.features, name).to_pylist()
        for column, feature in config.features.items():
            if isinstance(feature, ClassLabel):
                found = [row | {column: feature.int2str(row[column])} for row in found]
        return found, built.left_out

    return build


def test_captions(rows):
    def captions(*numbers):
        return [{"id": n, "text": f"text {n}", "invalid": n == INVALID_CAPTION} for n in numbers]

    address = "http://images.cocodataset.org/val2014/"
    shared = {"split": "test"}
    found, left_out = rows("captions")
    assert left_out == {"captions beyond the fifth of an image": 1}
    assert found == [
        {"image_id": 1, "file_name": N1, "coco_url": address + N1, "captions": captions(12, 11)}
        | {"categories": ["cat", "brush"], "invalid": False, **shared},
        {"image_id": 2, "file_name": N2, "coco_url": address + N2, "captions": captions(21, 22, 23, 24, 25)}
        | {"categories": [], "invalid": False, **shared},
        {"image_id": INVALID_IMAGE, "file_name": N3, "coco_url": address + N3}
        | {"captions": captions(31, INVALID_CAPTION), "categories": ["cat", "dog"], "invalid": True, **shared},
    ]


def test_eccv_caption(rows):
    def by_image(number, positives, unreachable):
        query = {"query_id": number, "direction": "i2t", "query_caption": None, "query_file_name": image(number)}
        texts = [None if item in unreachable else f"text {item}" for item in positives]
        return query | {"positive_texts": texts, "positives": positives, "unreachable": unreachable}

    by_caption = {"query_id": 21, "direction": "t2i", "query_caption": "text 21", "query_file_name": None}
    by_caption["positive_texts"] = [image(2), N3]
    assert rows("eccv_caption") == (
        [
            by_image(1, [144675, 31, 12], [144675]),
            by_image(INVALID_IMAGE, [11], []),
            by_caption | {"positives": [2, INVALID_IMAGE], "unreachable": []},
        ],
        {},
    )


def test_pairs(rows):
    """Image 1: CxC rates 21 and 31 as positives, ECCV Caption has 31; image 2: a label says 11; image 3: ECCV's 11, 21.

    Judged negative: for image 1 a label says no to 22, for image 3 CxC rates 24 as 1.5.
    """

    def weak(number, *sources, column="sources"):
        return {"caption_id": number, "caption": f"text {number}", column: list(sources)}

    positives = {
        1: [weak(21, "cxc"), weak(31, "cxc", "eccv")],
        2: [weak(11, "entailment")],
        INVALID_IMAGE: [weak(11, "eccv"), weak(21, "eccv")],
    }
    by = "judged_negative_by"
    negatives = {1: [weak(22, "entailment", column=by)], 2: [], INVALID_IMAGE: [weak(24, "cxc", column=by)]}
    order = [(1, 12), (1, 11), *((2, n) for n in range(21, 26)), (INVALID_IMAGE, 31), (INVALID_IMAGE, INVALID_CAPTION)]
    expected = [
        {"image_id": n, "file_name": image(n), "caption_id": caption, "caption": f"text {caption}"}
        | {"weak_positives": positives[n], "judged_negatives": negatives[n]}
        for n, caption in order
    ]
    assert rows("pairs") == (expected, {})
    strict = {row["caption_id"]: row["weak_positives"] for row in rows("pairs", policy="strict")[0]}
    assert strict[12] == [weak(21, "cxc")]
    refused = rows("pairs", policy="strict")[0][0]["judged_negatives"]
    assert refused == [weak(22, "entailment", column=by), weak(31, "entailment", column=by)]
    raised = {row["caption_id"]: row["weak_positives"] for row in rows("pairs", sits=4.5)[0]}
    assert raised[11] == [weak(31, "eccv")]


def test_sts(rows):
    def row(left, right, rating, positive, count, std):
        owners = {11: (1, N1), 12: (1, N1), 21: (2, N2), 31: (INVALID_IMAGE, N3), INVALID_CAPTION: (INVALID_IMAGE, N3)}
        sides = {}
        for side, number in (("1", left), ("2", right)):
            sides |= {f"caption{side}_id": number, f"caption{side}": f"text {number}"}
            sides |= dict(zip((f"image{side}_id", f"file_name{side}"), owners[number], strict=True))
        judged = {"rating": rating, "positive": positive, "sampling_method": "c2c_isim"}
        return sides | judged | {"rating_count": count, "rating_std": std}

    found, left_out = rows("sts")
    assert found == [
        row(11, 21, 4.0, True, 3, pytest.approx(np.sqrt(2 / 3))),
        row(12, 31, 2.0, False, 1, 0.0),
        row(31, INVALID_CAPTION, 3.0, True, None, None),
    ]
    assert left_out == {"single ratings of pairs without an aggregated one": 1}
    assert [row["positive"] for row in rows("sts", sts=3.5)[0]] == [True, False, False]


def test_sis(rows):
    def row(left, right, rating, reverse, positive, count, std):
        return {
            "image1_id": left,
            "file_name1": image(left),
            "image2_id": right,
            "file_name2": image(right),
            "rating": rating,
            "reverse_rating": reverse,
            "positive": positive,
            "sampling_method": "i2i_csim",
            "rating_count": count,
            "rating_std": std,
        }

    expected = [
        row(1, 2, 2.4, 2.6, True, None, None),
        row(2, 1, 2.6, 2.4, True, 2, 0.5),
        row(1, INVALID_IMAGE, 1.0, None, False, None, None),
    ]
    assert rows("sis") == (expected, {})
    assert not any(row["positive"] for row in rows("sis", sis=2.7)[0])


def test_sits(rows):
    def row(caption, owner, number, rating, positive):
        ids = {"caption_id": caption, "caption": f"text {caption}", "caption_image_id": owner, "image_id": number}
        judged = {"file_name": image(number), "rating": rating, "positive": positive, "sampling_method": "c2i_intrasim"}
        return ids | judged | {"rating_count": None, "rating_std": None}

    expected = [
        row(11, 1, 1, 5.0, True),
        row(12, 1, 1, 2.9, False),
        row(21, 2, 1, 3.0, True),
        row(31, INVALID_IMAGE, 1, 4.0, True),
        row(24, 2, INVALID_IMAGE, 1.5, False),
    ]
    assert rows("sits") == (expected, {})


def test_plausible_match(rows):
    """Cat and brush against cat and dog: two categories differ."""

    def row(number, categories, *matches):
        names = {1: "cat", 3: "dog", 90: "brush"}
        sets = {f"matches_{zeta}": list(ids) for zeta, ids in enumerate(matches)}
        shown = {"image_id": number, "file_name": image(number), "categories": [names[one] for one in categories]}
        return {**shown, "category_ids": categories, **sets}

    both = (1, INVALID_IMAGE)
    expected = [row(1, [1, 90], [1], [1], both), row(INVALID_IMAGE, [1, 3], both[1:], both[1:], both)]
    assert rows("plausible_match") == (expected, {"images without any category": 1})


RATED = "cxc: sits >= 3"
VERIFIED = "eccv: verified positive"
LABELLED = "entailment: label 1"
LINK = "coco: original link"


def test_entailment(rows):
    """A pair's own label decides; the image's own captions are left out, with the label that contradicts one."""

    def row(number, caption, label, sources, rules, rating, conflict, negative_by=()):
        premises = {1: ["text 12", "text 11"], 2: [f"text {n}" for n in range(21, 26)]}
        premises[INVALID_IMAGE] = ["text 31", f"text {INVALID_CAPTION}"]
        pair = {"image_id": number, "file_name": image(number), "premise": premises[number]}
        text = {"caption_id": caption, "hypothesis": f"text {caption}", "label": answers[label]}
        said = {"sources": sources, "rules": rules, "rating": rating, "votes": [], "conflict": conflict}
        return pair | text | said | {"judged_negative_by": list(negative_by)}

    answers = ("not_entailed", "entailed")
    found, left_out = rows("entailment")
    assert found == [
        row(1, 21, 1, ["cxc"], [RATED], 3.0, False),
        row(1, 22, 0, ["entailment"], [], None, False, ["entailment"]),
        row(1, 31, 0, ["cxc", "eccv", "entailment"], [RATED, VERIFIED], 4.0, True, ["entailment"]),
        row(2, 11, 1, ["entailment"], [LABELLED], None, False),
        row(INVALID_IMAGE, 11, 1, ["eccv"], [VERIFIED], None, False),
        row(INVALID_IMAGE, 21, 1, ["eccv"], [VERIFIED], None, False),
        row(INVALID_IMAGE, 24, 0, ["cxc"], [], 1.5, False, ["cxc"]),
    ]
    assert left_out == {
        "pairs of an image with its own caption": 3,
        "ECCV Caption positives outside the split's captions": 1,
    }
    strict = [row["label"] for row in rows("entailment", policy="strict")[0]]
    assert strict == [answers[label] for label in (1, 0, 0, 1, 1, 1, 0)]


def test_graded_labels_follow_a_pairs_own_entailment_label(tmp_path):
    """A label against an original link does not count; conflicts are counted."""
    library = World(tmp_path).write()
    labels = entailment_labels(library.split("test"))
    queries = labels.query_ids[labels.rows].tolist()
    found = dict(zip(zip(queries, labels.gallery_ids[labels.indices].tolist(), strict=True), labels.gains, strict=True))
    linked = {(n, caption) for n, captions in World.captions.items() for caption in captions[:5]}
    others = {(1, 21), (2, 11), (INVALID_IMAGE, 11), (INVALID_IMAGE, 21)}
    assert found == dict.fromkeys(linked | others, 1) | dict.fromkeys([(1, 22), (1, 31), (INVALID_IMAGE, 24)], 0)
    assert label_conflicts(library.split("test")) == {
        "entailment_labels": {"pairs": 4, "against_cxc_or_eccv_caption": 2, "against_original_links": 1}
    }


def test_a_report_counts_the_contradicted_labels(tmp_path, make_run):
    library = World(tmp_path).write()
    report = ce.evaluate(make_run(library), "entailment/i2t", metrics=["entail_at_1"], data_dir=library)
    assert report.provenance.entailment_labels == label_conflicts(library.split("test"))["entailment_labels"]
    assert ("Entailment labels against the original links", "1") in Page(report).facts
    report = ce.evaluate(make_run(library), "coco_5k/i2t", metrics=["recall_at_1"], data_dir=library)
    assert report.provenance.entailment_labels == {}


def judged(number, sources, rules, rating=None, reverse=None, *, conflict=False):
    said = {"id": number, "sources": sources, "rules": rules, "rating": rating, "reverse_rating": reverse}
    return said | {"conflict": conflict, "invalid": number in (INVALID_CAPTION, INVALID_IMAGE)}


def test_retrieval(rows):
    found, left_out = rows("retrieval")
    by_query = {(row["direction"], row["query_id"]): row for row in found}
    assert len(by_query) == len(found)
    assert [(row["direction"], row["query_id"]) for row in found] == [
        *(("i2t", n) for n in World.captions),
        *((direction, n) for direction in ("t2i", "t2t") for n in (12, 11, 21, 22, 23, 24, 25, 31, INVALID_CAPTION)),
        ("i2i", 1),
        ("i2i", 2),
    ]
    link = (["coco"], [LINK])
    together = (["coco"], ["coco: captions of one image"])
    assert by_query["i2t", 1] == {
        "query_id": 1,
        "direction": "i2t",
        "query_caption": None,
        "query_file_name": N1,
        "query_invalid": False,
        "positives": [
            judged(12, ["coco", "cxc", "eccv"], [LINK, VERIFIED], 2.9, conflict=True),
            judged(11, ["coco", "cxc", "entailment"], [LINK, RATED], 5.0, conflict=True),
            judged(21, ["cxc"], [RATED], 3.0),
            judged(31, ["cxc", "eccv", "entailment"], [RATED, VERIFIED], 4.0, conflict=True),
        ],
        "negatives": [judged(22, ["entailment"], [])],
    }
    last = by_query["i2t", INVALID_IMAGE]
    assert last["query_invalid"]
    verified = [judged(number, ["eccv"], [VERIFIED]) for number in (11, 21)]
    assert last["positives"] == [*verified, judged(31, *link), judged(INVALID_CAPTION, *link)]
    assert last["negatives"] == [judged(24, ["cxc"], [], 1.5)]
    assert by_query["t2i", 21] == {
        "query_id": 21,
        "direction": "t2i",
        "query_caption": "text 21",
        "query_file_name": None,
        "query_invalid": False,
        "positives": [
            judged(1, ["cxc"], [RATED], 3.0),
            judged(2, ["coco", "eccv"], [LINK, VERIFIED]),
            judged(INVALID_IMAGE, ["eccv"], [VERIFIED]),
        ],
        "negatives": [],
    }
    of_image_3 = by_query["t2i", 11]["positives"][-1]  # verified for the image
    assert of_image_3 == judged(INVALID_IMAGE, ["eccv"], [VERIFIED])
    text = by_query["t2t", INVALID_CAPTION]
    rules = [*together[1], "cxc: sts >= 3"]
    assert text["query_invalid"]
    assert text["positives"] == [judged(31, ["coco", "cxc"], rules, None, 3.0)]
    assert by_query["i2i", 1]["positives"] == [judged(2, ["cxc"], ["cxc: sis >= 2.5"], 2.4, 2.6, conflict=True)]
    assert by_query["i2i", 1]["negatives"] == [judged(INVALID_IMAGE, ["cxc"], [], 1.0)]
    assert left_out == {
        "i2t: ECCV Caption positives outside the split's captions": 1,
        "t2i: ECCV Caption positives outside the split's captions": 1,
        "i2i: queries without a positive": 1,
    }
    strict, left_out = rows("retrieval", policy="strict")
    assert [row["id"] for row in strict[0]["positives"]] == [21]
    assert [row["id"] for row in strict[0]["negatives"]] == [12, 11, 22, 31]
    assert left_out["i2t: positives of one source that policy 'strict' denies"] == 3
