"""The folder of a report: what is written, what is rebuilt, and what is refused."""

import base64
import json
import warnings
from dataclasses import replace
from io import BytesIO

import pyarrow.parquet as pq
import pytest
from PIL import Image
from report_samples import report_of_ranks

from cxc_eccv.errors import DataError, InvalidOption, MalformedSource
from cxc_eccv.evaluation import evaluate
from cxc_eccv.presentation.thumbnails import LONGEST_SIDE, thumbnail
from cxc_eccv.report import Report, saving
from cxc_eccv.report.best_ranks import best_ranks
from cxc_eccv.report.charts import curve_panels, line_chart
from cxc_eccv.report.loading import rebuild_pages
from cxc_eccv.report.saving import write_folder
from cxc_eccv.runs import RankingsRun
from cxc_eccv.sources.download import sample_images

pytestmark = pytest.mark.thorough

FILES = ["report.json", "per_query.parquet", "examples.parquet", "report.md", "report.html"]


def with_examples(report, examples):
    return replace(report, examples=examples)


@pytest.fixture
def folder(sample_content, tmp_path):
    write_folder(tmp_path / "out", with_examples(*sample_content))
    return tmp_path / "out"


def test_pages_are_rebuilt_from_the_folder_alone(folder):
    before = {name: (folder / name).read_bytes() for name in FILES}
    for name in ("report.md", "report.html"):
        (folder / name).unlink()
    assert [path.name for path in rebuild_pages(folder)] == ["report.md", "report.html"]
    assert {name: (folder / name).read_bytes() for name in FILES} == before
    path = folder / "report.json"  # laid out anew it is the same report
    path.write_text(json.dumps(json.loads(path.read_text()), indent=None, sort_keys=True))
    rebuild_pages(folder)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-20])


def drop_texts(path):
    pq.write_table(pq.read_table(path).drop_columns("item_texts"), path)


def write_text(text):
    return lambda path: path.write_text(text)


@pytest.mark.parametrize(
    ("name", "spoil", "message"),
    [
        ("report.json", lambda path: path.unlink(), "there is no .*evaluate --output"),
        *((name, lambda path: path.unlink(), f"lacks {name}.*evaluate --output") for name in FILES[1:3]),
        *((name, truncate, "no readable Parquet file") for name in FILES[1:3]),
        ("examples.parquet", drop_texts, "item_texts"),
        *(
            ("report.json", write_text(text), r"report\.json is not a report\.json of schema 1")
            for text in ("", "{}", "[1]", '{"schema": 2}')
        ),
    ],
)
def test_a_folder_that_is_not_whole_is_refused(folder, name, spoil, message):
    spoil(folder / name)
    with pytest.raises(DataError, match=message):
        rebuild_pages(folder)
    with pytest.raises(DataError, match=r"there is no .*absent"):
        rebuild_pages(folder / "absent")


@pytest.mark.parametrize("name", FILES[1:3])
def test_a_table_of_another_report_is_refused(folder, sample_content, tmp_path, name):
    report, examples = sample_content
    other = Report(report.results[1:], report.skipped, report.provenance, report.per_query)
    write_folder(tmp_path / "other", replace(other, examples=examples))
    (folder / name).write_bytes((tmp_path / "other" / name).read_bytes())
    with pytest.raises(DataError, match=rf"{name} does not belong to the report\.json beside it"):
        rebuild_pages(folder)


def test_report_is_never_written_without_requested_thumbnails(sample_content, tmp_path, monkeypatch):
    written = []
    render = saving.render_html
    monkeypatch.setattr(saving, "render_html", lambda page, uris=None: written.append(uris) or render(page, uris))
    write_folder(tmp_path / "out", with_examples(*sample_content), images=sample_images())
    assert [uris is not None for uris in written] == [True]


def test_user_folder_in_place_of_page_is_kept(folder, sample_content):
    (folder / "report.md").unlink()
    (folder / "report.md").mkdir()
    (folder / "report.md" / "mine").write_text("years of work")
    before = (folder / "report.json").read_bytes()
    for write in (lambda: write_folder(folder, with_examples(*sample_content)), lambda: rebuild_pages(folder)):
        with pytest.raises(InvalidOption, match=r"report\.md is a folder.*Move it away"):
            write()
    assert (folder / "report.md" / "mine").read_text() == "years of work"
    assert (folder / "report.json").read_bytes() == before


def test_images_that_are_not_there_are_counted(folder, tmp_path):
    images = tmp_path / "images"
    images.mkdir()
    with pytest.warns(UserWarning, match=r"0 of the 58 photographs shown found in .*images.*, the first COCO_val2014"):
        rebuild_pages(folder, images)
    page = (folder / "report.html").read_text()
    assert page.count("not in the folder</span>") > 58  # a frame wherever an image would stand
    assert "58 of 58 images are not in the folder of images" in page
    one = min(pq.read_table(folder / "examples.parquet")["item_file"].drop_null().to_pylist())
    (images / one).write_bytes((sample_images() / one).read_bytes())
    with pytest.warns(UserWarning, match="1 of the 58 photographs shown found"):
        rebuild_pages(folder, images)
    assert "data:image/jpeg;base64," in (folder / "report.html").read_text()
    with pytest.raises(InvalidOption, match="is not a folder"):
        rebuild_pages(folder, tmp_path / "absent")


