"""A damaged table of failures is refused, or it holds what it held."""

import numpy as np
import pyarrow as pa
import pytest
from damages import damages
from hypothesis import given, settings

from cxc_eccv.errors import MalformedSource
from cxc_eccv.parquet import write_parquet
from cxc_eccv.studies.explain.ratings import CORRELATED, FAILURE_COLUMNS, read_failures

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("damaged")


@settings(max_examples=60, derandomize=True, deadline=None)
@given(damage=damages())
def test_a_damaged_table_of_failures_is_refused_or_as_it_was(folder, damage):
    path = folder / "failures.parquet"
    rows = 40
    columns = {"direction": ["t2i"] * rows} | {name: np.arange(rows) for name in FAILURE_COLUMNS[1:4]}
    table = pa.table(columns | {name: np.linspace(0, 1, rows) for name in CORRELATED})
    write_parquet(table.replace_schema_metadata({"explained": '{"ridge": {"split": "test"}}'}), path)
    path.write_bytes(damage(path.read_bytes()))
    try:
        found, split = read_failures(folder)
    except MalformedSource:
        return
    assert (found.select(table.column_names).equals(table), split) == (True, "test")
