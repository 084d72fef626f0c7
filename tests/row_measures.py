"""Readers of whole rows, run by themselves."""

from cxc_eccv.ranking import ranks_of_run
from cxc_eccv.ranking.readers.plausible_rows import PlausibleRows


def plausible_hits(run, matches, direction, looks, **options):
    """Plausible matches among the top of every ranking."""
    reader = PlausibleRows(matches, looks)
    ranks_of_run(run, {}, readers={direction: [reader]}, **options)
    return reader.result
