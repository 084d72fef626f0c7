"""Descriptions of the ``evaluate`` modules, and their Spaces on the Hub: module, program, card and requirements.

The texts come from the metric's SPEC and docstring, and from the class for metrics with the same needs.
"""

from __future__ import annotations

import inspect
import json
import re
import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from string import Template

import yaml

from cxc_eccv import registry
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluate_modules import module_folder
from cxc_eccv.evaluate_modules.module import LIST, OPTIONS, MetricModule
from cxc_eccv.evaluate_modules.pair_modules import (
    ConceptModule,
    ConceptSizesModule,
    RatedPairsModule,
    SimilarConceptsModule,
)
from cxc_eccv.evaluate_modules.ranking_modules import (
    BothDirectionsModule,
    GradedRankingModule,
    JudgedRankingModule,
    PlausibleMatchModule,
    RankingModule,
)
from cxc_eccv.extras import name_requirement
from cxc_eccv.metrics.kinds import (
    FailureMetric,
    JudgedMetric,
    PlausibleMetric,
    RankMetric,
    RatedMetric,
    Spec,
    TopMetric,
    WholeMetric,
)
from cxc_eccv.sources.catalog import load_catalog

MODULES_BY_KIND: Mapping[type[Spec], type[MetricModule]] = {
    RankMetric: RankingModule,
    JudgedMetric: JudgedRankingModule,
    TopMetric: GradedRankingModule,
    PlausibleMetric: PlausibleMatchModule,
    WholeMetric: BothDirectionsModule,
    RatedMetric: RatedPairsModule,
    FailureMetric: ConceptModule,
}
"""Kind of metric to the class of its module."""

ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


@dataclass(frozen=True)
class Description:
    """Everything that the generated files say about a metric."""

    spec: Spec

    @property
    def kind(self) -> type[MetricModule]:
        """The class for metrics of this kind."""
        if isinstance(self.spec, FailureMetric) and (self.spec.of_areas or self.spec.of_similarities):
            return ConceptSizesModule if self.spec.of_areas else SimilarConceptsModule
        return MODULES_BY_KIND[type(self.spec)]

    @property
    def title(self) -> str:
        """The first line of the metric's file, up to a comma."""
        return (sys.modules[self.spec.function.__module__].__doc__ or "").splitlines()[0].split(",")[0].rstrip(".")

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

    @cached_property
    def module(self) -> type[MetricModule]:
        """The class of the generated module."""
        return type(self.spec.name, (self.kind,), {"spec": self.spec})

    @property
    def inputs(self) -> dict[str, str]:
        """Column or option to description, with defaults for options."""
        texts = {**OPTIONS, **self.kind.option_texts, **arguments(self.spec.description)}
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
        whole = isinstance(self.spec, RatedMetric | WholeMetric)
        over = "" if whole else f"{self.spec.aggregate} over {self.spec.averaged_over}, "
        sampled = not isinstance(self.spec, RatedMetric) or self.spec.draws_samples
        texts = {name.format(self.result_name): text for name, text in self.kind.result_texts.items() if sampled}
        if self.kind.shows_options:
            named = {*OPTIONS, *self.spec.parameters}
            unnamed = (name for name in self.module.options() if name not in named)
            texts |= dict.fromkeys(unnamed, "the value of this option.")
        return {self.result_name: f"{over}{reach}; {better} is better."} | texts

    @property
    def result(self) -> str:
        """The result of the example, as Python prints it."""
        chosen = {**self.module.options(), **self.kind.example_options}
        return repr(self.module.scores(*self.kind.example.values(), **chosen))

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


def module_info(spec: Spec) -> dict[str, object]:
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
        "inputs_description": f"\n{inputs_description(described, from_package(spec.name))}\n",
        "features": datasets.Features(features),
        "license": "Apache-2.0",
        "reference_urls": described.addresses,
    }


def inputs_description(described: Description, load: Iterable[str]) -> str:
    """Description of inputs and outputs, with the example; ``load`` are its lines that load the module."""
    lines = ["Args:", *_entries(described.inputs), "", "Returns:", *_entries(described.results), "", "Examples:"]
    call = [f"...     {line}" for line in described.call]
    example = [*(f">>> {line}" for line in load), ">>> metric.compute(", *call, "... )", described.result]
    return "\n".join([*lines, *(f"    {line}" for line in example)])


def from_package(name: str) -> list[str]:
    """Lines that load a module from the package."""
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


GRADIO = "6.31.0"
GENERATED = "Made from the metric's declaration; do not edit."


def write_space(name: str, parent: Path) -> Path:
    """Write the Space of a metric to a folder with its name.

    Raises:
        InvalidOption: the Space could not install this package, because no address of its repository is set.
    """
    described = Description(registry.metric(name))
    requirement = name_requirement("metrics")
    if requirement is None:
        raise InvalidOption(
            "the Space of a metric installs this package from its repository, and no address of it is set. In your "
            f"clone, `python tools/export_metric.py {name} --output exported` writes a Space that needs no package; "
            f"push the folder exported/{name}"
        )
    folder = parent / name
    shutil.copytree(module_folder(name), folder, ignore=shutil.ignore_patterns("__pycache__"))
    needed = (requirement, *described.packages, f"gradio=={GRADIO}")
    install = f"The module computes with the package `cxc_eccv` (`pip install '{requirement}'`)."
    texts = {
        "app.py": space_app(described),
        "README.md": metric_card(described, from_package(name), install),
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
        "short_description": textwrap.shorten(f"{described.title} of image-text retrieval", 60, placeholder="..."),
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
