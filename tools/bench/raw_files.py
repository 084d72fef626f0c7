"""What any reader of the raw files must at least do: the yardstick for builders and readers."""

from __future__ import annotations

import csv
import gzip
import json
from collections.abc import Iterable

from cxc_eccv.sources.download import fetch


def parse_alone(names: Iterable[str]) -> None:
    """Parse raw files of the catalog with json and csv alone, without any check."""
    for name in names:
        path = fetch(name, offline=True)
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if path.name.removesuffix(".gz").endswith(".json"):
            json.loads(data)
        elif path.name.removesuffix(".gz").endswith(".csv"):
            list(csv.reader(data.decode().splitlines()))
