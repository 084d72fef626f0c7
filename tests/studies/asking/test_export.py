"""Questions as they leave for every tool: whole, alike for all pairs, harmless, and with images that can be found."""

import base64
import csv
import json
import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest
from annotated_projects import page_data
from answer_tables import write_rows
from asked_samples import sample_sheets

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, SourceMissing
from cxc_eccv.sources.library import Library
from cxc_eccv.studies.asking.answer_files import read_answers
from cxc_eccv.studies.asking.formats import formats
from cxc_eccv.studies.asking.image_addresses import COCO, find_images
from cxc_eccv.studies.asking.questionnaire import Handout, Texts, describe_questions, page_texts
from cxc_eccv.studies.asking.questions import CANDIDATE, NEGATIVE, POSITIVE, Questionnaire
from cxc_eccv.studies.asking.schemes import schemes
from cxc_eccv.writing import WRITTEN_RECORD

HOSTILE = ("=cmd|' /C calc'!A0", "@SUM(1+1)", "+1", "-1", "'=1", "\uff1d1", '</script><b>&"]]>', "$image", "a, b; c")
IMAGE_SCHEMES = ("eccv", "cxc", "entailment")
FILES = {
    "html": {"questionnaire.html"},
    "jsonl": {"questions.jsonl", "instructions.md"},
    "csv": {"questions.csv", "instructions.md"},
    "label_studio": {"tasks.json", "labeling_config.xml"},
    "mturk": {"template.html", "hits.csv"},
}


@pytest.fixture(scope="module")
def sheets(sample_library):
    return sample_sheets(sample_library, 9, size=5)


@pytest.fixture
def hostile_sheets(sample_library, monkeypatch):
    texts = iter(HOSTILE * 1000)
    monkeypatch.setattr("cxc_eccv.studies.asking.questions._in_one_line", lambda _: next(texts))
    return sample_sheets(sample_library, 9, size=5)


def names_of(sheets):
    return {own.file_name for sheet in sheets for own in sheet}


def export(sheets, format_name, scheme_name, folder, *, only=None, handout=None):
    scheme = schemes()[scheme_name]
    addresses = {name: f"https://example.org/{name}" for name in names_of(sheets)}
    questions = describe_questions([Questionnaire(scheme, sheets)], addresses, only)
    paths = formats()[format_name].export(folder, questions, handout or Handout(scheme))
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def exported_rows(format_name, files):
    """What a tool is told of every pair."""
    if format_name == "html":
        return page_data(files["questionnaire.html"])["asked"]
    if format_name == "jsonl":
        return [json.loads(line) for line in files["questions.jsonl"].splitlines()]
    if format_name == "csv":
        return list(csv.DictReader(files["questions.csv"].splitlines()))
    if format_name == "mturk":
        hits = csv.DictReader(files["hits.csv"].splitlines())
        return [asked for hit in hits for asked in json.loads(base64.b64decode(hit["questions"]))["asked"]]
    return [task["data"] for task in json.loads(files["tasks.json"])]


@pytest.mark.parametrize("scheme_name", IMAGE_SCHEMES)
@pytest.mark.parametrize("format_name", formats())
def test_export_asks_every_question_without_its_role(sheets, tmp_path, format_name, scheme_name):
    files = export(sheets, format_name, scheme_name, tmp_path / "out")
    assert files.keys() == FILES[format_name]
    rows = exported_rows(format_name, files)
    asked = [own for sheet in sheets for own in sheet]
    assert [row["pair_id"] for row in rows] == [own.pair_id for own in asked]
    assert [int(row["caption_id"]) for row in rows] == [own.caption_id for own in asked]
    assert len({frozenset(row) for row in rows}) == 1
    assert ("captions" in rows[0]) is (scheme_name == "entailment")
    assert {own.role for own in asked} == {CANDIDATE, POSITIVE, NEGATIVE}
    told = json.dumps(rows)
    assert not [word for word in (CANDIDATE, POSITIVE, NEGATIVE, "role", "golden") if word in told]


