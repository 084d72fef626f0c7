"""All commands, and the message of a command that fails."""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import typer
from typer.core import TyperGroup

from cxc_eccv.cli.build import build, demo, images
from cxc_eccv.cli.compare import compare
from cxc_eccv.cli.delivery import COMMAND, command_text
from cxc_eccv.cli.encode import encode
from cxc_eccv.cli.evaluate import evaluate
from cxc_eccv.cli.hub import leaderboard, push, submit
from cxc_eccv.cli.list import list_all
from cxc_eccv.cli.report import report, tables
from cxc_eccv.cli.shared_options import (
    DATA,
    AllowModified,
    Command,
    CommandGroup,
    DataCommand,
    DataDir,
    DataOptions,
    Group,
)
from cxc_eccv.cli.sts import sts
from cxc_eccv.discovery import import_modules, study_modules
from cxc_eccv.errors import CxcEccvError, InvalidOption
from cxc_eccv.terminal import say
from cxc_eccv.version import __version__

INTERRUPTED = 128 + 2
"""Exit status of a program that Ctrl-C ends."""


class Program(TyperGroup):
    """All commands; an interruption says what is kept."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401 - of typer
        """Names of the commands in the order of their groups."""
        groups = list(Group)
        commands = cast("dict[str, Any]", self.commands)
        return sorted(super().list_commands(ctx), key=lambda name: groups.index(commands[name].rich_help_panel))

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - of typer
        """Print the groups of commands; the line of usage names the options, so that the help fits a screen."""
        options: list[Any] = [*self.get_params(ctx)]
        for option in options:
            option.hidden = True
        super().format_help(ctx, formatter)
        for option in options:  # which other commands show
            option.hidden = False

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - of typer
        """Find the command, and refuse a value behind one of its options that take none."""
        name, command, rest = super().resolve_command(ctx, args)
        _refuse_values_of_flags(ctx, command, rest)
        return name, command, rest

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - of typer
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:
            kept = getattr(interruption, "__notes__", ["Unfinished files were discarded; run the command again."])
            say(f"cxc-eccv: interrupted. {' '.join(kept)}", err=True)
            raise typer.Exit(INTERRUPTED) from None


TRUE_WORDS = ("true", "yes", "1")
FALSE_WORDS = ("false", "no", "0")


def _refuse_values_of_flags(ctx: Any, command: Any, arguments: Sequence[str]) -> None:  # noqa: ANN401 - of typer
    """Refuse ``--bounds true``, where the word would be read as a file."""
    while command is not None and hasattr(command, "commands") and arguments:
        command = command.commands.get(arguments[0])
        arguments = arguments[1:]
    if command is None:
        return
    flags: set[str] = set()
    for parameter in command.get_params(ctx):
        if getattr(parameter, "is_flag", False):
            flags.update(parameter.opts, parameter.secondary_opts)
    for option, value in pairwise(arguments):
        if option not in flags or value.lower() not in TRUE_WORDS + FALSE_WORDS or Path(value).exists():
            continue
        what = value if value.lower() in TRUE_WORDS else f"{option} {value}"
        raise InvalidOption(f"{option} takes no value; leave out {what!r}")


def _describe(error: OSError) -> str:
    place = ": ".join(os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    reason = error.strerror or str(error) or type(error).__name__
    return f"{place}: {reason}" if place else reason


def _drop_unwritable_output() -> None:
    """Lead standard output nowhere if it cannot be written, as Python would try again when the program ends."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


app = typer.Typer(
    name="cxc-eccv",
    cls=Program,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command(rich_help_panel=Group.SCORE, cls=Command)(demo)
app.command(rich_help_panel=Group.SCORE, cls=DataCommand)(evaluate)
app.command(rich_help_panel=Group.SCORE, cls=Command)(compare)
app.command(rich_help_panel=Group.SCORE, cls=Command)(tables)
app.command(rich_help_panel=Group.SCORE, cls=Command)(report)
app.command(rich_help_panel=Group.SCORE, cls=DataCommand)(encode)
app.command(rich_help_panel=Group.SCORE, cls=DataCommand)(sts)
app.command("list", rich_help_panel=Group.DATA, cls=DataCommand)(list_all)
app.command(rich_help_panel=Group.DATA, cls=DataCommand)(images)
app.command(rich_help_panel=Group.DATA, cls=DataCommand)(build)
app.command(rich_help_panel=Group.PUBLISH, cls=Command)(submit)
app.command(rich_help_panel=Group.PUBLISH, cls=Command)(leaderboard)
app.command(rich_help_panel=Group.PUBLISH, cls=Command)(push)


def _find_commands() -> Iterator[tuple[str, Group, Any]]:
    """Name, group and function of the studies' commands: those in ``COMMANDS`` of each file of ``commands``."""
    for room in study_modules("commands"):
        for module in import_modules(room).values() if hasattr(room, "__path__") else [room]:
            yield from ((name, group, getattr(module, name)) for name, group in module.COMMANDS.items())


def _add_commands(added: typer.Typer) -> None:
    """Add the commands of the studies, functions or groups; groups of one name merge."""
    groups: dict[str, typer.Typer] = {}
    for name, group, command in _find_commands():
        if not isinstance(command, typer.Typer):
            added.command(rich_help_panel=group, cls=DataCommand)(command)
            continue
        command.rich_markup_mode = added.rich_markup_mode
        if name in groups:
            groups[name].registered_commands += command.registered_commands
        else:
            groups[name] = command
            added.add_typer(command, name=name.replace("_", "-"), cls=CommandGroup, rich_help_panel=group)


_add_commands(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"cxc-eccv {__version__}")
        raise typer.Exit


def _show_warning(message: Warning | str, *_place: object, **_stream: object) -> None:
    say(f"cxc-eccv: warning: {message}", err=True)


MAIN_HELP = """\
Score image-caption retrieval on MS-COCO. Try it on drawings, offline:\\
cxc-eccv demo --output demo\\
cxc-eccv evaluate demo/ridge.npz --data-dir sample"""
"""A backslash ends a line of Markdown."""


@app.callback(help=MAIN_HELP, options_metavar="[--version] [--data-dir DIR]", subcommand_metavar="COMMAND [OPTIONS]")
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Score image-caption retrieval on MS-COCO."""
    DATA.set(DataOptions(data_dir, allow_modified))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; an error of this package or of the system is one message and exit status 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    warnings.showwarning = _show_warning
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    COMMAND.set(command_text(arguments))
    try:
        app(arguments, prog_name="cxc-eccv")
    except CxcEccvError as error:
        say(f"cxc-eccv: {type(error).__name__}: {error}", err=True)
    except OSError as error:
        _drop_unwritable_output()
        say(f"cxc-eccv: {_describe(error)}", err=True)
    sys.exit(2)
