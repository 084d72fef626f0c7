"""``docs/metrics``: one page per metric of the registry, and their table."""

from __future__ import annotations

from cxc_eccv import registry
from cxc_eccv.evaluate_modules.module_cards import ARXIV, Description
from cxc_eccv.metrics.kinds import Spec
from cxc_eccv.terminal import markdown_table
from site_pages.task_page import task_links

__all__ = ["metric_parts", "metrics_table"]

EVALUATE = """\
## Through `evaluate`

[`evaluate.load(ce.metric("{name}"))`](index.md#through-evaluate)"""


def metric_parts(spec: Spec) -> dict[str, str]:
    """Name to text of the generated parts of a metric's page."""
    described = Description(spec)
    summary = described.text.partition("\n\n")[0]
    return {
        "facts": f"# {described.title}\n\n{summary}\n\n{_facts(spec)}",
        "use": f"## From Python\n\n::: {spec.function.__module__}.{spec.name}\n\n{EVALUATE.format(name=spec.name)}",
    }


def metrics_table() -> str:
    """A row for every metric."""
    rows = [
        (f"[{Description(spec).title}]({name}.md)", f"`{name}`") for name, spec in registry.metric_functions().items()
    ]
    return markdown_table(["metric", "name"], rows)


def _facts(spec: Spec) -> str:
    low, high = spec.bounds
    reach = f"{low:g} to {high:g}" if high is not None else f"{low:g} and more"
    aggregate = "sum over both directions" if spec.aggregate == "sum" else f"{spec.aggregate} over {spec.averaged_over}"
    lines = {
        "in reports": ", ".join(f"`{spec.label(**parameters)}`" for parameters in spec.variants()),
        "value": f"{aggregate}, {reach}; {'higher' if spec.higher_is_better else 'lower'} is better",
        "reported by default on": _tasks(spec),
        "defined in": ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", spec.citation),
    }
    return "\n".join(f"- {name}: {value}" for name, value in lines.items() if value)


def _tasks(spec: Spec) -> str:
    reporting = [task for task in registry.tasks().values() if spec.name in task.metrics]
    explained = "[`cxc-eccv explain`](../explain.md)" if spec.explains else ""
    return ", ".join(task_links(reporting, "../tasks.md")) or explained
