"""``run.yaml``: the options of a command in a file, which makes the same report again."""

from __future__ import annotations

import reprlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cxc_eccv import __version__
from cxc_eccv.cli.choices import DATA
from cxc_eccv.errors import DataError, InvalidOption, UnknownName

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library

LARGEST = 100_000
"""Bytes of a file of options, at most."""

MADE_WITH = "made-with"
"""Key of the version of the package and the edition of the data; every other key is an option."""

LEFT_OUT = ("config", "output")
"""Options that do not change a report."""


def read_run(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options in a file the defaults of the command; the callback of ``--config``."""
    if path is not None:
        content = _read_mapping(path)
        parameters = _parameters_by_key(context)
        for key in content:
            if key not in (*parameters, MADE_WITH):
                raise UnknownName(f"option in {path}", key, parameters)
        context.meta[MADE_WITH] = content.pop(MADE_WITH, None)
        context.default_map = {
            parameters[key].name: _read_value(f"{path}: {key}", value, parameters[key])
            for key, value in content.items()
        }
    return path


def warn_of_other_versions(context: typer.Context, library: Library) -> None:
    """Warn where the file was made with another version of the package or edition of the data."""
    before, now = context.meta.get(MADE_WITH), _made_with(library)
    if before is not None and before != now:
        warnings.warn(
            f"{context.params['config']} was made with {before}. This is {now}, which can give other numbers.",
            stacklevel=2,
        )


def write_run(context: typer.Context, library: Library, **instead: object) -> str:
    """The text of a run.yaml with the options of this command; those in ``instead`` have these values."""
    import yaml

    values = {**DATA.get()._asdict(), **context.params, **instead}
    keys = {key: parameter.name for key, parameter in _parameters_by_key(context).items() if key not in LEFT_OUT}
    given = {key: values[name] for key, name in keys.items() if values[name] is not False and values[name] is not None}
    content = {key: _plain(value) for key, value in given.items() if value not in ((), [])}
    text: str = yaml.safe_dump({**content, MADE_WITH: _made_with(library)}, sort_keys=False, allow_unicode=True)
    return f"# The same report again: cxc-eccv evaluate --config run.yaml\n{text}"


def _made_with(library: Library) -> str:
    return f"cxc_eccv {__version__} and the {library.edition} data, version {library.catalog.version}"


def _parameters_by_key(context: typer.Context) -> dict[str, Any]:
    """Long name of each option, and of the argument, to what it sets."""
    parameters = context.command.get_params(context)
    longest = {max(parameter.opts, key=len).removeprefix("--"): parameter for parameter in parameters}
    return {key: parameter for key, parameter in longest.items() if key not in ("help", "config")}


def _read_mapping(path: Path) -> dict[str, Any]:
    import yaml

    from cxc_eccv.sources.reading import read_text

    if path.is_file() and path.stat().st_size > LARGEST:
        raise DataError(f"{path}: larger than {LARGEST:,} bytes, so no file of options")
    text = read_text(path)
    try:
        content: Any = yaml.safe_load(text)
        node: Any = yaml.compose(text, yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{path}: expected the options of evaluate, one on a line, as `split: test`")
    keys = [key.value for key, _ in node.value]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise DataError(f"{path}: {repeated} is given twice; keep one")
    return content


def _read_value(place: str, value: object, parameter: Any) -> Any:  # noqa: ANN401 - of an option
    """The value as on a command line, so that the option itself checks it."""
    if getattr(parameter, "is_flag", False):
        if not isinstance(value, bool):
            raise InvalidOption(f"{place} is {reprlib.repr(value)}; give true or false")
        return value
    takes_several = getattr(parameter, "multiple", False) or parameter.nargs == -1
    entries = value if isinstance(value, list) and takes_several else [value]
    if not all(type(entry) in (str, int, float) for entry in entries):
        raise InvalidOption(
            f"{place} is {reprlib.repr(value)}; give {'values' if takes_several else 'one value'}, text in quotes"
        )
    texts = list(map(str, entries))
    return texts if takes_several else texts[0]


def _plain(value: Any) -> Any:  # noqa: ANN401 - of an option
    if isinstance(value, list | tuple):
        plain = [_plain(entry) for entry in value]
        return plain[0] if len(plain) == 1 else plain
    return str(value) if isinstance(value, Path) else value