def test_broken_image_is_named_and_report_written_without(sample_content, folder, tmp_path):
    """The folder has all its files, although the images fail."""
    name = min(pq.read_table(folder / "examples.parquet")["item_file"].drop_null().to_pylist())
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / name).write_bytes(b"\xff\xd8 no image")
    for make in (
        lambda: rebuild_pages(folder, tmp_path / "images"),
        lambda: write_folder(tmp_path / "new", with_examples(*sample_content), images=tmp_path / "images"),
    ):
        with pytest.raises(MalformedSource, match=name):
            make()
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == sorted(FILES)


def test_report_without_images_causes_no_warning(sample_content, tmp_path):
    report, examples = sample_content
    texts = examples.filter([direction == "t2t" for direction in examples["direction"].to_pylist()])
    write_folder(tmp_path / "out", replace(report, examples=texts))
    with warnings.catch_warnings(record=True) as warned:
        rebuild_pages(tmp_path / "out", sample_images())
    assert not warned


def test_a_thumbnail_is_small_and_upright(tmp_path):
    path = tmp_path / "turned.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by a quarter
    exif[0x010E] = "a private note"
    Image.new("RGB", (900, 300), "red").save(path, exif=exif)
    content = base64.b64decode(thumbnail(path.read_bytes()).partition(",")[2])
    with Image.open(BytesIO(content)) as small:
        assert small.size == (LONGEST_SIDE // 3, LONGEST_SIDE)
        assert small.format == "JPEG"
    assert b"private" not in content


def known_to(depth):
    """Provenance of rankings that are this deep."""
    return {} if depth is None else {"run": {"directions": {"i2t": {"shallowest": depth}}}}


@pytest.mark.parametrize("depth", [None, 0, 1, 2, 10])
@pytest.mark.parametrize("best", [{1: 1}, {1: None}, {1: 1, 2: None}, {1: 5000}, {1: 1, 2: 1, 3: 1}])
def test_few_ranks_and_equal_ones_make_a_page(tmp_path, depth, best):
    report = report_of_ranks({"coco_5k/i2t": best, "cxc/i2t": best}, **known_to(depth))
    assert [path.name for path in write_folder(tmp_path / "out", report)] == FILES


def test_single_depth_is_one_point_on_the_curve():
    report = report_of_ranks({"cxc/i2t": {1: 1, 2: None}}, **known_to(1))
    chart = line_chart("cxc", curve_panels(report, best_ranks(report)))
    assert chart.lines[0].points == "32.0,102.0"
    assert chart.lines[0].whiskers == ((32.0, 102.0, 102.0, 102.0),)
    assert chart.x_ticks == ((32.0, "1"),)


SHALLOW = {
    "a single item": lambda ids, place: [ids[place - 1]],
    "the query itself and one item": lambda ids, place: [ids[place], ids[place - 1]],
    "the query itself alone": lambda ids, place: [ids[place]],
    "the query itself alone, once": lambda ids, place: [ids[place]] if place == 0 else ids,
}


@pytest.mark.parametrize("kind", SHALLOW)
@pytest.mark.parametrize("direction", ["t2t", "i2i"])
def test_shallow_rankings_make_a_whole_folder(sample_library, tmp_path, kind, direction):
    content = sample_library.split("test")
    ids = (content.caption_ids if direction == "t2t" else content.image_ids).tolist()
    run = RankingsRun.from_dicts(**{direction: {query: SHALLOW[kind](ids, place) for place, query in enumerate(ids)}})
    report = check_folder(run, sample_library, tmp_path / "out")
    known = [one.depth for one in best_ranks(report).values()]
    assert set(known) <= {0 if "alone" in kind else 1}


def check_folder(run, library, folder, **options):
    """The report of a run, of which a whole folder was written."""
    report = evaluate(run, data_dir=library, per_query=True, progress=False, **options)
    write_folder(folder, report)
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    return report


def test_failed_page_keeps_the_old_report(folder, sample_content, monkeypatch):
    before = {name: (folder / name).read_bytes() for name in FILES}
    monkeypatch.setattr("cxc_eccv.report.saving.render_html", lambda *_: 1 / 0)
    report, examples = sample_content
    with pytest.raises(ZeroDivisionError):
        write_folder(folder, Report(report.results[1:], {}, report.provenance, examples=examples))
    with pytest.raises(ZeroDivisionError):
        rebuild_pages(folder)
    assert {name: (folder / name).read_bytes() for name in FILES} == before
    assert [path.name for path in folder.parent.iterdir()] == ["out"]
