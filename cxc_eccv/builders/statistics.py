"""Statistics of a config's rows, as plain JSON values, and the tables a card shows them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NotRequired, TypedDict

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cxc_eccv.terminal import code_span, markdown_table, markdown_text

GROUP_COLUMNS = ("direction", "sampling_method")
"""Columns to group by: averages over their values would mix unlike things."""

MOST_VALUES = 12  # A column with more distinct values than this is free text or an id

MOST_BINS = 10


class Column(TypedDict, total=False):
    """Statistics of a column: those of its type."""

    items: int  # of lists: their items, and the sizes
    median: float
    min: float
    max: float
    known: int  # of numbers: the rows that have one
    mean: float
    histogram: dict[str, int]
    true: int  # of flags
    values: dict[str, int]  # of labels: the rows of each


class Group(TypedDict):
    """Rows with one direction or sampling method."""

    rows: int
    columns: dict[str, Column]


class Statistics(TypedDict):
    """Statistics of one split."""

    rows: int
    num_bytes: int
    left_out: dict[str, int]
    made_with: NotRequired[dict[str, str]]
    groups: dict[str, Group]


SplitStatistics = Mapping[str, Statistics]  # By the split's name
Describe = Callable[[pa.ChunkedArray], Column]


def split_statistics(
    table: pa.Table, split: str, left_out: Mapping[str, int], made_with: Mapping[str, str] | None = None
) -> Statistics:
    """Number of rows per group, and statistics of each column by its type; ids and free text are left out.

    The group is the value of ``direction`` or ``sampling_method``, or empty if the table has neither.
    """
    named = _name_labels(table)
    columns = {name: (describe, column) for name, describe, column in _described_columns(named, split)}
    group_column = next((name for name in GROUP_COLUMNS if name in columns), None)
    if group_column is None:
        labels = pa.array([""] * named.num_rows)
    else:
        _, labels = columns.pop(group_column)
    groups: dict[str, Group] = {}
    for label in sorted(pc.unique(labels).to_pylist()):
        in_group = pc.equal(labels, label)
        described = {}
        for name, (describe, column) in columns.items():
            values = column.filter(in_group).drop_null()
            if len(values):
                described[name] = describe(values)
        groups[label] = {"rows": pc.sum(in_group).as_py(), "columns": described}
    rows = named.num_rows
    num_bytes = table.nbytes
    left = dict(left_out)
    if not made_with:
        return {"rows": rows, "num_bytes": num_bytes, "left_out": left, "groups": groups}
    return {"rows": rows, "num_bytes": num_bytes, "left_out": left, "made_with": dict(made_with), "groups": groups}


def _name_labels(table: pa.Table) -> pa.Table:
    """Replace the codes of class labels by their names."""
    for column, feature in datasets.Features.from_arrow_schema(table.schema).items():
        if isinstance(feature, datasets.ClassLabel):
            named = pc.take(pa.array(feature.names), table[column])
            table = table.set_column(table.column_names.index(column), column, named)
    return table


def _described_columns(table: pa.Table, split: str) -> Iterator[tuple[str, Describe, pa.ChunkedArray | pa.Array]]:
    """The columns with statistics, each with what describes it; a list is represented by its length."""
    for field in table.schema:
        column = table[field.name]
        if pa.types.is_list(field.type):
            yield field.name, _describe_sizes, pc.list_value_length(column)
            for name, counts in _count_inner_flags(field, column).items():
                yield name, _describe_flags, counts
        elif pa.types.is_floating(field.type):
            yield field.name, _describe_numbers, column
        elif pa.types.is_boolean(field.type):
            yield field.name, _describe_flags, column
        elif pa.types.is_string(field.type):
            values = pc.unique(column).to_pylist()
            if values != [split] and 0 < len(values) <= MOST_VALUES:
                yield field.name, _describe_labels, column


def _count_inner_flags(field: pa.Field, column: pa.ChunkedArray) -> dict[str, pa.Array]:
    """For each row and flag, how many records of a list have the flag set."""
    if not pa.types.is_struct(field.type.value_type):
        return {}
    lists = column.combine_chunks()
    rows = pc.list_parent_indices(lists).to_numpy()
    records = lists.flatten()
    counts = {}
    for inner in field.type.value_type:
        if pa.types.is_boolean(inner.type):
            flags = pc.struct_field(records, inner.name).to_numpy(zero_copy_only=False)
            counts[f"{field.name}.{inner.name}"] = pa.array(np.bincount(rows, flags, len(lists)))
    return counts


def _describe_sizes(column: pa.ChunkedArray) -> Column:
    sizes = column.to_numpy()
    low = int(sizes.min())
    median = float(np.median(sizes))
    high = int(sizes.max())
    return {"items": int(sizes.sum()), "min": low, "median": median, "max": high}


def _describe_flags(column: pa.ChunkedArray) -> Column:
    return {"true": int(pc.sum(column).as_py())}


def _describe_labels(column: pa.ChunkedArray) -> Column:
    counts = {str(item["values"]): item["counts"] for item in pc.value_counts(column).to_pylist()}
    return {"values": dict(sorted(counts.items()))}


def _describe_numbers(column: pa.ChunkedArray) -> Column:
    values = column.to_numpy()
    low = float(values.min())
    high = float(values.max())
    mean = round(float(values.mean()), 6)
    numbers: Column = {"known": values.size, "mean": mean, "min": round(low, 6), "max": round(high, 6)}
    first = int(np.floor(low))
    last = max(int(np.ceil(high)), int(np.floor(low)) + 1)
    if last - first > MOST_BINS:
        return numbers
    counts, edges = np.histogram(values, bins=np.arange(first, last + 1))
    histogram = {}
    for edge, count in zip(edges[:-1].tolist(), counts, strict=True):
        histogram[f"{edge} to {edge + 1}"] = int(count)
    return numbers | {"histogram": histogram}


def fields_table(features: datasets.Features, fields: Mapping[str, str]) -> str:
    """Name, type and meaning of every column."""
    rows = [(f"`{name}`", _type_name(feature), fields[name]) for name, feature in features.items()]
    return markdown_table(["field", "type", "meaning"], rows)


def _type_name(feature: object) -> str:
    """A feature's type in words, as ``{id: int64, texts: list of string}``; a class label with its codes."""
    if isinstance(feature, datasets.ClassLabel):
        return "class label: " + ", ".join(f"{code} {name}" for code, name in enumerate(feature.names))
    if isinstance(feature, datasets.Value):
        return str(feature.dtype)
    if isinstance(feature, dict):
        return "{" + ", ".join(f"{name}: {_type_name(part)}" for name, part in feature.items()) + "}"
    if isinstance(feature, datasets.List):
        return f"list of {_type_name(feature.feature)}"
    return type(feature).__name__.lower()


