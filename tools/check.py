"""Run every check and stop at the first failure: ``python tools/check.py [--only NAME] [pytest arguments]``.

Tests run in two processes; ``-n 0`` runs them in one. ``--only core`` runs all tests of the core without its studies,
where the check among the others runs the fast ones. The real data is the folder that CXC_ECCV_DATA names, else
``shared/data`` beside the checkout where it is there.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
MIRROR = ROOT.parent / "shared" / "data"
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"
IN_PARALLEL = ["-n", "2", "--dist", "loadfile"]
FULL_STRENGTH = ["-m", "not slow and not gpu and not network"]
"""Tests that pytest alone leaves out, the thorough ones, are run too."""


def checks(pytest_arguments: list[str]) -> dict[str, list[list[str]]]:
    """Name of each check to the arguments of the Python commands it runs, in the order they run.

    Args:
        pytest_arguments: passed on to pytest; they overrule ours.

    Example:
        >>> list(checks([]))
        ['ruff', 'format', 'types', 'layers', 'generators', 'core', 'tests']
    """
    tools = ROOT / "tools"
    generators = [*sorted(tools.glob("make_*.py")), *sorted(tools.glob("generate_*.py"))]
    return {
        "ruff": [["-m", "ruff", "check", "."]],
        "format": [["-m", "ruff", "format", "--check", "."]],
        "types": [["-m", "mypy"]],
        "layers": [["-c", LINT_IMPORTS]],
        "generators": [[str(path.relative_to(ROOT)), "--check"] for path in generators],
        "core": [["tools/check_core.py"]],
        "tests": [["-m", "pytest", *IN_PARALLEL, *FULL_STRENGTH, *pytest_arguments]],
    }


def choose_data(given: str, mirror: Path) -> tuple[str, str]:
    """The real data of the generators and the tests, and a sentence that says which it is.

    Args:
        given: what CXC_ECCV_DATA holds; a relative folder is meant from where the caller stands, ``sample`` is none.
        mirror: folder that is taken where nothing is given.

    Returns:
        The folder, or nothing where there is none.

    Example:
        >>> choose_data("sample", Path("no/such/folder"))
        ('', 'No real data, as CXC_ECCV_DATA is sample: tests that read it are skipped.')
    """
    if given == "sample":
        return "", "No real data, as CXC_ECCV_DATA is sample: tests that read it are skipped."
    if given:
        folder = str(Path(given).resolve())
        return folder, f"Real data: {folder}, which CXC_ECCV_DATA names."
    if mirror.is_dir():
        return str(mirror), f"Real data: {mirror}, as CXC_ECCV_DATA is unset."
    return "", f"No real data, as CXC_ECCV_DATA is unset and {mirror} is absent: tests that read it are skipped."


def count_tests(report: Path) -> str:
    """What pytest's JUnit report counts, in words; nothing where there is none.

    Example:
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     report = Path(folder) / "tests.xml"
        ...     _ = report.write_text('<testsuites><testsuite tests="9" skipped="2"/></testsuites>')
        ...     count_tests(report)
        '7 tests passed, 2 skipped'
    """
    if not report.is_file():
        return ""
    suites = ElementTree.parse(report).getroot().findall("testsuite")  # noqa: S314 -- our own file
    total, skipped = (sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "skipped"))
    return f"{total - skipped} tests passed, {skipped} skipped"


def run(name: str, commands: list[list[str]], environment: dict[str, str]) -> int:
    """Run one check under its heading; the exit status of the first command that fails, else 0."""
    print(f"\n=== {name} ===", flush=True)
    started = time.perf_counter()
    for arguments in commands:
        print(f"$ python {' '.join(arguments)}", flush=True)
        status = subprocess.run([sys.executable, *arguments], cwd=ROOT, env=environment, check=False).returncode
        if status:
            print(f"\n=== {name} FAILED (exit status {status}) ===", flush=True)
            return status
    print(f"=== {name} passed in {time.perf_counter() - started:.1f} s ===", flush=True)
    return 0


def main() -> int:
    """Entry point; the exit status is that of the first check that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", choices=list(checks([])), help="run this check alone")
    options, pytest_arguments = parser.parse_known_args()
    data, said = choose_data(os.environ.get("CXC_ECCV_DATA", ""), MIRROR)
    print(said)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        planned = checks([f"--junit-xml={report}", *pytest_arguments])
        if options.only == "core":
            planned["core"][0] += ["--all-tests", f"--junit-xml={report}", *pytest_arguments]
        chosen = {name: commands for name, commands in planned.items() if options.only in (None, name)}
        for name, commands in chosen.items():
            status = run(name, commands, os.environ | {"CXC_ECCV_DATA": data})
            if status:
                return status
        counted = count_tests(report)
    print(f"\nAll checks passed: {', '.join(chosen)}.{f' {counted}.' if counted else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
