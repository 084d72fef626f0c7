"""What a release says of itself: its page, its addresses, its citation, its workflows, and the files it installs."""

import re
import shutil
import subprocess
import sys
import tomllib
from email import message_from_string
from pathlib import Path

import pytest
import yaml
from owner_addresses import ADDRESSES, REPOSITORY

from cxc_eccv import registry, version
from cxc_eccv.hub import DATASETS_ADDRESS

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
SUPPORTED = ["3.11", "3.12", "3.13", "3.14"]


@pytest.fixture(scope="module")
def build():
    """Needed by what reads pyproject.toml as a build does."""
    pytest.importorskip("setuptools", minversion="77", reason="setuptools is older than what the extra 'dev' brings")


@pytest.fixture(scope="module")
def metadata(build, tmp_path_factory):
    """What the registry is told once an owner has set the addresses."""
    return read_metadata(tmp_path_factory.mktemp("addressed"), ADDRESSES)


@pytest.fixture(scope="module")
def metadata_without_address(build, tmp_path_factory):
    """What it is told before that."""
    return read_metadata(tmp_path_factory.mktemp("unaddressed"), {})


def read_metadata(folder, addresses):
    """The metadata of a copy of the files that a build reads, with these addresses in place of ours."""
    for name in ("README.md", "setup.py", "LICENSE", "NOTICE", "cxc_eccv/version.py"):
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    settings = re.sub(r"\[project\.urls\]\n(.+\n)+", "", (ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    if addresses:
        settings += "\n[project.urls]\n" + "".join(f'{label} = "{url}"\n' for label, url in addresses.items())
    (folder / "pyproject.toml").write_text(settings, encoding="utf-8")
    code = "from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel('.')"
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    (found,) = folder.glob("*.dist-info/METADATA")
    return message_from_string(found.read_text(encoding="utf-8"))


def test_package_page_is_the_readme_with_absolute_links(metadata):
    page = metadata.get_payload()
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    start = f"{REPOSITORY}/"
    own = re.findall(rf"\]\({re.escape(start)}(blob|raw)/v{re.escape(version.__version__)}/([^)]+)\)", page)
    assert len(own) > 10
    assert all((ROOT / path).exists() for _, path in own)
    assert {path for kind, path in own if kind == "raw"} == {"docs/assets/report.png"}
    assert not re.findall(r"\]\((?!https://)[^)]*\)", page)
    assert re.sub(rf"{re.escape(start)}(blob|raw)/v[\d.]+/", "", page).strip() == readme.strip()
    assert metadata["Description-Content-Type"] == "text/markdown"


def test_page_without_address_has_no_dead_links(metadata_without_address):
    page = metadata_without_address.get_payload()
    assert metadata_without_address.get_all("Project-URL") is None
    assert "](" not in re.sub(r"\]\(https://[^)]*\)", "", page)
    assert "- **Start**: score a model, which numbers to report,\n" in page
    assert "![" not in page


def test_every_supported_python_and_system_is_named(metadata):
    told = metadata.get_all("Classifier")
    assert [
        name.rpartition(" ")[2] for name in told if name.startswith("Programming Language :: Python :: 3.")
    ] == SUPPORTED
    assert metadata["Requires-Python"] == f">={SUPPORTED[0]}"
    for start in ("Development Status ::", "Operating System :: POSIX", "Operating System :: MacOS"):
        assert any(name.startswith(start) for name in told), start
    assert {line.partition(",")[0] for line in metadata.get_all("Project-URL")} == set(ADDRESSES)


def test_addresses_are_those_of_the_project():
    """tools/generate_docs.py writes them; a benchmark is a dataset on the Hub."""
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    urls = PROJECT.get("urls", {})
    assert CITATION.get("repository-code") == site.get("repo_url") == urls.get("Repository")
    assert CITATION.get("url") == site.get("site_url") == urls.get("Documentation")
    assert urls.get("Benchmark", DATASETS_ADDRESS).startswith(DATASETS_ADDRESS)
    assert CITATION["version"] == version.__version__


@pytest.mark.parametrize(
    ("schema", "paths"), [("citation-file-format", [ROOT / "CITATION.cff"]), ("github-workflows", WORKFLOWS)]
)
def test_what_others_read_has_their_form(schema, paths):
    pytest.importorskip("check_jsonschema", reason="check-jsonschema is not installed; it comes with the extra 'dev'")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *paths]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_workflows_run_checks_and_publish_without_password():
    ci, release = (yaml.safe_load(path.read_text(encoding="utf-8")) for path in WORKFLOWS)
    assert ci["jobs"]["check"]["strategy"]["matrix"]["python"] == SUPPORTED
    assert ci["jobs"]["check"]["steps"][-1] == {"run": "bash .ci/run"}
    jobs = release["jobs"]
    assert jobs["publish"]["permissions"] == {"id-token": "write"}
    assert {jobs[name]["if"] for name in ("publish", "docs")} == {"github.ref_type == 'tag'"}
    assert jobs["publish"]["needs"] == ["sdist", "wheels"]
    upload = jobs["publish"]["steps"][-1]
    assert upload["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert upload["with"] == {"attestations": True}
    assert release["permissions"] == ci["permissions"] == {"contents": "read"}
    assert "secrets." not in "".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)


def test_wheels_are_tested_on_every_python():
    """The test of each wheel runs the compiled kernels."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["cibuildwheel"]
    assert settings["build"].split() == [f"cp{version.replace('.', '')}-*" for version in SUPPORTED]
    assert "kernels.COMPILED" in settings["test-command"]
    assert settings["test-environment"] == {"PIP_ONLY_BINARY": ":all:"}


@pytest.mark.usefixtures("build")
def test_package_installs_its_data_alone(tmp_path):
    command = [sys.executable, "setup.py", "-q", "build_py", "--build-lib", tmp_path]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert [path.name for path in tmp_path.iterdir()] == ["cxc_eccv"]
    package = tmp_path / "cxc_eccv"
    files = [path for path in (ROOT / "cxc_eccv").rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    missing = [path.name for path in files if not (tmp_path / path.relative_to(ROOT)).exists()]
    assert [name for name in missing if not name.endswith((".so", ".pyd"))] == ["_kernels.c"]
    assert (package / "py.typed").exists()
    assert sorted(path.name for path in (package / "evaluate_modules" / "modules").iterdir()) == list(
        registry.metric_functions()
    )


def test_wheel_script_names_missing_tools_before_starting(tmp_path):
    start = "runpy.run_path(sys.argv[0], run_name='__main__')"
    code = f"import runpy, sys; sys.modules['twine'] = None; del sys.argv[0]; {start}"
    command = [sys.executable, "-c", code, ROOT / "tools" / "build_wheel.py", "--output", tmp_path / "dist"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert re.search(r"twine.* not installed: pip install -e '\.\[release\]'\n$", done.stderr)
