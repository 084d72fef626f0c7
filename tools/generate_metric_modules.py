"""Writes ``metrics/``: the ``evaluate`` module of every metric, which derives all it says from the declaration.

    python tools/generate_metric_modules.py            # write
    python tools/generate_metric_modules.py --check    # fail where a file is not what it would be, byte for byte

A new metric needs nothing but its own file in ``cxc_eccv/metrics/``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from metric_modules.folder import differences, metric_files, write_files

from cxc_eccv.errors import CxcEccvError

FOLDER = Path(__file__).parents[1] / "metrics"


def main() -> None:
    """Write or check the modules."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where a file differs")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the modules are")
    options = parser.parse_args()
    try:
        files = metric_files()
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    found = differences(options.folder, files)
    if options.check:
        if found:
            what_to_do = f"{options.folder} is not up to date; run python tools/generate_metric_modules.py"
            parser.exit(1, "\n".join([*found, what_to_do, ""]))
        return
    write_files(options.folder, files)
    print(f"{len(files)} files, {len(found)} changed")


if __name__ == "__main__":
    main()
