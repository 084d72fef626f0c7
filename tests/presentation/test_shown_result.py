"""A result declares tables and facts; every form follows from them, and all pages from one template."""

import csv
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
from report_samples import Page

import cxc_eccv
from cxc_eccv.presentation import Section, ShownResult, list_facts
from cxc_eccv.tables import Cell, Table

PACKAGE = Path(cxc_eccv.__file__).parent
MARKUP = "<script>alert(1)</script>"


@dataclass(frozen=True, slots=True)
class Scores(ShownResult):
    """Two models, one of which has markup in its name."""

    name: str = "=clip"

    @property
    def title(self):
        return f"Scores of {self.name}"

    def tables(self):
        rows = [["COCO 5K"], [self.name, Cell("41.7", interval="[40.1, 43.2]", strong=True), "a word or two"]]
        header = [("",), ("R@1",), ("why",)]
        return [Table(header, rows, "Scores", notes=["In percent."], prose=frozenset({2}), data="test split")]

    def footnotes(self):
        return ["One task was left out."]

    def facts(self):
        return list_facts({"Command": "cxc-eccv x", "Model": self.name, "Run file, sha256": "ab12", "Seed": None})


class Recorded(Scores):
    """The same with a form as JSON, two sections and values for a program."""

    def record(self):
        return {"recall": 0.417}

    def records(self):
        return [{"model": self.name, "recall": 0.417}]

    def sections(self):
        return [Section("all", "All scores", self.tables(), "What they are.", "Scores"), Section("none", "Nothing")]


FORMS = {
    "console": str,
    "notebook": lambda result: result._repr_html_(),
    "Markdown": lambda result: result.to_markdown(),
    "LaTeX": lambda result: result.to_latex(),
    "CSV": lambda result: result.to_csv(),
    "page": lambda result: result.to_html(),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_has_the_numbers(form):
    text = FORMS[form](Scores())
    assert "41.7" in text
    assert "43.2" in text
    assert "a word or two" in text


@pytest.mark.parametrize("form", ["console", "notebook", "Markdown", "page"])
def test_footnotes_are_shown_once(form):
    assert FORMS[form](Scores()).count("One task was left out.") == 1


def test_printing_shows_what_str_returns(capsys):
    Scores().show()
    printed = "\n".join(line.rstrip() for line in capsys.readouterr().out.splitlines())
    assert printed.strip("\n") == str(Scores())


def test_csv_has_cells_under_their_headings():
    (row,) = csv.DictReader(Scores().to_csv().splitlines())
    assert row == {"table": "Scores", "": "'=clip", "R@1": "41.7 [40.1, 43.2]", "why": "a word or two"}


def test_unrounded_values_replace_the_cells():
    assert Recorded().to_csv() == "model,recall\n=clip,0.417\n"
    assert json.loads(Recorded().to_json()) == {"recall": 0.417}


def test_result_without_record_has_no_json():
    with pytest.raises(NotImplementedError, match="Scores has no form as JSON"):
        Scores().to_json()


def test_unknown_facts_are_left_out():
    assert [title for title, _ in Scores().facts()] == ["Command", "Model", "Run file, sha256"]


def test_page_has_sections_navigation_and_facts():
    page = Page(Recorded().to_html())
    page.assert_sound()
    assert [link["text"] for link in page.all("a")][1:] == ["Scores", "Nothing", "Origin"]
    assert [heading["text"] for heading in page.all("h2")] == ["All scores", "Nothing", "Data, versions, command"]
    assert [code["text"] for code in page.all("code")] == ["cxc-eccv x", "ab12"]
    assert [cell["text"] for cell in page.all("td") if cell["attrs"].get("class") == "prose"] == ["a word or two"]
    assert [cell["text"] for cell in page.all("b")] == ["41.7"]


@pytest.mark.parametrize("form", ["notebook", "Markdown", "page"])
def test_markup_in_data_stays_text(form):
    assert MARKUP not in FORMS[form](Scores(MARKUP))


def test_table_without_rows_keeps_its_title():
    class Empty(Scores):
        def tables(self):
            return [Table([], [], "Changes", "of models", notes=["No model was given."])]

    page = Page(Empty().to_html())
    assert [text["text"] for text in page.all("p")][1:3] == ["Changes: of models", "No model was given."]
    assert not page.all("table")


def test_pages_extend_one_template():
    pages = {path.name: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.html.jinja")}
    whole = {name for name, text in pages.items() if "<!doctype" in text}
    assert whole == {"page.html.jinja", "questionnaire.html.jinja"}
    assert len(pages) > 5
    for name in pages.keys() - whole:
        assert pages[name].startswith('{%- extends "page.html.jinja" -%}'), name


def test_notebook_form_is_defined_once():
    homes = [path for path in PACKAGE.rglob("*.py") if "def _repr_html_" in path.read_text(encoding="utf-8")]
    assert [path.name for path in homes] == ["shown_result.py"]
