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
from functools import cached_property
from pathlib import Path
from string import Template

import yaml

from cxc_eccv import registry
from cxc_eccv.errors import InvalidOption
from cxc_eccv.evaluate_modules import module_folder
from cxc_eccv.evaluate_modules.module import LIST, OPTION_TEXTS, MetricModule
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
        if isinstance(self.spec, FailureMetric) and self.spec.of_areas:
            return ConceptSizesModule
        if isinstance(self.spec, FailureMetric) and self.spec.of_similarities:
            return SimilarConceptsModule
        return MODULES_BY_KIND[type(self.spec)]

    @property
    def title(self) -> str:
        """The first line of the metric's file, up to a comma."""
        docstring = sys.modules[self.spec.function.__module__].__doc__ or ""
        first_line = docstring.splitlines()[0]
        return first_line.partition(",")[0].rstrip(".")

    @property
    def packages(self) -> tuple[str, ...]:
        """What the module needs beside evaluate and numpy: packages of the metric, then those of its kind."""
        packages = [*self.spec.packages, *self.kind.packages]
        return tuple(dict.fromkeys(packages))

    @property
    def text(self) -> str:
        """The metric's docstring without its sections."""
        return lead(self.spec.description)

    @property
    def result_name(self) -> str:
        """The name of the result, with placeholders for its parameters."""
        placeholders = {name: f"<{name}>" for name in self.spec.parameters}
        return self.spec.label(**placeholders)

    @cached_property
    def module(self) -> type[MetricModule]:
        """The class of the generated module."""
        return type(self.spec.name, (self.kind,), {"spec": self.spec})

    @property
    def inputs(self) -> dict[str, str]:
        """Column or option to description, with defaults for options."""
        texts = {**OPTION_TEXTS, **self.kind.option_texts, **arguments(self.spec.description)}
        inputs = {name: column.description for name, column in self.kind.columns.items()}
        for name, default in self.module.options().items():
            sentences = [texts[name]]
            if name in self.spec.parameters:
                sentences.append("A list gives one result for each of its values.")
            if default is inspect.Parameter.empty:
                sentences.append("Required.")
            else:
                sentences.append(f"Default: {default!r}.")
            inputs[name] = " ".join(sentences)
        return inputs

    @property
    def results(self) -> dict[str, str]:
        """Result to description."""
        results = {self.result_name: self._describe_value()}
        if not isinstance(self.spec, RatedMetric) or self.spec.draws_samples:
            for name, text in self.kind.result_texts.items():
                results[name.format(self.result_name)] = text
        if self.kind.shows_options:
            for option in self.module.options():
                if option not in OPTION_TEXTS and option not in self.spec.parameters:
                    results[option] = "the value of this option."
        return results

    def _describe_value(self) -> str:
        """How the values of queries are aggregated, the range of the result, and which end of it is better."""
        low, high = self.spec.bounds
        span = f"{low:g} or more" if high is None else f"from {low:g} to {high:g}"
        better = "higher" if self.spec.higher_is_better else "lower"
        if isinstance(self.spec, RatedMetric | WholeMetric):
            return f"{span}; {better} is better."
        return f"{self.spec.aggregate} over {self.spec.averaged_over}, {span}; {better} is better."

    @property
    def result(self) -> str:
        """The result of the example, as Python prints it."""
        options = {**self.module.options(), **self.kind.example_options}
        return repr(self.module.scores(*self.kind.example.values(), **options))

    @property
    def call(self) -> list[str]:
        """The example's arguments as source text, one line each."""
        values = {**self.kind.example, **self.kind.example_options}
        return [f"{name}={value!r},".replace("'", '"') for name, value in values.items()]

    @property
    def citation(self) -> str:
        """BibTeX from the catalog of sources, else the name of the paper."""
        papers = self.spec.citation.split("; ")
        return "\n\n".join(_find_bibtex(paper) for paper in papers)

    @property
    def addresses(self) -> list[str]:
        """Addresses of the papers."""
        return [f"https://arxiv.org/abs/{number}" for number in ARXIV.findall(self.spec.citation)]


def _find_bibtex(paper: str) -> str:
    """The entry of a paper in the catalog of sources, by its number on arXiv; else the paper itself."""
    number = ARXIV.search(paper)
    if number is None:
        return paper
    for entry in load_catalog().citations.values():
        if f"eprint = {{{number[1]}}}" in entry:
            lines = [
                textwrap.fill(line, width=110, subsequent_indent="    ", break_on_hyphens=False)
                for line in entry.splitlines()
            ]
            return "\n".join(lines)
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
    example = [f">>> {line}" for line in load]
    example += [">>> metric.compute("]
    example += [f"...     {line}" for line in described.call]
    example += ["... )", described.result]
    lines = [
        "Args:",
        *_wrap_entries(described.inputs),
        "",
        "Returns:",
        *_wrap_entries(described.results),
        "",
        "Examples:",
        *[f"    {line}" for line in example],
    ]
    return "\n".join(lines)


