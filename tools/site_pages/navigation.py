"""The pages of metrics and datasets in the navigation of ``mkdocs.yml``."""

from __future__ import annotations

from cxc_eccv import registry
from cxc_eccv.adapters.described import Description
from cxc_eccv.builders.config import dataset_configs

__all__ = ["navigation"]


def navigation() -> dict[str, str]:
    """Name to text of the generated parts of ``mkdocs.yml``."""
    metrics = [f'      - "{Description(spec).title}": metrics/{name}.md' for name, spec in registry.metrics().items()]
    datasets = [f"      - {name}: datasets/{name}.md" for name in dataset_configs()]
    return {"metrics": "\n".join(metrics), "datasets": "\n".join(datasets)}
