"""Readers of whole rows, run by themselves, and what they count, listed."""

import numpy as np

from cxc_eccv.ranking import Options, ranked
from cxc_eccv.ranking.readers.rows import PlausibleRows
from cxc_eccv.types import Judgments


def plausible_hits(run, matches, direction, criteria, **options):
    """Plausible matches among the top of every ranking."""
    reader = PlausibleRows(matches, criteria)
    ranked(run, Options(**options)).rank_all({}, {direction: [reader]})
    return reader.result


def count_matches(matches, zeta):
    """Plausible matches of every query at one zeta, without listing them."""
    items = np.bincount(matches.gallery_classes, minlength=len(matches.distances))
    return ((matches.distances <= zeta) @ items)[matches.query_classes]


def listed_matches(matches, zeta):
    """The plausible matches at one zeta as positives, every pair listed."""
    matching = (matches.distances <= zeta)[matches.query_classes][:, matches.gallery_classes]
    sizes = matching.sum(axis=1)
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    return Judgments(matches.query_ids, matches.gallery_ids, indptr, np.nonzero(matching)[1], np.zeros_like(sizes))
