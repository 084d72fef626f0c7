"""``cxc-eccv encode``: a Hugging Face model and a folder of images to embeddings, scores or rankings."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.named_models import check_model, is_first_process
from cxc_eccv.cli.shared_options import (
    OF_ADVANCED,
    OF_ENCODING,
    BatchSize,
    Device,
    Dtype,
    GalleryPrompt,
    QueryPrompt,
    SkipBadImages,
    open_library,
    split_name,
)
from cxc_eccv.errors import InvalidOption, TowerMissing, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import check_output

if TYPE_CHECKING:
    from pyarrow import Table

    from cxc_eccv.encoding import LoadedModel
    from cxc_eccv.encoding.evaluate_model import Items
    from cxc_eccv.runs import Run
    from cxc_eccv.sources.library import Split

OUTPUT_SUFFIXES = (".npz", ".safetensors", ".parquet")


def encode(
    model: Annotated[
        str,
        typer.Option(help="Hugging Face id, folder of a saved model, or open_clip:NAME/TAG, open_clip:NAME=FILE."),
    ],
    output: Annotated[
        Path,
        typer.Option(help="Embeddings (.npz, .safetensors), scores (.npz), or re-ranked lists (.parquet)."),
    ],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the images, at any depth; text models need none.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the model in reports. Default: its id, or its folder's name.")
    ] = None,
    split: Annotated[str, typer.Option(metavar="SPLIT", help="train, restval, val or test.")] = "test",
    side: Annotated[
        str | None, typer.Option(metavar="images|captions", help="Encode one side of a dual encoder.")
    ] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="File (.csv, .jsonl, .parquet) with caption_id and text, instead of the split's captions."),
    ] = None,
    revision: Annotated[
        str | None,
        typer.Option(
            help="Commit, tag or branch of a Hugging Face id. Default: the newest.", rich_help_panel=OF_ADVANCED
        ),
    ] = None,
    trust_remote_code: Annotated[
        bool,
        typer.Option(
            "--trust-remote-code",
            help="Run the Python code that comes with the model.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = False,
    caption_prompt: Annotated[
        str | None,
        typer.Option(
            help="Text around every caption, which replaces {}; or a saved sentence-transformers prompt.",
            rich_help_panel=OF_ENCODING,
        ),
    ] = None,
    query_prompt: QueryPrompt = None,
    gallery_prompt: GalleryPrompt = None,
    pooling: Annotated[
        str,
        typer.Option(
            metavar="mean|cls|last",
            help="Vector of a plain text model; last is for decoders.",
            rich_help_panel=OF_ENCODING,
        ),
    ] = "mean",
    central_crop: Annotated[
        float | None,
        typer.Option(
            help="Share of an image's area to keep, at its centre (0.875 in the CxC paper).",
            rich_help_panel=OF_ENCODING,
        ),
    ] = None,
    score: Annotated[
        str,
        typer.Option(
            metavar="itm|itc|itm+itc",
            help="Score of a cross-encoder; itc and itm+itc are for BLIP and BLIP-2.",
            rich_help_panel="Cross-encoders",
        ),
    ] = "itm",
    rerank: Annotated[
        Path | None,
        typer.Option(
            help="Embeddings or scores whose top items a cross-encoder ranks again.", rich_help_panel="Cross-encoders"
        ),
    ] = None,
    top_k: Annotated[int, typer.Option(help="Items per query to rank again.", rich_help_panel="Cross-encoders")] = 20,
    batch_size: BatchSize = 64,
    device: Device = None,
    dtype: Dtype = None,
    skip_bad_images: SkipBadImages = False,
) -> None:
    r"""Encode a split's images and captions with a model.

    Examples:
    ```sh
    cxc-eccv encode --model openai/clip-vit-base-patch32 --images val2014 \
      --output clip.npz
    cxc-eccv encode --model Salesforce/blip-itm-base-coco --images val2014 \
      --score itm+itc --rerank clip.npz --output blip.parquet
    torchrun --nproc-per-node 4 --no-python cxc-eccv encode \
      --model openai/clip-vit-base-patch32 --images val2014 --output clip.npz
    ```

    A cross-encoder scores pairs, or ranks the top items again. An interrupted command continues where it stopped when
    you run it again. Under torchrun the processes share the work.
    """
    from cxc_eccv.encoding.evaluate_model import find_photographs
    from cxc_eccv.sources.catalog import describe_data
    from cxc_eccv.types.model_options import Encoding
    from cxc_eccv.types.provenance import DataFacts

    check_output(output, OUTPUT_SUFFIXES)
    _check_values(side, score, top_k)
    library = open_library()
    split = split_name(split)
    own_captions, first = _read_files(captions, rerank)
    check_model(model, images, dtype=dtype)
    encoding = Encoding(
        batch_size=batch_size, pooling=pooling, central_crop=central_crop, skip_bad_images=skip_bad_images
    )
    if images is not None and side != "captions":
        find_photographs(library.split(split), images, skip_bad=skip_bad_images)
    from cxc_eccv.encoding import encode_to_file, load_model, score_pairs
    from cxc_eccv.encoding import rerank as rank_again

    loaded = load_model(
        model,
        name=name,
        device=device,
        dtype=dtype,
        revision=revision,
        trust_remote_code=trust_remote_code,
        caption_prompt=caption_prompt,
        query_prompt=query_prompt,
        gallery_prompt=gallery_prompt,
    )
    _refuse_of_other_models(loaded, central_crop, score, rerank)
    if own_captions is None and side != "images":
        loaded.require_plain_captions()
    items = _read_items(
        _choose_sides(loaded, side, images), images, own_captions, library.split(split), skip_bad_images
    )
    if not loaded.is_cross_encoder:
        run = encode_to_file(loaded, output, images=items.images, captions=items.captions, encoding=encoding)
        if run is None:  # the first process says what it wrote
            return
        by_side = {"images": run.images, "captions": run.captions}
        wrote = " and ".join(f"{len(side.ids)} {name}" for name, side in by_side.items() if side is not None)
    elif first is None:
        scores = score_pairs(loaded, items.images or (), items.captions, score=score, output=output, encoding=encoding)
        wrote = f"{len(scores.image_ids)} images x {len(scores.caption_ids)} captions"
    else:
        rank_again(
            loaded,
            first,
            items.images or (),
            items.captions,
            top_k=top_k,
            score=score,
            output=output,
            encoding=encoding,
        )
        wrote = f"the top {top_k} of {first.path.name if first.path else 'the first ranking'}, ranked again"
    data = describe_data(DataFacts(edition=library.edition), split)
    say_once(f"wrote {output}: {wrote}, {data}")


def _check_values(side: str | None, score: str, top_k: int) -> None:
    from cxc_eccv.types import check_whole
    from cxc_eccv.types.model_options import PAIR_SCORES

    if side not in (None, "images", "captions"):
        raise UnknownName("side", side, ["images", "captions"])
    if score not in PAIR_SCORES:
        raise UnknownName("score", score, PAIR_SCORES)
    check_whole("top_k", top_k)


def _read_files(captions: Path | None, rerank: Path | None) -> tuple[Table | None, Run | None]:
    """The contents of a command's files, which are read before a model is loaded: a wrong file costs no time."""
    from cxc_eccv.cli.user_tables import read_captions
    from cxc_eccv.runs import load_run

    first = None if rerank is None else load_run(rerank)
    if first is not None and first.may_be_cut:
        raise InvalidOption(f"--rerank {rerank}: holds rankings; give the embeddings or scores that they were made of")
    return None if captions is None else read_captions(captions), first


