"""The page that all results share: one self-contained HTML file, which loads nothing from elsewhere."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from functools import cache
from importlib import resources
from types import MappingProxyType
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from cxc_eccv import wording
from cxc_eccv.terminal import is_code, upper_first, visible

ROOM = "cxc_eccv.presentation"
"""The package whose templates all others extend."""

Filter = Callable[..., Any]
NO_FILTERS: Mapping[str, Filter] = MappingProxyType({})


def render_page(
    name: str, package: str, content: Mapping[str, object], filters: Mapping[str, Filter] = NO_FILTERS
) -> str:
    """The page of a template of a package, with the style sheet of all pages and that of its own name.

    ``filters`` are those of this package alone.
    """
    environment = make_environment(package, keep_trailing_newline=True)
    environment.filters.update(filters)
    scripts = {"sort_script": _read_sort_script() if _has_order(content) else ""}
    return environment.get_template(name).render(scripts | dict(content), css=_read_styles(name, package))


@cache
def make_environment(package: str, **options: Any) -> Environment:  # noqa: ANN401 - of jinja2
    """The templates of a package; every expression is escaped, and an unknown name is an error."""
    loader = ChoiceLoader([PackageLoader(package), PackageLoader(ROOM)])
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **options)
    environment.filters |= {
        "breakable": _break_after_underscores,
        "direction_name": wording.direction_name,
        "is_code": is_code,
        "metric_name": wording.metric_name,
        "rank_text": wording.rank_text,
        "script_hash": hash_script,
        "task_name": wording.task_name,
        "upper_first": upper_first,
        "value": wording.value_text,
        "visible": visible,
    }
    environment.globals |= {"count": wording.count, "share": wording.share}
    return environment


def hash_script(script: str) -> str:
    """The source expression by which a policy for content allows this script and no other."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _has_order(content: Mapping[str, object]) -> bool:
    """Whether the reader of a page may order the rows of one of its tables."""
    sections: Any = content.get("sections", ())
    return any(table.order is not None for section in sections for table in section.tables)


def _read_sort_script() -> Markup:
    script = resources.files(ROOM).joinpath("templates", "sort.js").read_text(encoding="utf-8")
    return Markup(script)  # noqa: S704 - our own file


def _break_after_underscores(file_name: str) -> Markup:
    """The name of a file, for a narrow column."""
    return escape(file_name).replace("_", Markup("_<wbr>"))


def _read_styles(name: str, package: str) -> Markup:
    """The style sheet of all pages, and after it that of the template if its package has one."""
    own = resources.files(package).joinpath("templates", name.replace(".html.jinja", ".css"))
    templates = resources.files(ROOM).joinpath("templates")
    shared = [templates.joinpath("page.css"), templates.joinpath("charts.css")]
    files = shared if name == "page.html.jinja" or not own.is_file() else [*shared, own]
    return Markup("".join(file.read_text(encoding="utf-8") for file in files))  # noqa: S704 - our own files
