"""Time and peak memory of building every config from the raw files that CXC_ECCV_DATA names.

The yardstick of the ratio is measured in the same run: reading and parsing the same raw files with the standard
library alone (json, csv), which any builder must at least do.

Example:
    CXC_ECCV_DATA=mirror python tools/bench/build.py --num-proc 2
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

from raw_files import parse_alone

from cxc_eccv.builders.folder_writing import build_folder


def peak_megabytes() -> tuple[float, float]:
    """Largest resident size of this process, and of any process it started."""
    return tuple(  # type: ignore[return-value] # two numbers
        resource.getrusage(who).ru_maxrss / 1024 for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )


def main() -> None:
    """Build once into a temporary folder and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--num-proc", type=int, default=2)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        summary = build_folder(Path(folder) / "built", num_proc=arguments.num_proc, progress=False)
        seconds = time.perf_counter() - start
        size = sum(file.stat().st_size for file in (Path(folder) / "built").rglob("*.parquet"))
    start = time.perf_counter()
    parse_alone(sorted(summary.provenance.sources))
    alone = time.perf_counter() - start
    own, started = peak_megabytes()
    print(summary)
    print(f"build, {arguments.num_proc} processes: {seconds:.1f} s, {size / 1e6:.1f} MB of Parquet")
    print(f"parsing the same raw files alone, one process: {alone:.1f} s; ratio {seconds / alone:.1f}")
    print(f"peak memory: {own:.0f} MB here, {started:.0f} MB in the largest worker")


if __name__ == "__main__":
    main()
