"""Pooled features of an image model or from a file: image-image retrieval without captions."""

from __future__ import annotations

from dataclasses import replace

from cxc_eccv.encoding.evaluate_model import read_items
from cxc_eccv.errors import InvalidOption, MalformedRun
from cxc_eccv.evaluation import evaluate
from cxc_eccv.report import Report
from cxc_eccv.runs import EmbeddingsRun, load_embeddings
from cxc_eccv.sources.download import image_folder
from cxc_eccv.sources.library import Split
from cxc_eccv.studies.baselines.untrained import Baseline, Inputs
from cxc_eccv.types.model_options import check_source


def run(split: Split, inputs: Inputs) -> tuple[Report, EmbeddingsRun]:
    """Image-image retrieval and similarity on Crisscrossed Captions."""
    if (inputs.features is None) == (inputs.model is None) or (inputs.model is None) != (inputs.images is None):
        raise InvalidOption(
            "the baseline image_features needs either --features FILE with image_ids and image_embeddings, or --model "
            "ID_OR_PATH together with --images DIR"
        )
    if inputs.features is not None and inputs.central_crop is not None:
        raise InvalidOption("--central-crop needs --model; it does not apply to the features of a file")
    features = load_embeddings(inputs.features) if inputs.features else _encode(split, inputs)
    if features.images is None:
        raise MalformedRun(f"{inputs.features} has no image_ids and image_embeddings")
    # A file may name the similarity of its features.
    images = replace(features.without_roles(), captions=None, similarity=features.similarity or "cosine")
    report = evaluate(images, ["cxc/i2i", "cxc/sis"], split=split.name, data_dir=split.library, per_query=True)
    name = f"pooled image features of {inputs.model or inputs.features.name}"  # type: ignore[union-attr] # one is given
    crop = {} if inputs.central_crop is None else {"central_crop": inputs.central_crop}
    return replace(report, provenance=replace(report.provenance, model=name, others=crop)), images


def _encode(split: Split, inputs: Inputs) -> EmbeddingsRun:
    check_source(str(inputs.model))
    image_folder(str(inputs.images))
    from cxc_eccv.encoding import Encoding, encode  # only here: a file of features needs no torch

    items = read_items(split, ("images",), inputs.images)
    return encode(inputs.model, images=items.images, encoding=Encoding(central_crop=inputs.central_crop))


BASELINE = Baseline(
    name="image_features",
    summary="pooled features of an image model, or of a file of yours; image-image retrieval and similarity",
    run=run,
    takes=("features", "model", "images", "central_crop"),
)
