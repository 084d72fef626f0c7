"""``cxc-eccv encode``: a Hugging Face model and a folder of images to embeddings, scores or rankings."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import add_encoding_options, open_library, split_name
from cxc_eccv.cli.extras import load_given_model
from cxc_eccv.errors import InvalidOption, TowerMissing, UnknownName
from cxc_eccv.terminal import say
from cxc_eccv.writing import refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.encoding import LoadedModel
    from cxc_eccv.sources.library import Library


@add_encoding_options(after="beside")
def encode(
    context: typer.Context,
    model: Annotated[
        str,
        typer.Option(help="Hugging Face id, folder of a saved model, or open_clip:NAME/TAG, open_clip:NAME=FILE."),
    ],
    output: Annotated[
        Path, typer.Option(help="Embeddings (.npz, .safetensors), scores (.npz), or re-ranked lists (.parquet).")
    ],
    images: Annotated[
        Path | None, typer.Option(help="Folder with the image files, at any depth; text models need none.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the model is called in reports. Default: its id, or its folder's name.")
    ] = None,
    split: Annotated[str, typer.Option(help="train, restval, val or test.")] = "test",
    only: Annotated[str | None, typer.Option(help="Encode one side of a dual encoder: images or captions.")] = None,
    captions: Annotated[
        Path | None,
        typer.Option(help="Captions in place of the split's: .csv, .jsonl or .parquet with caption_id and text."),
    ] = None,
    config: Annotated[
        str | None,
        typer.Option(help="In place of a split, the sentences of a dataset config: adversarial, rococo, sugarcrepe."),
    ] = None,
    built: Annotated[
        Path | None, typer.Option(help="Folder of cxc-eccv build, to take the rows of --config from it.")
    ] = None,
    tagger: Annotated[
        str | None, typer.Option(help="spaCy pipeline for --config adversarial. Default: en_core_web_sm.")
    ] = None,
    beside: Annotated[
        Path | None,
        typer.Option(help="Embeddings by the same model, to write those of --config beside them into one file."),
    ] = None,
    score: Annotated[
        str, typer.Option(help="Of a cross-encoder: itm; of BLIP and BLIP-2 also itc, or itm+itc as their authors.")
    ] = "itm",
    rerank: Annotated[
        Path | None, typer.Option(help="Embeddings or scores, whose top items a cross-encoder ranks anew.")
    ] = None,
    top_k: Annotated[int, typer.Option(help="Items per query to rank anew.")] = 20,
    max_pairs: Annotated[int, typer.Option(help="Most pairs that a cross-encoder scores.")] = 10_000_000,
    **_encoding: Any,  # noqa: ANN401 - of many types
) -> None:
    """Encode a split's images and captions; a model that scores pairs gives scores, or ranks the top items anew.

    Or encode the sentences of a dataset config, such as altered captions, for a file of their own or beside a split's.
    Killed, the same command goes on where it was. Under torchrun the processes share the work.

    Examples:
      cxc-eccv encode --model openai/clip-vit-base-patch32 --images val2014
      --output clip.npz
      cxc-eccv encode --model sentence-transformers/all-MiniLM-L6-v2
      --output minilm.npz
      cxc-eccv encode --model open_clip:ViT-B-32/laion2b_s34b_b79k --images val2014
      --name "OpenCLIP B/32" --output openclip.npz
      cxc-eccv encode --model openai/clip-vit-base-patch32 --images val2014
      --caption-prompt "a photo of {}" --output clip.npz
      cxc-eccv encode --model Salesforce/blip-itm-base-coco --images val2014
      --score itm+itc --rerank clip.npz --output blip.parquet
      cxc-eccv encode --model openai/clip-vit-base-patch32 --config rococo
      --beside clip.npz --output clip_rococo.npz
      cxc-eccv encode --model sentence-transformers/all-MiniLM-L6-v2
      --config adversarial --output altered.npz
      torchrun --nproc-per-node 4 --no-python cxc-eccv encode
      --model openai/clip-vit-base-patch32 --images val2014 --output clip.npz
    """
    refuse_unwritable(output, file=True)
    for option, value in {"only": only, "captions": captions, "rerank": rerank}.items():
        if config is not None and value is not None:
            raise InvalidOption(f"--{option} is for a split's own items; leave it out, or --config")
    for option, value in {"built": built, "beside": beside, "tagger": tagger}.items():
        if config is None and value is not None:
            raise InvalidOption(f"--{option} is for --config; name the config")
    loaded, options = load_given_model(model, context.params)
    _refuse_of_other_models(loaded, options["central_crop"], score, rerank)
    library, split = open_library(), split_name(split)
    if config is not None:
        options |= {"built": built, "tagger": tagger, "images": images}
        wrote = _encode_config(loaded, config, library, split, beside, output, options)
    else:
        items = _find_items(loaded, only, images, captions, library, split) | {"output": output}
        if loaded.is_cross_encoder:
            items |= {name: options[name] for name in ("batch_size", "skip_bad_images")}
            wrote = _score(loaded, rerank, top_k, items | {"max_pairs": max_pairs, "score": score})
        else:
            wrote = _encode_items(loaded, options | items)
    say_once(f"wrote {output}: {wrote}")


def _refuse_of_other_models(loaded: LoadedModel, central_crop: object, score: str, rerank: Path | None) -> None:
    if loaded.is_cross_encoder and central_crop is not None:
        raise InvalidOption(f"--central-crop is for models with embeddings; {loaded.name} scores pairs, leave it out")
    for option, wanted in {"score": score != "itm", "rerank": rerank is not None}.items():
        if wanted and not loaded.is_cross_encoder:
            why = f"needs a model that scores pairs; {loaded.name} gives embeddings, leave it out"
            raise InvalidOption(f"--{option} {why}")


def _encode_config(
    loaded: LoadedModel,
    config: str,
    library: Library,
    split: str,
    beside: Path | None,
    output: Path,
    how: dict[str, Any],
) -> str:
    from cxc_eccv.from_model import encode_sentences, put_beside
    from cxc_eccv.runs import load_embeddings, save_embeddings

    first = None if beside is None else load_embeddings(beside)
    run = encode_sentences(loaded, config, library, split, **how)
    if os.environ.get("RANK", "0") == "0":
        save_embeddings(output, run if first is None else put_beside(first, run))
    sizes = [f"{len(ids)} {name}" for name, ids in run.further.items() if name.endswith("ids")]
    sizes += [] if run.images is None else [f"{len(run.images.ids)} images"]
    return ", ".join(sizes)


def _find_items(
    loaded: LoadedModel, only: str | None, images: Path | None, captions: Path | None, library: Library, split: str
) -> dict[str, Any]:
    """The images and the captions to encode: the split's, or the captions of a file in place of its own."""
    from cxc_eccv.cli.user_tables import read_captions
    from cxc_eccv.from_model import split_items

    sides = _choose_sides(loaded, only, images)
    if "captions" not in sides or captions is None:
        return split_items(sides, library, split, images)
    of_split = tuple(side for side in sides if side != "captions")
    return split_items(of_split, library, split, images) | {"captions": read_captions(captions)}


