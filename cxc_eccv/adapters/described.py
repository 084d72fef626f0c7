"""What an ``evaluate`` module says of itself.

The texts come from the metric's SPEC and docstring, and from the class for metrics with the same needs.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial

from cxc_eccv.adapters.concept_modules import ConceptModule, ConceptSizesModule, SimilarConceptsModule
from cxc_eccv.adapters.judged_modules import GradedRankingModule, JudgedRankingModule
from cxc_eccv.adapters.module import LIST, OPTIONS, MetricModule
from cxc_eccv.adapters.pair_module import RatedPairsModule
from cxc_eccv.adapters.plausible_module import PlausibleMatchModule
from cxc_eccv.adapters.rank_modules import BothDirectionsModule, RankingModule
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
