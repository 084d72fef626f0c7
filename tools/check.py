"""Run every check and stop at the first failure: ``python tools/check.py [--only NAME] [pytest arguments]``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINT_IMPORTS = "import sys; from importlinter.cli import lint_imports_command as run; sys.exit(run())"


def checks(pytest_arguments: list[str]) -> dict[str, list[list[str]]]:
    """Name of each check to the arguments of the Python commands it runs, in the order they run.

    Args:
        pytest_arguments: passed on to pytest.

    Example:
        >>> list(checks([]))
        ['ruff', 'format', 'types', 'layers', 'generators', 'tests']
    """
    tools = ROOT / "tools"
    generators = [*sorted(tools.glob("make_*.py")), *sorted(tools.glob("generate_*.py"))]
    return {
        "ruff": [["-m", "ruff", "check", "."]],
        "format": [["-m", "ruff", "format", "--check", "."]],
        "types": [["-m", "mypy"]],
        "layers": [["-c", LINT_IMPORTS]],
        "generators": [[str(path.relative_to(ROOT)), "--check"] for path in generators],
        "tests": [["-m", "pytest", *pytest_arguments]],
    }


def run(name: str, commands: list[list[str]]) -> int:
    """Run one check under its heading; the exit status of the first command that fails, else 0."""
    print(f"\n=== {name} ===", flush=True)
    started = time.perf_counter()
    for arguments in commands:
        print(f"$ python {' '.join(arguments)}", flush=True)
        status = subprocess.run([sys.executable, *arguments], cwd=ROOT, check=False).returncode
        if status:
            print(f"\n=== {name} FAILED (exit status {status}) ===", flush=True)
            return status
    print(f"=== {name} passed in {time.perf_counter() - started:.1f} s ===", flush=True)
    return 0


def main() -> int:
    """Entry point; the exit status is that of the first check that fails."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--only", choices=list(checks([])), help="run this check alone")
    options, pytest_arguments = parser.parse_known_args()
    chosen = {name: commands for name, commands in checks(pytest_arguments).items() if options.only in (None, name)}
    for name, commands in chosen.items():
        status = run(name, commands)
        if status:
            return status
    print(f"\nAll checks passed: {', '.join(chosen)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
