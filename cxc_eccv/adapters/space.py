"""The Space of a metric on the Hub: its module, a program that calls it, a card and requirements."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

import yaml

import cxc_eccv
from cxc_eccv import registry
from cxc_eccv.adapters import module_folder
from cxc_eccv.adapters.described import ARXIV, Description, from_package

GRADIO = "6.31.0"
GENERATED = "Made from the metric's declaration; do not edit."
INSTALL = "The module computes with the package `cxc_eccv` (`pip install 'cxc_eccv[metrics]'`)."


def write_space(name: str, parent: Path) -> Path:
    """Write the Space of a metric to a folder with its name."""
    folder, described = parent / name, Description(registry.metric(name))
    shutil.copytree(module_folder(name), folder, ignore=shutil.ignore_patterns("__pycache__"))
    needed = (f"cxc_eccv[metrics]>={cxc_eccv.__version__}", *described.packages, f"gradio=={GRADIO}")
    texts = {
        "app.py": space_app(described),
        "README.md": metric_card(described, from_package(name), INSTALL),
        "requirements.txt": "".join(f"{line}\n" for line in needed),
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


def metric_card(described: Description, load: Sequence[str], install: str) -> str:
    """The card of the Space; ``load`` are the lines that load the module, ``install`` says what it needs."""
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
    papers = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", described.spec.citation).split("; ")
    return _fill(
        "card.md",
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=110),
        title=described.title,
        text=described.text,
        load="\n".join([*load[:-1], "", load[-1]]),
        arguments="\n".join(f"    {line}" for line in described.call),
        result=described.result,
        install=install,
        inputs=_list_items(described.inputs),
        outputs=_list_items(described.results),
        limits=described.kind.limits,
        papers="\n".join(f"- {paper}" for paper in papers),
        bibtex="```bibtex\n" + "\n\n".join(entries) + "\n```\n" if entries else "",
    )


def _list_items(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in texts.items())


def _fill(file: str, /, **values: str) -> str:
    template = Path(__file__).parent / "templates" / f"{file}.template"
    return Template(template.read_text(encoding="utf-8")).substitute(values)
