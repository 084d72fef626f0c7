"""What is learnt from a block of scores while it is there."""

from cxc_eccv.ranking.readers.column_pairs import ColumnPairs, brackets
from cxc_eccv.ranking.readers.plausible_rows import PlausibleRows
from cxc_eccv.ranking.readers.reader import RowReader, too_shallow
from cxc_eccv.ranking.readers.row_pairs import CountRows, RowPairs, count_rows
from cxc_eccv.ranking.readers.similarities import similarities_of_run
from cxc_eccv.ranking.readers.top_columns import ColumnReaders, can_read_columns
from cxc_eccv.ranking.readers.top_rows import TopRows

__all__ = [
    "ColumnPairs",
    "ColumnReaders",
    "CountRows",
    "PlausibleRows",
    "RowPairs",
    "RowReader",
    "TopRows",
    "brackets",
    "can_read_columns",
    "count_rows",
    "similarities_of_run",
    "too_shallow",
]
