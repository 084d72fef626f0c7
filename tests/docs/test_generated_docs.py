"""The generator of the documentation: what is committed is what it makes, and text by hand is kept."""

import contextlib
import io
import itertools
import shutil

import pytest
import yaml
from pages import ROOT, anchors_of, find_blocks

from cxc_eccv import registry
from cxc_eccv.errors import DataError
from cxc_eccv.metrics.families import FAMILIES, find_family

TOOL = ROOT / "tools" / "generate_docs.py"


@pytest.fixture(autouse=True)
def tools(monkeypatch):
    monkeypatch.syspath_prepend(str(TOOL.parent))
    monkeypatch.delenv("CXC_ECCV_DATA", raising=False)


@pytest.fixture
def copy(tmp_path):
    """What the generator reads and writes."""
    for name in ("docs", "dataset_cards"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("mkdocs.yml", "CITATION.cff", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools" / "site_pages").mkdir(parents=True)
    shutil.copy(ROOT / "tools" / "site_pages" / "task_sizes.json", tmp_path / "tools" / "site_pages")
    return tmp_path


@pytest.fixture
def generate(monkeypatch, capsys):
    """Exit status and messages of the generator."""
    import generate_docs

    def run(folder, *options):
        monkeypatch.setattr("sys.argv", [str(TOOL), "--root", str(folder), *options])
        try:
            generate_docs.main()
        except SystemExit as ended:
            return ended.code, capsys.readouterr().err
        return 0, capsys.readouterr().err

    return run


def stale(folder):
    """Files that the generator would change."""
    from site_pages.site import expected_files

    return {path: text for path, text in expected_files(folder).items() if (folder / path).read_text() != text}


def test_addresses_follow_those_of_the_project(copy, generate):
    project = copy / "pyproject.toml"
    project.write_text(f'{project.read_text()}\n[project.urls]\nRepository = "https://example.org/owner/us"\n')
    assert sorted(stale(copy)) == ["CITATION.cff", "mkdocs.yml"]
    assert generate(copy)[0] == 0
    assert yaml.safe_load((copy / "CITATION.cff").read_text())["repository-code"] == "https://example.org/owner/us"
    site = yaml.safe_load((copy / "mkdocs.yml").read_text())
    assert [site[key] for key in ("repo_url", "repo_name")] == ["https://example.org/owner/us", "owner/us"]
    assert "site_url" not in site


def test_edited_generated_part_is_found_and_restored(copy, generate):
    """What was written by hand on the page is kept."""
    page = copy / "docs" / "metrics" / "all_positives.md"
    before = page.read_text()
    page.write_text(before.replace("0 to 1; higher is better", "0 to 2").replace("The four cases", "Four cases"))
    status, said = generate(copy, "--check")
    assert (status, "docs/metrics/all_positives.md" in said, "tasks.md" in said) == (1, True, False)
    assert generate(copy)[0] == 0
    assert page.read_text() == before.replace("The four cases", "Four cases")
    assert stale(copy) == {}


def test_missing_metric_pages_are_generated_with_running_examples(copy, generate):
    from site_pages.new_metric_page import first_sections

    pages = {family: copy / "docs" / "metrics" / f"{family.name}.md" for family in FAMILIES}
    for page in pages.values():
        page.unlink()
    assert generate(copy)[0] == 0
    for name, spec in registry.metric_functions().items():
        text = pages[find_family(spec)].read_text()
        assert name in anchors_of(pages[find_family(spec)])
        assert first_sections(spec) in text
        formula, code, printed = find_blocks(first_sections(spec))
        assert (formula.language, code.language, printed.language) == ("text", "python", "text")
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            exec(code.text, {})
        assert out.getvalue() == printed.text
    assert stale(copy) == {}


def test_new_metric_is_appended_to_its_page(copy, generate):
    page = copy / "docs" / "metrics" / "first_positive.md"
    before = page.read_text()
    page.write_text(before.partition("\n<!-- generated: mrr_at_k -->")[0])
    assert generate(copy)[0] == 0
    assert page.read_text().startswith(before.partition("\n<!-- generated: mrr_at_k -->")[0])
    assert "## `mrr_at_k`" in page.read_text()


def test_pages_without_a_metric_or_comments_are_refused(copy, generate):
    """A page needs the comments that mark its generated parts."""
    gone = copy / "docs" / "metrics" / "gone.md"
    gone.write_text("# Gone\n")
    status, said = generate(copy)
    assert status == 2
    assert "gone.md describes what is not declared any more" in said
    gone.unlink()
    (copy / "docs" / "tasks.md").write_text("# Tasks\n")
    with pytest.raises(DataError, match=r"has the generated parts \[\], expected \['tasks'\]"):
        stale(copy)


def test_recorded_task_sizes_equal_the_real_data(real_library):
    from site_pages.task_sizes import computed_sizes, recorded_sizes

    recorded = recorded_sizes()
    assert computed_sizes(real_library, recorded) == recorded


def test_every_task_has_its_sizes():
    from site_pages.task_sizes import recorded_sizes

    sizes = recorded_sizes()
    for name, task in registry.tasks().items():
        if task.of_label_files:
            assert name not in sizes
            continue
        rows = {(row["split"], row["part"]) for row in sizes[name]}
        assert rows == set(itertools.product(task.splits, task.part_names))
