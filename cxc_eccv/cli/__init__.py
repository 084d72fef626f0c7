"""The command line: one file per command; a command imports what it needs when it runs."""

from __future__ import annotations

import sys
import warnings

import typer

from cxc_eccv import __version__
from cxc_eccv.cli.baseline import baseline
from cxc_eccv.cli.build import build
from cxc_eccv.cli.compare import compare
from cxc_eccv.cli.demo import demo
from cxc_eccv.cli.encode import encode
from cxc_eccv.cli.evaluate import evaluate
from cxc_eccv.cli.features import features
from cxc_eccv.cli.list import list_all
from cxc_eccv.cli.output import COMMAND, command_text
from cxc_eccv.cli.push import push
from cxc_eccv.cli.report import report
from cxc_eccv.cli.sts import sts
from cxc_eccv.cli.submit import submit
from cxc_eccv.cli.train import train
from cxc_eccv.errors import CxcEccvError

__all__ = ["app", "main"]

app = typer.Typer(
    name="cxc-eccv",
    help="Honest labels and exact metrics for MS-COCO image-caption retrieval.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command()(build)
app.command()(encode)
app.command()(features)
app.command()(evaluate)
app.command()(report)
app.command()(compare)
app.command()(baseline)
app.command()(sts)
app.command()(demo)
app.command()(push)
app.command()(submit)
app.command("list")(list_all)
app.add_typer(train, name="train")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cxc-eccv {__version__}")
        raise typer.Exit


def _show_warning(message: Warning | str, *_place: object, **_stream: object) -> None:
    typer.echo(f"cxc-eccv: warning: {message}", err=True)


@app.callback()
def options(
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    """Honest labels and exact metrics for MS-COCO image-caption retrieval."""


def main() -> None:
    """Run the command line; an error of this package is one message and exit status 2."""
    warnings.showwarning = _show_warning
    COMMAND.set(command_text(sys.argv[1:]))
    try:
        app()
    except CxcEccvError as error:
        typer.echo(f"cxc-eccv: {type(error).__name__}: {error}", err=True)
        sys.exit(2)
    except KeyboardInterrupt:
        typer.echo("cxc-eccv: interrupted", err=True)
        sys.exit(130)
