"""Writes the files of a metric's Hub Space: its module, card, app and requirements."""

from __future__ import annotations

import json
import re
import shutil
from importlib.metadata import requires
from pathlib import Path
from string import Template

import yaml

import cxc_eccv
from cxc_eccv import registry
from cxc_eccv.adapters import module_folder
from cxc_eccv.adapters.described import ARXIV, Description, imports_and_load

GENERATED = "Made from the metric's declaration; do not edit."
GRADIO = "6.31.0"


def write_space(name: str, parent: Path) -> Path:
    """Write the Space of a metric to a folder with its name."""
    folder, described = parent / name, Description(registry.metric(name))
    shutil.copytree(module_folder(name), folder, ignore=shutil.ignore_patterns("__pycache__"))
    texts = {
        "app.py": space_app(described),
        "README.md": metric_card(described),
        "requirements.txt": requirements(described),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return folder


def space_app(described: Description) -> str:
    """The program of the Space, in ruff's format."""
    columns = described.kind.example
    cells = [*(json.dumps(column) for column in columns.values()), json.dumps(described.kind.example_options)]
    literals = [f"'{cell}'" if '"' in cell else f'"{cell}"' for cell in cells]
    return _fill(
        "app.py",
        title=described.title,
        quoted_title=json.dumps(described.title, ensure_ascii=False),
        generated=GENERATED,
        name=described.spec.name,
        columns=json.dumps(list(columns)),
        example="[\n" + "".join(f"    {literal},\n" for literal in literals) + "]",
    )


def requirements(described: Description, *, self_contained: bool = False) -> str:
    """The requirements of the Space, with the version limits of this package."""
    pins = [_lower_bound_first(pin.partition(";")[0].strip()) for pin in requires("cxc_eccv") or ()]
    wanted = ("datasets", "evaluate", "numpy", *described.packages)
    package = [] if self_contained else [f"cxc_eccv>={cxc_eccv.__version__}"]
    lines = [*package, *dict.fromkeys(pin for pin in pins if pin.startswith(wanted)), f"gradio=={GRADIO}"]
    return "\n".join(lines) + "\n"


def _lower_bound_first(pin: str) -> str:
    name = re.split("[<>=]", pin)[0]
    return name + ",".join(sorted(pin.removeprefix(name).split(","), reverse=True))


PACKAGE = "The module computes with the package `cxc_eccv` (`pip install 'cxc_eccv[metrics]'`)."
ALONE = "The module is self-contained: it needs {packages}, not the package it was exported from."


def metric_card(described: Description, *, self_contained: bool = False) -> str:
    """The card of the Space."""
    settings = {
        "title": described.title,
        "emoji": "📐",
        "colorFrom": "blue",
        "colorTo": "green",
        "sdk": "gradio",
        "sdk_version": GRADIO,
        "python_version": "3.11",
        "app_file": "app.py",
        "pinned": False,
        "license": "apache-2.0",
        "tags": ["evaluate", "metric", "image-text-retrieval"],
        "description": described.text.split("\n\n")[0].replace("\n", " "),
    }
    entries = [entry for entry in described.citation.split("\n\n") if entry.startswith("@")]
    *imports, load = imports_and_load(described.spec.name, self_contained=self_contained)
    *others, last = (f"`{name}`" for name in ("evaluate", "numpy", *described.packages))
    alone = ALONE.format(packages=f"{', '.join(others)} and {last}")
    papers = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", described.spec.citation).split("; ")
    return _fill(
        "card.md",
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=110),
        title=described.title,
        text=described.text,
        load="\n".join([*imports, "", load]),
        arguments="\n".join(f"    {line}" for line in described.call),
        result=described.result,
        install=alone if self_contained else PACKAGE,
        inputs=_list_items(described.inputs),
        outputs=_list_items(described.results),
        limits=described.kind.limits,
        papers="\n".join(f"- {paper}" for paper in papers),
        bibtex="```bibtex\n" + "\n\n".join(entries) + "\n```\n" if entries else "",
    )


def _list_items(texts: dict[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in texts.items())


def _fill(file: str, /, **values: str) -> str:
    template = Path(__file__).parent / "templates" / f"{file}.template"
    return Template(template.read_text(encoding="utf-8")).substitute(values)
