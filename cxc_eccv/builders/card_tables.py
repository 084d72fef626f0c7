"""The tables of a card: fields, and the statistics of every split."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import datasets

from cxc_eccv.builders.card_statistics import GROUP_COLUMNS
from cxc_eccv.builders.markdown import table, text

__all__ = ["fields_table", "left_out_table", "statistics_tables"]

SplitStatistics = Mapping[str, Mapping[str, Any]]
"""Split name to what ``card_statistics.split_statistics`` gives."""


def fields_table(features: datasets.Features, fields: Mapping[str, str]) -> str:
    """Name, type and meaning of every column.

    Example:
        >>> features = datasets.Features({"ids": [datasets.Value("int64")], "text": datasets.Value("string")})
        >>> print(fields_table(features, {"ids": "COCO ids", "text": "the caption"}))
        | field | type | meaning |
        |---|---|---|
        | `ids` | list of int64 | COCO ids |
        | `text` | string | the caption |
    """
    rows = [(f"`{name}`", type_name(feature), fields[name]) for name, feature in features.items()]
    return table(["field", "type", "meaning"], rows)


def type_name(feature: object) -> str:
    """A feature's type in words.

    Example:
        >>> type_name({"id": datasets.Value("int64"), "texts": datasets.List(datasets.Value("string"))})
        '{id: int64, texts: list of string}'
    """
    if isinstance(feature, datasets.Value):
        return str(feature.dtype)
    if isinstance(feature, dict):
        return "{" + ", ".join(f"{name}: {type_name(part)}" for name, part in feature.items()) + "}"
    if isinstance(feature, datasets.List):
        return f"list of {type_name(feature.feature)}"
    return type(feature).__name__.lower()


def statistics_tables(features: datasets.Features, splits: SplitStatistics) -> str:
    """Rows per split, then ratings, list sizes, flags and labels; a row per split and group.

    Example:
        >>> column = {"known": 2, "mean": 2.5, "min": 1.0, "max": 4.0, "histogram": {"1 to 2": 1, "3 to 4": 1}}
        >>> splits = {"test": {"rows": 2, "groups": {"": {"rows": 2, "columns": {"rating": column}}}}}
        >>> print(statistics_tables(datasets.Features({"rating": datasets.Value("float64")}), splits))
        | split | rows |
        |---|---:|
        | test | 2 |
        <BLANKLINE>
        | split | `rating` known | mean | min | max | 1 to 2 | 3 to 4 |
        |---|---:|---:|---:|---:|---:|---:|
        | test | 2 | 2.5 | 1 | 4 | 1 | 1 |
    """
    by = next((name for name in GROUP_COLUMNS if name in features), None)
    head = ["split"] if by is None else ["split", by]
    groups = [
        ([split] if by is None else [split, text(group)], part)
        for split, statistics in splits.items()
        for group, part in statistics["groups"].items()
    ]
    rows = table([*head, "rows"], [[*place, part["rows"]] for place, part in groups])
    return "\n\n".join([rows, *_number_tables(head, groups), *_other_tables(head, groups)])


def left_out_table(splits: SplitStatistics) -> str:
    """What a rule left out of every split; empty where nothing was.

    Example:
        >>> print(left_out_table({"test": {"left_out": {"images without any category": 48}}}))
        | split | left out | number |
        |---|---|---:|
        | test | images without any category | 48 |
    """
    rows = [
        (split, rule, number) for split, statistics in splits.items() for rule, number in statistics["left_out"].items()
    ]
    return table(["split", "left out", "number"], rows) if rows else ""


Groups = list[tuple[list[str], Mapping[str, Any]]]


def _number_tables(head: list[str], groups: Groups) -> Iterator[str]:
    names = dict.fromkeys(name for _, part in groups for name, found in part["columns"].items() if "mean" in found)
    for name in names:
        found = [(place, part["columns"][name]) for place, part in groups if name in part["columns"]]
        bins = sorted({one for _, column in found for one in column.get("histogram", {})}, key=_bin_start)
        header = [*head, f"`{name}` known", "mean", "min", "max", *bins]
        yield table(
            header,
            [
                [*place, *(column[key] for key in ("known", "mean", "min", "max")), *_counts(column, bins)]
                for place, column in found
            ],
        )


def _counts(column: Mapping[str, Any], bins: list[str]) -> list[int]:
    return [column.get("histogram", {}).get(one, 0) for one in bins]


def _bin_start(name: str) -> int:
    return int(name.split()[0])


def _other_tables(head: list[str], groups: Groups) -> Iterator[str]:
    cells = [(place, f"`{name}`", found) for place, part in groups for name, found in part["columns"].items()]
    lists = [[*place, name, *found.values()] for place, name, found in cells if "items" in found]
    flags = [[*place, name, found["true"]] for place, name, found in cells if "true" in found]
    labels = [
        [*place, name, ", ".join(f"{text(value)}: {number:,}" for value, number in found["values"].items())]
        for place, name, found in cells
        if "values" in found
    ]
    if lists:
        yield table([*head, "list", "items in all", "min per row", "median", "max"], lists)
    if flags:
        yield table([*head, "flag", "true"], flags)
    if labels:
        yield table([*head, "label", "rows"], labels)