def _refuse_of_other_models(loaded: LoadedModel, central_crop: object, score: str, rerank: Path | None) -> None:
    if loaded.is_cross_encoder and central_crop is not None:
        raise InvalidOption(f"--central-crop is for models with embeddings; {loaded.name} scores pairs, leave it out")
    for option, is_given in {"score": score != "itm", "rerank": rerank is not None}.items():
        if is_given and not loaded.is_cross_encoder:
            raise InvalidOption(
                f"--{option} needs a model that scores pairs; {loaded.name} gives embeddings, leave it out"
            )


def _read_items(
    sides: tuple[str, ...], images: Path | None, captions: Table | None, split: Split, skip_bad: bool
) -> Items:
    """The images and captions to encode: those of the split, or the user's captions instead of the split's."""
    from cxc_eccv.encoding.evaluate_model import read_items

    own = {"captions"} if captions is not None and "captions" in sides else set()
    items = read_items(split, {*sides} - own, images, skip_bad=skip_bad)
    return items._replace(captions=captions) if own else items


def _choose_sides(loaded: LoadedModel, side: str | None, images: Path | None) -> tuple[str, ...]:
    sides = ("images", "captions") if loaded.is_cross_encoder else loaded.sides
    if side is not None:
        if loaded.is_cross_encoder:
            raise InvalidOption(f"--side {side}: {loaded.name} scores pairs and needs both sides; leave it out")
        if side not in sides:
            raise TowerMissing(f"--side {side}: {loaded.name} encodes only {' and '.join(sides)}")
        sides = (side,)
    if "images" in sides and images is None:
        advice = "" if "captions" not in sides or loaded.is_cross_encoder else ", or encode its texts: --side captions"
        raise InvalidOption(f"{loaded.name} looks at images: give their folder with --images{advice}")
    if "images" not in sides and images is not None:
        raise TowerMissing(f"--images: {loaded.name} encodes only captions; leave the images out")
    return sides


def say_once(text: str) -> None:
    """Print a message, only on the first process."""
    if is_first_process():
        say(text)
