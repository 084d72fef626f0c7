"""Tables of questions and answers as people keep them: CSV, or JSON lines."""

import csv
import json


def read_rows(path):
    """Its rows, as dictionaries."""
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8") as lines:
            return list(csv.DictReader(lines))
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_rows(path, rows):
    """Write them; gives the path."""
    if path.suffix == ".csv":
        with path.open("w", newline="", encoding="utf-8") as lines:
            writer = csv.DictWriter(lines, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
