"""Writes the generated parts of ``docs/`` and ``mkdocs.yml`` from the registry, the configs and the command line.

    python tools/generate_docs.py            # write
    python tools/generate_docs.py --check    # exit with 1 if a file is out of date

Text outside the comments "generated: ..." of a page is written by hand and kept. If ``CXC_ECCV_DATA`` names the real
data, the sizes of the tasks are recomputed, and written or checked too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from site_pages.site import expected_files

from cxc_eccv.errors import CxcEccvError

ROOT = Path(__file__).parents[1]


def main() -> None:
    """Write or check the pages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a file differs")
    parser.add_argument("--root", type=Path, default=ROOT, help="folder of docs/ and mkdocs.yml")
    options = parser.parse_args()
    try:
        wanted = expected_files(options.root)
    except CxcEccvError as error:
        parser.exit(2, f"{error}\n")
    stale = [path for path, text in wanted.items() if _read(options.root / path) != text]
    if options.check:
        if stale:
            parser.exit(1, f"not up to date: {', '.join(stale)}; run python tools/generate_docs.py\n")
        return
    for path in stale:
        (options.root / path).parent.mkdir(parents=True, exist_ok=True)
        (options.root / path).write_text(wanted[path], encoding="utf-8")
    print(f"{len(wanted)} files, {len(stale)} changed")


def _read(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


if __name__ == "__main__":
    main()
