"""Builds the sdist and wheel of a release on this platform: ``python tools/build_wheel.py [--output dist]``.

The wheel works with Python 3.11 and newer; on Linux it is a manylinux wheel, for older systems too. Needs the extra
``release``, a C compiler and the package registry.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ["build", "twine", *(["auditwheel"] if sys.platform == "linux" else [])]
COMPILED = "cxc_eccv/kernels/_kernels."


def main() -> int:
    """Build, repair and check; returns the exit status of the first command that fails, else 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="folder to write into")
    output = parser.parse_args().output.resolve()
    missing = [name for name in TOOLS if importlib.util.find_spec(name) is None]
    if missing:
        parser.exit(2, f"{', '.join(missing)} not installed: pip install -e '.[release]'\n")
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        try:
            run("build", "--outdir", folder, str(ROOT))
            (sdist,), (wheel,) = Path(folder).glob("*.tar.gz"), Path(folder).glob("*.whl")
            if not any(name.startswith(COMPILED) for name in zipfile.ZipFile(wheel).namelist()):
                parser.exit(1, "the C compiler failed (see above), so the wheel would have no compiled kernels\n")
            built = Path(folder) / "built"
            built.mkdir()
            if sys.platform == "linux":
                run("auditwheel", "repair", "--wheel-dir", str(built), str(wheel))
            else:
                shutil.move(wheel, built / wheel.name)
            run("twine", "check", "--strict", str(sdist), *map(str, built.iterdir()))
        except subprocess.CalledProcessError as error:
            return error.returncode
        for path in (sdist, *built.iterdir()):
            print(shutil.copy(path, output))
    return 0


def run(module: str, *arguments: str) -> None:
    """Run a tool of the extra ``release``, with the programs beside this Python on its path."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    subprocess.run([sys.executable, "-m", module, *arguments], check=True, env=os.environ | {"PATH": path})


if __name__ == "__main__":
    sys.exit(main())
