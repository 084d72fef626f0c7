"""``cxc-eccv list``: what there is, and where it stands on this machine."""

from __future__ import annotations

from rich.table import Table

from cxc_eccv.cli.choices import DataDir

__all__ = ["list_all"]


def list_all(data_dir: DataDir = None) -> None:
    """List sources, configs, tasks and metrics with their state on this machine.

    Sources are `in mirror`, `present` (in the cache), `to download`, or `user-provided`.

    Examples:
      cxc-eccv list
      cxc-eccv list --data-dir sample
    """
    from rich.console import Console

    from cxc_eccv.builders.discovery import dataset_configs
    from cxc_eccv.registry import metrics as metrics_by_name
    from cxc_eccv.registry import tasks as tasks_by_name
    from cxc_eccv.sources.fetch import catalog_of, state

    catalog = catalog_of(data_dir)
    sources = [[e.name, e.path, _size(e.size), state(e, data_dir)] for e in catalog.entries.values()]
    configs = [[c.name, ", ".join(c.splits), c.title] for c in dataset_configs().values()]
    tasks = [
        [t.name, " ".join(t.parts), ", ".join(t.splits), _summary(t.description)] for t in tasks_by_name().values()
    ]
    metrics = [[s.name, _summary(s.description)] for s in metrics_by_name().values()]
    console = Console()
    for title, columns, rows in (
        (f"Sources ({catalog.edition} edition)", ["source", "file", "size", "state"], sources),
        ("Configs (build, load_dataset)", ["config", "splits", "what"], configs),
        ("Tasks (evaluate --tasks)", ["task", "parts", "splits", "what"], tasks),
        ("Metrics (evaluate --metrics)", ["metric", "what"], metrics),
    ):
        console.print(_table(title, columns, rows))


def _table(title: str, columns: list[str], rows: list[list[str]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=column in ("source", "config", "task", "metric", "size", "state"))
    for row in rows:
        table.add_row(*row)
    return table


def _summary(text: str) -> str:
    """The first sentence."""
    return " ".join(text.split()).partition(". ")[0].rstrip(".") + "."


def _size(size: int | None) -> str:
    return "unknown" if size is None else f"{size / 1e6:.1f} MB"
