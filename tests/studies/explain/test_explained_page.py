"""The page of failures: verdicts that follow from the numbers, and nothing out of data that acts."""

import base64
import dataclasses
import hashlib
import re
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from explained_samples import alike, explanation_of, without_wordnet
from report_samples import Page

from cxc_eccv.sources.download import sample_images
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.explain.concepts import Box
from cxc_eccv.studies.explain.explained_page import (
    PER_CONCEPT,
    SHOWN,
    ShownConcept,
    _draw_boxes,
    show_failures,
)
from cxc_eccv.studies.explain.failed_queries import MEASURES, Explained, explain_failures
from cxc_eccv.studies.explain.failure_kinds import judge_failures
from cxc_eccv.studies.explain.failure_report import FailureReport
from cxc_eccv.types.provenance import DataFacts, Provenance, RunFacts

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
def pages(explanation, sample_library):
    return show_failures([explanation])


@pytest.fixture(scope="module")
def page(explanation, sample_library):
    return FailureReport([explanation]).to_html(sample_images())


def cards_of(page):
    return [card for group in page.groups for card in group.cards]


def test_the_most_wrong_failure_comes_first():
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
    names = ("concept_agreement_informed", *MEASURES)
    columns = {
        name: pa.array(values, pa.float64()) for name, values in zip(names, zip(*rows, strict=True), strict=True)
    }
    shares, order = judge_failures(Explained(None, pa.table({"query_id": range(len(rows)), **columns}), {}))
    assert order.tolist() == [1, 3, 4, 2, 7, 6, 5, 11, 0, 10, 8]
    np.testing.assert_array_equal(shares, [1, 0, 0, 0, 0, 0.5, 0.5, 0.5, 1, np.nan, 1, 0.5])


def test_kinds_are_those_of_a_plain_loop(explanation, pages):
    concepts = explanation.concepts
    for page in pages:
        explained = explanation.directions[page.direction]
        found = {"far": 0, "partly": 0, "near": 0, None: 0}
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


def test_card_concepts_agree_with_its_numbers(explanation, pages):
    joined_somewhere = False
    for page in pages:
        rows = {row["query_id"]: row for row in explanation.directions[page.direction].table.to_pylist()}
        for card in cards_of(page):
            row = rows[card.failure.query_id]
            common, joined, alone = (
                [one for one in card.rows if one.kind == kind] for kind in ("common", "joined", "alone")
            )
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


def test_boxes_lie_where_the_annotations_have_them(explanation, pages):
    (page,) = (page for page in pages if page.direction == "t2i")
    table = {row["query_id"]: row for row in explanation.directions["t2i"].table.to_pylist()}
    for card in cards_of(page):
        for image, name, shown in ((card.truth, "truth_id", "truth"), (card.retrieved, "retrieved_id", "retrieved")):
            boxes = explanation.concepts.boxes[table[card.failure.query_id][name]]
            numbers = {
                getattr(row, shown).synset: getattr(row, shown).number for row in card.rows if getattr(row, shown)
            }
            drawn = [(box.number, *box.style.split(";")[::2]) for box in image.boxes]
            assert sorted(drawn) == sorted(
                (numbers[box.concept], f"left:{100 * box.x:.2f}%", f"width:{100 * box.width:.2f}%") for box in boxes
            )
            assert sorted(box.number for box in image.boxes if box.numbered) == sorted(numbers.values())


def test_small_boxes_lie_above_large_ones():
    """The last drawn lies on top: a large box over a small one would hide it."""
    sides = {"whole": (1.0, 1.0), "tall": (0.1, 0.9), "wide": (0.95, 0.2), "small": (0.1, 0.1)}
    boxes = [Box("dog.n.01", name, 0, 0, *sides[name]) for name in ("small", "whole", "tall", "wide")]
    drawn = _draw_boxes(boxes, [("common", ShownConcept(1, "dog", "dog.n.01", 4, mentioned=True))])
    widths = [f"width:{100 * sides[name][0]:.2f}%" for name in ("whole", "wide", "tall", "small")]
    assert [box.style.split(";")[2] for box in drawn] == widths
    assert [box.numbered for box in drawn] == [True, False, False, False]


def take(failures, number):
    return dataclasses.replace(failures, rows=failures.rows.iloc[:number], rival_ids=failures.rival_ids[:number])


