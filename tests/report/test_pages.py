"""The pages: nothing from elsewhere, everything out of data escaped, sound structure, readable colours."""

import dataclasses
import itertools
import re
from importlib import resources

import pytest
from report_samples import Page as Parsed

from cxc_eccv.registry import tasks
from cxc_eccv.report import Report
from cxc_eccv.report.example_table import EXAMPLES_SCHEMA, no_examples
from cxc_eccv.report.page_content import Page
from cxc_eccv.report.pages import render_html, render_markdown
from cxc_eccv.report.query_cards import example_cards
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance
from cxc_eccv.wording import COVERAGE, TIES

NASTY = "<script>alert('1')</script> \"quoted\" & |pipe| *star* `tick` [link](https://x.y) {{ 7*7 }}"
PIXEL = "data:image/jpeg;base64,AAAA"


@pytest.fixture(scope="module")
def html(sample_content):
    return render_html(Page(*sample_content))


@pytest.fixture(scope="module")
def page(html):
    return Parsed(html)


@pytest.fixture(scope="module")
def spoilt(sample_content):
    """The same with markup in every text that comes from data."""
    report, examples = sample_content
    rows = examples.to_pylist()
    for row in rows:
        row |= {"query_texts": [NASTY, NASTY], "item_texts": [NASTY], "query_file": NASTY, "item_file": NASTY}
    data = dataclasses.replace(report.provenance.data, edition=NASTY, files={NASTY: NASTY})
    changed = {"data": data, "model": NASTY, "command": NASTY, "others": {NASTY: NASTY}}
    provenance = dataclasses.replace(report.provenance, **changed)
    spoilt = dataclasses.replace(report, provenance=provenance, skipped={NASTY: NASTY})
    return Page(spoilt, type(examples).from_pylist(rows, schema=EXAMPLES_SCHEMA))


def test_markup_in_data_is_shown_as_text(spoilt, page):
    text = render_html(spoilt, {NASTY: PIXEL})
    shown = Parsed(text)
    assert not shown.all("script", "iframe")
    assert "<script" not in text
    assert "alert('1')" not in re.sub(r"&lt;script&gt;alert\(&#39;1&#39;\)&lt;/script&gt;", "", text)
    assert "49" not in shown.all("h1")[0]["text"]
    assert shown.all("h1")[0]["text"] == NASTY
    known = {name for one in page.elements for name in one["attrs"]} | {"src", "alt"}
    assert {name for one in shown.elements for name in one["attrs"]} <= known
    assert {one["attrs"]["alt"] for one in shown.all("img")} == {NASTY}


def test_markup_in_data_does_not_break_markdown(spoilt, sample_content):
    text = render_markdown(spoilt)
    outside_code = re.sub(r"`[^`\n]*`", "", text)
    assert "<script" not in outside_code
    assert r"\*star\*" in text
    assert r"\[link\]" in text
    cells = re.compile(r"(?<!\\)\|")
    spoilt_shape, shape = (
        {len(cells.findall(line)) for line in markdown.splitlines() if line.startswith("|")}
        for markdown in (text, render_markdown(Page(*sample_content)))
    )
    assert spoilt_shape == shape


def test_nothing_is_loaded_from_elsewhere(html, page):
    assert len(html.encode()) < 5_000_000
    assert not page.all("script", "link", "iframe", "object", "embed", "img")
    assert "url(" not in html
    assert "@import" not in html
    assert not re.search(r"https?://", html)
    policy = next(one["attrs"]["content"] for one in page.all("meta") if "http-equiv" in one["attrs"])
    assert policy == "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    assert {one["attrs"]["href"][0] for one in page.all("a")} == {"#"}


def test_page_structure_is_sound_with_a_language(page):
    page.assert_sound()
    assert page.all("html")[0]["attrs"]["lang"] == "en"
    assert page.all("a")[0]["attrs"]["href"] == "#main"


def test_tables_and_charts_speak(page):
    assert len(page.all("table")) >= 12
    for chart in page.all("svg"):
        attributes = chart["attrs"]
        hidden = attributes.get("aria-hidden") == "true"
        assert hidden or (attributes["role"] == "img" and (attributes.keys() & {"aria-label", "aria-labelledby"}))
    of_charts = [one for one in page.all("title") if "circle" not in one["within"]]
    assert len(of_charts) == 1 + len(page.all("desc")) > 1
    for scrolling in (one for one in page.all("div") if "scroll" in one["attrs"].get("class", "").split()):
        assert scrolling["attrs"]["tabindex"] == "0"
        assert scrolling["attrs"]["aria-label"]


