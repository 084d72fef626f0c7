"""The page of failures: verdicts that follow from the numbers, and nothing out of data that acts."""

import base64
import dataclasses
import hashlib
import itertools
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from explained_samples import alike, explanation_of, without_wordnet
from report_samples import Page

from cxc_eccv.demo.run import sample_images
from cxc_eccv.studies.explain.concepts import Box
from cxc_eccv.studies.explain.explanation import MEASURES, Explained, explain_failures
from cxc_eccv.studies.explain.page import (
    PER_CONCEPT,
    SHOWN,
    ShownConcept,
    _draw_boxes,
    judge_failures,
    render_explained,
    show_failures,
)
from cxc_eccv.tables import Cell, Table

pytestmark = pytest.mark.thorough

NASTY = "<script>alert('1')</script> \"quoted\" & {{ 7*7 }}"


@pytest.fixture(scope="module", autouse=True)
def _stand_ins():
    with pytest.MonkeyPatch.context() as patch:
        without_wordnet(patch)
        yield


@pytest.fixture(scope="module")
def explanation(sample_library):
    return explanation_of(sample_library)


@pytest.fixture(scope="module")
def page(explanation, sample_library):
    """With images."""
    return render_explained([explanation], sample_library, images=sample_images())


def numbers_of(rows):
    """Failures with these numbers; None where one is not defined."""
    names = ("concept_agreement_informed", *MEASURES)
    columns = {
        name: pa.array(values, pa.float64()) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    return Explained(None, pa.table({"query_id": range(len(rows)), **columns}), {})


def test_the_most_wrong_failure_comes_first():
    """By what the query mentions, then all concepts, then similarity, instances and sizes."""
    rows = [
        (1.0, 0.9, 0.5, 0.0, 0.0),
        (None, 0.0, 0.3, 0.0, None),  # the query mentions nothing: all concepts count
        (0.0, 0.2, 0.3, 0.0, 0.0),
        (0.0, 0.0, 0.3, 0.0, None),
        (0.0, 0.0, None, 0.0, None),  # nobody annotated anything that could be unlike
        (0.5, 0.5, 0.3, 2.0, 0.0),
        (0.5, 0.5, 0.3, 3.0, 0.0),
        (0.5, 0.5, 0.3, 3.0, 0.5),
        (1.0, 1.0, None, 0.0, 0.0),  # it lacks nothing
        (None, None, None, None, None),  # the right image shows nothing
        (1.0, 1.0, 0.9, 0.0, 0.0),
        (0.5, 0.5, 0.3, None, None),  # nobody counted
    ]
    shares, order = judge_failures(numbers_of(rows))
    assert order.tolist() == [1, 3, 4, 2, 7, 6, 5, 11, 0, 10, 8]
    assert np.isnan(shares[9])
    np.testing.assert_array_equal(np.delete(shares, 9), [1, 0, 0, 0, 0, 0.5, 0.5, 0.5, 1, 1, 0.5])


def test_kinds_are_those_of_a_plain_loop(explanation, sample_library):
    concepts = explanation.concepts
    for page in show_failures([explanation], sample_library):
        explained, found = explanation.directions[page.direction], {"far": 0, "partly": 0, "near": 0, None: 0}
        for row in explained.table.to_pylist():
            truth, shown = (concepts.images[row[name]].keys() for name in ("truth_id", "retrieved_id"))
            if not truth:
                found[None] += 1
                continue
            informed = row["concept_agreement_informed"]
            share = len(truth & shown) / len(truth) if informed is None else informed
            near = share == 1 and 2 * len(truth & shown) >= len(truth)
            found["near" if near else "partly" if share else "far"] += 1
        assert {group.kind: group.total for group in page.groups} | {None: page.unexplained} == found
        assert sum(found.values()) == page.failures == explained.table.num_rows
        assert all(len(group.cards) == min(SHOWN, group.total) for group in page.groups)


def test_concepts_of_a_card_are_those_of_its_numbers(explanation, sample_library):
    rows = {
        (direction, row["query_id"]): row
        for direction, explained in explanation.directions.items()
        for row in explained.table.to_pylist()
    }
    joined_somewhere = False
    for page in show_failures([explanation], sample_library):
        for card in (card for group in page.groups for card in group.cards):
            row = rows[page.direction, card.query_id]
            common = [one for one in card.rows if one.kind == "common"]
            joined = [one for one in card.rows if one.kind == "joined"]
            alone = [one for one in card.rows if one.kind == "alone"]
            assert len(common) == row["common_concepts"]
            assert len(joined) + sum(one.truth is not None for one in alone) == row["truth_only_concepts"]
            assert len(joined) + sum(one.retrieved is not None for one in alone) == row["retrieved_only_concepts"]
            differences = [abs(one.truth.instances - one.retrieved.instances) for one in common]
            assert sum(differences) == row["concept_enumeration"]
            if joined:
                joined_somewhere = True
                similarities = [float(one.similarity) for one in joined]
                assert np.mean(similarities) == pytest.approx(row["non_common_similarity"], abs=1e-3)
            informed = row["concept_agreement_informed"]
            asked = [one for one in card.rows if one.truth is not None and one.truth.mentioned]
            assert bool(asked) == (informed is not None)
            if asked:
                assert sum(one.kind == "common" for one in asked) / len(asked) == informed
    assert joined_somewhere


def test_boxes_lie_where_the_annotations_have_them(explanation, sample_library):
    (page,) = show_failures(
        [dataclasses.replace(explanation, directions={"t2i": explanation.directions["t2i"]})], sample_library
    )
    table = {row["query_id"]: row for row in explanation.directions["t2i"].table.to_pylist()}
    for card in (card for group in page.groups for card in group.cards):
        for image, name, shown in ((card.truth, "truth_id", "truth"), (card.retrieved, "retrieved_id", "retrieved")):
            boxes = explanation.concepts.boxes[table[card.query_id][name]]
            numbers = {getattr(row, shown).name: getattr(row, shown).number for row in card.rows if getattr(row, shown)}
            expected = {
                (
                    numbers[box.concept.partition(".")[0].replace("_", " ")],
                    f"left:{100 * box.x:.2f}%",
                    f"width:{100 * box.width:.2f}%",
                )
                for box in boxes
            }
            assert {(box.number, *box.style.split(";")[::2]) for box in image.boxes} == expected
            assert len(image.boxes) == len(boxes)
            assert sorted(box.number for box in image.boxes if box.numbered) == sorted(numbers.values())


def test_small_boxes_lie_above_large_ones():
    """The last drawn lies on top: a large box over a small one would hide it."""
    sides = {"whole": (1.0, 1.0), "tall": (0.1, 0.9), "wide": (0.95, 0.2), "small": (0.1, 0.1)}
    boxes = [Box("dog.n.01", name, 0, 0, *sides[name]) for name in ("small", "whole", "tall", "wide")]
    drawn = _draw_boxes(boxes, [("common", ShownConcept(1, "dog", "dog.n.01", 4, mentioned=True))])
    widths = [f"width:{100 * sides[name][0]:.2f}%" for name in ("whole", "wide", "tall", "small")]
    assert [box.style.split(";")[2] for box in drawn] == widths
    assert [box.numbered for box in drawn] == [True, False, False, False]


COLUMNS = ("query_ids", "truth_ids", "retrieved_ids", "item_ids", "rival_ids", "truth_ranks")


def first_of(failures, number):
    return dataclasses.replace(failures, **{name: getattr(failures, name)[:number] for name in COLUMNS})


def verdict_of(explanation, sample_library, monkeypatch, text, truth, retrieved):
    """The verdict on one failure of a query, right and retrieved image showing so many of these concepts."""
    monkeypatch.setattr(
        "cxc_eccv.studies.explain.page.caption_texts", lambda library, split, ids: pa.array([text] * len(ids))
    )
    one = first_of(explanation.directions["t2i"].failures, 1)
    images = {
        int(ids[0]): {name: np.full(size, area) for name, size in own.items()}
        for ids, own, area in ((one.truth_ids, truth, 0.1), (one.retrieved_ids, retrieved, 0.2))
    }
    concepts = dataclasses.replace(explanation.concepts, images=images, boxes={})
    explained = explain_failures(one, concepts, [text], similarity=alike)
    changed = dataclasses.replace(explanation, concepts=concepts, directions={"t2i": explained})
    (page,) = show_failures([changed], sample_library)
    (card,) = [card for group in page.groups for card in group.cards]
    return card.kind, card.verdict


@pytest.mark.parametrize(
    ("text", "truth", "retrieved", "kind", "verdict"),
    [
        (
            "a dog and a ball",
            {"dog.n.01": 1, "ball.n.01": 1, "tree.n.01": 1},
            {"dog.n.01": 1, "ball.n.01": 3},
            "near",
            "Near miss: it shows all that the query mentions (ball and dog); in all 2 of 3 concepts of the right "
            "image; common ones differ by 2 instances; sizes differ in 100.0% of the matches.",
        ),
        (
            "a dog",
            {"dog.n.01": 1, "ball.n.01": 1, "tree.n.01": 1},
            {"dog.n.01": 1},
            "partly",
            "Partly right: it shows all that the query mentions (dog); in all 1 of 3 concepts of the right image; "
            "sizes differ in 100.0% of the matches.",
        ),
        (
            "a dog and a ball",
            {"dog.n.01": 1, "ball.n.01": 1},
            {"dog.n.01": 1, "disc.n.01": 1},
            "partly",
            "Partly right: of what the query mentions it shows dog, but not ball; in the place of ball stands disc; "
            "sizes differ in 100.0% of the matches.",
        ),
        (
            "a dog",
            {"dog.n.01": 1, "ball.n.01": 1},
            {"cat.n.01": 1},
            "far",
            "Far off: it shows nothing that the query mentions (dog); in the place of dog stands cat.",
        ),
        ("a cat", {"dog.n.01": 2}, {"dog.n.01": 1}, "near", None),
        ("something", {"dog.n.01": 1}, {"cat.n.01": 1}, "far", None),
        ("a dog", {"dog.n.01": 1}, {}, "far", "Far off: the retrieved image shows no annotated concept."),
        (
            "something",
            {"dog.n.01": 1, "ball.n.01": 1},
            {"ball.n.01": 1},
            "partly",
            "Partly right: it shows 1 of 2 concepts of the right image; sizes differ in 100.0% of the matches.",
        ),
    ],
)
def test_one_sentence_says_whether_it_was_a_near_miss(
    text, truth, retrieved, kind, verdict, explanation, sample_library, monkeypatch
):
    found = verdict_of(explanation, sample_library, monkeypatch, text, truth, retrieved)
    assert found[0] == kind
    assert verdict is None or found[1] == verdict


def test_a_near_miss_of_another_colour_says_so(explanation, sample_library, monkeypatch):
    """The numbers know concepts alone; the captions of the retrieved image know more."""
    one = first_of(explanation.directions["t2i"].failures, 1)
    image = int(one.retrieved_ids[0])
    rows = sample_library.captions("test")
    texts = ["a red square" if owner == image else "nothing" for owner in rows["image_id"].to_pylist()]
    told = rows.set_column(rows.column_names.index("text"), "text", pa.array(texts))
    monkeypatch.setattr(type(sample_library), "captions", lambda library, split: told)
    square = {"square.n.01": 1}
    found = verdict_of(explanation, sample_library, monkeypatch, "a black square", square, square)
    assert found[0] == "near"
    assert "the query says “black square”, captions of the retrieved image say “red square”" in found[1]
    found = verdict_of(explanation, sample_library, monkeypatch, "a large square", square, square)
    assert "the query says “large square”, which no caption of the retrieved image says" in found[1]
    assert "says" not in verdict_of(explanation, sample_library, monkeypatch, "red square", square, square)[1]


def test_a_caption_that_begins_with_blanks_is_marked_at_its_words(explanation, sample_library, monkeypatch):
    spaced = pa.array(["  one circle. \n"])
    monkeypatch.setattr(
        "cxc_eccv.studies.explain.page.caption_texts", lambda library, split, ids: spaced.take([0] * len(ids))
    )
    (page, *_) = show_failures([explanation], sample_library, shown=1)
    card = page.groups[0].cards[0]
    assert card.query == (("one ", False), ("circle", True), (".", False))


def test_concepts_of_neither_image_are_not_marked(explanation, sample_library):
    """The vocabulary is of all images; a reader looks for the marked words among the concepts of these two."""
    for page in show_failures([explanation], sample_library):
        for card in (card for group in page.groups for card in group.cards):
            names = {one.name for row in card.rows for one in (row.truth, row.retrieved) if one is not None}
            assert {text for text, marked in card.query if marked} <= names


def test_the_query_is_marked_where_it_mentions_a_concept(explanation, sample_library):
    (page, *_) = show_failures([explanation], sample_library)
    content = sample_library.karpathy("test")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    marked = 0
    for card in (card for group in page.groups for card in group.cards):
        assert "".join(text for text, _ in card.query) == texts[card.query_id].strip()
        marked += sum(own for _, own in card.query)
    assert marked > 20


def test_markup_in_data_is_shown_as_text(explanation, sample_library, monkeypatch):
    def spoil(library, split, ids):
        return pa.array([NASTY] * len(ids))

    monkeypatch.setattr("cxc_eccv.studies.explain.page.caption_texts", spoil)
    monkeypatch.setattr("cxc_eccv.studies.explain.page.file_names", spoil)
    concepts = explanation.concepts
    images = {image: {f"{NASTY}.n.01": areas for areas in shown.values()} for image, shown in concepts.images.items()}
    boxes = {
        image: tuple(Box(f"{NASTY}.n.01", NASTY, 0.1, 0.1, 0.2, 0.2) for _ in own)
        for image, own in concepts.boxes.items()
    }
    spoilt = dataclasses.replace(
        explanation,
        model=NASTY,
        concepts=dataclasses.replace(concepts, images=images, boxes=boxes, source=NASTY),
        skipped={"t2t": NASTY},
        provenance={"command": NASTY, "run": {"file": NASTY}, "data": {"edition": NASTY}},
    )
    with pytest.warns(UserWarning, match="images shown are not below"):
        text = render_explained([spoilt], sample_library, images=sample_images())
    shown = Page(text)
    assert not shown.all("iframe")
    assert text.count("<script") == 1  # our own
    assert "alert('1')" not in text
    assert shown.all("h1")[0]["text"] == f"Failures of {NASTY}"
    assert "49" not in shown.all("h1")[0]["text"]
    assert any(NASTY in one["text"] for one in shown.all("mark", "span"))


def test_nothing_is_loaded_from_elsewhere(page):
    shown = Page(page)
    assert not shown.all("link", "iframe", "object", "embed")
    assert not re.search(r"https?://|url\(|@import", page)
    policy = next(one["attrs"]["content"] for one in shown.all("meta") if "http-equiv" in one["attrs"])
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert policy == f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    assert all(one["attrs"]["src"].startswith("data:image/jpeg;base64,") for one in shown.all("img"))


def test_structure_is_sound(page):
    shown = Page(page)
    for tag in ("header", "nav", "main", "footer", "h1"):
        assert len(shown.all(tag)) == 1
    levels = [int(one["tag"][1]) for one in shown.all("h1", "h2", "h3", "h4")]
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    ids = [one["attrs"]["id"] for one in shown.elements if "id" in one["attrs"]]
    assert len(ids) == len(set(ids))
    for one in shown.elements:
        wanted = one["attrs"].get("aria-labelledby", "").split()
        wanted += [one["attrs"]["href"][1:]] if one["tag"] == "a" else []
        assert set(wanted) <= set(ids)
    assert len(shown.all("table")) == len(shown.all("caption"))
    assert all("scope" in one["attrs"] for one in shown.all("th"))


def test_images_say_what_they_show(page, explanation):
    shown = Page(page)
    texts = [one["attrs"]["alt"] for one in shown.all("img")]
    assert len(texts) == 2 * len(shown.all("article"))
    assert all(
        re.fullmatch(r"(Right|Retrieved) image: (\d+ [\w ]+(, | and )?)+|.*no annotated concept", text)
        for text in texts
    )


def test_without_images_there_are_concepts_alone(explanation, sample_library):
    shown = Page(render_explained([explanation], sample_library))
    assert not shown.all("img", "figure")
    assert len([one for one in shown.all("table") if one["attrs"].get("class") == "concepts"]) == len(
        shown.all("article")
    )


def test_an_image_that_is_not_there_is_an_empty_frame(explanation, sample_library, tmp_path):
    with pytest.warns(UserWarning, match=r"\d+ of \d+ images shown are not below .*stand as empty frames"):
        text = render_explained([explanation], sample_library, images=tmp_path)
    assert "is not in the folder" in text
    assert "images are not in the folder of images and stand as empty frames" in text


def test_how_many_are_shown_of_how_many(explanation, sample_library):
    text = render_explained([explanation], sample_library, shown=2)
    told = re.findall(r"([\d,]+) of ([\d,]+) failures: [^<]*? The (\d+) most wrong of them follow", text)
    assert told
    assert all(shown == "2" and whole in ("300", "60") for _, whole, shown in told)
    assert re.search(r"2 of \d+ failures with a verdict, seed 0\.", text)
    assert len(Page(text).all("article")) <= 2 * 4 * 3


def test_the_random_sample_follows_the_seed(explanation, sample_library):
    one = dataclasses.replace(explanation, directions={"t2i": explanation.directions["t2i"]})
    drawn = []
    for seed in (0, 0, 1):
        (page,) = show_failures([one], sample_library, seed=seed)
        drawn.append([card.query_id for card in page.drawn.cards])
        assert page.drawn.total == page.failures - page.unexplained
        assert len(set(drawn[-1])) == SHOWN
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({card.kind for card in page.drawn.cards}) > 1


def test_the_search_finds_failures_of_every_concept_that_is_missing(explanation, sample_library):
    images = explanation.concepts.images
    for page in show_failures([explanation], sample_library, shown=1):
        failures = explanation.directions[page.direction].failures
        pairs = zip(failures.truth_ids.tolist(), failures.retrieved_ids.tolist(), strict=True)
        missing = Counter(name.partition(".")[0] for one, other in pairs for name in images[one].keys() - images[other])
        listed = Counter(name for one in page.listed for name in one.named.truth)
        assert {name: min(number, PER_CONCEPT) for name, number in missing.items()} == {
            name: min(number, PER_CONCEPT) for name, number in listed.items()
        }
        assert page.concept_names >= set(missing)


def test_the_page_has_the_tables_of_the_report(explanation, sample_library, monkeypatch):
    """Global table, other models and altered queries, as the Markdown has them."""
    given = []

    def make(*arguments):
        given.append(arguments)
        return [
            Table([("",), ("t2i",)], [["section"], ["size", Cell("41.7", interval="[40, 43]", strong=True)]], "All")
        ]

    monkeypatch.setattr("cxc_eccv.studies.explain.page.make_tables", make)
    paired, reranked = [object()], object()
    text = render_explained([explanation], sample_library, paired, reranked, shown=1)
    assert given == [([explanation], paired, reranked)]
    assert '<th scope="row">size</th><td><span class="value"><b>41.7</b></span> <span class="note">[40, 43]' in text


def test_several_models_have_sections_of_their_own(explanation, sample_library):
    other = dataclasses.replace(explanation, model="other")
    text = render_explained([explanation, other], sample_library, shown=1)
    headings = [one["text"] for one in Page(text).all("h2")]
    assert headings[3:-1] == [
        f"{model}, {way}" for model in ("ridge", "other") for way in ("text to image", "image to text", "text to text")
    ]


def test_categories_alone_have_no_instances_and_no_boxes(explanation, sample_library):
    concepts = explanation.concepts
    images = {image: dict.fromkeys(shown, np.empty(0)) for image, shown in concepts.images.items()}
    sets = dataclasses.replace(concepts, source="COCO categories", images=images, boxes={}, counted=False)
    text = render_explained(
        [explanation_of(sample_library, ["t2i"], concepts=sets)], sample_library, images=sample_images()
    )
    shown = Page(text)
    assert not [one for one in shown.all("span") if one["attrs"].get("class", "").startswith("box")]
    assert "\N{MULTIPLICATION SIGN}" not in shown.all("main")[0]["text"]
    numbers = [one for one in shown.all("table") if one["attrs"].get("class") == "numbers"]
    assert all(re.search(r"all concepts.*%.*——\n", one["text"], re.DOTALL) for one in numbers)


def test_no_failure_at_all(explanation, sample_library):
    none = first_of(explanation.directions["t2i"].failures, 0)
    empty = Explained(none, explanation.directions["t2i"].table.slice(0, 0), {})
    text = render_explained([dataclasses.replace(explanation, directions={"t2i": empty})], sample_library)
    assert "Text to image: none of 300 queries failed." in Page(text).all("main")[0]["text"]
