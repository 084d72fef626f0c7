"""``cxc-eccv entailment``: what a classifier of entailment is made of."""

from __future__ import annotations

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.help import Command
from cxc_eccv.terminal import print_shown

__all__ = ["entailment"]

entailment = typer.Typer(
    no_args_is_help=True, help="A classifier of entailment: its training data, and how good it is."
)


@entailment.command("data", cls=Command)
def data(data_dir: DataDir = None, allow_modified: AllowModified = False) -> None:
    """Count the labelled pairs at hand that a classifier can be trained on, beside the paper's Table 2.

    The last number is of pairs that hold no image, caption or words of a test split: what training takes unless it is
    told otherwise. Nothing is downloaded.

    Examples:
      cxc-eccv entailment data
      cxc-eccv entailment data --data-dir sample
    """
    from cxc_eccv.entailment.training_data import count_corpora, table_of_counts
    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    library = Library(data_dir, offline=True, allow_modified=allow_modified)
    print_shown(tables_to_console([table_of_counts(library, count_corpora(library))]))
