"""Text of ``README.md``: the metric's card, headed by the settings of its Hub Space."""

from __future__ import annotations

import yaml

from cxc_eccv.adapters.described.description import ARXIV, Description
from cxc_eccv.adapters.described.info import imports_and_load
from cxc_eccv.adapters.described.space import GRADIO

__all__ = ["metric_card"]

CARD = """\
---
{settings}---

# {title}

{text}

## How to use

```python
{load}
results = metric.compute(
{arguments}
)
print(results)
```

```text
{result}
```

{install}
`add`, `add_batch` and `evaluate.combine` work as for every module. An option can also be given to `evaluate.load`,
which is the way to combine modules that take different options.

## Inputs

{inputs}

## Outputs

{outputs}

## Limits

{limits}

## Citation

{papers}

{bibtex}
<!-- Made from the metric's declaration when it was pushed; do not edit. -->
"""
PACKAGE = "The module computes with the package `cxc_eccv` (`pip install 'cxc_eccv[metrics]'`)."
ALONE = "The module is self-contained: it needs {packages}, not the package it was exported from."


def metric_card(described: Description, *, self_contained: bool = False) -> str:
    """The card.

    Args:
        described: the metric.
        self_contained: the module beside the card carries its code with it.
    """
    return CARD.format(
        settings=yaml.safe_dump(_settings(described), sort_keys=False, allow_unicode=True, width=110),
        title=described.title,
        text=described.text,
        load=_load(described.spec.name, self_contained=self_contained),
        arguments="\n".join(f"    {line}" for line in described.call),
        result=described.result,
        install=ALONE.format(packages=_packages(described)) if self_contained else PACKAGE,
        inputs=_listed(described.inputs),
        outputs=_listed(described.results),
        limits=described.kind.limits,
        papers=_papers(described),
        bibtex=_bibtex(described),
    )


def _load(name: str, *, self_contained: bool) -> str:
    *imports, load = imports_and_load(name, self_contained=self_contained)
    return "\n".join([*imports, "", load])


def _packages(described: Description) -> str:
    *others, last = (f"`{name}`" for name in ("evaluate", "numpy", *described.kind.packages))
    return f"{', '.join(others)} and {last}"


def _settings(described: Description) -> dict[str, object]:
    return {
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


def _listed(texts: dict[str, str]) -> str:
    return "\n".join(f"- `{name}`: {text}" for name, text in texts.items())


def _papers(described: Description) -> str:
    linked = ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", described.spec.citation)
    return "\n".join(f"- {paper}" for paper in linked.split("; "))


def _bibtex(described: Description) -> str:
    entries = [entry for entry in described.citation.split("\n\n") if entry.startswith("@")]
    return "```bibtex\n" + "\n\n".join(entries) + "\n```\n" if entries else ""
