"""What an ``evaluate`` module says of itself, and its Space on the Hub.

The texts come from the metric's SPEC and docstring, and from the class for metrics with the same needs.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import requires
from pathlib import Path
from string import Template
from typing import Any

import yaml

import cxc_eccv
from cxc_eccv import registry
from cxc_eccv.adapters import module_folder
from cxc_eccv.adapters.concepts import ConceptModule, ConceptSizesModule, SimilarConceptsModule
from cxc_eccv.adapters.judged import GradedRankingModule, JudgedRankingModule
from cxc_eccv.adapters.module import LIST, MetricModule
from cxc_eccv.adapters.pairs import RatedPairsModule
from cxc_eccv.adapters.plausible import PlausibleMatchModule
from cxc_eccv.adapters.ranks import BothDirectionsModule, RankingModule
from cxc_eccv.errors import InvalidOption
from cxc_eccv.metrics.spec import Spec
from cxc_eccv.sources.catalog import load_catalog

KINDS: Mapping[str, type[MetricModule]] = {
    "ranks": RankingModule,
    "judged_ranks": JudgedRankingModule,
    "top_k": GradedRankingModule,
    "plausible_hits": PlausibleMatchModule,
    "scores of ranks": BothDirectionsModule,
    "rated_pairs": RatedPairsModule,
    "concepts": ConceptModule,
    "concept_similarity": SimilarConceptsModule,
    "concept_sizes": ConceptSizesModule,
}
"""Need of a metric (``Spec.needs``) to the class of its module; for scores with the needs of these."""

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


@dataclass(frozen=True)
class Description:
    """Everything that the generated files say about a metric."""

    spec: Spec

    @property
    def kind(self) -> type[MetricModule]:
        """The class for metrics with these needs."""
        needs = self.spec.needs
        if needs == "scores":
            needs = f"scores of {' and '.join(dict.fromkeys(spec.needs for spec, _ in self.parts.values()))}"
        if needs not in KINDS:
            known = ", ".join(KINDS)
            raise InvalidOption(
                f"metric {self.spec.name} needs {needs!r}, for which adapters/described.py has no module class; it has "
                f"{known}"
            )
        return KINDS[needs]

    @property
    def title(self) -> str:
        """The first line of the metric's file, up to a comma."""
        return (sys.modules[self.spec.function.__module__].__doc__ or "").splitlines()[0].split(",")[0].rstrip(".")

    @property
    def class_name(self) -> str:
        """The name of the module's class."""
        return "".join(part.capitalize() for part in self.spec.name.split("_"))

    @property
    def packages(self) -> tuple[str, ...]:
        """What the module needs beside evaluate and numpy: packages of the metric, then those of its kind."""
        return tuple(dict.fromkeys((*self.spec.packages, *self.kind.packages)))

    @property
    def text(self) -> str:
        """The metric's docstring without its sections."""
        return lead(self.spec.description)

    @property
    def result_name(self) -> str:
        """The name of the result, with placeholders for its parameters."""
        return self.spec.label(**{name: f"<{name}>" for name in self.spec.parameters})

    @property
    def parts(self) -> dict[str, tuple[Spec, dict[str, Any]]]:
        """Label to metric and parameters, for the metrics from which it is computed."""
        variants_of = {label: registry.metric_variants(label) for label in self.spec.inputs}
        return {label: (spec, variants[0]) for label, (spec, variants) in variants_of.items()}

    @cached_property
    def module(self) -> type[MetricModule]:
        """The class of the generated module."""
        return type(self.class_name, (self.kind,), {"spec": self.spec, "parts": self.parts})

    @property
    def inputs(self) -> dict[str, str]:
        """Column or option to description, with defaults for options."""
        texts = {**self.kind.option_texts, **arguments(self.spec.description)}
        columns = {name: column.description for name, column in self.kind.columns.items()}
        for name, default in self.module.options().items():
            several = " A list gives one result for each of its values." if name in self.spec.parameters else ""
            fallback = "Required." if default is inspect.Parameter.empty else f"Default: {default!r}."
            columns[name] = f"{texts[name]}{several} {fallback}"
        return columns

    @property
    def results(self) -> dict[str, str]:
        """Result to description."""
        low, high = self.spec.bounds
        reach = f"from {low:g} to {high:g}" if high is not None else f"{low:g} or more"
        better = "higher" if self.spec.higher_is_better else "lower"
        what = "failures that have a value" if self.spec.explains else "queries"
        over = {"rated_pairs": "", "scores": ""}.get(self.spec.needs, f"{self.spec.aggregate} over {what}, ")
        sampled = "n_samples" in self.module.options() or self.spec.needs != "rated_pairs"
        texts = {name.format(self.result_name): text for name, text in self.kind.result_texts.items() if sampled}
        if self.spec.needs in ("top_k", "concept_sizes"):
            unnamed = [
                name for name in self.module.options() if name not in {*self.kind.option_texts, *self.spec.parameters}
            ]
            texts |= dict.fromkeys(unnamed, "the value of this option.")
        return {self.result_name: f"{over}{reach}; {better} is better."} | texts

    @property
    def result(self) -> str:
        """The result of the example, as Python prints it."""
        chosen = {**self.module.options(), **self.kind.example_options}
        return repr(self.module.scores(self.kind.example, **chosen))

    @property
    def call(self) -> list[str]:
        """The example's arguments as source text, one line each."""
        values = {**self.kind.example, **self.kind.example_options}
        return [f"{name}={value!r},".replace("'", '"') for name, value in values.items()]

    @property
    def citation(self) -> str:
        """BibTeX from the catalog of sources, else the name of the paper."""
        return "\n\n".join(map(_bibtex, self.spec.citation.split("; ")))

    @property
    def addresses(self) -> list[str]:
        """Addresses of the papers."""
        return [f"https://arxiv.org/abs/{number}" for number in ARXIV.findall(self.spec.citation)]


