"""Check every Python that pyproject.toml names: ``python tools/check_versions.py [--only 3.13] [pytest arguments]``.

Each Python that is found, on the path or among those of pyenv, installs the extra ``test`` in a new environment and
runs the fast lane, without torch and without real data. The oldest also runs it with the oldest versions that
pyproject.toml allows. For Pythons that are not found, and for the one after the last, pip resolves every extra from
wheels alone, without installing it: what has no wheel yet is named. pip reads markers as those of the Python that runs
it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

from check import ROOT, count_tests
from check_core import copy_tree

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]
VERSION = re.compile(r"Programming Language :: Python :: (3\.\d+)")
OWN_EXTRAS = re.compile(r"cxc_eccv\[(.+)\]")
LOWER_BOUND = re.compile(r"([\w-]+)>=([\d.]+)")
LONGEST_ERROR = 200


def supported_versions() -> list[str]:
    """The Pythons of the classifiers.

    Example:
        >>> supported_versions()[0]
        '3.11'
    """
    found = map(VERSION.fullmatch, PROJECT["classifiers"])
    return [match[1] for match in found if match]


def next_version(version: str) -> str:
    """The Python after one.

    Example:
        >>> next_version("3.14")
        '3.15'
    """
    major, minor = version.split(".")
    return f"{major}.{int(minor) + 1}"


def find_python(version: str) -> str | None:
    """A Python on the path, or among those of pyenv; None where there is none that starts."""
    of_pyenv = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}"))
    for path in filter(None, [shutil.which(f"python{version}"), *map(str, of_pyenv)]):
        if subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            return path
    return None


def list_requirements(extras: Iterable[str] = ()) -> Iterator[str]:
    """What the package and some of its extras require, those that an extra takes from another too.

    Example:
        >>> [line for line in list_requirements(["mteb"]) if line.startswith(("torch", "numpy"))]
        ['numpy>=2,<3', 'torch>=2.4']
    """
    yield from PROJECT["dependencies"]
    for extra in extras:
        yield from _list_of_extra(extra)


def _list_of_extra(extra: str) -> Iterator[str]:
    for requirement in EXTRAS[extra]:
        own = OWN_EXTRAS.fullmatch(requirement)
        if own is None:
            yield requirement
        else:
            for name in own[1].split(","):
                yield from _list_of_extra(name)


def pin_oldest(requirements: Iterable[str]) -> list[str]:
    """Constraints that hold each requirement at its lower bound.

    Example:
        >>> pin_oldest(["numpy>=1.26,<3", "pooch", "huggingface_hub>=1.31,<3"])
        ['numpy==1.26', 'huggingface_hub==1.31']
    """
    bounds = filter(None, map(LOWER_BOUND.match, requirements))
    return [f"{name}=={version}" for name, version in (bound.groups() for bound in bounds)]


def run_lane(python: str, constraints: list[str], tests: list[str], folder: Path) -> tuple[int, str]:
    """The exit status of the fast lane in a new environment, and a sentence about it."""
    copy_tree(ROOT, folder / "tree")
    for kernel in (folder / "tree" / "cxc_eccv").glob("kernels/*.abi3.*"):
        kernel.unlink()  # each Python compiles its own
    (folder / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
    subprocess.run([python, "-m", "venv", "--upgrade-deps", folder / "environment"], check=True)
    own_python = folder / "environment" / ("Scripts" if os.name == "nt" else "bin") / "python"
    install = ["-m", "pip", "install", "--quiet", "--no-compile", "-e", ".[test]", "-c", folder / "constraints.txt"]
    environment = os.environ | {"CXC_ECCV_DATA": ""}
    started = time.perf_counter()
    report = folder / "tests.xml"
    for arguments in (install, ["-m", "pytest", "-q", f"--junit-xml={report}", *tests]):
        done = subprocess.run([own_python, *arguments], cwd=folder / "tree", env=environment, check=False)
        if done.returncode:
            break
    seconds = time.perf_counter() - started
    counts = count_tests(report) or "no test ran"
    return done.returncode, f"{counts}, {seconds:.0f} s{' FAILED' if done.returncode else ''}"


def resolve(python: str, version: str, requirements: Iterable[str]) -> str:
    """Why pip finds no wheels of these requirements for a version; empty if it does."""
    with tempfile.TemporaryDirectory() as folder:
        wanted = Path(folder, "requirements.txt")
        wanted.write_text("\n".join(requirements), encoding="utf-8")
        command = [python, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed", "--target", folder]
        command += ["--only-binary=:all:", "--python-version", version, "-r", str(wanted)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return (errors or ["ERROR: pip failed"])[0][:LONGEST_ERROR] if done.returncode else ""


def explain_wheels(python: str, version: str) -> tuple[bool, str]:
    """Whether all extras of a version resolve, and a sentence about it."""
    if not resolve(python, version, list_requirements(EXTRAS)):
        return True, "all extras resolve from wheels"
    reasons = {extra: resolve(python, version, list_requirements([extra])) for extra in EXTRAS}
    core = resolve(python, version, list_requirements())
    missing = [f"{extra} ({reason})" for extra, reason in reasons.items() if reason]
    there = [extra for extra, reason in reasons.items() if not reason]
    alone = f"the package does not resolve: {core}" if core else f"the package and {', '.join(there)} resolve"
    return False, f"{alone}; not {'; '.join(missing)}"


def main() -> int:
    """Run the lanes and resolve; the exit status is 1 if a Python that pyproject.toml names fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", action="append", metavar="VERSION", help="this Python, as 3.13 or oldest; repeatable")
    options, tests = parser.parse_known_args()
    versions = supported_versions()
    pythons = {version: find_python(version) for version in versions}
    lanes = {version: (path, list[str]()) for version, path in pythons.items() if path is not None}
    if (path := pythons[versions[0]]) is not None:
        lanes["oldest"] = path, pin_oldest(list_requirements())
    failed = False
    told = []
    for name, (path, constraints) in lanes.items():
        if not options.only or name in options.only:
            with tempfile.TemporaryDirectory() as folder:
                status, sentence = run_lane(path, constraints, tests, Path(folder))
            failed |= status != 0
            version = subprocess.run([path, "--version"], capture_output=True, text=True, check=True).stdout.strip()
            told.append(f"{version}{', oldest versions' if constraints else ''}: {sentence}")
    for version in [*(version for version in versions if version not in lanes), next_version(versions[-1])]:
        if not options.only or version in options.only:
            resolved, sentence = explain_wheels(sys.executable, version)
            failed |= not resolved and version in versions
            told.append(f"Python {version}: {sentence}")
    print("\n".join(["", *told]))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