@pytest.mark.parametrize("scheme_name", IMAGE_SCHEMES)
@pytest.mark.parametrize("format_name", ["jsonl", "csv"])
def test_filled_export_is_read_back(hostile_sheets, tmp_path, scheme_name, format_name):
    asked = [Questionnaire(schemes()[scheme_name], hostile_sheets)]
    said = {"eccv": "yes", "cxc": 5, "entailment": {"describes": True, "follows": True}}[scheme_name]
    rows = exported_rows(format_name, export(hostile_sheets, format_name, scheme_name, tmp_path))
    with pytest.raises(MalformedSource, match="found no answers"):
        read_answers([tmp_path / f"questions.{format_name}"], asked)
    cells = {"answer": said} if format_name == "jsonl" or scheme_name != "entailment" else dict.fromkeys(said, "Yes")
    path = write_rows(tmp_path / f"filled.{format_name}", [row | {"worker": "w", **cells} for row in rows])
    table = read_answers([path], asked).answers
    assert len(table) == sum(map(len, hostile_sheets))
    assert set(table["gain"]) == {1.0}


def test_spreadsheet_cells_are_never_formulas(hostile_sheets, tmp_path):
    """An id begins with a letter, so that a spreadsheet takes none for a number."""
    for scheme_name in IMAGE_SCHEMES:
        rows = exported_rows("csv", export(hostile_sheets, "csv", scheme_name, tmp_path))
        cells = [cell for row in rows for cell in row.values()]
        assert not [cell for cell in cells if cell.startswith(tuple("=+-@\t\r\uff1d\uff0b\uff0d\uff20"))]
        assert {row["caption"].removeprefix("'") for row in rows} <= set(HOSTILE)
        assert all(row["pair_id"][0].isalpha() and row["questionnaire"][0].isalpha() for row in rows)


def test_csv_needs_addresses_and_page_embeds_images_once(sheets, sample_library, tmp_path):
    images = find_images("sample", names_of(sheets), sample_library.split("test"))
    scheme = schemes()["cxc"]
    with pytest.raises(InvalidOption, match="give their addresses"):
        formats()["csv"].export(tmp_path, describe_questions([Questionnaire(scheme, sheets)], images), Handout(scheme))
    sheets = [[*sheet, *sheet] for sheet in sheets]
    shown = describe_questions([Questionnaire(scheme, sheets)], images)
    (page,) = formats()["html"].export(tmp_path, shown, Handout(scheme))
    text = page.read_text()
    assert [text.count(image) for image in images.values()] == [1] * len(images)


def test_hits_need_https_images_and_a_size_limit(sheets, tmp_path):
    """A HIT has at most 65,535 bytes."""

    def export_hits(address, **changes):
        questions = [[replace(own, **changes) for own in sheet] for sheet in sheets]
        addresses = dict.fromkeys(names_of(sheets), address)
        shown = describe_questions([Questionnaire(schemes()["eccv"], questions)], addresses)
        return formats()["mturk"].export(tmp_path, shown, Handout(schemes()["eccv"]))

    for address in ("http://example.org/a.jpg", "images/a.jpg", "data:image/png;base64,AA=="):
        with pytest.raises(InvalidOption, match="a HIT shows images from https addresses alone"):
            export_hits(address)
    with pytest.raises(InvalidOption, match="sheet 0 is larger than a HIT, which has 65,535 bytes"):
        export_hits("https://example.org/a.jpg", caption="long " * 1_000)
    paths = export_hits("https://example.org/a.jpg")
    assert sum(path.stat().st_size for path in paths) < 65_535


def test_no_text_ends_the_script_that_holds_it(hostile_sheets, tmp_path):
    page = export(hostile_sheets, "html", "entailment", tmp_path)["questionnaire.html"]
    assert page.count("</script>") == 2
    texts = {row["caption"] for row in exported_rows("html", {"questionnaire.html": page})}
    assert texts <= set(HOSTILE)


def test_scheme_labels_are_escaped_in_configuration(sheets, tmp_path, monkeypatch):
    scheme = schemes()["entailment"]
    monkeypatch.setitem(scheme.criteria, "describes", HOSTILE[6])
    files = export(sheets, "label_studio", "entailment", tmp_path)
    headers = [own.get("value") for own in ET.fromstring(files["labeling_config.xml"]).iter("Header")]
    assert HOSTILE[6] in headers


