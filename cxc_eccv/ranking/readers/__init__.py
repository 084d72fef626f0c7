"""Readers of blocks of scores."""

from cxc_eccv.ranking.readers.columns import ColumnPairs, ColumnReaders, brackets, can_read_columns
from cxc_eccv.ranking.readers.levels import LevelRows
from cxc_eccv.ranking.readers.reached import ReachedRows
from cxc_eccv.ranking.readers.rows import JudgedRows, PlausibleRows, RowReader, TopRows

__all__ = [
    "ColumnPairs",
    "ColumnReaders",
    "JudgedRows",
    "LevelRows",
    "PlausibleRows",
    "ReachedRows",
    "RowReader",
    "TopRows",
    "brackets",
    "can_read_columns",
]