def _bibtex(paper: str) -> str:
    number = ARXIV.search(paper)
    for entry in load_catalog().citations.values():
        if number and f"eprint = {{{number[1]}}}" in entry:
            fill = partial(textwrap.fill, width=110, subsequent_indent="    ", break_on_hyphens=False)
            return "\n".join(map(fill, entry.splitlines()))
    return paper


def module_info(spec: Spec) -> dict[str, Any]:
    """The arguments of ``evaluate.MetricInfo`` for a metric."""
    import datasets

    described = Description(spec)
    features = {}
    for name, column in described.kind.columns.items():
        value = datasets.Value(column.dtype.removeprefix(LIST))
        features[name] = datasets.Sequence(value) if column.dtype.startswith(LIST) else value
    return {
        "description": f"{described.text}\n",
        "citation": f"{described.citation}\n",
        "inputs_description": f"\n{inputs_description(described)}\n",
        "features": datasets.Features(features),
        "license": "Apache-2.0",
        "reference_urls": described.addresses,
    }


def module_parts(spec: Spec) -> Mapping[str, tuple[Spec, dict[str, Any]]]:
    """Label to metric and parameters, for the metrics from which a metric is computed."""
    return Description(spec).parts


def inputs_description(described: Description, *, self_contained: bool = False) -> str:
    """Description of inputs and outputs, with the example."""
    lines = ["Args:", *_entries(described.inputs), "", "Returns:", *_entries(described.results), "", "Examples:"]
    example = [
        *(f">>> {line}" for line in imports_and_load(described.spec.name, self_contained=self_contained)),
        ">>> metric.compute(",
        *(f"...     {line}" for line in described.call),
        "... )",
        described.result,
    ]
    return "\n".join([*lines, *(f"    {line}" for line in example)])


def imports_and_load(name: str, *, self_contained: bool) -> list[str]:
    """Lines that load a module from the package, or from an exported folder."""
    if self_contained:
        return ["import evaluate", f'metric = evaluate.load("{name}")']
    return ["import cxc_eccv as ce", "import evaluate", f'metric = evaluate.load(ce.metric("{name}"))']


def _entries(texts: Mapping[str, str]) -> list[str]:
    fill = partial(
        textwrap.fill, width=116, initial_indent="    ", subsequent_indent="        ", break_long_words=False
    )
    return [fill(f"{name}: {text}") for name, text in texts.items()]


HEADING = re.compile(r"^(Args|Returns|Raises|References|Example):$", re.MULTILINE)
ENTRY = re.compile(r"^(\w+): ", re.MULTILINE)


def lead(docstring: str) -> str:
    """The docstring up to its first section."""
    return HEADING.split(docstring)[0].strip()


def arguments(docstring: str) -> dict[str, str]:
    """Argument to its description on one line."""
    _, *parts = HEADING.split(docstring)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    _, *parts = ENTRY.split(inspect.cleandoc(sections.get("Args", "")))
    return {name: " ".join(text.split()) for name, text in zip(parts[::2], parts[1::2], strict=True)}


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