def rows_table(features: datasets.Features, splits: SplitStatistics) -> str:
    """Rows of every split and group."""
    head, groups = _grouped(features, splits)
    return markdown_table([*head, "rows"], [[*place, part["rows"]] for place, part in groups])


def statistics_tables(features: datasets.Features, splits: SplitStatistics) -> str:
    """Rows, ratings, list sizes, flags and labels, with a row for every split and group."""
    head, groups = _grouped(features, splits)
    tables = [rows_table(features, splits), *_number_tables(head, groups), *_other_tables(head, groups)]
    return "\n\n".join(tables)


def _grouped(features: datasets.Features, splits: SplitStatistics) -> tuple[list[str], Groups]:
    """The first columns of a table of statistics, and its rows."""
    group_column = next((name for name in GROUP_COLUMNS if name in features), None)
    head = ["split"] if group_column is None else ["split", group_column]
    groups = []
    for split, statistics in splits.items():
        for group, part in statistics["groups"].items():
            place = [split] if group_column is None else [split, markdown_text(group)]
            groups.append((place, part))
    return head, groups


def left_out_table(splits: SplitStatistics) -> str:
    """A table of what rules left out of every split; empty if nothing."""
    rows = []
    for split, statistics in splits.items():
        for rule, number in statistics["left_out"].items():
            rows.append((split, rule, number))
    return markdown_table(["split", "left out", "number"], rows) if rows else ""


def made_with_line(splits: SplitStatistics) -> str:
    """A line that names the tools that made the rows; empty if there are none."""
    used = {tuple(statistics.get("made_with", {}).items()) for statistics in splits.values()}
    sentences = []
    for tools in sorted(used):
        versions = [f"{name} {code_span(version)}" for name, version in tools]
        if versions:
            sentences.append(f"Made with {', '.join(versions)}.")
    return "".join(sentences)


Groups = list[tuple[list[str], Group]]


def _list_columns(groups: Groups) -> Iterator[tuple[list[str], str, Column]]:
    """Split and group, name and statistics of every column of every group."""
    for place, part in groups:
        for name, column in part["columns"].items():
            yield place, name, column


def _number_tables(head: list[str], groups: Groups) -> Iterator[str]:
    by_name: dict[str, list[tuple[list[str], Column]]] = {}
    for place, name, column in _list_columns(groups):
        if "mean" in column:
            by_name.setdefault(name, []).append((place, column))
    for name, described in by_name.items():
        spans: set[str] = set()
        for _, column in described:
            spans.update(column.get("histogram", {}))
        bins = sorted(spans, key=lambda span: int(span.split()[0]))  # as "2 to 3"
        rows = []
        for place, column in described:
            histogram = column.get("histogram", {})
            counts = [histogram.get(span, 0) for span in bins]
            rows.append([*place, column["known"], column["mean"], column["min"], column["max"], *counts])
        yield markdown_table([*head, f"`{name}` known", "mean", "min", "max", *bins], rows)


def _other_tables(head: list[str], groups: Groups) -> Iterator[str]:
    lists = []
    flags = []
    labels = []
    for place, name, column in _list_columns(groups):
        code = f"`{name}`"
        if "items" in column:
            lists.append([*place, code, *column.values()])
        if "true" in column:
            flags.append([*place, code, column["true"]])
        if "values" in column:
            counts = [f"{markdown_text(value)}: {number:,}" for value, number in column["values"].items()]
            labels.append([*place, code, ", ".join(counts)])
    if lists:
        yield markdown_table([*head, "list", "items in all", "min per row", "median", "max"], lists)
    if flags:
        yield markdown_table([*head, "flag", "true"], flags)
    if labels:
        yield markdown_table([*head, "label", "rows"], labels)
