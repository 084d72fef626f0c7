"""All commands, of the core and of the studies, and how a run ends.

A run writes its files even if nobody reads standard output or standard error any more.
"""

from __future__ import annotations

import errno
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import typer

from cxc_eccv import __version__
from cxc_eccv.cli.build import build, images
from cxc_eccv.cli.choices import DATA, AllowModified, Command, DataCommand, DataDir, DataOptions, Group
from cxc_eccv.cli.compare import compare, conformance
from cxc_eccv.cli.demo import demo
from cxc_eccv.cli.encode import encode
from cxc_eccv.cli.evaluate import evaluate
from cxc_eccv.cli.hub import push, submit
from cxc_eccv.cli.list import list_all
from cxc_eccv.cli.output import COMMAND, command_text
from cxc_eccv.cli.report import report
from cxc_eccv.cli.sts import sts
from cxc_eccv.discovery import modules_of, study_modules
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.terminal import say
from cxc_eccv.writing import remedy_of

BROKEN_PIPE = 128 + 13
"""Exit status of a program that the signal of a broken pipe ends, as a shell tells it."""

INTERRUPTED = 128 + 2
"""Exit status of a program that Ctrl-C ends."""

DISCARDED = "Unfinished files were discarded; run the command again to start over."


def _report_interruption(interruption: KeyboardInterrupt) -> int:
    """Print what is kept, and return the exit status."""
    kept = getattr(interruption, "__notes__", [DISCARDED])
    say(f"\ncxc-eccv: interrupted. {' '.join(kept)}", err=True)
    return INTERRUPTED


class _Commands(Group):
    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as of typer
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interruption:  # typer would end without a message
            raise typer.Exit(_report_interruption(interruption)) from None


app = typer.Typer(
    name="cxc-eccv",
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["--help", "-h"]},
)
app.command(cls=Command)(demo)
app.command("list", cls=DataCommand)(list_all)
app.command(cls=DataCommand)(images)
app.command(cls=DataCommand)(evaluate)
app.command(cls=DataCommand)(encode)
app.command(cls=Command)(report)
app.command(cls=Command)(compare)
app.command(cls=Command)(conformance)
app.command(cls=DataCommand)(sts)
app.command(cls=DataCommand)(build)
app.command(cls=Command)(submit)
app.command(cls=Command)(push)


def _find_commands() -> Iterator[tuple[str, Any]]:
    """Names and commands of the studies: those named like a file of their room ``commands``, or in its ``COMMANDS``."""
    for room in study_modules("commands"):
        for place, module in (modules_of(room) if hasattr(room, "__path__") else {"": room}).items():
            yield from ((name, getattr(module, name)) for name in getattr(module, "COMMANDS", (place,)))


def _add_commands(added: typer.Typer) -> None:
    """Add the commands of the studies, functions or groups; groups of one name merge."""
    groups: dict[str, typer.Typer] = {}
    for name, command in _find_commands():
        if not isinstance(command, typer.Typer):
            added.command(cls=DataCommand)(command)
        elif name in groups:
            groups[name].registered_commands += command.registered_commands
        else:
            groups[name] = command
            added.add_typer(command, name=name)


_add_commands(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"cxc-eccv {__version__}")
        raise typer.Exit


def _show_warning(message: Warning | str, *_place: object, **_stream: object) -> None:
    say(f"cxc-eccv: warning: {message}", err=True)


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Honest labels and exact metrics for MS-COCO image-caption retrieval."""
    DATA.set(DataOptions(data_dir, allow_modified))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line.

    An error of this package or of the system is one message and exit status 2. A standard output that nobody reads
    any more ends a run when its work is done, with the status that a broken pipe has.
    """
    stdout = _guard_streams()
    warnings.showwarning = _show_warning
    arguments = sys.argv[1:] if arguments is None else [*arguments]
    COMMAND.set(command_text(arguments))
    status = _status_of(arguments)
    sys.stdout.flush()
    lost = None if stdout is None else stdout.lost
    if lost is not None and lost.errno == errno.EPIPE:
        status = status or BROKEN_PIPE
    elif lost is not None:
        say(f"cxc-eccv: standard output cannot be written: {lost.strerror}", err=True)
        status = status or 2
    sys.exit(status)


def _status_of(arguments: list[str]) -> int:
    try:
        app(arguments, prog_name="cxc-eccv")
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        say(ended.code, err=True)  # what Python does with anything else
        return 1
    except CxcEccvError as error:
        say(f"cxc-eccv: {type(error).__name__}: {error}", err=True)
        return 2
    except OSError as error:
        say(f"cxc-eccv: {_of_system(error)}", err=True)
        return 2
    except KeyboardInterrupt as interruption:
        return _report_interruption(interruption)
    return 0


def _of_system(error: OSError) -> str:
    place = ": ".join(os.fsdecode(name) for name in (error.filename, error.filename2) if isinstance(name, str | bytes))
    reason = error.strerror or str(error) or type(error).__name__
    return " ".join(filter(None, [f"{place}: {reason}." if place else f"{reason}.", remedy_of(error)]))


class Outlet(io.FileIO):
    """The file behind a standard stream; once it cannot be written (``lost`` says why), what comes is dropped."""

    lost: OSError | None = None

    def write(self, data: Any) -> int:  # noqa: ANN401 - whatever has bytes, as of the class above
        """Write, or drop."""
        if self.lost is None:
            try:
                return super().write(data)
            except OSError as error:
                self.lost = error
        return memoryview(data).nbytes


def _guard_streams() -> Outlet | None:
    """Put outlets below the standard streams; give that of standard output, None where a caller catches the output."""
    outlets: dict[str, Outlet] = {}
    for number, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name)
        if stream is not getattr(sys, f"__{name}__"):
            continue
        if stream is None:
            _lead_nowhere(number)
        else:
            stream.flush()
        outlets[name] = outlet = Outlet(number, "w", closefd=False)
        text = io.TextIOWrapper(
            io.BufferedWriter(outlet),
            encoding="utf-8" if stream is None else stream.encoding,
            errors="replace",
            line_buffering=outlet.isatty() or name == "stderr",
        )
        setattr(sys, name, text)
    return outlets.get("stdout")


def _lead_nowhere(number: int) -> None:
    """Open a closed stream: the next file that is opened would take its number, and libraries would write into it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != number:
        os.dup2(nowhere, number)
        os.close(nowhere)
    os.set_inheritable(number, True)