@pytest.fixture
def judge(explanation, sample_library, monkeypatch):
    """Kind and verdict of a failure of a query, right and retrieved image showing so many of these concepts."""

    def show(text, truth, retrieved):
        monkeypatch.setattr(Split, "texts_of", lambda content, ids: pa.array([text] * len(ids)))
        failure = take(explanation.directions["t2i"].failures, 1)
        images = {
            int(ids[0]): {name: np.full(size, area) for name, size in of_image.items()}
            for ids, of_image, area in (
                (failure.rows["truth_id"], truth, 0.1),
                (failure.rows["retrieved_id"], retrieved, 0.2),
            )
        }
        concepts = dataclasses.replace(explanation.concepts, images=images, boxes={})
        explained = explain_failures(failure, concepts, [text], similarity=alike)
        changed = dataclasses.replace(explanation, concepts=concepts, directions={"t2i": explained}, **show.changes)
        (page,) = show_failures([changed])
        (card,) = cards_of(page)
        return card.failure.kind, card.verdict

    show.changes = {}
    return show


@pytest.mark.parametrize(
    ("text", "truth", "retrieved", "kind", "verdict"),
    [
        ("a dog and a ball", "dog ball tree", "dog ball ball ball", "near",
         "Near miss: it shows all concepts of the query (ball and dog); in all 2 of 3 concepts of the right image; "
         "common ones differ by 2 instances; sizes differ in 100.0% of the matches."),
        ("a dog", "dog ball tree", "dog", "partly",
         "Partly right: it shows all concepts of the query (dog); in all 1 of 3 concepts of the right image; sizes "
         "differ in 100.0% of the matches."),
        ("a dog and a ball", "dog ball", "dog disc", "partly",
         "Partly right: it shows dog of the query, but not ball; disc takes the place of ball; sizes differ in 100.0% "
         "of the matches."),
        ("a dog", "dog ball", "cat", "far",
         "Far off: it shows no concept of the query (dog); cat takes the place of dog."),
        ("a cat", "dog dog", "dog", "near", None),
        ("something", "dog", "cat", "far", None),
        ("a dog", "dog", "", "far", "Far off: the retrieved image shows no annotated concept."),
        ("something", "dog ball", "ball", "partly",
         "Partly right: it shows 1 of 2 concepts of the right image; sizes differ in 100.0% of the matches."),
    ],
)  # fmt: skip
def test_sentence_says_whether_it_is_a_near_miss(text, truth, retrieved, kind, verdict, judge):
    shown = (Counter(f"{name}.n.01" for name in image.split()) for image in (truth, retrieved))
    found = judge(text, *shown)
    assert found == (kind, verdict or found[1])


def test_near_miss_says_another_colour(explanation, monkeypatch, judge):
    image = int(explanation.directions["t2i"].failures.rows["retrieved_id"][0])
    rows = explanation.split.captions
    texts = ["a red square" if owner == image else "nothing" for owner in rows["image_id"].to_pylist()]
    captions = rows.set_column(rows.column_names.index("text"), "text", pa.array(texts))
    monkeypatch.setitem(judge.changes, "split", dataclasses.replace(explanation.split, captions=captions))
    square = {"square.n.01": 1}
    kind, verdict = judge("a black square", square, square)
    assert kind == "near"
    assert "the query says “black square”, but captions of the retrieved image say “red square”" in verdict
    verdict = judge("a large square", square, square)[1]
    assert "the query says “large square”, but no caption of the retrieved image does" in verdict
    assert "says" not in judge("red square", square, square)[1]


def test_caption_with_leading_blanks_is_marked_correctly(explanation, sample_library, monkeypatch):
    spaced = pa.array(["  one circle. \n"])
    monkeypatch.setattr(Split, "texts_of", lambda content, ids: spaced.take([0] * len(ids)))
    (page, *_) = show_failures([explanation], shown=1)
    assert cards_of(page)[0].marked == [("one ", False), ("circle", True), (".", False)]


def test_query_marks_the_concepts_it_mentions(pages, sample_library):
    content = sample_library.split("test")
    texts = dict(zip(content.caption_ids.tolist(), content.captions["text"].to_pylist(), strict=True))
    marked = 0
    for page in pages:
        for card in cards_of(page):
            names = {one.name for row in card.rows for one in (row.truth, row.retrieved) if one is not None}
            assert {text for text, is_marked in card.marked if is_marked} <= names
            assert "".join(text for text, _ in card.marked) == texts.get(card.failure.query_id, "").strip()
            marked += sum(is_marked for _, is_marked in card.marked)
    assert marked > 20


def test_markup_in_data_is_shown_as_text(explanation, sample_library, monkeypatch):
    def spoil(content, ids):
        return pa.array([NASTY] * len(ids))

    monkeypatch.setattr(Split, "texts_of", spoil)
    monkeypatch.setattr(Split, "files_of", spoil)
    concepts = explanation.concepts
    images = {image: {f"{NASTY}.n.01": areas for areas in shown.values()} for image, shown in concepts.images.items()}
    box = Box(f"{NASTY}.n.01", NASTY, 0.1, 0.1, 0.2, 0.2)
    boxes = {image: (box,) * len(shown) for image, shown in concepts.boxes.items()}
    spoilt = dataclasses.replace(
        explanation,
        model=NASTY,
        concepts=dataclasses.replace(concepts, images=images, boxes=boxes, source=NASTY),
        skipped={"t2t": NASTY},
        provenance=Provenance(command=NASTY, run=RunFacts(file=NASTY), data=DataFacts(edition=NASTY)),
    )
    with pytest.warns(UserWarning, match="photographs shown found in"):
        text = FailureReport([spoilt]).to_html(sample_images())
    shown = Page(text)
    assert not shown.all("iframe")
    assert text.count("<script") == 1  # our own
    assert "alert('1')" not in text
    assert shown.all("h1")[0]["text"] == f"Failures of {NASTY}"
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


