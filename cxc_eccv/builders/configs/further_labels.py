"""Configs of labels beside COCO's: ``eccv_caption``, ``entailment``, ``plausible_match``, ``flickr8k_human``."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Value

from cxc_eccv.builders.dataset_config import (
    BuildOptions,
    DatasetConfig,
    Rows,
    captions_by_image,
    list_column,
    nullable,
    subset_lists,
)
from cxc_eccv.judgments.evidence.source import item_ids, match_hypotheses
from cxc_eccv.judgments.flickr8k import read_crowd, read_experts
from cxc_eccv.judgments.merging import entailed_pairs
from cxc_eccv.judgments.plausible import category_distances, with_categories
from cxc_eccv.sources.collections.flickr8k import COLLECTION as FLICKR8K
from cxc_eccv.sources.library import Split
from cxc_eccv.types import CROSS_MODAL, IntArray, find_positions


def eccv_rows(split: Split, options: BuildOptions) -> Rows:
    """Image queries first, then caption queries, each in the order of the raw file."""
    parts = [_verified_queries(split, direction) for direction in CROSS_MODAL]
    return Rows(pa.concat_tables(parts).combine_chunks())


def _verified_queries(split: Split, direction: str) -> pa.Table:
    table = split.eccv("eccv", direction)
    queries = np.asarray(table["query_id"])
    items = np.asarray(table["item_id"])
    reachable = find_positions(items, item_ids(split, direction)[1])[1]
    starts = np.flatnonzero(np.diff(queries, prepend=-1))
    query_ids = queries[starts]
    by_image = direction == "i2t"
    nothing = pa.nulls(query_ids.size, pa.string())
    positives = split.texts_of(items) if by_image else split.files_of(items)
    sizes = np.diff(starts, append=queries.size)
    columns = {
        "query_id": query_ids,
        "direction": [direction] * query_ids.size,
        "query_caption": nothing if by_image else split.texts_of(query_ids),
        "query_file_name": split.files_of(query_ids) if by_image else nothing,
        "positive_texts": list_column(sizes, positives),
        "positives": list_column(sizes, items),
        "unreachable": list_column(np.add.reduceat(~reachable, starts), items[~reachable]),
    }
    return pa.table(columns)


ECCV_CAPTION_CONFIG = DatasetConfig(
    name="eccv_caption",
    title="ECCV Caption: machine-and-human-verified positives",
    description="One row per query and direction: all positives of the image queries (`i2t`) and of the caption "
    "queries (`t2i`). The galleries are always all captions and all images of the test split. The two directions "
    "were judged separately and share some pairs.",
    collection="ECCV Caption (Chun et al., 2022): five retrieval models proposed the top matches, crowd workers "
    "verified them, invalid items were removed. The config `retrieval` and `evaluate --sources` take each pair in both "
    "directions.",
    columns={
        "query_id": (Value("int64"), "COCO image id (`i2t`) or caption id (`t2i`)"),
        "direction": (ClassLabel(names=list(CROSS_MODAL)), "query modality to gallery modality"),
        "query_caption": (Value("string"), "the query's text, for `t2i`"),
        "query_file_name": (Value("string"), "the query's file name, for `i2t`"),
        "positive_texts": (
            [Value("string")],
            "what `positives` names: captions (`i2t`) or file names (`t2i`), null outside the gallery",
        ),
        "positives": (
            [Value("int64")],
            "caption ids (`i2t`) or image ids (`t2i`), unreachable ones included; R is their number",
        ),
        "unreachable": ([Value("int64")], "those of the positives that are outside the gallery"),
    },
    splits=("test",),
    rows=eccv_rows,
    sources=("eccv_caption", "karpathy"),
    defects=(
        "Two image queries name a caption outside the 25,000 (144675 and 467259). The reference package counts them "
        "in R although no run can retrieve them. So does this package; `unreachable` lists them.",
        "Three captions on ECCV Caption's own list of invalid captions are still positives of some image.",
    ),
    example='row = dataset[0]\nprint(row["query_file_name"], row["positive_texts"][:2])',
)


ENTAILMENT_CLASSES = ("not_entailed", "entailed")


def entailment_rows(split: Split, options: BuildOptions) -> Rows:
    """Pairs by image, then caption, in Karpathy order; an image's own captions are left out."""
    pairs = entailed_pairs(split, policy=options.policy, thresholds=options.thresholds)
    image_ids = pairs.query_ids[pairs.queries]
    caption_ids = pairs.gallery_ids[pairs.items]
    of_same_image = split.owners_of(caption_ids) == image_ids
    keep = ~of_same_image
    image_ids = image_ids[keep]
    caption_ids = caption_ids[keep]
    columns = {
        "image_id": image_ids,
        "file_name": split.files_of(image_ids),
        "premise": _premises(split).take(pa.array(pairs.queries[keep])),
        "caption_id": caption_ids,
        "hypothesis": split.texts_of(caption_ids),
        "label": pa.array(ENTAILMENT_CLASSES).take(pa.array(pairs.positive[keep].astype(np.int8))),
        "sources": subset_lists(pairs.judged[keep], pairs.sources),
        "judged_negative_by": subset_lists(pairs.said_negative[keep], pairs.sources),
        "rules": subset_lists(pairs.said_positive[keep], pairs.rules),
        "rating": nullable(pairs.ratings[keep]),
        "votes": _votes(split, image_ids, caption_ids),
        "conflict": pairs.conflict[keep],
    }
    left_out = {"pairs of an image with its own caption": int(of_same_image.sum())}
    return Rows(pa.table(columns), pairs.left_out | left_out)


