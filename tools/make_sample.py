"""Writes the embedded sample data set, or checks the committed one; run from the root of the repository.

python tools/make_sample.py            # write cxc_eccv/sample/
python tools/make_sample.py --check    # exit with 1 and list the files that differ
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sample.folder import differences, sample_files, write_folder

FOLDER = Path(__file__).parents[1] / "cxc_eccv" / "sample"

EXAMPLES = """examples:
  python tools/make_sample.py                       write cxc_eccv/sample/
  python tools/make_sample.py --check               exit with 1 and list the files that differ
  python tools/make_sample.py --output /tmp/sample  write elsewhere
"""


def main(arguments: list[str] | None = None) -> int:
    """Write or check the sample; returns the exit status."""
    parser = argparse.ArgumentParser(
        description="Generate the embedded sample: drawn scenes in the raw formats of the real sources.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--output", type=Path, default=FOLDER, help="folder of the sample (default: cxc_eccv/sample)")
    parser.add_argument("--check", action="store_true", help="write nothing; compare text by byte and images by pixel")
    options = parser.parse_args(arguments)
    files = sample_files()
    if not options.check:
        try:
            write_folder(options.output, files)
        except FileExistsError as error:
            parser.error(str(error))
        print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes in {options.output}")
        return 0
    lines = differences(options.output, files)
    for line in lines:
        print(line, file=sys.stderr)
    if lines:
        print(f"{options.output}: {len(lines)} files differ; run python tools/make_sample.py", file=sys.stderr)
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
