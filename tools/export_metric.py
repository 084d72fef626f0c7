"""Exports an ``evaluate`` module that works without this package.

    python tools/export_metric.py map_at_r --output exported    # writes exported/map_at_r/

The folder holds the files that ``cxc-eccv push`` uploads for a metric, to run as a Hub Space. The module contains the
source of everything it uses from this package.
"""

from __future__ import annotations

import argparse
import re
from importlib.metadata import requires
from pathlib import Path

from metric_modules.inlining import inline
from metric_modules.script import alone, written_out

import cxc_eccv
from cxc_eccv import registry
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.evaluate_modules.module_cards import GRADIO_VERSION, Description, metric_card, space_app

HEADER = f"""\
# Exported from cxc_eccv {cxc_eccv.__version__} by its tools/export_metric.py; do not edit.
# Copyright 2026 The cxc_eccv authors. Licensed under the Apache License, Version 2.0:
# http://www.apache.org/licenses/LICENSE-2.0"""


def main() -> None:
    """Export the named metric."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metric", help="name of a registered metric")
    parser.add_argument("--output", type=Path, required=True, help="folder to write <metric>/ into")
    options = parser.parse_args()
    try:
        files = export_files(options.metric)
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    folder = options.output / options.metric
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    print(f"{len(files)} files in {folder}")


def export_files(name: str) -> dict[str, str]:
    """File name to text."""
    described = Description(registry.metric(name))
    packages = ("evaluate", "numpy", *described.packages)
    *others, last = (f"`{package}`" for package in packages)
    install = (
        f"The module is self-contained: it needs {', '.join(others)} and {last}, not the package it was exported from."
    )
    return {
        f"{name}.py": inline(written_out(described), HEADER),
        "app.py": space_app(described),
        "README.md": metric_card(described, alone(name), install),
        "requirements.txt": requirements(packages),
    }


def requirements(packages: tuple[str, ...]) -> str:
    """The requirements of the Space, with the version limits of this package."""
    pins = (pin.partition(";")[0].strip() for pin in requires("cxc_eccv") or ())
    wanted = {re.split("[<>=]", pin)[0]: pin for pin in pins}
    return "\n".join([*(wanted[name] for name in ("datasets", *packages)), f"gradio=={GRADIO_VERSION}", ""])


if __name__ == "__main__":
    main()