def test_headline_has_main_metrics_and_recall_at_1(sample_content, page):
    """Fractions alone, as they share an axis; the tasks stand in the order of their cards."""
    headline = Page(*sample_content).headline
    scored = {(key.split("/")[0], key.rpartition("/")[2]) for key in sample_content[0].scores}
    wanted = [(name, label) for name, task in tasks().items() for label in (task.main_metric, "recall_at_1")]
    shown = [(task, metric) for task, metric, _ in headline]
    assert set(shown) == set(wanted) & scored
    assert [task for task, _ in shown] == sorted(task for task, _ in shown)
    shown = {row.key: row.value for _, _, rows in headline for row in rows}
    assert shown == {key: sample_content[0].scores[key] for key in shown}
    assert {"cxc/i2i/recall_at_1", "eccv_caption/t2i/map_at_r"} < set(shown)
    marks = [one["attrs"] for one in page.all("line", "circle") if one["attrs"].get("class") in ("whisker", None)]
    drawn = [
        float(mark[name][:-1]) for mark in marks for name in ("x1", "x2", "cx") if mark.get(name, "").endswith("%")
    ]
    expected = [100 * share for _, _, rows in headline for row in rows for share in (row.low, row.high, row.value)]
    assert drawn == pytest.approx(expected, abs=1e-3)
    rows = [one["text"].split() for one in page.all("th") if one["attrs"]["scope"] == "rowgroup"]
    main = rows.index(["ECCV", "Caption", "mAP@R"])
    assert rows[main + 1] == ["ECCV", "Caption", "R@1"]
    cards = [one["attrs"]["aria-labelledby"] for one in page.all("article") if "aria-labelledby" in one["attrs"]]
    assert cards == [f"task-{task}" for task in dict.fromkeys(task for task, _, _ in headline)]


def test_an_axis_is_for_fractions():
    """Tasks whose main metric is none have their recall at 1 alone."""
    recall, rank = (Result("coco_1k", "i2t", metric, 1.0, 2) for metric in ("recall_at_1", "median_rank"))
    whole = Result("coco_1k", "", "rsum", 412.0, 4)
    other = Result("of_next_year", "i2t", "recall_at_1", 0.5, 2)
    page = Page(Report((recall, rank, whole, other)))
    assert [(task, metric) for task, metric, _ in page.headline] == [
        ("coco_1k", "recall_at_1"),
        ("of_next_year", "recall_at_1"),
    ]
    assert "forest" not in render_html(Page(Report((rank, whole)))).partition("</style>")[2]


def test_ties_and_coverage_are_explained_beside_their_table(sample_content, page):
    markdown = render_markdown(Page(*sample_content)).partition("## Scores")[2]
    lead = next(one for one in page.all("ul") if one["attrs"].get("class") == "lead told")["text"]
    for text in (lead, markdown):
        assert TIES in text
        assert COVERAGE in text


def test_every_score_and_caveat_is_on_both_pages(sample_content, html):
    report, examples = sample_content
    page = html.partition("</style>")[2].replace("\N{NO-BREAK SPACE}", " ")
    for text, interval in ((page, "{} to {}"), (render_markdown(Page(report, examples)), "[{}, {}]")):
        for result in report.results:
            scale = 1 if result.metric in ("median_rank", "mean_rank", "rsum") else 100
            scale, decimals = (1, 3) if result.metric.startswith("bootstrap_spearman") else (scale, 1)
            sign = "± " if result.metric.endswith("_std") else ""
            assert f"{sign}{scale * result.value:.{decimals}f}" in text
            if result.low is not None:
                ends = (f"{scale * end:.{decimals}f}" for end in (result.low, result.high))
                assert interval.format(*ends) in text
        assert report.provenance.data.fingerprint in text
        for digest in report.provenance.data.files.values():
            assert digest in text
        assert "Entail@1 (unjudged: not entailed)" in text
    assert re.search(r"\d%", page)
    assert not re.search(r"\d\s%", page)


def test_colours_are_readable(html):
    """WCAG AA: 4.5 to 1 for text, 3 to 1 for what carries meaning in a chart."""
    css = resources.files("cxc_eccv.presentation").joinpath("templates/page.css").read_text()
    assert css in html
    blocks = re.findall(r":root \{(.*?)\n *\}", css, re.DOTALL)[:2]
    light, dark = (dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks)
    assert light.keys() == dark.keys()
    for colours in (light, dark):
        for ink in ("ink", "quiet", "link", "i2t", "t2i", "t2t", "i2i", "linked", "other", "rejected", "unjudged"):
            for ground in ("page", "surface", "sunken"):
                assert contrast(colours[ink], colours[ground]) >= 4.5, (ink, ground)
        for verdict in ("linked", "other"):
            for ink in (verdict, "ink", "quiet"):
                assert contrast(colours[ink], colours[f"{verdict}-soft"]) >= 4.5, (verdict, ink)
        for kind in ("coco", "cxc", "eccv", "wrong", *(f"bin{place}" for place in range(9))):
            assert contrast(colours[f"on-{kind}"], colours[kind]) >= 4.5, kind
        for mark in ("i2t", "t2i", "t2t", "i2i", "focus"):
            assert contrast(colours[mark], colours["surface"]) >= 3