def test_details_are_shown_where_they_are_asked_for(sheets, tmp_path):
    """Conditions are parted by commas, which labels have; and stand on the choices too, or hidden ticks are sent."""
    files = export(sheets, "label_studio", "eccv", tmp_path)
    root = ET.fromstring(files["labeling_config.xml"])
    conditions = {
        own.get("name"): (own.get("visibleWhen"), own.get("whenTagName"), own.get("whenChoiceValue"))
        for own in root.iter("Choices")
    }
    assert conditions == {
        "answer": (None, None, None),
        "shortcomings": ("choice-selected", "answer", "partially_yes,mostly_no"),
        "errors": ("choice-selected", "shortcomings", "wrong_description"),
    }
    conditional = [own.get("whenTagName") for own in root.iter("View") if own.get("visibleWhen")]
    assert conditional == ["answer", "shortcomings"]
    asks = [own.name for own in schemes()["eccv"].answers if own.asks]
    assert conditions["shortcomings"][2].split(",") == asks
    assert [own.get("alias") for own in root.find(".//Choices")] == [own.name for own in schemes()["eccv"].answers]


def test_every_place_of_the_slider_is_taken(sheets, tmp_path):
    """Label Studio takes a number only where the rest of its division by the step is exactly 0."""
    files = export(sheets, "label_studio", "cxc", tmp_path)
    slider = ET.fromstring(files["labeling_config.xml"]).find(".//Number")
    step = float(slider.get("step"))
    places = [place * step for place in range(int(5 / step) + 1)]
    assert [place % step for place in places] == [0] * len(places)
    assert (places[-1], slider.get("min"), slider.get("max"), slider.get("slider")) == (5, "0", "5", "true")


def last_header(root):
    return list(root.iter("Header"))[-1].get("value")


@pytest.mark.parametrize("name", [name for name in schemes() if name != "cxc_captions"])
def test_sentence_and_question_stand_beside_the_image(sheets, tmp_path, name):
    scheme = schemes()[name]
    sheets = [[replace(own, other=own.other or own.file_name) for own in sheet] for sheet in sheets]
    root = ET.fromstring(export(sheets, "label_studio", name, tmp_path)["labeling_config.xml"])
    assert [child.tag for child in root] == ["Style", "Collapse", "View"]
    assert {root.find("Collapse/Panel").get("value"), last_header(root)} <= set(page_texts())
    *images, last = root[2]
    assert root[2].get("style") == "display: flex;"
    assert [[child.tag for child in column] for column in images] == [["Header", "Image"]] * sum(
        part.kind == "image" for part in scheme.shows
    )
    assert last.find("Image") is None
    assert len(last.findall("Text")) == sum(part.kind != "image" for part in scheme.shows)
    assert {header.get("value") for header in last.iter("Header")} >= {scheme.question}


def test_the_words_around_a_task_are_translated(sheets, tmp_path):
    words = {"Instructions and examples": "Anleitung", "Remark (optional)": "Bemerkung"}
    handout = Handout(schemes()["eccv"], Texts(page=words))
    files = export(sheets, "label_studio", "eccv", tmp_path, handout=handout)
    root = ET.fromstring(files["labeling_config.xml"])
    assert (root.find("Collapse/Panel").get("value"), last_header(root)) == ("Anleitung", "Bemerkung")


@pytest.mark.parametrize("name", ["cxc", "cxc_captions", "cxc_images"])
def test_a_slider_with_descriptions_shows_no_number(sheets, tmp_path, name):
    sheets = [[replace(own, other=own.other or own.file_name) for own in sheet] for sheet in sheets]
    root = ET.fromstring(export(sheets, "label_studio", name, tmp_path)["labeling_config.xml"])
    headers = [header.get("value") for header in root.iter("Header")]
    assert not [header for header in headers if re.search(r"\d", header)]
    marks = schemes()[name].marks
    assert [f"Left: {marks[0]}", *marks[1:-1], f"Right: {marks[-1]}"] == headers[headers.index(f"Left: {marks[0]}") :][
        :6
    ]
    (slider,) = (view for view in root.iter("View") if view.find("Number") is not None)
    assert f".{slider.get('className')} output {{ display: none; }}" in root.find("Style").text


def test_label_studio_takes_the_configuration_and_the_tasks(sheets, tmp_path):
    pytest.importorskip("label_studio_sdk")
    from label_studio_sdk.label_interface import LabelInterface

    for scheme_name in IMAGE_SCHEMES:
        files = export(sheets, "label_studio", scheme_name, tmp_path)
        interface = LabelInterface(files["labeling_config.xml"])
        interface.validate()
        assert all(interface.validate_task(task) for task in json.loads(files["tasks.json"]))


