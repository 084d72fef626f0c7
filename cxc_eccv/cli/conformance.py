"""``cxc-eccv conformance``: other libraries on the conformance kit, and why their numbers differ from ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import names
from cxc_eccv.cli.output import check_folder, say_written
from cxc_eccv.terminal import print_shown
from cxc_eccv.writing import replaced_folder

FILES = ("conformance.json", "conformance.md", "embeddings.py", "expected.json")


def conformance(
    libraries: Annotated[
        list[str] | None, typer.Argument(help="Libraries to run, such as ranx. Default: all that are installed.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the table, the script of the embeddings and the expected values."),
    ] = None,
) -> None:
    """Run other libraries on fixed embeddings, and prove why their numbers differ from ours.

    The kit has many equal scores. A difference counts as explained if the library's rule for ties and its definition,
    stated again here, give exactly its value. With an unexplained one the exit status is 1.

    Examples:
      cxc-eccv conformance
      cxc-eccv conformance ranx torchmetrics
      cxc-eccv conformance --output kit
    """
    from cxc_eccv.integrations.conformance import choose, comparison_tables, kit_files, run_kit
    from cxc_eccv.tables import tables_to_console, tables_to_markdown

    check_folder(output)
    chosen = choose(names(libraries))
    rows = run_kit(chosen)
    tables = comparison_tables(chosen, rows)
    if output is not None:
        texts = {
            "conformance.json": json.dumps([row._asdict() for row in rows], indent=2) + "\n",
            "conformance.md": tables_to_markdown(tables),
            **kit_files(),
        }
        with replaced_folder(output, FILES) as folder:
            for name, text in texts.items():
                (folder / name).write_text(text, encoding="utf-8", newline="\n")
    print_shown(tables_to_console(tables))
    say_written([output / name for name in FILES] if output is not None else [])
    if any(row.why is None for row in rows):
        raise typer.Exit(1)