def from_package(name: str) -> list[str]:
    """Lines that load a module from the package."""
    return ["import cxc_eccv as ce", "import evaluate", f'metric = evaluate.load(ce.metric("{name}"))']


def _wrap_entries(texts: Mapping[str, str]) -> list[str]:
    wrapper = textwrap.TextWrapper(116, initial_indent="    ", subsequent_indent=" " * 8, break_long_words=False)
    return [wrapper.fill(f"{name}: {text}") for name, text in texts.items()]


SECTION_HEADING = re.compile(r"^(Args|Returns|Raises|References|Example):$", re.MULTILINE)
ARGUMENT_ENTRY = re.compile(r"^(\w+): ", re.MULTILINE)


def lead(docstring: str) -> str:
    """The docstring up to its first section."""
    return SECTION_HEADING.split(docstring)[0].strip()


def arguments(docstring: str) -> dict[str, str]:
    """Argument to its description on one line."""
    sections = _split_by(SECTION_HEADING, docstring)
    entries = _split_by(ARGUMENT_ENTRY, inspect.cleandoc(sections.get("Args", "")))
    return {name: " ".join(text.split()) for name, text in entries.items()}


def _split_by(pattern: re.Pattern[str], text: str) -> dict[str, str]:
    """What the group of a pattern matched, to the text from there to the next match."""
    _, *parts = pattern.split(text)
    names = parts[::2]
    texts = parts[1::2]
    return dict(zip(names, texts, strict=True))


GRADIO_VERSION = "6.31.0"
GENERATED_NOTE = "Made from the metric's declaration; do not edit."


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
    requirements = (requirement, *described.packages, f"gradio=={GRADIO_VERSION}")
    install = f"The module computes with the package `cxc_eccv` (`pip install '{requirement}'`)."
    texts = {
        "app.py": space_app(described),
        "README.md": metric_card(described, from_package(name), install),
        "requirements.txt": "".join(f"{line}\n" for line in requirements),
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8", newline="\n")
    return folder


def space_app(described: Description) -> str:
    """The program of the Space, in ruff's format."""
    columns = described.kind.example
    cells = [json.dumps(column) for column in columns.values()]
    cells.append(json.dumps(described.kind.example_options))
    literals = [f"'{cell}'" if '"' in cell else f'"{cell}"' for cell in cells]
    lines = ["[", *[f"    {literal}," for literal in literals], "]"]
    texts = {
        "title": described.title,
        "quoted_title": json.dumps(described.title, ensure_ascii=False),
        "generated": GENERATED_NOTE,
        "name": described.spec.name,
        "columns": json.dumps(list(columns)),
        "example": "\n".join(lines),
    }
    return _read_template("app.py").substitute(texts)


def metric_card(described: Description, load: Sequence[str], install: str) -> str:
    """The card of the Space; ``load`` are the lines that load the module, ``install`` says what it needs."""
    settings = {
        "title": described.title,
        "emoji": "📐",
        "colorFrom": "blue",
        "colorTo": "green",
        "sdk": "gradio",
        "sdk_version": GRADIO_VERSION,
        "python_version": "3.11",
        "app_file": "app.py",
        "pinned": False,
        "license": "apache-2.0",
        "tags": ["evaluate", "metric", "image-text-retrieval"],
        "short_description": textwrap.shorten(f"{described.title} of image-text retrieval", 60, placeholder="..."),
        "description": described.text.split("\n\n")[0].replace("\n", " "),
    }
    entries = [entry for entry in described.citation.split("\n\n") if entry.startswith("@")]
    bibtex = "```bibtex\n" + "\n\n".join(entries) + "\n```\n" if entries else ""
    linked_citation = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", described.spec.citation)
    texts = {
        "settings": yaml.safe_dump(settings, sort_keys=False, allow_unicode=True, width=110),
        "title": described.title,
        "text": described.text,
        "load": "\n".join([*load[:-1], "", load[-1]]),
        "arguments": "\n".join(f"    {line}" for line in described.call),
        "result": described.result,
        "install": install,
        "inputs": _list_items(described.inputs),
        "outputs": _list_items(described.results),
        "limits": described.kind.limits,
        "papers": "\n".join(f"- {paper}" for paper in linked_citation.split("; ")),
        "bibtex": bibtex,
    }
    return _read_template("card.md").substitute(texts)


def _list_items(texts: Mapping[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in texts.items())


def _read_template(file: str) -> Template:
    path = Path(__file__).parent / "templates" / f"{file}.template"
    return Template(path.read_text(encoding="utf-8"))
