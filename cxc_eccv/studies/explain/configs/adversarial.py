"""Config ``adversarial``: captions with a changed meaning at one place."""

from collections.abc import Mapping
from dataclasses import fields
from operator import attrgetter

import pyarrow as pa
from datasets import Value

from cxc_eccv.builders.dataset_config import BuildOptions, DatasetConfig, Rows
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.explain.altering import Altered, all_kinds, alter_tagged, require_seed
from cxc_eccv.studies.explain.altering.parsed_sentences import describe_tagger, tag_sentences


def rows(split: Split, options: BuildOptions) -> Rows:
    """One row per caption and kind, by kind in alphabetical order, then in Karpathy order."""
    require_seed(options.seed)
    captions = split.captions
    sentences = tag_sentences(captions["text"].to_pylist(), options.tagger)
    ids = captions["caption_id"].to_pylist()
    altered_rows: list[Altered] = []
    for kind in all_kinds().values():
        altered_rows += alter_tagged(sentences, ids, kind, options.seed)
    columns = {field.name: list(map(attrgetter(field.name), altered_rows)) for field in fields(Altered)}
    types = {name: feature.pa_type for name, feature in CONFIG.features.items()}
    numbers = pa.array(range(len(altered_rows)), types["id"])
    return Rows(pa.table({"id": numbers} | {name: pa.array(column, types[name]) for name, column in columns.items()}))


def made_with(options: BuildOptions) -> Mapping[str, str]:
    """Tagger and seed."""
    return {"tagger": describe_tagger(options.tagger), "seed": str(options.seed)}


CONFIG = DatasetConfig(
    name="adversarial",
    title="Adversarial queries: captions with one place changed",
    description="One row per caption and kind of alteration that it has a place for: an attribute gives way to another "
    "one, and the rest of the sentence stays. A sound ranker puts the caption's image lower for the altered query; of "
    "`rare_synonym`, a control, it keeps the rank.\n\n"
    + "\n".join(f"- `{kind.name}`: {kind.description}" for kind in all_kinds().values()),
    collection="Made from the captions by rules, after *Towards explainable evaluation of language models on the "
    "semantic similarity of visual concepts* (Lymperaiou et al., 2022), section 5, which has the kinds antonym, "
    "colour and size; the others are ours. Words are tagged by a spaCy pipeline; antonyms and synonyms come from "
    "lists that were read in captions. Where a caption has several places, or a place several words to choose from, a "
    "hash of seed, kind and caption id decides.",
    columns={
        "id": (Value("int64"), "number of the row in its split"),
        "query_id": (Value("int64"), "COCO id of the caption"),
        "kind": (Value("string"), "how it was altered"),
        "original": (Value("string"), "the caption"),
        "altered": (Value("string"), "the caption with one place changed"),
        "span_start": (Value("int32"), "where in `original` the change begins, in characters"),
        "span_end": (Value("int32"), "where it ends; what stands before and after is the same in `altered`"),
        "replaced": (
            Value("string"),
            "the word whose meaning changed; the span also holds an article or a verb that agrees with it",
        ),
        "new_word": (Value("string"), "the word in its place"),
        "seed": (Value("int64"), "what the choices were drawn with"),
    },
    splits=("validation", "test"),
    rows=rows,
    sources=("karpathy",),
    defects=(
        "Rules know no scene: some altered queries describe their image still (an image with several buses shows a bus "
        "of the other colour), and some are odd English. The documentation counts these by kind.",
        "Whether a caption has a place depends on its tags, some of which are wrong.",
        "The tagger is not among the raw files: another version of it gives other rows.",
    ),
    example='for row in dataset.select(range(3)):\n    print(row["original"], "->", row["altered"])',
    made_with=made_with,
)
