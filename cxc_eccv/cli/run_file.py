"""``run.yaml``: the options of a command in a file, which makes the same report again."""

from __future__ import annotations

import reprlib
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cxc_eccv.cli.shared_options import DATA
from cxc_eccv.errors import DataError, InvalidOption, MalformedSource, NoSuchFile, UnknownName
from cxc_eccv.version import __version__

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library

MADE_WITH = "made-with"
"""Key of the versions of package, data and labels, a mapping; every other key is an option."""

NAMES_OR_PLACES = ("model", "labels", "unjudged")
"""Options that name a file or folder, or something else."""

LOCAL = "local-dir:"
"""Before the folder of a model of open_clip."""


def read_run(context: typer.Context, path: Path | None) -> Path | None:
    """Make the options in a file the defaults of the command; the callback of ``--config``."""
    if path is not None:
        content = _read_mapping(path)
        parameters = _parameters_by_key(context)
        for key in content:
            if key not in (*parameters, MADE_WITH):
                raise UnknownName(f"option in {path}", key, parameters)
        context.meta[MADE_WITH] = made_with = content.pop(MADE_WITH, {})
        if not isinstance(made_with, dict):
            raise InvalidOption(f"{path}: {MADE_WITH} is {reprlib.repr(made_with)}; leave it out of your own files")
        context.default_map = {
            parameters[key].name: _read_value(f"{path}: {key}", value, parameters[key])
            for key, value in content.items()
        }
    return path


def check_made_with(context: typer.Context, library: Library) -> None:
    """Refuse a file that was made with another edition of the data; warn of other versions and changed labels."""
    before, now, path = context.meta.get(MADE_WITH), _made_with(library), context.params["config"]
    if not before:
        return
    if before.get("edition") != library.edition:
        raise InvalidOption(
            f"{path} was made with the {before.get('edition')} data, but this is the {library.edition} data. Name the "
            f"folder of the other data with --data-dir, or remove {MADE_WITH} from the file."
        )
    if changes := _compare(before, now):
        warnings.warn(f"{path} was made with {'; '.join(changes)}. The numbers can differ.", stacklevel=2)


def write_run(context: typer.Context, library: Library, **instead: object) -> str:
    """The text of a run.yaml with the options of this command; those in ``instead`` have these values."""
    import yaml

    values = {**DATA.get()._asdict(), "data_dir": _find_data_dir(), **context.params, **instead, "overwrite": None}
    names = {key: parameter.name for key, parameter in _parameters_by_key(context).items()}
    given = {key: values[name] for key, name in names.items() if values[name] is not False and values[name] is not None}
    content = {key: _plain(value, names[key]) for key, value in given.items() if value not in ((), [])}
    text: str = yaml.safe_dump({**content, MADE_WITH: _made_with(library)}, sort_keys=False, allow_unicode=True)
    return f"# The same report again: cxc-eccv evaluate --config run.yaml\n{text}"


def find_changes(path: Path, text: str) -> list[str]:
    """The options that differ between a run.yaml and the text of another, wherever their reports go."""
    contents = _read_mapping(path) if path.is_file() else {}, _parse_mapping(text, path)
    return _compare(
        *({key: content[key] for key in content if key not in ("output", MADE_WITH)} for content in contents)
    )


def _compare(before: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """The keys whose values differ, with both values."""
    keys = [key for key in before | now if before.get(key) != now.get(key)]
    return [f"{key} {before.get(key, 'not given')}, now {now.get(key, 'not given')}" for key in keys]


def _made_with(library: Library) -> dict[str, str]:
    from cxc_eccv.hashing import hash_content

    labels = {name: hash_content(file.path) for name, file in library.label_files.items()}
    return {"cxc_eccv": __version__, "edition": library.edition, "data": library.catalog.version, **labels}


def _find_data_dir() -> Path | str | None:
    """The folder of the raw files; None for the download cache."""
    from cxc_eccv.sources.catalog import SAMPLE
    from cxc_eccv.sources.download import mirror_folder

    folder = mirror_folder(DATA.get().data_dir)
    return SAMPLE if folder == mirror_folder(SAMPLE) else folder


def _parameters_by_key(context: typer.Context) -> dict[str, Any]:
    """Long name of each option, and of the argument, to what it sets."""
    parameters = context.command.get_params(context)
    longest = {max(parameter.opts, key=len).removeprefix("--"): parameter for parameter in parameters}
    return {key: parameter for key, parameter in longest.items() if key not in ("help", "config")}


def _read_mapping(path: Path) -> dict[str, Any]:
    """The keys of a file of options, and the texts after them, as a command line would give them."""
    from cxc_eccv.sources.reading import read_text

    if path.is_dir():
        raise InvalidOption(f"{path} is a folder; name the file of options in it, such as {path / 'run.yaml'}")
    if not path.is_file():
        raise NoSuchFile(path)
    try:
        return _parse_mapping(read_text(path), path)
    except MalformedSource as error:
        what = "nothing" if error.actual == "an empty file" else "no text"
        raise DataError(f"{path} holds {what}. Name a file of options, such as the run.yaml of a report") from None


def _parse_mapping(text: str, path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.load(text, Loader=yaml.BaseLoader)  # noqa: S506 - every value stays text, so that 010 is not 8
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise DataError(f"{path}: cannot be read as YAML: {' '.join(str(error).split())}") from None
    if node is None or not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{path}: expected the options of evaluate, one on a line, as `split: test`")
    keys = [key.value for key, _ in node.value]
    if len(keys) > len(set(keys)):
        raise DataError(f"{path}: {max(keys, key=keys.count)} is given twice; keep one")
    return content


def _read_value(place: str, value: object, parameter: Any) -> Any:  # noqa: ANN401 - of an option
    """The value as on a command line, so that the option itself checks it."""
    if getattr(parameter, "is_flag", False):
        if value not in ("true", "false"):
            raise InvalidOption(f"{place} is {reprlib.repr(value)}; give true or false")
        return value == "true"
    takes_several = getattr(parameter, "multiple", False) or parameter.nargs == -1
    entries = value if isinstance(value, list) and takes_several else [value]
    if not all(isinstance(entry, str) and entry for entry in entries):
        raise InvalidOption(f"{place} is {reprlib.repr(value)}; give {'values' if takes_several else 'one value'}")
    return entries if takes_several else entries[0]


def _plain(value: Any, option: str) -> Any:  # noqa: ANN401 - of an option
    """The value as YAML holds it, with files and folders by their absolute paths."""
    if isinstance(value, list | tuple):
        plain = [_plain(entry, option) for entry in value]
        return plain[0] if len(plain) == 1 else plain
    if isinstance(value, Path) or option in NAMES_OR_PLACES:
        before, sign, place = str(value).rpartition(LOCAL)
        path = Path(place).expanduser()
        # A run is named after its file, which may be a link.
        whole = path.resolve() if path.is_dir() else path.parent.resolve() / path.name
        return f"{before}{sign}{whole}" if path.exists() else str(value)
    return value
