"""``cxc-eccv features``: image features over ten crops, which the character GRU trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.choices import SkipBadImages, names, open_library
from cxc_eccv.cli.encode import say_once
from cxc_eccv.cli.extras import needs_train_extra, register_models
from cxc_eccv.errors import InvalidOption


def features(
    model: Annotated[str, typer.Option(help="Hugging Face id, or folder of a saved image model.")],
    images: Annotated[Path, typer.Option(help="Folder with the image files, at any depth.")],
    parts: Annotated[
        list[str],
        typer.Option(help="flickr8k/train, coco/val, flickr30k/test and their like; comma-separated or repeated."),
    ],
    output: Annotated[Path, typer.Option(help="Embeddings file to write: .npz or .safetensors.")],
    shorter_side: Annotated[int, typer.Option(help="Pixels that the shorter side of an image is scaled to.")] = 256,
    crop_size: Annotated[int, typer.Option(help="Pixels of a crop's side.")] = 224,
    batch_size: Annotated[int, typer.Option(help="Images at once, of ten crops each.")] = 8,
    device: Annotated[str | None, typer.Option(help="Torch device. Default: a GPU where there is one.")] = None,
    dtype: Annotated[str | None, typer.Option(help="float32, bfloat16 or float16. Default: float32.")] = None,
    skip_bad_images: SkipBadImages = False,
) -> None:
    """Extract image features for the character GRU: the mean over ten crops of what an image model pools last.

    The crops are the four corners and the middle of the scaled image, and the same of its mirror. Killed, the same
    command goes on where it was. Under torchrun the processes share the work.

    Examples:
      cxc-eccv features --model microsoft/resnet-152 --images Flicker8k_Dataset \
--parts flickr8k/train,flickr8k/dev,flickr8k/test --output resnet152.npz
    """
    with needs_train_extra():
        from cxc_eccv.encoding import TenCrops, encode, load_model

    register_models()
    crops = TenCrops(shorter_side, crop_size)
    files = _find_files(names(parts) or [], images)
    run = encode(
        load_model(model, device=device, dtype=dtype),
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
