"""``cxc-eccv annotate``: the loop from disagreement of models to labels that people gave, in one folder."""

from __future__ import annotations

import typer

from cxc_eccv.cli.choices import DataCommand
from cxc_eccv.studies.annotation.commands.annotate.answers import check, export, import_answers, undo
from cxc_eccv.studies.annotation.commands.annotate.labels import merge, report
from cxc_eccv.studies.annotation.commands.annotate.propose import propose

__all__ = ["annotate"]

annotate = typer.Typer(no_args_is_help=True, help="Extend the labels: models propose pairs, people judge them.")
annotate.command(cls=DataCommand)(propose)
annotate.command(cls=DataCommand)(export)
annotate.command("import", cls=DataCommand)(import_answers)
for command in (undo, check, merge, report):
    annotate.command(cls=DataCommand)(command)
