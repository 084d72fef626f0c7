"""Where the templates are, and the words that all of them know."""

from __future__ import annotations

from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from cxc_eccv.report import wording

__all__ = ["template_environment"]

FILTERS = {
    "direction_name": wording.direction_name,
    "finding": wording.finding,
    "interval": wording.interval_text,
    "rank_text": wording.rank_text,
    "task_name": wording.task_name,
    "upper_first": wording.upper_first,
    "value": wording.value_text,
}


def template_environment(**options: Any) -> Environment:  # noqa: ANN401 - those of jinja2.Environment
    """An environment in which every expression is escaped and an unknown name is an error.

    Args:
        **options: further options of ``jinja2.Environment``.

    Example:
        >>> template_environment().from_string("{{ '<b>' }}").render()
        '&lt;b&gt;'
    """
    environment = Environment(
        loader=PackageLoader("cxc_eccv.report"), autoescape=True, undefined=StrictUndefined, **options
    )
    environment.filters |= FILTERS
    environment.globals |= {"count": wording.count, "share": wording.share}
    return environment