def _premises(split: Split) -> pa.ListArray:
    order, sizes = captions_by_image(split)
    return list_column(sizes, split.captions["text"].combine_chunks().take(pa.array(order)))


def _votes(split: Split, image_ids: IntArray, caption_ids: IntArray) -> pa.Array:
    pairs = split.entailment()
    if pairs is None:
        return pa.array([[]] * image_ids.size, pa.list_(pa.string()))
    row_of, _ = match_hypotheses(split, pairs)
    votes = pairs.table["votes"].to_pylist()
    wanted = zip(image_ids.tolist(), caption_ids.tolist(), strict=True)
    return pa.array([votes[row_of[key]] if key in row_of else [] for key in wanted], pa.list_(pa.string()))


ENTAILMENT_CONFIG = DatasetConfig(
    name="entailment",
    title="Entailment-corrected image-caption pairs",
    description="One row per image and caption of another image: does the image, with its own five captions as "
    "premise, entail the caption? `label` is 1 (entailed) or 0.",
    collection="No release of the multi-modal entailment paper's entailment-corrected annotations is known. If the "
    "mirror folder has a file in their layout (`entailment/entailment_test.jsonl`), its labels decide on the pairs "
    "that it covers, and `conflict` marks pairs on which another source differs. Labels of all other pairs are "
    "derived: CxC SITS binarised at 3, as the paper does for graded sets, and ECCV Caption positives of both "
    "directions.",
    columns={
        "image_id": (Value("int64"), "COCO image id"),
        "file_name": (Value("string"), "its file name"),
        "premise": ([Value("string")], "the image's own captions"),
        "caption_id": (Value("int64"), "COCO id of the caption"),
        "hypothesis": (Value("string"), "its text"),
        "label": (ClassLabel(names=list(ENTAILMENT_CLASSES)), "whether the image entails the caption"),
        "sources": ([Value("string")], "which of `cxc`, `eccv`, `entailment` judged the pair"),
        "judged_negative_by": ([Value("string")], "those of them that say no"),
        "rules": ([Value("string")], "the rules that make the pair positive"),
        "rating": (Value("float64"), "CxC SITS rating, null where unrated"),
        "votes": ([Value("string")], "annotators' votes, where the user's file has them"),
        "conflict": (Value("bool"), "sources contradict each other"),
    },
    splits=("validation", "test"),
    rows=entailment_rows,
    sources=("cxc", "eccv_caption", "entailment", "karpathy"),
    defects=(
        "Derived labels measure similarity, not strict entailment: a rating of 3 can stand for a partial match.",
        "Validation has no ECCV Caption positives.",
    ),
    example='entailed = dataset.filter(lambda row: row["label"] == 1)\nprint(entailed[0]["hypothesis"])\n'
    'print(dataset.features["label"].int2str(0))',
)