def test_chosen_sheets_keep_their_numbers(sheets, tmp_path):
    for format_name in formats():
        rows = exported_rows(format_name, export(sheets, format_name, "eccv", tmp_path / format_name, only=[1]))
        assert {int(row["sheet"]) for row in rows} == {1}
        assert [row["pair_id"] for row in rows] == [own.pair_id for own in sheets[1]]
    for only in ([2], [-1], []):
        with pytest.raises(InvalidOption, match="give numbers from 0 to 1"):
            export(sheets, "csv", "eccv", tmp_path, only=only)


def test_failed_export_leaves_the_folder_unchanged(sheets, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    export(sheets, "csv", "eccv", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before.keys() == FILES["csv"] | {"notes.txt", WRITTEN_RECORD}
    with pytest.raises(DataError, match="have no address"):
        describe_questions([Questionnaire(schemes()["cxc"], sheets)], {})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_instructions_name_every_answer_and_column(sheets, tmp_path):
    for scheme in map(schemes().get, IMAGE_SCHEMES):
        for format_name in ("csv", "jsonl"):
            files = export(sheets, format_name, scheme.name, tmp_path)
            text = files["instructions.md"]
            names = [own.name for own in (*scheme.answers, *scheme.details)] + list(scheme.criteria or ())
            names += [choice for own in scheme.details for choice in own.choices]
            assert [name for name in names if f"`{name}`" not in text] == []
            assert all(mark in text for mark in scheme.marks)


class TestImages:
    def test_an_official_address_is_that_of_its_folder(self, tmp_path, sheets, sample_library, monkeypatch):
        monkeypatch.setattr(Library, "edition", "official")
        found = find_images(COCO, names_of(sheets), sample_library.split("test"))
        assert found.keys() == names_of(sheets)
        for name, address in found.items():
            assert address == f"http://images.cocodataset.org/val2014/{name}"

    def test_images_of_another_edition_are_not_at_coco(self, sheets, sample_library):
        with pytest.raises(InvalidOption, match="COCO does not host the images of the edition 'sample'; give"):
            find_images(COCO, names_of(sheets), sample_library.split("test"))

    def test_a_pattern_may_hold_id_name_and_folder(self, sheets, sample_library):
        own = sheets[0][0]
        pattern = "https://example.org/{folder}/{image_id}/{file_name}"
        assert find_images(pattern, names_of(sheets), sample_library.split("test"))[own.file_name] == (
            f"https://example.org/val2014/{own.image_id}/{own.file_name}"
        )
        wide = find_images("{image_id:012d}.jpg", names_of(sheets), sample_library.split("test"))
        assert wide[own.file_name] == f"{own.image_id:012}.jpg"
        refused = ["images/{name}", "{folder}/a.jpg", "{file_name", "{0}", "{}"]
        refused += ["{file_name.__class__}", "{file_name:d}"]
        for pattern in refused:
            with pytest.raises(InvalidOption, match=r"pattern .*use \{file_name\} or \{image_id\}"):
                find_images(pattern, names_of(sheets), sample_library.split("test"))

    def test_images_of_a_folder_are_embedded_unchanged(self, sheets, sample_library):
        found = find_images("sample", names_of(sheets), sample_library.split("test"))
        for own in (own for sheet in sheets for own in sheet):
            kind, _, content = found[own.file_name].partition(";base64,")
            assert kind == "data:image/jpeg"
            assert base64.b64decode(content)[:2] == b"\xff\xd8"

    def test_missing_or_damaged_images_are_refused(self, tmp_path, sheets, sample_library):
        with pytest.raises(SourceMissing, match="give a folder with the images of all questions"):
            find_images(tmp_path, names_of(sheets), sample_library.split("test"))
        for own in (own for sheet in sheets for own in sheet):
            (tmp_path / own.file_name).write_bytes(b"<script>")
        with pytest.raises(MalformedSource, match="a complete image"):
            find_images(tmp_path, names_of(sheets), sample_library.split("test"))
        with pytest.raises(InvalidOption, match="is not a folder"):
            find_images(tmp_path / "none", names_of(sheets), sample_library.split("test"))
