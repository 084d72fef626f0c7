"""What a table cannot say of the package: its compiled part, and its page; all else is in pyproject.toml."""

import re
import shutil
import sys
import tomllib
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT.get("urls", {}).get("Repository")
VERSION = re.findall(r'^__version__ = "(.+)"$', (ROOT / "cxc_eccv" / "version.py").read_text(), re.MULTILINE)[0]
TARGET = r"(?!\w+:|#)[^)]+"
LINK = re.compile(rf"(?<=\]\(){TARGET}(?=\))")
TEXT_LINK = re.compile(rf"\[([^]]+)\]\({TARGET}\)")
LINKED_IMAGE = re.compile(rf"\[!\[[^]]*\]\({TARGET}\)\]\({TARGET}\)\n*")


def make_absolute(match: re.Match[str]) -> str:
    """The address of a file at this version."""
    kind = "raw" if match[0].endswith(".png") else "blob"
    return f"{REPOSITORY}/{kind}/v{VERSION}/{match[0]}"


def describe() -> str:
    """The README for another page, from which its relative links lead nowhere.

    They become addresses in the repository. As long as the owner has set none, their texts stay and images go.
    """
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    if REPOSITORY is None:
        return TEXT_LINK.sub(r"\1", LINKED_IMAGE.sub("", readme))
    return LINK.sub(make_absolute, readme)


class BuildWithModules(build_py):
    """A wheel carries the modules of ``metrics/`` inside the package; a checkout reads them where they stand."""

    def run(self) -> None:
        """Build, and copy the modules."""
        super().run()
        if not self.editable_mode:
            target = Path(self.build_lib) / "cxc_eccv" / "evaluate_modules" / "modules"
            shutil.copytree(ROOT / "metrics", target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


WINDOWS = sys.platform == "win32"

setup(
    cmdclass={"build_py": BuildWithModules},
    long_description=describe(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            "cxc_eccv.kernels._kernels",
            sources=["cxc_eccv/kernels/_kernels.c"],
            extra_compile_args=["/O2", "/std:c11"] if WINDOWS else ["-O3"],
            libraries=[] if WINDOWS else ["m"],
            # auditwheel tells by the C library that is named whose wheel it is, though we call nothing of it.
            extra_link_args=["-Wl,--no-as-needed"] if sys.platform == "linux" else [],
            py_limited_api=True,
            # Without a compiler NumPy counts, with the same results.
            optional=True,
        )
    ],
)