ZETAS = (0, 1, 2)


def plausible_rows(split: Split, options: BuildOptions) -> Rows:
    """One row per image with at least one category, in Karpathy order."""
    image_ids, present = with_categories(split)
    sets = split.categories()
    _, category = np.nonzero(present)
    distances = category_distances(present)
    sizes = present.sum(axis=1)
    names = pa.array(sets.category_names)
    columns = {
        "image_id": image_ids,
        "file_name": split.files_of(image_ids),
        "categories": list_column(sizes, names.take(pa.array(category))),
        "category_ids": list_column(sizes, sets.category_ids[category]),
    }
    for zeta in ZETAS:
        matches = distances <= zeta
        columns[f"matches_{zeta}"] = list_column(matches.sum(axis=1), image_ids[np.nonzero(matches)[1]])
    without = sets.image_ids.size - image_ids.size
    return Rows(pa.table(columns), {"images without any category": without} if without else {})


PLAUSIBLE_MATCH_CONFIG = DatasetConfig(
    name="plausible_match",
    title="Plausible matches by object categories (PMRP)",
    description="One row per image: its categories and the images whose category sets differ in at most zeta = 0, 1, "
    "2 categories, itself included. A caption has its image's categories, so its plausible matches are those of its "
    "image.",
    collection="Computed from COCO's instance annotations as in PCME (Chun et al., 2021).",
    columns={
        "image_id": (Value("int64"), "COCO image id"),
        "file_name": (Value("string"), "its file name"),
        "categories": ([Value("string")], "names of the object categories present"),
        "category_ids": ([Value("int64")], "their COCO ids"),
        "matches_0": ([Value("int64")], "images with the same categories"),
        "matches_1": ([Value("int64")], "images that differ in at most one category"),
        "matches_2": ([Value("int64")], "images that differ in at most two categories"),
    },
    splits=("validation", "test"),  # all pairs of the training images are too many to list
    rows=plausible_rows,
    sources=("coco_instances", "karpathy", "pcme"),
    defects=(
        "48 test and 52 validation images have no category; they and their captions are neither queries nor gallery.",
        "Two metrics share the name PMRP: PCME's mean over zeta 0, 1, 2, and ECCV Caption's zeta 0 with R cut to 50.",
    ),
    example='print(len(dataset[0]["matches_0"]), len(dataset[0]["matches_2"]))',
)


DECISIONS = ("no", "undecided", "yes", "original")
FLICKR8K_SOURCES = ("crowd", "experts", "both")