def test_page_structure_is_sound_with_described_images(page):
    shown = Page(page)
    shown.assert_sound()
    texts = [one["attrs"]["alt"] for one in shown.all("img")]
    assert len(texts) == 2 * len(shown.all("article"))
    described = r"(Right|Retrieved) image: (\d+ [\w ]+(, | and )?)+|.*no annotated concept"
    assert all(re.fullmatch(described, text) for text in texts)


def test_without_images_there_are_concepts_alone(explanation, sample_library):
    shown = Page(FailureReport([explanation]).to_html())
    assert not shown.all("img", "figure")
    tables = [one for one in shown.all("table") if one["attrs"].get("class") == "concepts"]
    assert len(tables) == len(shown.all("article"))


def test_missing_image_is_an_empty_frame(explanation, sample_library, tmp_path):
    with pytest.warns(UserWarning, match=r"\d+ of the \d+ photographs shown found in .*has empty frames"):
        text = FailureReport([explanation]).to_html(tmp_path)
    assert "is not in the folder" in text
    assert "images are not in the folder of images; their frames are empty" in text


def test_how_many_are_shown_of_how_many(explanation, sample_library):
    text = FailureReport([explanation], shown=2).to_html()
    counts = re.findall(r"([\d,]+) of ([\d,]+) failures: [^<]*? The (\d+) worst of them follow", text)
    assert counts
    assert all(shown == "2" and whole in ("300", "60") for _, whole, shown in counts)
    assert re.search(r"2 of \d+ failures with a verdict, seed 0\.", text)
    assert len(Page(text).all("article")) <= 2 * 4 * 3


def test_the_random_sample_follows_the_seed(explanation, sample_library):
    captions = dataclasses.replace(explanation, directions={"t2i": explanation.directions["t2i"]})
    drawn = []
    for seed in (0, 0, 1):
        (page,) = show_failures([captions], seed=seed)
        drawn.append([card.failure.query_id for card in page.drawn.cards])
        assert page.drawn.total == page.failures - page.unexplained
        assert len(set(drawn[-1])) == SHOWN
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({card.failure.kind for card in page.drawn.cards}) > 1


def test_search_finds_failures_of_every_missing_concept(explanation, sample_library):
    images = explanation.concepts.images
    for page in show_failures([explanation], shown=1):
        failures = explanation.directions[page.direction].failures
        pairs = zip(failures.rows["truth_id"].tolist(), failures.rows["retrieved_id"].tolist(), strict=True)
        missing = Counter(name.partition(".")[0] for one, other in pairs for name in images[one].keys() - images[other])
        listed = Counter(name for failure in page.listed for name in failure.truth)
        assert {name: min(number, PER_CONCEPT) for name, number in missing.items()} == {
            name: min(number, PER_CONCEPT) for name, number in listed.items()
        }
        assert page.concept_names >= set(missing)


def test_categories_alone_have_no_instances_and_no_boxes(explanation, sample_library):
    concepts = explanation.concepts
    images = {image: dict.fromkeys(shown, np.empty(0)) for image, shown in concepts.images.items()}
    sets = dataclasses.replace(concepts, source="COCO categories", images=images, boxes={}, counted=False)
    explanation = explanation_of(sample_library, ["t2i"], concepts=sets)
    shown = Page(FailureReport([explanation]).to_html(sample_images()))
    assert not [one for one in shown.all("span") if one["attrs"].get("class", "").startswith("box")]
    assert "\N{MULTIPLICATION SIGN}" not in shown.all("main")[0]["text"]
    numbers = [one for one in shown.all("table") if one["attrs"].get("class") == "numbers"]
    assert all(re.search(r"all concepts.*%.*——\n", one["text"], re.DOTALL) for one in numbers)


def test_no_failure_at_all(explanation, sample_library):
    none = take(explanation.directions["t2i"].failures, 0)
    empty = Explained(none, explanation.directions["t2i"].table.slice(0, 0), {})
    text = FailureReport([dataclasses.replace(explanation, directions={"t2i": empty})]).to_html()
    assert "Text to image: none of 300 queries failed." in Page(text).all("main")[0]["text"]
