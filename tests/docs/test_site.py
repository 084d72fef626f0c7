"""The site: every page is in the navigation, every link leads somewhere, and it builds strictly."""

import importlib.util
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from pages import DOCS, HEADING, PAGES, ROOT, anchors_of, blocks_of, find_blocks, links_of, name_of, prose_of

from cxc_eccv import registry
from cxc_eccv.metrics.families import find_family

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))


def targets(entry):
    """All pages of a part of the navigation."""
    if isinstance(entry, str):
        return [entry]
    return [page for part in (entry if isinstance(entry, list) else entry.values()) for page in targets(part)]


def test_the_navigation_names_every_page_once():
    named = targets(CONFIG["nav"])
    assert sorted(named) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_links_lead_somewhere(path):
    for link in links_of(path):
        if link.startswith(("https://", "http://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        assert target.exists(), f"{name_of(path)}: {link}"
        if path.is_relative_to(DOCS):
            assert target.is_relative_to(DOCS), f"{name_of(path)}: {link} is outside the site"
        if anchor:
            assert anchor in anchors_of(target), f"{name_of(path)}: {link}"


@pytest.mark.parametrize("task", registry.tasks().values(), ids=registry.tasks())
def test_every_task_has_a_section(task):
    """Links of the other pages lead there, as another test holds."""
    text = (DOCS / "tasks.md").read_text(encoding="utf-8")
    assert f"\n## `{task.name}`\n" in text


@pytest.mark.parametrize("name", registry.metric_functions())
def test_metric_section_has_formula_and_example(name):
    page = DOCS / "metrics" / f"{find_family(registry.metric(name)).name}.md"
    _, found, rest = page.read_text(encoding="utf-8").partition(f"\n## `{name}`\n")
    assert found
    section = rest.partition("\n## ")[0]
    first, *later = [block.language for block in find_blocks(section)]
    assert (first, later[:2]) == ("text", ["python", "text"])
    assert f"\n::: cxc_eccv.metrics.{name}.{name}\n" in section


INDENTED_CODE = re.compile(r"\n\n    [^-|\s].*")


@pytest.mark.parametrize("path", [DOCS / "ties.md", *sorted((DOCS / "metrics").glob("*.md"))], ids=name_of)
def test_formulas_stand_in_fences(path):
    assert not INDENTED_CODE.findall(prose_of(path))


@pytest.mark.parametrize("path", PAGES, ids=name_of)
def test_a_page_has_one_title(path):
    text = path.read_text(encoding="utf-8")
    titles = [match[0] for match in HEADING.finditer(prose_of(path)) if match[0].startswith("# ")]
    assert len(titles) == 1, f"{name_of(path)}: {titles}"
    assert "\t" not in text


def test_first_two_parts_have_few_pages():
    start, guides = CONFIG["nav"][:2]
    assert len(targets(start)) + len(targets(guides)) <= 15


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site, for slow tests: those above hold its navigation and links, test_generated_docs its pages."""
    folder = tmp_path_factory.mktemp("site")
    for package in ("mkdocs", "material", "mkdocstrings", "mkdocstrings_handlers"):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed; it comes with the extra 'docs'")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder
    shutil.rmtree(folder)


@pytest.mark.slow
def test_reference_shows_docstrings(site):
    assert "Score a run on tasks" in (site / "reference" / "python" / "index.html").read_text(encoding="utf-8")


@pytest.mark.slow
def test_page_loads_nothing_from_elsewhere(site, open_page):
    page = open_page("")
    page.goto((site / "leaderboard" / "index.html").as_uri())
    assert not [request.url for request in page.requests() if request.url.startswith("http")]
    links = page.evaluate("[...document.querySelectorAll('a')].map((link) => link.href)")
    repository = CONFIG.get("repo_url")
    sources = {repository, f"{repository}/raw/main/docs/leaderboard.md"} if repository else set()
    assert sources <= {link.rstrip("/") for link in links}
    assert bool(page.evaluate("document.querySelectorAll('.md-source').length")) == bool(repository)


COVERED = """[...document.querySelectorAll('.language-sh')].flatMap((block) => {
  const code = block.querySelector('code'), copy = block.querySelector('button').getBoundingClientRect();
  const text = document.createRange();
  text.selectNodeContents(code);
  const covers = (line) => line.right > copy.left && line.top < copy.bottom && line.bottom > copy.top;
  return code.scrollWidth > code.clientWidth || [...text.getClientRects()].some(covers) ? [code.innerText] : [];
})"""


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_commands_fit_beside_the_copy_button(site, open_page, width):
    page = open_page("", width)
    for name in targets(CONFIG["nav"][:2]):
        folder = name.removesuffix("index.md").removesuffix(".md")
        page.goto((site / folder / "index.html").as_uri())
        n_commands = sum(block.language == "sh" for block in blocks_of(DOCS / name))
        assert page.evaluate("document.querySelectorAll('.language-sh').length") == n_commands, name
        assert page.evaluate(COVERED) == [], name
        assert page.evaluate("document.documentElement.scrollWidth") == width, name
