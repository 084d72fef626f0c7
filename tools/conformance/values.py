"""Our values on the kit: what ``expected.json`` holds, and the check against it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import getdoc
from pathlib import Path
from typing import Any

from conformance.kit import EXACT, NDCG, Part, parts
from conformance.rules import earlier_first, later_first, ndcg, positives_first
from cxc_eccv.errors import DataError

FOLDER = Path(__file__).parent
FILES = ("embeddings.py", "expected.json")
SIZES = (200, 5_000)
METRICS = {
    **{f"recall_at_{k}": f"1 if a positive is among the first {k} items, else 0" for k in (1, 5, 10)},
    "mrr_at_10": "1 / rank of the best positive, 0 below rank 10",
    "r_precision": "the share of positives among the first R items; R is the number of the query's positives",
    "map_at_r": "the sum of the precision at the ranks i <= R of positives, over R",
    "ndcg_at_10": "the sum of 1 / log2(i + 1) over the ranks i <= 10 of positives, over that of the ideal ranking",
}
"""Label to the value of a query; a metric is the mean over queries."""

LABELS = {
    "links": "Positives of image i are captions 5 i to 5 i + 4, and the other way round. All are queries.",
    "topics": "An image and a caption are positives of each other if their images have the same topic. Queries are "
    "every 4th image and every 19th caption, from the first.",
}
OURS = "positives_last"
ORDERS = {order.__name__: order for order in (earlier_first, later_first, positives_first)}


def kit_files() -> dict[str, str]:
    """Name to text of the files that need none of this package: the script and the values."""
    return {name: (FOLDER / name).read_text(encoding="utf-8") for name in FILES}


def expected_values() -> dict[str, Any]:
    """The content of ``expected.json``, computed."""
    return {
        "schema": 1,
        "tolerance": EXACT,
        "labels": LABELS,
        "metrics": METRICS,
        "ties": {
            OURS: "Of equal scores, positives stand last.",
            **{name: _say(order) for name, order in ORDERS.items()},
        },
        "values": {
            str(size): {key: values for part in parts(size) for key, values in _values_of(part)} for size in SIZES
        },
    }


def _say(order: object) -> str:
    return (getdoc(order) or "").splitlines()[0]


def _values_of(part: Part) -> Iterator[tuple[str, dict[str, float]]]:
    ranks = {name: order(part) for name, order in ORDERS.items()}
    for label in METRICS:
        values = {OURS: part.value(label)}
        for name, of_order in ranks.items():
            is_ndcg = label.startswith(NDCG)
            k = label.removeprefix(NDCG)
            values[name] = float(ndcg(of_order, int(k)).mean()) if is_ndcg else part.value(label, of_order)
        yield f"{part.labels}/{part.direction}/{label}", values


def check_ours(part: Part, n_images: int) -> None:
    """Refuse to compare with values of ours that are not the expected ones; sizes without such are not checked.

    Raises:
        DataError: a value differs, as a changed version of this package or of NumPy would make it.
    """
    expected = json.loads(kit_files()["expected.json"])["values"].get(str(n_images), {})
    for label in METRICS if expected else ():
        key = f"{part.labels}/{part.direction}/{label}"
        value = part.value(label)
        if abs(value - expected[key][OURS]) > EXACT:
            raise DataError(
                f"conformance kit of {n_images} images: {key} is {value}, expected {expected[key][OURS]}. Report this "
                "with your versions of NumPy and cxc_eccv."
            )
