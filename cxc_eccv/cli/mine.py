"""``cxc-eccv mine``: a retriever's best captions of every image to weak positives for training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import AllowModified, BatchSize, DataDir, Dtype, split_name
from cxc_eccv.cli.encode import say_once
from cxc_eccv.cli.extras import needs_train_extra, register_models
from cxc_eccv.errors import InvalidOption

if TYPE_CHECKING:
    from cxc_eccv.runs import Run
    from cxc_eccv.sources.library import Library


def mine(
    classifier: Annotated[str, typer.Option(help="The classifier of entailment: its folder or Hub id.")],
    output: Annotated[Path, typer.Option(help="File of weak positives to write (.parquet).")],
    retriever: Annotated[
        Path | None, typer.Argument(help="Embeddings, scores or rankings of the split's images and captions.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="In its place, a model to encode first: its id or folder, or open_clip:NAME/TAG.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, restval or val.")] = "train",
    top_k: Annotated[int, typer.Option(help="Captions of other images to score for every image.")] = 30,
    threshold: Annotated[
        float | None, typer.Option(help="Lowest probability to keep. Default: the classifier's own.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="In its place, the precision (0.9) to reach on the labelled pairs.")
    ] = None,
    labelled: Annotated[
        str | None, typer.Option(help="Pairs that --precision is reached on: a file, or a part such as cxc/val.")
    ] = None,
    images: Annotated[
        Path | None, typer.Option(help="Folder with the image files, at any depth; not for models of texts alone.")
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Of embeddings: cosine or dot. Default: what the file says, else cosine.")
    ] = None,
    batch_size: BatchSize = 64,
    device: Annotated[str | None, typer.Option(help="Torch device. Default: a GPU where there is one.")] = None,
    dtype: Dtype = None,
    restval_in_train: Annotated[bool, typer.Option("--restval-in-train", help="Fold restval into train.")] = False,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Find captions of other images that describe an image too: a retriever proposes them, a classifier decides.

    The file goes into a dataset with build --mined, as a source of labels of its own that no evaluation reads. Killed,
    the same command goes on where it was. Under torchrun the processes share the work.

    Examples:
      cxc-eccv mine clip_train.npz --classifier classifier --images train2014
      --threshold 0.9 --output weak.parquet
      cxc-eccv mine --model sentence-transformers/all-MiniLM-L6-v2
      --classifier classifier --precision 0.9 --labelled cxc/val
      --output weak.parquet
      torchrun --nproc-per-node 4 --no-python cxc-eccv mine clip_train.npz
      --classifier classifier --images train2014 --output weak.parquet
    """
    from cxc_eccv.sources.library import Library
    from cxc_eccv.types import check_whole

    if (retriever is None) == (model is None):
        raise InvalidOption("name the retriever's file, or a model to encode first (--model): one of the two")
    library = Library(data_dir, allow_modified=allow_modified, restval_in_train=restval_in_train)
    with needs_train_extra():
        from cxc_eccv.entailment.scoring import announce, load_classifier
    from cxc_eccv.entailment.labelled import read_labelled
    from cxc_eccv.entailment.mining import check_mining
    from cxc_eccv.entailment.mining import mine as mine_pairs
    from cxc_eccv.entailment.quality import warn_of_training_data
    from cxc_eccv.runs import load_run

    announced = announce(classifier)
    looks = announced.config.has_visual
    options: dict[str, Any] = {"split": split_name(split), "top_k": top_k, "threshold": threshold, "output": output}
    options |= {"precision": precision, "images": images if looks else None}
    if labelled is not None:
        options["labelled"] = read_labelled(labelled, library, images=options["images"])
    check_whole("batch_size", batch_size)
    check_mining(announced, library, **options)
    loading: dict[str, Any] = {"device": device, "dtype": dtype}
    run: Run | None = None if retriever is None else load_run(retriever)
    judge = load_classifier(classifier, **loading)
    if run is None:
        run = _encode(model, library, options["split"], images, {"batch_size": batch_size}, loading)
    mined = mine_pairs(run, judge, library, **options, similarity=similarity, batch_size=batch_size)
    rule = mined.facts["rule"]
    with_any = len(set(mined.table["image_id"].to_pylist()))
    for caution in warn_of_training_data(mined.facts["classifier"]["training_data"]):
        say_once(caution)
    say_once(
        f"{mined.table.num_rows:,} of {rule['pairs_scored']:,} pairs reach the threshold {rule['threshold']!r}, "
        f"of {with_any:,} images\nwrote {output}"
    )


def _encode(
    model: str | None,
    library: Library,
    split: str,
    images: Path | None,
    encoding: dict[str, Any],
    loading: dict[str, Any],
) -> Run:
    """The run of a model, whose encoding is made once and kept."""
    with needs_train_extra():
        from cxc_eccv.encoding import encode_once, load_model
    from cxc_eccv.from_model import split_items

    register_models()
    loaded = load_model(model, **loading)
    if loaded.is_cross_encoder:
        raise InvalidOption(f"{loaded.name} scores pairs; name a model with embeddings, or lists that it ranked anew")
    if "images" in loaded.sides and images is None:
        raise InvalidOption(f"{loaded.name} looks at images: give their folder with --images")
    return encode_once(loaded, **split_items(loaded.sides, library, split, images), **encoding)[0]
