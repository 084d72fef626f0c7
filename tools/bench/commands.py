"""Time of ``cxc-eccv --help``, of the demo and of every script of ``examples``, each in a process of its own.

The yardstick is a Python process that imports numpy and ends.

Example:
    python tools/bench/commands.py --repeat 3
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND_LINE = ["-c", "from cxc_eccv.cli.app import main; main()"]
OFFLINE = {"CXC_ECCV_OFFLINE": "1", "HF_HUB_OFFLINE": "1", "PYTHONPATH": str(ROOT)}


def seconds(arguments: list[str], repeat: int) -> float:
    """Median time of a Python process with these arguments, in an empty folder, on the embedded sample."""
    environment = {name: value for name, value in os.environ.items() if name != "CXC_ECCV_DATA"} | OFFLINE
    times = []
    for _ in range(repeat):
        with tempfile.TemporaryDirectory() as folder:
            start = time.perf_counter()
            command = [sys.executable, *arguments]
            subprocess.run(command, cwd=folder, env=environment, check=True, capture_output=True)
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    """Print a line per command: seconds, and their ratio to the yardstick."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=3, help="processes per command; the median is shown")
    repeat = parser.parse_args().repeat
    commands = {"cxc-eccv --help": [*COMMAND_LINE, "--help"], "cxc-eccv demo": [*COMMAND_LINE, "demo"]}
    commands |= {f"examples/{path.name}": [str(path)] for path in sorted((ROOT / "examples").glob("*.py"))}
    bare = seconds(["-c", "import numpy"], repeat)
    print(f"python -c 'import numpy': {bare:.2f} s")
    for name, arguments in commands.items():
        taken = seconds(arguments, repeat)
        print(f"{name}: {taken:.2f} s, ratio {taken / bare:.1f}")


if __name__ == "__main__":
    main()
