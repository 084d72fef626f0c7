"""Check the core without its studies: ``python tools/check_core.py [--whole] [pytest arguments]``.

The tree is copied without the studies and their tests, and the commands of what is left must run. With ``--whole`` it
must also pass ruff, mypy, the contracts of its layers and all tests but the slow ones.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from check import FULL_STRENGTH, IN_PARALLEL, LINT_IMPORTS, ROOT

STUDIES = ("cxc_eccv/studies", "tests/studies", "tests/contracts/test_every_baseline.py")
WHOLE_HOUSE = ("tests/docs", "tests/release", "tools/generate_docs.py", "tools/site_pages")
"""The documentation and a release are of the core and its studies together."""
TOOLS_OF_STUDIES = (
    "tools/bench/encoding.py",
    "tools/bench/training.py",
    "tools/experiments",
    "tools/gpu.sh",
)
LEFT_OUT = (*STUDIES, *WHOLE_HOUSE, *TOOLS_OF_STUDIES)
CONTRACT = "[[tool.importlinter.contracts]]"
START = """
import sys
from cxc_eccv.cli.app import main
for command in sys.argv[1:]:
    print(f"$ cxc-eccv {command}", flush=True)
    sys.argv = ["cxc-eccv", *command.split()]
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
"""
"""Runs the commands that its arguments hold, one after the other in one process, which imports once."""
COMMANDS = (
    "demo --output out/demo",
    "build --data-dir sample --output out/built",
    "evaluate out/demo/ridge.npz --data-dir sample --output out/evaluated",
    "report out/evaluated",
    "compare out/demo out/evaluated",
)
OF_THE_CORE = ["-m", f"{FULL_STRENGTH[1]} and not studies"]


def copy_tree(root: Path, folder: Path, left_out: tuple[str, ...] = ()) -> None:
    """Copy what git knows of a checkout, and the compiled kernels, without some files and folders."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    )
    kernels = [str(path.relative_to(root)) for path in (root / "cxc_eccv").glob("kernels/*.abi3.*")]
    for name in [*filter(None, listed.stdout.split("\0")), *kernels]:
        if (root / name).is_file() and not any(name == part or name.startswith(f"{part}/") for part in left_out):
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, folder / name)


def copy_core(root: Path, folder: Path) -> None:
    """Copy a checkout without the studies."""
    copy_tree(root, folder, LEFT_OUT)
    settings = folder / "pyproject.toml"
    settings.write_text(drop_contracts(settings.read_text(encoding="utf-8")), encoding="utf-8")


def drop_contracts(settings: str) -> str:
    """The settings without the layering contracts that name a study.

    Example:
        >>> drop_contracts(f"first {CONTRACT} cxc_eccv.studies.asking {CONTRACT} cxc_eccv.ranking")
        'first [[tool.importlinter.contracts]] cxc_eccv.ranking'
    """
    head, *contracts = settings.split(CONTRACT)
    return CONTRACT.join([head, *(contract for contract in contracts if "cxc_eccv.studies" not in contract)])


def core_checks(tests: list[str], *, whole: bool) -> list[list[str]]:
    """Arguments of the Python commands to run in the copy, in their order."""
    commands = ["-c", START, *COMMANDS]
    if not whole:
        return [commands]
    return [
        ["-m", "ruff", "check", "."],
        ["-m", "ruff", "format", "--check", "."],
        ["-m", "mypy", "--cache-dir", str(ROOT / ".mypy_cache")],  # what the check of types has found of the same files
        ["-c", LINT_IMPORTS],
        commands,
        ["-m", "pytest", *IN_PARALLEL, *OF_THE_CORE, *tests],
    ]


def main() -> int:
    """Entry point; the exit status is that of the first command that fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--whole", action="store_true", help="run ruff, mypy and the tests too")
    options, pytest_arguments = parser.parse_known_args()
    if not (ROOT / ".git").exists():
        print("The core is not checked alone: this is no git checkout, which says what belongs to the tree.")
        return 0
    with tempfile.TemporaryDirectory() as folder:
        copy_core(ROOT, Path(folder))
        environment = os.environ | {"PYTHONPATH": folder}
        for arguments in core_checks(pytest_arguments, whole=options.whole):
            print(f"$ python {' '.join(arguments)}", flush=True)
            status = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment, check=False).returncode
            if status:
                return status
    return 0


if __name__ == "__main__":
    sys.exit(main())
