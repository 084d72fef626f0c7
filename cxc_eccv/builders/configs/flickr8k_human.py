"""Config ``flickr8k_human``: what people said of image-caption pairs of Flickr8k."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasets import ClassLabel, Value

from cxc_eccv.builders.config import BuildOptions, DatasetConfig, Rows, columns
from cxc_eccv.sources.library import Library
from cxc_eccv.types import positions_of

DECISIONS = ("no", "undecided", "yes", "original")
SOURCES = ("crowd", "experts", "both")


def rows(library: Library, split: str, options: BuildOptions) -> Rows:
    """Every pair that the crowd or the experts judged, by image and caption in the order of the split."""
    content = library.flickr8k_split(split)
    keys = ["image_id", "caption_id"]
    pairs = library.flickr8k_votes().join(library.flickr8k_ratings(), keys, join_type="full outer")
    images, captions = (
        positions_of(np.asarray(pairs[key]), ids)[0]
        for key, ids in zip(keys, (content.image_ids, content.caption_ids), strict=True)
    )
    order = np.lexsort((captions, images))
    pairs, images, captions = pairs.take(pa.array(order)).combine_chunks(), images[order], captions[order]
    yes, no = (pairs[name] for name in ("yes", "no"))
    linked = content.caption_image_ids[captions] == content.image_ids[images]
    by_crowd, by_experts = pc.is_valid(yes).to_numpy(), pc.is_valid(pairs["rating1"]).to_numpy()
    surplus = np.sign(pc.fill_null(pc.subtract(yes, no), 0).to_numpy())
    decided = pa.array(DECISIONS).take(pa.array(np.where(linked, 3, surplus + 1)))
    table = {
        "file_name": content.images["file_name"].take(pa.array(images)),
        "caption": content.captions["text"].take(pa.array(captions)),
        "decision": pc.if_else(pa.array(by_crowd | linked), decided, pa.scalar(None, pa.string())),
        "yes": yes,
        "no": no,
        "share_of_yes": pc.divide(yes.cast(pa.float64()), pc.add(yes, no).cast(pa.float64())),
        **{name: pairs[name] for name in ("rating1", "rating2", "rating3")},
        "source": pa.array(SOURCES).take(pa.array(by_experts * 1 + (by_crowd & by_experts))),
        "image_id": pairs["image_id"],
        "caption_id": pairs["caption_id"],
    }
    return Rows(pa.table(table))


CONFIG = DatasetConfig(
    name="flickr8k_human",
    title="Flickr8k: image-caption pairs judged by people",
    description="One row per image and caption of Flickr8k's test split that people judged. `decision` is what the "
    "crowd's majority said: a match (`yes`), none (`no`), or neither; `original` where the caption was written for the "
    "image. The tasks `flickr8k_human`, `flickr8k_crowd` and `flickr8k_expert` score models on these pairs.",
    collection="Flickr8k (Hodosh et al., 2013). A crowd was asked whether a caption describes an image, three to six "
    "people for each of 47,830 pairs of the 1,000 test images with one caption of each. Three experts rated 5,822 "
    "pairs from 1 (no relation) to 4 (describes the image).",
    **columns(
        file_name=(Value("string"), "file name of the image"),
        caption=(Value("string"), "the caption"),
        decision=(
            ClassLabel(names=list(DECISIONS)),
            "`original`, or the crowd's majority; null where only experts judged",
        ),
        yes=(Value("int64"), "votes that the caption describes the image; null where the crowd was not asked"),
        no=(Value("int64"), "votes that it does not"),
        share_of_yes=(Value("float64"), "share of the votes that are yes"),
        rating1=(Value("int64"), "first expert's rating, 1 to 4; null where the experts were not asked"),
        rating2=(Value("int64"), "second expert's rating"),
        rating3=(Value("int64"), "third expert's rating"),
        source=(ClassLabel(names=list(SOURCES)), "who judged the pair"),
        image_id=(Value("int64"), "Flickr's photo number"),
        caption_id=(Value("int64"), "ten times the photo number of the caption's own image, plus its place (0 to 4)"),
    ),
    splits=("test",),
    rows=rows,
    sources=("flickr8k",),
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
