"""What is learnt from a block of scores while it is there."""

from cxc_eccv.ranking.readers.column_pairs import ColumnPairs, brackets
from cxc_eccv.ranking.readers.plausible_rows import PlausibleRows
from cxc_eccv.ranking.readers.reader import RowReader, TopRows, too_shallow
from cxc_eccv.ranking.readers.top_columns import ColumnReaders, can_read_columns

__all__ = [
    "ColumnPairs",
    "ColumnReaders",
    "PlausibleRows",
    "RowReader",
    "TopRows",
    "brackets",
    "can_read_columns",
    "too_shallow",
]
