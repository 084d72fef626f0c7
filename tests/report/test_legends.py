"""Legends are true in every form of a table: it explains bold only if it shows bold, and no file refers to itself."""

import ast
import io
import re
from decimal import ROUND_CEILING, Decimal
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from scored_reports import scored

import cxc_eccv as ce
from cxc_eccv.cli.compare import texts_of
from cxc_eccv.comparison import compare, join, measure_agreement, published_tables
from cxc_eccv.comparison.compared_models import ComparedModels
from cxc_eccv.report import Report
from cxc_eccv.types import Result
from cxc_eccv.types.json_records import from_json
from cxc_eccv.types.provenance import Provenance

PACKAGE = Path(ce.__file__).parent
LEGENDS = ("bold", "elsewhere")
"""Fields of tables, and names of texts for them, that some forms leave out."""

OF_SOME_FORMS = re.compile(r"\bin bold\b|With --output")
MARKS = {
    "compare.html": '<th scope="row" class="strong">|<span class="value"><b>',
    "compare.md": r"\| \*\*",
    "compare.tex": r"\\textbf",
    "terminal": r"\x1b\[1m(\d[\d.]*[ \x1b]|My model)",
    "notebook": r'font-weight: bold">(\d[\d.]*[ <]|My model)',
    "pipe": "(?!)",
}
KEYS = ("coco_5k/i2t/recall_at_1", "coco_5k/t2i/recall_at_1", "eccv_caption/i2t/map_at_r", "eccv_caption/t2i/map_at_r")


def score_models(number):
    """Models whose scores lie far apart, on 200 images."""
    random = np.random.default_rng(0)
    images = np.arange(200)
    return [
        scored(f"model-{place}", {key: (images, random.random(200) < share, images) for key in KEYS})
        for place, share in enumerate(np.linspace(0.2, 0.8, number))
    ]


def join_model():
    """A model among the published ones of every table."""
    facts = from_json(Provenance, {"split": "test", "data": {"edition": "official", "files": {}}})
    rows = [Result(*key.split("/"), value=0.5, n_queries=5000) for key in KEYS]
    return [join(paper, {"My model": Report(tuple(rows), {}, facts)}) for paper in published_tables()]


def write_forms(comparison, joined):
    """The text of each form by its name."""
    compared = ComparedModels(comparison, tuple(joined))
    terminal = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=400)
    compared.show(terminal)
    return {
        **{name: text for name, text in texts_of(compared).items() if name in MARKS},
        "terminal": terminal.file.getvalue(),
        "notebook": compared._repr_html_(),
        "pipe": str(compared),
    }


MADE = {
    "two models": lambda: (compare(*score_models(2), samples=1_000, progress=False), []),
    "three models": lambda: (compare(*score_models(3), samples=1_000, progress=False), []),
    "agreement": lambda: (measure_agreement(*score_models(4), samples=200, progress=False), []),
    "published": lambda: (None, join_model()),
}


@pytest.mark.parametrize("name", MADE)
def test_form_promises_what_it_shows(name):
    forms = write_forms(*MADE[name]())
    assert forms.keys() == MARKS.keys()
    for form, text in forms.items():
        if "in bold" in text:
            assert re.search(MARKS[form], text), form
    files = [text for form, text in forms.items() if form.startswith("compare")]
    assert not any("--output" in text for text in files)
    if name in ("agreement", "published"):
        assert [form for form, text in forms.items() if "in bold" not in text] == ["pipe"]
    if name != "agreement":
        assert "With --output, compare.html has" in forms["pipe"]


def find_texts(tree):
    """Each text outside docstrings, with the name of the field or variable that it is for."""
    names = {}
    for node in ast.walk(tree):
        name = node.arg if isinstance(node, ast.keyword) else None
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
        for text in ast.walk(node) if name else ():
            names[text] = name
    statements = [node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in statements:
            yield node.value, names.get(node)


def test_legends_of_some_forms_are_no_notes():
    """They are fields of a table, which each form shows or leaves out."""
    sources = {path: path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}
    trees = {path: ast.parse(source) for path, source in sources.items() if OF_SOME_FORMS.search(source)}
    texts = [
        (path.name, text) for path, tree in trees.items() for text, name in find_texts(tree) if name not in LEGENDS
    ]
    assert len(trees) > 3
    assert [text for text in texts if OF_SOME_FORMS.search(text[1])] == []


def weigh(css, *selectors):
    """The weight that the last of these rules sets."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", css)
    weights = {
        selector.strip(): found[1]
        for names, body in rules
        for selector in names.split(",")
        if (found := re.search(r"font-weight: (\d+)", body))
    }
    return int(next(weights[selector] for selector in reversed(selectors) if selector in weights))


def test_page_shows_marked_values_and_models_heavier():
    page = texts_of(ComparedModels(published=tuple(join_model())))["compare.html"]
    assert 'class="surface marked"' in page
    assert re.search(r'<th scope="row" class="strong">My model', page)
    css = page[page.index("<style>") : page.index("</style>")]
    plain_value = weigh(css, ".value", ".marked .value")
    plain_name = weigh(css, "tbody th")
    assert (plain_value, plain_name) == (400, 500)
    assert weigh(css, ".marked b") == weigh(css, ".marked .strong") == 700


@pytest.mark.parametrize(("samples", "shown"), [(200, "0.010"), (998, "0.003"), (10_000, "<0.001")])
def test_smallest_p_value_is_shown_as_upper_bound(samples, shown):
    least = Decimal(2) / (samples + 1)
    bound = least.quantize(Decimal("0.001"), ROUND_CEILING)
    assert shown in (f"{bound}", f"<{bound}")
    comparison = compare(*score_models(2), samples=samples, progress=False)
    table = comparison.all_tables()[0]
    column = table.headings.index("p")
    values = {str(row[column]) for row in table.rows if len(row) > 1}
    expected = shown if shown.startswith("<") else f"\N{LESS-THAN OR EQUAL TO}{shown}"
    assert values == {expected}
    (brief,) = comparison.tables()
    for legend in (brief.notes[-1], table.notes[-1]):
        told = f"\N{LESS-THAN OR EQUAL TO} the smallest p that {samples:,} samples allow"
        assert (told in legend) == any("\N{LESS-THAN OR EQUAL TO}" in str(cell) for row in table.rows for cell in row)