def contrast(one, other):
    """Contrast ratio of two colours, WCAG 2.2."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(colour):
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return sum(weight * one for weight, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_images_have_alt_text_and_missing_ones_frames(sample_content):
    report, examples = sample_content
    files = sorted({row["item_file"] for row in examples.to_pylist() if row["item_file"]})
    text = render_html(Page(report, examples), dict.fromkeys(files[1:], PIXEL))
    shown = Parsed(text)
    assert shown.all("img")
    assert all(one["attrs"]["alt"] and one["attrs"]["src"] == PIXEL for one in shown.all("img"))
    assert "not in the folder" in text
    assert "1 of " in text


def test_query_shows_verdict_and_labels_of_items(sample_content, page):
    cards = example_cards(sample_content[1])
    items = [one for one in page.all("li") if one["attrs"].get("class") in ("linked", "other", "rejected", "unjudged")]
    expected = [item for card in cards for item in card.items]
    assert len(items) == len(expected) + 4  # and the legend
    for element, item in zip(items[4:], expected, strict=True):
        assert element["attrs"]["class"] == item.kind
        for text in (item.texts[0].strip(), item.verdict, *(badge.text for badge in item.badges)):
            assert text in element["text"]


def test_verdicts_in_words(sample_content):
    rows = sample_content[1].to_pylist()
    items = [item for card in example_cards(sample_content[1]) for item in card.items]
    for row, item in zip(rows, items, strict=True):
        assert (item.kind == "linked") == bool(row["coco"])
        assert (item.kind in ("linked", "other")) == row["positive"]
        assert (item.kind == "rejected") == (
            not row["positive"] and (row["cxc"] is False or row["entailment"] is False)
        )
    assert {item.kind for item in items} == {"linked", "other", "rejected", "unjudged"}


def test_page_says_when_queries_or_results_are_missing():
    rows = (Result("coco_5k", "i2t", "recall_at_1", 0.5, 9),)
    for results, told in ((rows, "Not scored"), ((), "No task could be scored")):
        skipped = {"cxc/i2t": "the run has no images"}
        page = Page(Report(results, skipped, Provenance(split="test")), no_examples("none were kept"))
        for text in (render_html(page), render_markdown(page)):
            assert "No query is shown: none were kept." in text
            assert "Recall over k" not in text
            assert "the run has no images" in text
            assert told.lower() in text.lower()


@pytest.mark.parametrize(
    "name",
    ["``` `` `", "a\n\n# b\n\n<script>x</script>", "a | b`", "\x1b[2J\u202eb\udcff.npz", " `a` "],
    ids=["fences", "blank-lines", "bar", "controls", "edges"],
)
def test_a_name_stays_in_its_code_span(name):
    """What Markdown makes of the command and the name of a run is that text, in one cell of one table."""
    from markdown_it import MarkdownIt

    from cxc_eccv.terminal import visible

    report = Report(
        (), {}, from_json(Provenance, {"split": "test", "command": f"cxc-eccv evaluate {name}", "run": {"file": name}})
    )
    text = render_markdown(Page(report, no_examples("none")))
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [token for token in tokens if token.type == "inline"]
    command = next(two for one, two in itertools.pairwise(inline) if one.content == "Command")
    shown = "".join(child.content.replace("&lt;", "<") for child in command.children if child.type != "html_inline")
    assert shown.split() == visible(f"cxc-eccv evaluate {name}").split()
    assert "<script>" not in text.replace("`" + visible(f"cxc-eccv evaluate {name}") + "`", "")
    assert [token for token in tokens if token.type == "heading_open" and token.tag == "h1"] == tokens[:1]
    page = Parsed(render_html(Page(report, no_examples("none"))))
    title = page.all("title")[0]["text"]
    assert "\n" not in title
    assert visible(name) in title
    assert page.all("script") == []


def test_pages_mark_judged_numbers_everywhere():
    judged = Result("entailment", "i2t", "entail_at_1", 0.9, 60, coverage=0.2, parameters={"unjudged": "classifier"})
    shown = Page(Report((judged, Result("coco_5k", "i2t", "recall_at_1", 0.5, 60))))
    page = Parsed(render_html(shown))
    markdown = render_markdown(shown)
    (headline,) = [table for table in page.all("table") if "Entail@1" in table["text"] and "R@1" in table["text"]]
    assert headline["text"].count("precision unknown") == 1
    assert sum(table["text"].count("precision unknown") for table in page.all("table")) == 2
    assert {one["attrs"]["href"] for one in page.all("a") if "precision" in one["text"]} == {"#judge"}
    (section,) = [one for one in page.all("section") if one["attrs"].get("id") == "judge"]
    assert "--number entailment/i2t/entail_at_1" in section["text"]
    assert "| judge | precision unknown |" in markdown.replace("  ", " ")
    assert "interval over images only" in markdown
