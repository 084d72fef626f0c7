"""Every fenced block of the documentation and the README runs, and prints what the page says."""

import contextlib
import io
import json
import shlex
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import pytest
import typer
import yaml
from commands import run_lines
from pages import DOCS, PAGES, ROOT, blocks_of, name_of

from cxc_eccv.cli.app import app

STATIC = {"text", "bibtex", "html"}
"""Shown, not run; a text block right after code is its output."""

PARSED = {"json": json.loads, "yaml": yaml.safe_load, "toml": tomllib.loads}
RUN = {"python", "diff", "sh"}

NOT_BUILT = {
    "docs/datasets/adversarial.md": "needs a tagger; tests/studies/explain/altering/test_config.py builds and loads it",
    "docs/datasets/flickr8k_human.md": "real data; tests/builders/test_judged_configs.py builds it",
}
"""Pages whose example loads what the sample alone does not give."""


RUN_AT_NIGHT = {DOCS / "reference" / "cli.md", DOCS / "training.md"}
"""Examples of every help text, which other pages and tests/cli run in other forms, and training, as tests/training
does; all are parsed by day."""


@pytest.mark.parametrize(
    "path", [pytest.param(path, marks=[pytest.mark.slow] * (path in RUN_AT_NIGHT)) for path in PAGES], ids=name_of
)
def test_the_blocks_of_a_page_run(path, request):
    languages = {block.language for block in blocks_of(path)}
    unknown = languages - STATIC - PARSED.keys() - RUN
    assert not unknown, f"{path}: languages {unknown} are neither run nor known to be shown only"
    if name_of(path) not in NOT_BUILT:
        if RUN & languages:
            request.getfixturevalue("workplace")
        run_page(path, request)


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_command_line_takes_the_commands_of_a_page(path):
    """Names of commands and options, and the types of their values; options of training are read by its parser."""
    for block in blocks_of(path):
        lines = block.text.replace("\\\n", " ").splitlines() if block.language == "sh" else []
        for line in lines:
            words = shlex.split(line, comments=True)
            if words[:1] == ["cxc-eccv"] and "&&" not in words and "|" not in words:
                parse_command(words[1:])


def parse_command(words):
    """Find the command in its groups, and parse its options without running it."""
    command = typer.main.get_command(app)
    program = typer.Context(command)
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words[0]]
        words = words[1:]
    command.make_context("cxc-eccv", list(words), parent=program)


def test_python_blocks_of_annotation_page_are_standalone():
    """Each block defines every name that it uses."""
    for block in blocks_of(DOCS / "annotation.md"):
        if block.language == "python":
            command = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "-"]
            found = subprocess.run(command, input=block.text, capture_output=True, text=True, check=False)
            assert not found.returncode, f"line {block.line}: {found.stdout}"


@pytest.mark.slow
def test_score_my_model_page_runs_on_official_data(official_workplace, request):
    """Noise stands in for the photographs, and a small random model for CLIP; all else is as on the page."""
    run_page(DOCS / "score_a_model.md", request)
    report = json.loads(Path("clip/report.json").read_text())
    assert report["provenance"]["data"]["edition"] == "official"
    assert "coco_1k/rsum" in report["scores"]
    assert Path("published/published.csv").is_file()


ON_OFFICIAL_DATA = {
    "load_labels": False,
    "compare": False,
    "own_labels": False,
    "annotation": False,
    "judges": False,
    "explain": False,
    "integrations": True,
}
"""Pages to whether models are needed, for which small random ones stand in."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ON_OFFICIAL_DATA)
def test_a_page_runs_on_official_data(name, official_workplace, wordnet, request):
    """What a page prints on the reader's own data, and that no id is the sample's."""
    run_page(DOCS / f"{name}.md", request, official=True, models=ON_OFFICIAL_DATA[name])


def run_page(path, request, *, official=False, models=True):
    """Run all blocks in their order, and compare what they print with the text below them."""
    names = {"__name__": "__page__"}
    printed = None
    for block in blocks_of(path):
        place = f"{name_of(path)}, line {block.line}"
        if block.language in PARSED:
            PARSED[block.language](block.text)
        elif block.language == "text" and printed is not None and (block.follows or (official and block.official)):
            assert block.text.split() == printed.split(), f"{place}: prints {printed}"
        printed = done(block, names, place, request, models) if block.language in RUN else None


def done(block, names, place, request, models=True):
    """What a block prints; None where that is not compared."""
    if block.language == "sh":
        printed = run_lines(block.text, lambda: request.getfixturevalue("local_hub"), models)
        return None if "demo" in block.text else printed
    text = added(block.text) if block.language == "diff" else block.text
    out = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(out):
        warnings.simplefilter("ignore")
        exec(compile(text, place, "exec"), names)
    return out.getvalue()


def added(text):
    """The new side of a diff, nothing for pieces of a file; the old side must be Python too."""
    pieces = text.split("@@\n")
    for piece in pieces:
        old_lines = [line[2:] for line in piece.splitlines() if not line.startswith("+")]
        if old_lines[0].startswith(" "):
            return ""  # a piece of a file, which the test of the recipe applies
        compile("\n".join(old_lines), "old side", "exec")
    return "\n".join(line[2:] for line in text.splitlines() if not line.startswith("-"))


def test_the_readme_and_all_pages_are_looked_at():
    assert PAGES[0] == ROOT / "README.md"
    assert sum(len(blocks_of(path)) for path in PAGES) > 100


def test_a_wrong_output_would_be_found(workplace, tmp_path, request):
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    first, second = blocks_of(page)
    assert second.follows
    assert done(first, {}, "page", request) == "2\n" != second.text