def flickr8k_rows(split: Split, options: BuildOptions) -> Rows:
    """Every pair that the crowd or the experts judged, by image and caption in the order of the split."""
    keys = ["image_id", "caption_id"]
    pairs = read_crowd(split).join(read_experts(split), keys, join_type="full outer")
    images, captions = (
        find_positions(np.asarray(pairs[key]), ids)[0]
        for key, ids in zip(keys, (split.image_ids, split.caption_ids), strict=True)
    )
    order = np.lexsort((captions, images))
    pairs = pairs.take(pa.array(order)).combine_chunks()
    images = images[order]
    captions = captions[order]
    yes, no = (pairs[name] for name in ("yes", "no"))
    linked = split.caption_image_ids[captions] == split.image_ids[images]
    by_crowd = pc.is_valid(yes).to_numpy()
    by_experts = pc.is_valid(pairs["rating1"]).to_numpy()
    surplus = np.sign(pc.fill_null(pc.subtract(yes, no), 0).to_numpy())
    decided = pa.array(DECISIONS).take(pa.array(np.where(linked, 3, surplus + 1)))
    table = {
        "file_name": split.images["file_name"].take(pa.array(images)),
        "caption": split.captions["text"].take(pa.array(captions)),
        "decision": pc.if_else(pa.array(by_crowd | linked), decided, pa.scalar(None, pa.string())),
        "yes": yes,
        "no": no,
        "share_of_yes": pc.divide(yes.cast(pa.float64()), pc.add(yes, no).cast(pa.float64())),
        **{name: pairs[name] for name in ("rating1", "rating2", "rating3")},
        "source": pa.array(FLICKR8K_SOURCES).take(pa.array(by_experts * 1 + (by_crowd & by_experts))),
        "image_id": pairs["image_id"],
        "caption_id": pairs["caption_id"],
    }
    return Rows(pa.table(table))


FLICKR8K_HUMAN_CONFIG = DatasetConfig(
    name="flickr8k_human",
    title="Flickr8k: image-caption pairs judged by people",
    description="One row per image and caption of Flickr8k's test split that people judged. `decision` is what the "
    "crowd's majority said: a match (`yes`), none (`no`), or neither; `original` where the caption was written for the "
    "image. The tasks `flickr8k_human`, `flickr8k_crowd` and `flickr8k_expert` score models on these pairs.",
    collection="Flickr8k (Hodosh et al., 2013). A crowd was asked whether a caption describes an image, three to six "
    "people for each of 47,830 pairs of the 1,000 test images with one caption of each. Three experts rated 5,822 "
    "pairs from 1 (no relation) to 4 (describes the image).",
    columns={
        "file_name": (Value("string"), "file name of the image"),
        "caption": (Value("string"), "the caption"),
        "decision": (
            ClassLabel(names=list(DECISIONS)),
            "`original`, or the crowd's majority; null where only experts judged",
        ),
        "yes": (Value("int64"), "votes that the caption describes the image; null where the crowd was not asked"),
        "no": (Value("int64"), "votes that it does not"),
        "share_of_yes": (Value("float64"), "share of the votes that are yes"),
        "rating1": (Value("int64"), "first expert's rating, 1 to 4; null where the experts were not asked"),
        "rating2": (Value("int64"), "second expert's rating"),
        "rating3": (Value("int64"), "third expert's rating"),
        "source": (ClassLabel(names=list(FLICKR8K_SOURCES)), "who judged the pair"),
        "image_id": (Value("int64"), "Flickr's photo number"),
        "caption_id": (
            Value("int64"),
            "ten times the photo number of the caption's own image, plus its place (0 to 4)",
        ),
    },
    splits=("test",),
    rows=flickr8k_rows,
    sources=("flickr8k",),
    data=FLICKR8K,
    defects=(
        "721 pairs are an image with its own caption; of 21 of these fewer than half of the votes are yes. The tasks "
        "take the original link for a match all the same.",
        "27 pairs have as many votes for yes as for no: `undecided`, unjudged in the task `flickr8k_human`.",
        "Which pairs people were asked about was not drawn at random: an image was judged with 10 to 120 captions, a "
        "caption with 6 to 169 images. Shares over the judged pairs are not shares over all pairs.",
        "The experts' 3 is looser than the crowd's yes: of 2,172 pairs of different images that both judged, 609 have "
        "a median rating of 3 or more, and 359 of these a majority of no.",
    ),
    example='no = dataset.features["decision"].str2int("no")\n'
    'print(len(dataset.filter(lambda row: row["decision"] == no)))',
)


CONFIGS = (ECCV_CAPTION_CONFIG, ENTAILMENT_CONFIG, PLAUSIBLE_MATCH_CONFIG, FLICKR8K_HUMAN_CONFIG)
