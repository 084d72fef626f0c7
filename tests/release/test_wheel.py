"""A wheel made here, and what it is in an empty environment of another Python where nothing can be compiled."""

import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.network,
    pytest.mark.skipif(sys.platform != "linux" or not shutil.which("cc"), reason="needs Linux and a C compiler"),
]

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
TRIED = """
import importlib.util
from pathlib import Path
import cxc_eccv as ce
from cxc_eccv import kernels
print(kernels.COMPILED, Path(ce.__file__).is_relative_to(Path.cwd()), importlib.util.find_spec("evaluate"))
"""
METRIC = """
import evaluate
import cxc_eccv as ce
print(evaluate.load(ce.metric("map_at_r")).compute(predictions=[[3, 1, 2]], references=[[3, 2]]))
"""


def make_environment(python, folder):
    """The Python of an empty environment."""
    subprocess.run([python, "-m", "venv", folder], check=True)
    return folder / "bin" / "python"


def install(python, *what):
    options = ["--quiet", "--disable-pip-version-check", "--only-binary", ":all:"]
    subprocess.run([python, "-m", "pip", "install", *options, *what], check=True)


def find_python(version):
    """Another Python on the path, or among those of pyenv; None where there is none that starts."""
    beside = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for path in filter(None, [shutil.which(f"python{version}"), *beside]):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The wheel and the sdist that tools/build_wheel.py makes."""
    python = make_environment(sys.executable, tmp_path_factory.mktemp("tools"))
    install(python, *EXTRAS["release"])
    folder = tmp_path_factory.mktemp("dist")
    subprocess.run([python, ROOT / "tools" / "build_wheel.py", "--output", folder], check=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, sdist


def test_wheel_fits_every_python_without_extra_files(built):
    """It is an abi3 wheel; the source archive has tests, tools and docs too."""
    wheel, sdist = built
    assert "-cp311-abi3-manylinux" in wheel.name
    names = [name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")]
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"cxc_eccv"}
    assert {Path(name).name for name in names if "dist-info/licenses/" in name} == {"LICENSE", "NOTICE"}
    data = ("py.typed", "kernels/_kernels.abi3.so", "sample/catalog.toml", "presentation/templates/page.css")
    assert {f"cxc_eccv/{name}" for name in (*data, "evaluate_modules/modules/map_at_r/map_at_r.py")} <= set(names)
    assert not [name for name in names if name.endswith((".c", ".pyc"))]
    with tarfile.open(sdist) as archive:
        inside = {name.split("/")[1] for name in archive.getnames() if "/" in name}
    assert {"cxc_eccv", "tests", "tools", "docs", "setup.py", "README.md", "CITATION.cff", "NOTICE"} <= inside


@pytest.mark.parametrize("version", ["3.12", "3.13", "3.14"])
def test_wheel_runs_on_another_python_without_compiler(built, version, tmp_path):
    other = find_python(version)
    if other is None:
        pytest.skip(f"no Python {version} on this machine")
    python = make_environment(other, tmp_path / "environment")
    install(python, str(built[0]))

    def run(*command):
        settings = {"PATH": "", "HOME": str(tmp_path), "HF_HUB_OFFLINE": "1"}
        done = subprocess.run(command, cwd=tmp_path, env=settings, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run(python, "-c", TRIED) == "True True None\n"
    assert "mAP@R" in run(python.parent / "cxc-eccv", "demo", "--output", "demo")
    assert any((tmp_path / "demo").iterdir())
    install(python, f"{built[0]}[metrics]")
    assert run(python, "-c", METRIC) == "{'map_at_r': 0.5}\n"
