"""What ``evaluate`` knows of a module, derived from the metric's declaration when the module is loaded."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

from cxc_eccv.adapters.described.description import Description
from cxc_eccv.adapters.described.kinds import LIST
from cxc_eccv.metrics.spec import Spec

__all__ = ["imports_and_load", "inputs_description", "module_info", "module_parts"]


def module_info(spec: Spec) -> dict[str, Any]:
    """The arguments of ``evaluate.MetricInfo`` for a metric.

    Example:
        >>> from cxc_eccv.metrics.recall_at_k import SPEC
        >>> list(module_info(SPEC)["features"])
        ['predictions', 'references']
    """
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
    """Label to metric and parameters of the metrics that a metric of metrics is computed from."""
    return Description(spec).parts


def inputs_description(described: Description, *, self_contained: bool = False) -> str:
    """What goes in and what comes out, with the example."""
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
    """Lines that load a module: out of the package, or from where an export was put."""
    if self_contained:
        return ["import evaluate", f'metric = evaluate.load("{name}")']
    return ["import cxc_eccv as ce", "import evaluate", f'metric = evaluate.load(ce.metric("{name}"))']


def _entries(texts: Mapping[str, str]) -> list[str]:
    return [_wrap(f"{name}: {text}") for name, text in texts.items()]


def _wrap(text: str) -> str:
    return textwrap.fill(text, 116, initial_indent="    ", subsequent_indent="        ", break_long_words=False)
