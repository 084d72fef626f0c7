"""``cxc-eccv mine``: a retriever's best captions of every image to weak positives for training."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.encode import say_once
from cxc_eccv.cli.named_models import check_model
from cxc_eccv.cli.shared_options import OF_ADVANCED, BatchSize, Device, Group, open_library, split_name
from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import needs_extra
from cxc_eccv.terminal import print_shown, upper_first
from cxc_eccv.writing import check_output

if TYPE_CHECKING:
    from cxc_eccv.runs import Run
    from cxc_eccv.sources.library import Split
    from cxc_eccv.sources.readers import MinedPairs

COMMANDS = {"mine": Group.EXTEND_LABELS}


def mine(
    classifier: Annotated[str, typer.Option(help="The classifier: its folder or Hub id.")],
    output: Annotated[Path, typer.Option(help="File of weak positives to write (.parquet).")],
    retriever: Annotated[
        Path | None, typer.Argument(help="Embeddings, scores or rankings of the split's images and captions.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to encode first, instead of a file: its id or folder.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images, at any depth; text models need none.")
    ] = None,
    batch_size: BatchSize = 64,
    device: Device = None,
    split: Annotated[
        str,
        typer.Option(metavar="SPLIT", help="train, restval or val; for Flickr30k flickr30k/train or flickr30k/val."),
    ] = "train",
    top_k: Annotated[int, typer.Option(help="Captions of other images to score for every image.")] = 30,
    labelled: Annotated[
        str | None,
        typer.Option(
            help="Labelled pairs of the retriever's lists, on which the rule is fitted: a file, or a part such as "
            "cxc/val. Without them, the classifier decides alone, by --threshold."
        ),
    ] = None,
    labelled_retriever: Annotated[
        Path | None,
        typer.Option(
            help="The retriever's file for the split of the labelled pairs, if that is not --split.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Lowest probability to keep. Default with --labelled: 0.5.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Precision (0.9) to reach on the labelled pairs, instead of --threshold.")
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            help="Share of the lists' pairs that are entailed (0.06). Default: that of the labelled pairs.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
) -> None:
    r"""Mine weak positives with a retriever and a classifier.

    Examples:
    ```sh
    cxc-eccv mine clip_train.npz --classifier classifier --images train2014 \
      --labelled labelled_train.jsonl --precision 0.8 --output weak.parquet
    cxc-eccv mine --model sentence-transformers/all-MiniLM-L6-v2 \
      --classifier classifier --labelled labelled_val.jsonl \
      --output weak.parquet
    torchrun --nproc-per-node 4 --no-python cxc-eccv mine clip_train.npz \
      --classifier classifier --images train2014 --threshold 0.9 \
      --output weak.parquet
    ```

    The retriever proposes captions of other images, the classifier of entailment decides. With labelled pairs, a
    logistic regression combines the classifier's probability and the rank; the precision of the rank alone is printed
    beside it. build --mined adds the file to a dataset, as a source of labels that no evaluation reads. An interrupted
    command continues where it stopped when you run it again. Under torchrun the processes share the work.
    """
    from cxc_eccv.encoding.evaluate_model import find_photographs
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.collections.coco import COLLECTION as COCO
    from cxc_eccv.studies.entailment.labelled import find_labelled, read_labelled
    from cxc_eccv.studies.entailment.mining_rule import (
        check_rule,
        find_labelled_split,
        open_split_to_mine,
        require_labelled_run,
    )
    from cxc_eccv.types import check_whole

    if (retriever is None) == (model is None):
        raise InvalidOption("name the retriever's file, or a model to encode first (--model): one of the two")
    check_model(classifier, images, batch_size=batch_size)
    if model is not None:
        check_model(model, images)
    check_whole("top_k", top_k)
    check_rule(threshold, precision, share, labelled=labelled is not None)
    check_output(output, [".parquet"])
    collection, _, name = split.rpartition("/")
    name = split_name(name)
    if labelled is not None:
        find_labelled(labelled)
    run: Run | None = None if retriever is None else load_run(retriever)
    labelled_run: Run | None = None if labelled_retriever is None else load_run(labelled_retriever)
    library = open_library()
    mined_split = open_split_to_mine(library, name, collection or COCO.name)
    if images is not None:
        find_photographs(mined_split, images)
    with needs_extra("train"):
        from cxc_eccv.studies.entailment.mining import MiningOptions
        from cxc_eccv.studies.entailment.mining import mine as mine_pairs
        from cxc_eccv.studies.entailment.scoring import find_classifier

    judge = find_classifier(classifier, device=device)
    looked_at = images if judge.has_visual else None
    pairs = None if labelled is None else read_labelled(labelled, library, images=looked_at)
    options = MiningOptions(
        split=mined_split,
        images=looked_at,
        top_k=top_k,
        threshold=threshold,
        precision=precision,
        labelled=pairs,
        share=share,
        output=output,
        batch_size=batch_size,
    )
    options.check(judge)
    encode = partial(_encode, str(model), images, batch_size, device)
    labelled_split = mined_split if pairs is None else find_labelled_split(pairs, library)
    if pairs is not None and labelled_split is not mined_split and model is None:
        require_labelled_run(labelled_run, pairs, labelled_split)
    run = encode(mined_split) if run is None else run
    if labelled_split is not mined_split and labelled_run is None:
        labelled_run = encode(labelled_split)
    _print_result(mine_pairs(run, judge, options, labelled_run=labelled_run), output)


def _print_result(mined: MinedPairs, output: Path) -> None:
    from cxc_eccv.sources.catalog import describe_data
    from cxc_eccv.sources.collections.collection import find_collection
    from cxc_eccv.studies.entailment.mining_rule import table_of_rule
    from cxc_eccv.studies.trainers.training_record import warn_of_training_data
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.types.json_records import from_json
    from cxc_eccv.types.provenance import DataFacts

    rule = mined.facts["rule"]
    data = from_json(DataFacts, mined.facts["data"])
    say_once(upper_first(describe_data(data, mined.facts["split"], find_collection(mined.collection).title)))
    with_any = len(set(mined.table["image_id"].to_pylist()))
    if "weights" in rule and os.environ.get("RANK", "0") == "0":
        print_shown(tables_to_console([table_of_rule(rule)]))
    for caution in warn_of_training_data(mined.facts["classifier"]["training_data"]):
        say_once(caution)
    if "weights" not in rule:
        say_once("The precision is unknown without labelled pairs (--labelled).")
    say_once(
        f"{mined.table.num_rows:,} of {rule['pairs_scored']:,} pairs reach the threshold {rule['threshold']!r}, "
        f"of {with_any:,} images\nwrote {output}"
    )


def _encode(model: str, images: Path | None, batch_size: int, device: str | None, split: Split) -> Run:
    """The run of a model, whose encoding is made once and kept."""
    from cxc_eccv.encoding import Encoding, encode_once, load_model
    from cxc_eccv.encoding.evaluate_model import read_items

    loaded = load_model(model, device=device)
    loaded.require_vectors(images)
    items = read_items(split, loaded.sides, images)
    options = Encoding(batch_size=batch_size)
    return encode_once(loaded, images=items.images, captions=items.captions, encoding=options)[0]
