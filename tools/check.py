"""Run every check and stop at the first failure: ``python tools/check.py [--only NAME] [pytest arguments]``.

Types, generators and the core without its studies are checked while the tests run; their output follows that of the
tests. Tests run in two processes; ``-n 0`` runs them in one. With ``--only core`` the check of the core also runs its
lint, types and tests. ``--only versions`` alone runs the fast lane in every Python that is found. The real data is the
folder CXC_ECCV_DATA, else ``shared/data`` beside the checkout.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import IO
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
MIRROR = ROOT.parent / "shared" / "data"
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"
IN_PARALLEL = ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
FULL_STRENGTH = ["-m", "not slow and not gpu and not network"]
"""Also runs the thorough tests, which plain pytest deselects."""
TOGETHER = ("types", "generators", "core", "tests")
"""Checks that run at the same time: the tests beside the others, which run one after the other."""
WHERE_NAMED = ("versions",)
"""Checks that run with ``--only`` alone, as they install environments."""

Checks = dict[str, list[list[str]]]
"""Name of each check to the arguments of its Python commands, in order."""


def checks(pytest_arguments: list[str]) -> Checks:
    """All checks.

    Args:
        pytest_arguments: passed to pytest after the defaults, which they override.

    Example:
        >>> list(checks([]))
        ['ruff', 'format', 'types', 'layers', 'generators', 'core', 'tests', 'versions']
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
        "versions": [["tools/check_versions.py"]],
    }


def choose_data(given: str, mirror: Path) -> tuple[str, str]:
    """The folder of real data for generators and tests, empty for none, and a sentence about it.

    Args:
        given: value of CXC_ECCV_DATA; relative folders are below the working directory, ``sample`` means none.
        mirror: default folder, used if it exists.

    Example:
        >>> choose_data("sample", Path("no/such/folder"))
        ('', 'No real data, as CXC_ECCV_DATA is sample: tests that read it are skipped.')
    """
    if given == "sample":
        return "", "No real data, as CXC_ECCV_DATA is sample: tests that read it are skipped."
    if given:
        folder = str(Path(given).resolve())
        return folder, f"Real data: {folder}, from CXC_ECCV_DATA."
    if mirror.is_dir():
        return str(mirror), f"Real data: {mirror}, as CXC_ECCV_DATA is unset."
    return "", f"No real data, as CXC_ECCV_DATA is unset and {mirror} is absent: tests that read it are skipped."


def count_tests(report: Path) -> str:
    """The counts of pytest's JUnit report in words; empty without a report.

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


def run(name: str, commands: list[list[str]], environment: dict[str, str], output: IO[str] | None = None) -> int:
    """Run a check under its heading; returns the exit status of the first command that fails, else 0."""
    print(f"\n=== {name} ===", file=output, flush=True)
    started = time.perf_counter()
    for arguments in commands:
        print(f"$ python {' '.join(arguments)}", file=output, flush=True)
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=ROOT, env=environment, stdout=output, stderr=output, check=False)
        if done.returncode:
            print(f"\n=== {name} FAILED (exit status {done.returncode}) ===", file=output, flush=True)
            return done.returncode
    print(f"=== {name} passed in {time.perf_counter() - started:.1f} s ===", file=output, flush=True)
    return 0


def run_all(chosen: Checks, environment: dict[str, str], output: IO[str] | None = None) -> int:
    """Run checks one after the other; returns the exit status of the first that fails, else 0."""
    return next(filter(None, (run(name, commands, environment, output) for name, commands in chosen.items())), 0)


def run_beside(tests: list[str], others: Checks, environment: dict[str, str], folder: Path) -> int:
    """Run the tests beside the other checks, which use one core; a failure of these ends the tests."""
    print(f"\n=== tests, and at the same time {', '.join(others)} ===", flush=True)
    print(f"$ python {' '.join(tests)}", flush=True)
    with (folder / "others.txt").open("w+", encoding="utf-8") as output, ThreadPoolExecutor(1) as thread:
        pytest = subprocess.Popen([sys.executable, *tests], cwd=ROOT, env=environment)
        done = thread.submit(run_all, others, environment, output)

        def end_tests(finished: Future[int]) -> None:
            if finished.result():
                pytest.terminate()

        done.add_done_callback(end_tests)
        status = pytest.wait()
        failed = done.result()
        output.seek(0)
        print(output.read())
    print("=== tests passed ===" if not status else f"=== tests FAILED (exit status {status}) ===", flush=True)
    return failed or status


def main() -> int:
    """Run the checks; returns the exit status of the first that fails, else 0."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--only", choices=list(checks([])), help="run only this check")
    options, pytest_arguments = parser.parse_known_args()
    data, sentence = choose_data(os.environ.get("CXC_ECCV_DATA", ""), MIRROR)
    print(sentence)
    # A hundred processes import the same, which none compiles again: pip did not, and this setting would forbid it.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment = kept | {"CXC_ECCV_DATA": data}
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "tests.xml"
        planned = checks([f"--junit-xml={report}", *pytest_arguments])
        if options.only == "core":
            planned["core"][0] += ["--whole", f"--junit-xml={report}", *pytest_arguments]
        if options.only == "versions":
            planned["versions"][0] += pytest_arguments
        if options.only:
            status = run(options.only, planned[options.only], environment)
        else:
            planned = {name: commands for name, commands in planned.items() if name not in WHERE_NAMED}
            status = run_all({name: planned[name] for name in planned if name not in TOGETHER}, environment)
            others = {name: planned[name] for name in TOGETHER if name != "tests"}
            status = status or run_beside(planned["tests"][0], others, environment, Path(folder))
        if status:
            return status
        counted = count_tests(report)
    passed = options.only or ", ".join(planned)
    print(f"\nAll checks passed: {passed}.{f' {counted}.' if counted else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
