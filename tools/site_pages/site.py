"""Every generated file of the site: what it should be."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from cxc_eccv.builders.dataset_config import dataset_configs
from cxc_eccv.comparison import join, published_tables
from cxc_eccv.comparison.published_chart import make_published_chart
from cxc_eccv.errors import DataError
from cxc_eccv.metrics.families import FAMILIES
from site_pages.addresses import citation_addresses, read_addresses, site_addresses
from site_pages.command_page import commands
from site_pages.dataset_pages import dataset_page, datasets_table, statistics
from site_pages.files_page import provenance_table
from site_pages.metric_pages import family_page, metrics_table
from site_pages.parts import filled, part_texts
from site_pages.positives_chart import draw_positives
from site_pages.python_page import FOLDER, error_table, reference_pages, summaries
from site_pages.rating_chart import draw_ratings
from site_pages.task_page import leaderboard_table, task_sections, tasks_table
from site_pages.task_sizes import Sizes, task_sizes

__all__ = ["expected_files"]

SIZES = "tools/site_pages/task_sizes.json"


def expected_files(root: Path) -> dict[str, str]:
    """Path to the text it should have, of every file that is generated or has generated parts."""
    every = statistics(root / "dataset_cards")
    sizes = task_sizes()
    _refuse_leftovers(root)
    whole = {SIZES: json.dumps(sizes, indent=1, ensure_ascii=False) + "\n"}
    for name, config in dataset_configs().items():
        whole[f"docs/datasets/{name}.md"] = dataset_page(config, every.get(name, {}))
    whole |= reference_pages()
    whole["docs/assets/cxc_ratings.svg"] = draw_ratings(every)
    whole["docs/assets/cxc_positives.svg"] = draw_positives(every)
    whole["docs/assets/coco_and_eccv.svg"] = draw_published_models()
    for path, parts in _parts(sizes, read_addresses(root)).items():
        whole[path] = _merged(root / path, parts)
    for family in FAMILIES:
        path = f"docs/metrics/{family.name}.md"
        whole[path] = family_page(family, _read(root / path), str(root / path))
    return whole


def draw_published_models() -> str:
    """The chart of ``compare --published`` without a model of a user."""
    return make_published_chart([join(paper, {}) for paper in published_tables()]).draw().to_svg()


def _parts(sizes: Sizes, addresses: dict[str, str]) -> dict[str, dict[str, str]]:
    """Page to its generated parts, of the pages that are otherwise written by hand."""
    metrics = [f"- {family.title}: metrics/{family.name}.md" for family in FAMILIES]
    datasets = [f"- {name}: datasets/{name}.md" for name in dataset_configs()]
    return {
        "CITATION.cff": {"addresses": citation_addresses(addresses)},
        "mkdocs.yml": {
            "addresses": site_addresses(addresses),
            "metrics": "\n".join(metrics),
            "datasets": "\n".join(datasets),
        },
        "docs/metrics/index.md": {"metrics": metrics_table()},
        "docs/datasets/index.md": {"datasets": datasets_table()},
        "docs/tasks.md": {"tasks": f"{tasks_table()}\n\n{task_sections(sizes)}"},
        "docs/leaderboard.md": {"leaderboard tasks": leaderboard_table()},
        "docs/reference/cli.md": {"commands": commands()},
        "docs/reference/files.md": {"provenance": provenance_table()},
        "docs/reference/python.md": {"names": summaries(), "errors": error_table()},
    }


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def _merged(path: Path, parts: Mapping[str, str]) -> str:
    if not path.is_file():
        return "\n".join(part_texts(parts, path.suffix))
    return filled(path.read_text(encoding="utf-8"), parts, path.suffix, str(path))


def _refuse_leftovers(root: Path) -> None:
    wanted = {
        "docs/metrics": {"index", *(family.name for family in FAMILIES)},
        "docs/datasets": {"index", *dataset_configs()},
    }
    wanted[FOLDER] = {Path(path).stem for path in reference_pages()}
    for folder, names in wanted.items():
        for path in sorted((root / folder).glob("*.md")):
            if path.stem not in names:
                raise DataError(f"{path} describes what is not declared any more; delete it")
