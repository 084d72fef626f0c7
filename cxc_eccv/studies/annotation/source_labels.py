"""What sources of labels say: known pairs for the sheets of a project, and what contradicts its labels."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from cxc_eccv.errors import SourceMissing
from cxc_eccv.judgments.evidence.source import Thresholds, gather, merged_official
from cxc_eccv.sources.library import Library, Split
from cxc_eccv.sources.readers import LabelFile
from cxc_eccv.studies.annotation.proposing import ProposalOptions
from cxc_eccv.studies.asking.questions import NO_PAIRS, PAIR, Pairs
from cxc_eccv.studies.asking.schemes import Scheme

SOURCE = pa.schema([("image_id", pa.int64()), ("caption_id", pa.int64()), ("source_positive", pa.bool_())])

CXC_KINDS = {("image", "caption"): "sits", ("image", "image"): "sis", ("caption", "caption"): "sts"}


def find_matches(split: Split, options: ProposalOptions, candidates: pa.Table) -> Pairs:
    """(P,) image ids and caption ids of pairs that a source calls positive, or that are candidates."""
    if options.sides != ("image", "caption"):
        return NO_PAIRS
    names = dict.fromkeys([*merged_official(split.library), *(options.sources or ())])
    judged = pa.concat_tables(_gather(split, name) for name in names)
    tables = [judged.filter(judged["source_positive"]).select(PAIR), candidates.select(PAIR)]
    image_ids = np.concatenate([table["image_id"].to_numpy() for table in tables])
    caption_ids = np.concatenate([table["caption_id"].to_numpy() for table in tables])
    return image_ids, caption_ids


def find_rated(split: Split, scheme: Scheme, invalid: Pairs) -> tuple[Pairs, Pairs]:
    """Pairs that CxC rates high or low enough for known pairs of the scheme; none if it rates none."""
    if scheme.rated_gold is None or split.name not in ("validation", "test"):
        return NO_PAIRS, NO_PAIRS
    kind = CXC_KINDS[scheme.sides]
    try:
        table = split.ratings(kind)
    except SourceMissing:
        return NO_PAIRS, NO_PAIRS
    high, low = scheme.rated_gold
    ratings = np.asarray(table["rating"])
    names = ("right_id", "left_id") if kind == "sits" else ("left_id", "right_id")  # in SITS the caption is on the left
    ids = [np.asarray(table[name]) for name in names]
    of_side = dict(zip(("image", "caption"), invalid, strict=True))
    unusable = [np.isin(side_ids, of_side[side]) for side_ids, side in zip(ids, scheme.sides, strict=True)]
    valid = ~np.any(unusable, axis=0)
    first, second = ((ids[0][rows & valid], ids[1][rows & valid]) for rows in (ratings >= high, ratings <= low))
    return first, second


def compare_labels(labels: LabelFile, library: Library) -> pa.Table:
    """The labelled pairs that official sources judge too, with what they say."""
    labelled = labels.table.select([*PAIR, "positive"])
    tables = []
    names = [name for name in merged_official(library) if name not in library.label_names]
    for name in names:
        both = labelled.join(_gather(library.split(labels.split), name), PAIR, join_type="inner")
        tables.append(both.sort_by([(column, "ascending") for column in PAIR]))
    return pa.concat_tables(tables)


def _gather(split: Split, source: str) -> pa.Table:
    """The judgments of a source: a row per image and caption."""
    judged = gather(split, "i2t", source, Thresholds())
    table = SOURCE.empty_table()
    if judged is not None:
        table = pa.table([judged.queries, judged.items, judged.positive], schema=SOURCE)
    return table.add_column(2, "source", pa.array([source] * table.num_rows, pa.string()))
