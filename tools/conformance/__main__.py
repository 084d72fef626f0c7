"""Runs other libraries on fixed embeddings, and proves why their numbers differ from ours.

    python tools/conformance                     all libraries that are installed
    python tools/conformance ranx torchmetrics   these two
    python tools/conformance --output kit        also write the kit for other libraries' tests
    python tools/conformance --expected          write expected.json
    python tools/conformance --page              write the table of docs/reference/conformance.md

The kit has many equal scores. A difference counts as explained if the library's rule for ties and its definition,
stated again here, give exactly its value. With an unexplained one the exit status is 1.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from conformance.comparison import comparison_tables, run_kit
from conformance.peers import choose
from conformance.values import FOLDER, expected_values, kit_files
from cxc_eccv.errors import CxcEccvError
from cxc_eccv.tables import tables_to_console, tables_to_markdown
from cxc_eccv.terminal import print_shown
from cxc_eccv.writing import write_texts

PAGE = FOLDER.parents[1] / "docs" / "reference" / "conformance.md"
START = "<!-- generated: table -->\n"
END = "<!-- end of the generated part -->\n"


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the libraries, or write what the repository keeps of the kit."""
    parser = argparse.ArgumentParser("conformance", None, __doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("libraries", nargs="*", help="libraries to run; default: all that are installed")
    parser.add_argument("--output", type=Path, help="folder for the table, the script of the embeddings and the values")
    parser.add_argument("--expected", action="store_true", help="write expected.json")
    parser.add_argument("--page", action="store_true", help="write the table of the page; needs every library")
    options = parser.parse_args(arguments)
    try:
        if options.expected:
            text = json.dumps(expected_values(), indent=1) + "\n"
            (FOLDER / "expected.json").write_text(text, encoding="utf-8")
            return
        explained = run(options.libraries, options.output, page=options.page)
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    parser.exit(0 if explained else 1)


def run(libraries: Sequence[str], output: Path | None, *, page: bool) -> bool:
    """Show the comparison, and write the kit or the page; gives whether every difference is explained."""
    chosen = choose(libraries)
    rows = run_kit(chosen)
    tables = comparison_tables(chosen, rows)
    table = tables_to_markdown(tables)
    explained = all(row.why is not None for row in rows)
    if output is not None:
        values = json.dumps([row._asdict() for row in rows], indent=2) + "\n"
        write_texts(output, {"conformance.json": values, "conformance.md": table, **kit_files()})
    if page and explained and all(peer.version is not None for peer in chosen):
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(START)
        PAGE.write_text(f"{before}{START}\n{table}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print_shown(tables_to_console(tables))
    return explained


if __name__ == "__main__":
    main()
