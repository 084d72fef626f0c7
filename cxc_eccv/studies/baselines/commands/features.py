"""``cxc-eccv features``: image features over ten crops, which the character GRU trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import (
    Device,
    SkipBadImages,
    check_model,
    load_named_model,
    names,
    needs_train_extra,
    open_library,
)
from cxc_eccv.cli.encode import say_once
from cxc_eccv.errors import InvalidOption
from cxc_eccv.writing import check_output


def features(
    model: Annotated[str, typer.Option(help="Hugging Face id, or folder of a saved image model.")],
    images: Annotated[Path, typer.Option(help="Folder with the images, at any depth.")],
    parts: Annotated[
        list[str],
        typer.Option(help="Parts such as flickr8k/train, coco/val, flickr30k/test; comma-separated or repeated."),
    ],
    output: Annotated[Path, typer.Option(help="Embeddings file to write: .npz or .safetensors.")],
    shorter_side: Annotated[int, typer.Option(help="Pixels of the shorter side of the scaled image.")] = 256,
    crop_size: Annotated[int, typer.Option(help="Pixels of the side of a crop.")] = 224,
    batch_size: Annotated[int, typer.Option(help="Images per batch, ten crops each.")] = 8,
    device: Device = None,
    skip_bad_images: SkipBadImages = False,
) -> None:
    """Extract image features for the character GRU: the mean of a model's pooled features over ten crops.

    The crops are the four corners and the centre of the scaled image and of its mirror image. An interrupted command
    continues where it stopped when you run it again. Under torchrun the processes share the work.

    Examples:
      cxc-eccv features --model microsoft/resnet-152 --images Flicker8k_Dataset \
--parts flickr8k/train,flickr8k/dev,flickr8k/test --output resnet152.npz
    """
    from cxc_eccv.runs.embeddings import FORMATS

    check_model(model, images, batch_size=batch_size)
    check_output(output, FORMATS)
    files = _find_files(names(parts) or [], images)
    with needs_train_extra():
        from cxc_eccv.encoding import TenCrops, encode

    crops = TenCrops(shorter_side, crop_size)
    run = encode(
        load_named_model(model, device=device),
        images=files,
        batch_size=batch_size,
        output=output,
        skip_bad_images=skip_bad_images,
        ten_crops=crops,
    )
    say_once(f"wrote {output}: {0 if run.images is None else len(run.images.ids)} images")


def _find_files(parts: list[str], folder: Path) -> list[tuple[int, Path]]:
    """A file that is not there keeps its name, for the message."""
    from cxc_eccv.builders.images import ImageFolder
    from cxc_eccv.studies.baselines.caption_groups import part_images

    library, found, files = open_library(), ImageFolder(folder), {}
    for (collection, number), name in part_images(library, parts).items():
        if number in files:
            raise InvalidOption(
                f"image id {number} is one of COCO and one of {collection.title()}; write a file for each of them"
            )
        files[number] = found.find(name) or folder / name
    return list(files.items())
