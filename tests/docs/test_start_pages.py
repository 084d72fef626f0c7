"""What the pages of Start say is so: the demo's output, the keys to report, and the checks behind the numbers."""

import re

import pytest
from commands import run_lines
from pages import DOCS, ROOT, blocks_of

from cxc_eccv import registry

KEY = re.compile(r"`(?P<task>[a-z0-9_]+)/(?P<part>[a-z0-9]+)/(?P<metric>[a-z0-9_]+)`")
STANDARD_DEVIATION = "_std"


def keys_of(name):
    return [match.groups() for match in KEY.finditer((DOCS / name).read_text(encoding="utf-8"))]


def test_home_shows_what_demo_prints(workplace):
    command, shown, *_ = blocks_of(DOCS / "index.md")
    assert run_lines(command.text, None).startswith(shown.text)


@pytest.mark.parametrize("page", ["which_numbers.md", "why_different.md"])
def test_keys_of_page_are_reported(page):
    assert keys_of(page)
    for task, part, metric in keys_of(page):
        declared = registry.task(task)
        assert part in [one.name for one in declared.parts], (task, part)
        spec, _ = registry.metric_labelled(metric.removesuffix(STANDARD_DEVIATION))
        labels = set(declared.metrics)
        assert {spec.name, metric, re.sub(r"_\d+$", "_k", metric)} & labels, (task, metric)


def test_trust_page_names_tests_that_exist():
    page = (DOCS / "trust.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(tests/[\w/]+\.py)`", page))
    assert len(named) >= 8
    assert [path for path in named if not (ROOT / path).is_file()] == []
    values = re.search(r"N_VALUES = ([\d_]+)", (ROOT / "tests/reference/test_values_with_ties.py").read_text())[1]
    assert f"{int(values):,} values" in page


def test_trust_page_counts_values_of_libraries():
    rows = [line for line in (DOCS / "reference" / "conformance.md").read_text().splitlines() if line.startswith("| ")]
    table = [row for row in rows if not row.startswith("| metric")]
    assert f"{2 * len(table)} values of eight libraries" in (DOCS / "trust.md").read_text()