def _encode_items(loaded: LoadedModel, options: dict[str, Any]) -> str:
    from cxc_eccv.encoding import encode as encode_run

    run = encode_run(loaded, **options)
    by_side = {"images": run.images, "captions": run.captions}
    return " and ".join(f"{len(side.ids)} {name}" for name, side in by_side.items() if side is not None)


def _score(loaded: LoadedModel, rerank: Path | None, top_k: int, options: dict[str, Any]) -> str:
    from cxc_eccv.encoding import rerank as rank_anew
    from cxc_eccv.encoding import score_pairs
    from cxc_eccv.runs import RankingsRun, load_run

    if rerank is None:
        run = score_pairs(loaded, **options)
        return f"{len(run.image_ids)} images x {len(run.caption_ids)} captions"
    first = load_run(rerank)
    if isinstance(first, RankingsRun):
        raise InvalidOption(f"--rerank {rerank}: holds rankings; give the embeddings or scores that they were made of")
    rank_anew(loaded, first, top_k=top_k, **options)
    return f"the top {top_k} of {rerank.name}, ranked anew"


def _choose_sides(loaded: LoadedModel, only: str | None, images: Path | None) -> tuple[str, ...]:
    sides = ("images", "captions") if loaded.is_cross_encoder else loaded.sides
    if only is not None:
        if only not in ("images", "captions"):
            raise UnknownName("side", only, ["images", "captions"])
        if loaded.is_cross_encoder:
            raise InvalidOption(f"--only {only}: {loaded.name} scores pairs and needs both sides; leave it out")
        if only not in sides:
            raise TowerMissing(f"--only {only}: {loaded.name} encodes {' and '.join(sides)} alone")
        sides = (only,)
    if "images" in sides and images is None:
        advice = "" if "captions" not in sides or loaded.is_cross_encoder else ", or encode its texts: --only captions"
        raise InvalidOption(f"{loaded.name} looks at images: give their folder with --images{advice}")
    if "images" not in sides and images is not None:
        raise TowerMissing(f"--images: {loaded.name} encodes captions alone; leave the images out")
    return sides


def say_once(text: str) -> None:
    """On the first process alone."""
    if os.environ.get("RANK", "0") == "0":
        say(text)
