"""Config ``retrieval``: the merged judgments of every query and direction, with provenance."""

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.judgments.evidence import label_sources
from cxc_eccv.judgments.qrels import MergedPairs, merge
from cxc_eccv.sources.library import Library
from cxc_eccv.types import DIRECTIONS

JUDGMENT = {
    "id": Value("int64"),
    "sources": [Value("string")],
    "rules": [Value("string")],
    "rating": Value("float64"),
    "reverse_rating": Value("float64"),
    "conflict": Value("bool"),
    "invalid": Value("bool"),
}


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Queries of i2t, t2i, t2t and i2i in turn, each in Karpathy order."""
    tables: list[pa.Table] = []
    left_out: dict[str, int] = {}
    for direction in DIRECTIONS:
        pairs = merge(library, split, direction, policy=options.policy, thresholds=options.thresholds)
        tables.append(_direction(library, split, direction, pairs))
        left_out |= {f"{direction}: {rule}": number for rule, number in _left_out(pairs, options.policy).items()}
    return Rows(pa.concat_tables(tables).combine_chunks(), left_out)


def _left_out(pairs: MergedPairs, policy: str) -> dict[str, int]:
    without = pairs.query_ids.size - np.unique(pairs.queries[pairs.positive]).size
    denied = int((pairs.said_positive.any(axis=1) & ~pairs.positive).sum())
    counts = pairs.left_out | {
        "queries without a positive": without,
        f"positives of one source that policy {policy!r} denies": denied,
    }
    return {rule: number for rule, number in counts.items() if number}


def _direction(library: Library, split: str, direction: str, pairs: MergedPairs) -> pa.Table:
    asked = np.unique(pairs.queries[pairs.positive])
    query_ids = pairs.query_ids[asked]
    by_image = direction[0] == "i"
    nothing = pa.nulls(asked.size, pa.string())
    columns = {
        "query_id": query_ids,
        "direction": pa.array([direction] * asked.size, pa.string()),
        "query_caption": nothing if by_image else lookup.caption_texts(library, split, query_ids),
        "query_file_name": lookup.file_names(library, split, query_ids) if by_image else nothing,
        "query_invalid": np.isin(query_ids, library.invalid_ids("image" if by_image else "caption")),
    }
    invalid_ids = library.invalid_ids("image" if direction[2] == "i" else "caption")
    for name, chosen in (("positives", pairs.positive), ("negatives", ~pairs.positive)):
        keep = chosen & np.isin(pairs.queries, asked)
        sizes = np.bincount(np.searchsorted(asked, pairs.queries[keep]), minlength=asked.size)
        columns[name] = lookup.struct_lists(sizes, _judgments(pairs, keep, invalid_ids))
    return pa.table(columns)


def _judgments(pairs: MergedPairs, keep: np.ndarray, invalid_ids: np.ndarray) -> dict[str, pa.Array | np.ndarray]:
    ids = pairs.gallery_ids[pairs.items[keep]]
    return {
        "id": ids,
        "sources": lookup.subset_lists(pairs.judged[keep], pairs.sources),
        "rules": lookup.subset_lists(pairs.said_positive[keep], pairs.rules),
        "rating": lookup.nullable(pairs.ratings[keep]),
        "reverse_rating": lookup.nullable(pairs.reverse[keep]),
        "conflict": pairs.conflict[keep],
        "invalid": np.isin(ids, invalid_ids),
    }


CONFIG = DatasetConfig(
    name="retrieval",
    title="Merged judgments of COCO, CxC, ECCV Caption and entailment labels, with provenance",
    description="One row per query and direction (`i2t`, `t2i`, `t2t`, `i2i`) with everything that was judged: the "
    "positives and the judged negatives, each with the sources that judged it, the rule that makes it positive, its "
    "rating, and whether sources contradict each other. The gallery of a direction is all items of the split; in "
    "`t2t` and `i2i` without the query.",
    collection="Original COCO links (captions of one image for `t2t`), CxC ratings of at least 3 (SITS, STS) or 2.5 "
    "(SIS, either order), ECCV Caption positives of the same direction, entailment labels where given. By default a "
    "pair is positive if any source says so (`union`); `strict` needs that no source contradicts, `override` lets "
    "the latest source decide.",
    **columns(
        query_id=(Value("int64"), "COCO image id or caption id"),
        direction=(ClassLabel(names=list(DIRECTIONS)), "query modality to gallery modality"),
        query_caption=(Value("string"), "the query's text, for caption queries"),
        query_file_name=(Value("string"), "the query's file name, for image queries"),
        query_invalid=(Value("bool"), "ECCV Caption lists the query as invalid"),
        positives=(
            [JUDGMENT],
            "`id`, `sources` that judged the pair, `rules` that make it positive, CxC `rating` (and "
            "`reverse_rating` of the other order, `i2i`), `conflict`, `invalid`",
        ),
        negatives=([JUDGMENT], "the same for pairs that were judged and are not positive"),
    ),
    splits=("train", "restval", "validation", "test"),
    rows=rows,
    sources=tuple(dict.fromkeys(group for source in label_sources().values() for group in source.groups)),
    defects=(
        "Unjudged pairs are not negatives: annotators never saw most matches of a caption.",
        "29 original links of test and 38 of validation are rated below 3 and marked as conflicts.",
    ),
    example='row = dataset[0]\nfor positive in row["positives"]:\n    print(positive["id"], positive["rules"])',
)
