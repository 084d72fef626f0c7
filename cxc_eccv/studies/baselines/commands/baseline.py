"""``cxc-eccv baseline``: score a reference model on the real data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import open_library, split_name
from cxc_eccv.cli.output import check_folder, deliver


def baseline(
    name: Annotated[str, typer.Argument(help="bow, random, word_vectors, image_features or other_captions.")],
    vectors: Annotated[
        Path | None, typer.Option(help="Text file of word vectors, one word per line as in GloVe, for word_vectors.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="File of embeddings: images for image_features, captions for other_captions.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Hub id or folder: image model of image_features, text model of other_captions.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder with the images, at any depth, for --model.")] = None,
    central_crop: Annotated[
        float | None, typer.Option(help="Share of an image's area to keep, for --model (0.875 in the CxC paper).")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(help="coco, flickr8k or flickr30k, for other_captions. Default: coco.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(help="For other_captions: max or mean cosine, or harmonic (RefCLIPScore). Default: max."),
    ] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    seed: Annotated[int | None, typer.Option(help="Seed of the vectors, for random. Default: 0.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for report.json and its pages.")] = None,
) -> None:
    """Score a baseline that needs no training.

    bow: TF-IDF bag of words with document frequencies of the validation captions; text-text retrieval on CxC.
    random: random vectors for images and captions; every task.
    word_vectors: the mean of a caption's word vectors, read from a file of yours; text-text retrieval and similarity.
    image_features: pooled features of an image model, or of a file of yours; image-image retrieval and similarity.
    other_captions: a text model scores a caption by the other captions of an image; every image-text task.

    Examples:
      cxc-eccv baseline bow --split test
      cxc-eccv baseline random --output random
      cxc-eccv baseline word_vectors --vectors glove.6B.300d.txt
      cxc-eccv baseline image_features --model google/vit-base-patch16-224 --images val2014
      cxc-eccv baseline other_captions --model sentence-transformers/all-MiniLM-L6-v2
    """
    from cxc_eccv.report.folder import FILES
    from cxc_eccv.studies.baselines.untrained import Inputs, baseline_named

    check_folder(output, FILES)
    score = baseline_named(name)
    library = open_library()
    inputs = Inputs(vectors, features, model, images, central_crop, seed, collection, pool)
    report, run = score(library, split_name(split), inputs)
    deliver(report, output, run, library)
