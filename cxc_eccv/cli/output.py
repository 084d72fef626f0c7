"""The files of commands, run.yaml with their options among them, and messages about files."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Collection, Iterable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from cxc_eccv import __version__
from cxc_eccv.cli.choices import DATA
from cxc_eccv.errors import DataError, InvalidOption, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.runs import EmbeddingsRun, Run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.types import Report


COMMAND: ContextVar[str | None] = ContextVar("COMMAND", default=None)


def check_folder(output: Path | None, names: Collection[str] = (), *, images: Path | None = None) -> None:
    """Refuse, before any work, an output that cannot be written and images that no page could show."""
    if output is not None:
        refuse_unwritable(output, names)
    if images is not None and output is None:
        raise InvalidOption("--images adds thumbnails to report.html; name a folder for it with --output")
    if images is not None:
        from cxc_eccv.sources.download import image_folder

        image_folder(images)


def deliver(
    report: Report,
    output: Path | None,
    run: Run | None,
    library: Library,
    images: Path | None = None,
    run_file: str | None = None,
) -> None:
    """Write a report and print it; a closed pipe costs no file, and a full disk costs no number."""
    from cxc_eccv.report.console import print_report

    try:
        written = write_report(report, output, run, library, images, run_file)
    finally:
        print_report(report)
    say_written(written)


def say_written(paths: Iterable[Path]) -> None:
    """Print which files were written."""
    for path in paths:
        say(f"wrote {path}")


def say_kept(run: EmbeddingsRun, was_there: bool) -> None:
    """Print on standard error where the embeddings of a model are saved."""
    if run.path is None:
        say("the embeddings are not saved: their place in the cache is taken or cannot be written", err=True)
    else:
        did = "reusing cached embeddings" if was_there else "saved the embeddings"
        say(f"{did}: {run.path}", err=True)


def write_report(
    report: Report,
    output: Path | None,
    run: Run | None,
    library: Library,
    images: Path | None = None,
    run_file: str | None = None,
) -> list[Path]:
    """Write the files of a report, if there is an ``output``; without a run they show no example queries.

    ``run_file`` is the text of run.yaml.
    """
    if output is None:
        return []
    from cxc_eccv.report.collect import collect_examples
    from cxc_eccv.report.folder import write_folder

    examples = None
    if run is not None and report.per_query is not None:
        examples = collect_examples(run, report, library)
    if COMMAND.get() is not None:
        report = replace(report, provenance={**report.provenance, "command": COMMAND.get()})
    return write_folder(output, report, examples, images, run_file)


SECRETS = ("--hub-token", "--hub_token")


def command_text(arguments: Sequence[str]) -> str:
    """The command line for others to repeat: without secrets, without the output, and without folders of files."""
    left_out = ("--output", *SECRETS)
    kept = [
        argument
        for previous, argument in pairwise(("", *arguments))
        if previous not in left_out and argument.partition("=")[0] not in left_out
    ]
    return show_command(kept)


def show_command(arguments: Sequence[str]) -> str:
    """The command line to copy; of paths only the last name is kept."""
    return shlex.join(["cxc-eccv", *map(_strip_folder, arguments)])


def _strip_folder(argument: str) -> str:
    option, equals, value = argument.rpartition("=")
    is_path = os.sep in value and (Path(value).is_absolute() or Path(value).exists())
    return f"{option}{equals}{Path(value).name}" if is_path else argument


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

    text = read_text(path)
    try:
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise DataError(f"{path}: cannot be read as YAML: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise DataError(f"{path}: expected the options of evaluate, one on a line, as `split: test`")
    keys = [line.partition(":")[0] for line in text.splitlines() if line[:1].isalpha()]
    repeated = next((key for key in keys if keys.count(key) > 1), None)
    if repeated is not None:
        raise DataError(f"{path}: {repeated} is given twice; keep one")
    return content


def _read_value(place: str, value: object, parameter: Any) -> Any:  # noqa: ANN401 - of an option
    """The value as on a command line, so that the option itself checks it."""
    if getattr(parameter, "is_flag", False):
        if not isinstance(value, bool):
            raise InvalidOption(f"{place} is {value!r}; give true or false")
        return value
    takes_several = getattr(parameter, "multiple", False) or parameter.nargs == -1
    entries = value if isinstance(value, list) and takes_several else [value]
    if not all(type(entry) in (str, int, float) for entry in entries):
        raise InvalidOption(f"{place} is {value!r}; give {'values' if takes_several else 'one value'}, text in quotes")
    texts = list(map(str, entries))
    return texts if takes_several else texts[0]


def _plain(value: Any) -> Any:  # noqa: ANN401 - of an option
    if isinstance(value, list | tuple):
        plain = [_plain(entry) for entry in value]
        return plain[0] if len(plain) == 1 else plain
    return str(value) if isinstance(value, Path) else value
