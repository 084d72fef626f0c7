"""``docs/metrics``: one page per family of metrics, and the table of all."""

from __future__ import annotations

from cxc_eccv import registry
from cxc_eccv.evaluate_modules.module_cards import ARXIV, Description
from cxc_eccv.metrics.families import Family
from cxc_eccv.metrics.kinds import Spec
from cxc_eccv.terminal import markdown_table
from site_pages.new_metric_page import first_sections
from site_pages.parts import filled, part_texts

__all__ = ["family_page", "list_families", "metrics_table"]


def list_families() -> dict[Family, list[Spec]]:
    """Family to its metrics; those of judged items alone are a parameter of others, and have no section."""
    own = registry.metric_functions()
    return {family: [spec for spec in specs if spec.name in own] for family, specs in registry.group_metrics().items()}


def family_page(family: Family, text: str, where: str) -> str:
    """The page of a family: its generated parts are replaced, what an author wrote is kept, new metrics are appended.

    Args:
        family: whose page.
        text: of the page; empty if there is none.
        where: its path, for messages.
    """
    text = text or f"# {family.title}\n\n{family.question}\n"
    parts: dict[str, str] = {}
    for spec in list_families()[family]:
        own = _parts(spec)
        parts |= own
        if f"<!-- generated: {spec.name} -->" not in text:
            text += "\n" + first_sections(spec).join(part_texts(own, ".md"))
    return filled(text, parts, ".md", where)


def metrics_table() -> str:
    """A row for every family: its question, and its metrics."""
    rows = []
    for family, specs in list_families().items():
        links = [f"[{Description(spec).title}]({family.name}.md#{spec.name}) `{spec.name}`" for spec in specs]
        rows.append((f"[{family.question}]({family.name}.md)", ", ".join(links)))
    return markdown_table(["question", "metrics"], rows)


def _parts(spec: Spec) -> dict[str, str]:
    """Name to text of the generated parts of a metric's section."""
    described = Description(spec)
    summary = described.text.partition("\n\n")[0]
    return {
        spec.name: f"## `{spec.name}`\n\n**{described.title}.** {summary}\n\n{_facts(spec)}",
        f"{spec.name} in Python": f"::: {spec.function.__module__}.{spec.name}",
    }


def _facts(spec: Spec) -> str:
    low, high = spec.bounds
    reach = f"{low:g} to {high:g}" if high is not None else f"{low:g} and more"
    aggregate = "sum over both directions" if spec.aggregate == "sum" else f"{spec.aggregate} over {spec.averaged_over}"
    lines = {
        "in reports": ", ".join(f"`{spec.label(**parameters)}`" for parameters in spec.variants()),
        "value": f"{aggregate}, {reach}; {'higher' if spec.higher_is_better else 'lower'} is better",
        "defined in": ARXIV.sub(r"[\g<0>](https://arxiv.org/abs/\1)", spec.citation),
    }
    return "\n".join(f"- {name}: {value}" for name, value in lines.items())
