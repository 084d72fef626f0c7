"""Config ``entailment``: does an image with its captions entail another caption?"""

import numpy as np
import pyarrow as pa
from datasets import ClassLabel, Value

from cxc_eccv.builders import lookup
from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.judgments.evidence import match_hypotheses
from cxc_eccv.judgments.qrels import entailed_pairs
from cxc_eccv.sources.library import Library
from cxc_eccv.types import IntArray

LABELS = ("not_entailed", "entailed")


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Pairs by image, then caption, in Karpathy order; an image's own captions are left out."""
    pairs = entailed_pairs(library, split, policy=options.policy, thresholds=options.thresholds)
    image_ids, caption_ids = pairs.query_ids[pairs.queries], pairs.gallery_ids[pairs.items]
    of_same_image = lookup.images_of(library, split, caption_ids) == image_ids
    keep = ~of_same_image
    image_ids, caption_ids = image_ids[keep], caption_ids[keep]
    columns = {
        "image_id": image_ids,
        "file_name": lookup.file_names(library, split, image_ids),
        "premise": _premises(library, split).take(pa.array(pairs.queries[keep])),
        "caption_id": caption_ids,
        "hypothesis": lookup.caption_texts(library, split, caption_ids),
        "label": pa.array(LABELS).take(pa.array(pairs.positive[keep].astype(np.int8))),
        "sources": lookup.subset_lists(pairs.judged[keep], pairs.sources),
        "judged_negative_by": lookup.subset_lists(pairs.said_negative[keep], pairs.sources),
        "rules": lookup.subset_lists(pairs.said_positive[keep], pairs.rules),
        "rating": lookup.nullable(pairs.ratings[keep]),
        "votes": _votes(library, split, image_ids, caption_ids),
        "conflict": pairs.conflict[keep],
    }
    left_out = {"pairs of an image with its own caption": int(of_same_image.sum())}
    return Rows(pa.table(columns), pairs.left_out | left_out)


def _premises(library: Library, split: str) -> pa.ListArray:
    order, sizes = lookup.captions_by_image(library, split)
    return lookup.list_column(sizes, library.karpathy(split).captions["text"].combine_chunks().take(pa.array(order)))


def _votes(library: Library, split: str, image_ids: IntArray, caption_ids: IntArray) -> pa.Array:
    pairs = library.entailment(split)
    if pairs is None:
        return pa.array([[]] * image_ids.size, pa.list_(pa.string()))
    row_of, _ = match_hypotheses(library.karpathy(split), pairs)
    votes = pairs.table["votes"].to_pylist()
    wanted = zip(image_ids.tolist(), caption_ids.tolist(), strict=True)
    return pa.array([votes[row_of[key]] if key in row_of else [] for key in wanted], pa.list_(pa.string()))


CONFIG = DatasetConfig(
    name="entailment",
    title="Entailment-corrected image-caption pairs",
    description="One row per image and caption of another image: does the image, with its own five captions as "
    "premise, entail the caption? `label` is 1 (entailed) or 0.",
    collection="The entailment-corrected annotations of the multi-modal entailment paper were never released. If the "
    "mirror folder has a file in their layout (`entailment/entailment_test.jsonl`), its labels decide on the pairs "
    "that it covers, and `conflict` marks pairs on which another source differs. Labels of all other pairs are "
    "derived: CxC SITS binarised at 3, as the paper does for graded sets, and ECCV Caption positives of both "
    "directions.",
    **columns(
        image_id=(Value("int64"), "COCO image id"),
        file_name=(Value("string"), "its file name"),
        premise=([Value("string")], "the image's own captions"),
        caption_id=(Value("int64"), "COCO id of the caption"),
        hypothesis=(Value("string"), "its text"),
        label=(ClassLabel(names=list(LABELS)), "whether the image entails the caption"),
        sources=([Value("string")], "which of `cxc`, `eccv`, `entailment` judged the pair"),
        judged_negative_by=([Value("string")], "those of them that say no"),
        rules=([Value("string")], "the rules that make the pair positive"),
        rating=(Value("float64"), "CxC SITS rating, null where unrated"),
        votes=([Value("string")], "annotators' votes, where the user's file has them"),
        conflict=(Value("bool"), "sources contradict each other"),
    ),
    splits=("validation", "test"),
    rows=rows,
    sources=("cxc", "eccv_caption", "entailment", "karpathy"),
    defects=(
        "Derived labels measure similarity, not strict entailment: a rating of 3 can stand for a partial match.",
        "Validation has no ECCV Caption positives.",
    ),
    example='entailed = dataset.filter(lambda row: row["label"] == 1)\nprint(entailed[0]["hypothesis"])\n'
    'print(dataset.features["label"].int2str(0))',
)
