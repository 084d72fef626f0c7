"""``cxc-eccv query-corpus``: a caption searches among images that stand for their other captions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cxc_eccv.cli.delivery import COMMAND, check_folder, say_kept, say_written
from cxc_eccv.cli.named_models import check_model
from cxc_eccv.cli.shared_options import OF_ADVANCED, BatchSize, Device, Group, open_library, split_name
from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import needs_extra
from cxc_eccv.writing import FileContent, refuse_unwritable, write_texts

if TYPE_CHECKING:
    import pyarrow as pa

    from cxc_eccv.studies.explain.caption_corpus import Corpus, QueryCorpusReport
    from cxc_eccv.types import Embeddings
    from cxc_eccv.types.provenance import Provenance
    from cxc_eccv.types.strict_json import JsonObject

COMMANDS = {"query_corpus": Group.RESEARCH}

OF_MODEL = ("batch_size", "device", "summarizer", "summaries")
"""Options that are for ``--model`` alone."""

Text = tuple[int, int, str]
"""Image id, query position and the text to summarise."""

Summaries = Mapping[tuple[int, int], str]
"""Image id and query position to a summary."""

Encode = Callable[..., "Embeddings"]
"""(id, text) each, or a table of captions, to the vectors."""


def query_corpus(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="Embeddings of the captions (.npz, .safetensors).")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model to encode the captions with, instead of a file: its id or folder.")
    ] = None,
    summarizer: Annotated[
        str | None,
        typer.Option(
            help="T5, Pegasus or BART whose summary of its other captions stands for an image: id or folder.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    summaries: Annotated[
        Path | None,
        typer.Option(
            help="File of summaries (.jsonl, .csv, .parquet) with image_id, summary and, for several positions, "
            "query_position; with --summarizer the .jsonl file to keep them in.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the model. Default: the one in the file, else the file's name.")
    ] = None,
    batch_size: BatchSize = 64,
    device: Device = None,
    collection: Annotated[
        str, typer.Option(metavar="NAME", help="coco, flickr8k, flickr30k or visual_genome.")
    ] = "coco",
    split: Annotated[
        str | None,
        typer.Option(metavar="train|val|test", help="Split. Default: test for coco, every split for the others."),
    ] = None,
    query_position: Annotated[
        str, typer.Option(help="Which caption of an image is the query: 0 to 4, or all, one after the other.")
    ] = "0",
    normalize: Annotated[
        bool,
        typer.Option(
            "--normalize",
            help="Scale every vector to length 1 before averaging those of an image.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = False,
    output: Annotated[
        Path | None, typer.Option(help="Folder for query_corpus.json, query_corpus.md and rankings.parquet.")
    ] = None,
) -> None:
    r"""Search for images by captions alone, without a picture.

    Examples:
    ```sh
    cxc-eccv query-corpus clip.npz --output clip
    cxc-eccv query-corpus minilm_flickr8k.npz --collection flickr8k \
      --query-position all --output query_corpus
    cxc-eccv query-corpus --model sentence-transformers/all-MiniLM-L6-v2 \
      --collection flickr8k
    ```

    An image is the mean of the vectors of its other captions, or the vector of a summary of them. The similarity is the
    cosine. Recall, reciprocal ranks, median rank and fails (1 - R@1) have intervals from a bootstrap over images. An
    interrupted command continues with the summaries that it has written.

    Visual Genome describes regions of half of COCO's images. There a caption searches among these images, and an image
    is the mean of its descriptions; embeddings.npz holds both sides.

    rankings.parquet holds the top 50 images of every query. For COCO and Visual Genome, cxc-eccv explain reads it.
    """
    import numpy as np

    from cxc_eccv.runs import EmbeddingsRun, save_embeddings
    from cxc_eccv.sources.collections.collection import find_collection
    from cxc_eccv.studies.explain.caption_corpus import (
        average_descriptions,
        choose_positions,
        collect_captions,
        evaluate_query_corpus,
        given_corpus,
        pair_up,
        summary_corpus,
        take_rows,
    )

    _check_source(context, file, model, batch_size)
    _check_summaries(summarizer, summaries)
    check_folder(output)
    if normalize and (summarizer or summaries):
        raise InvalidOption("--normalize is for the mean of vectors, and a summary has one vector; leave it out")
    library = open_library()
    name_of_split = None if split is None else split_name(split)
    declared = find_collection(collection)
    descriptions = library.descriptions(declared)
    captions = collect_captions(library, collection, name_of_split)
    owners = np.asarray(captions["image_id"], dtype=np.int64)
    positions = choose_positions(query_position, owners)
    images: Embeddings | None = None
    corpus: Corpus | None = None
    if file is not None:
        side, images, facts = _load_vectors(file, name)
    else:
        encode, facts = _load_encoder(str(model), name, device, batch_size)
        side = encode(captions)
        if summarizer is not None or summaries is not None:
            texts = _list_texts(captions, descriptions, positions)
            of_images, about = _find_summaries(texts, summaries, positions, summarizer, device, batch_size)
            corpus = summary_corpus(of_images, encode)
            facts = replace(facts, others={**facts.others, "summaries": about})
        elif descriptions is not None:
            images = average_descriptions(
                pair_up(owners, 0), descriptions, partial(encode, quiet=True), normalize=normalize
            )
    corpus_name = "a summary of their other captions"
    if descriptions is not None and corpus is not None:
        corpus_name = "a summary of their descriptions"
    elif descriptions is not None:
        if images is None or (file and normalize):
            raise InvalidOption(
                f"{file}: for {declared.title} a file holds the captions, and as images the mean vectors of their "
                "descriptions, which are not scaled again; use --model to make it, or leave --normalize out"
            )
        corpus = given_corpus(images, file or model)
        corpus_name = f"vectors of {file.name}" if file else "the mean of their descriptions"
    vectors = take_rows(side, np.asarray(captions["caption_id"], dtype=np.int64), file or model)
    report = evaluate_query_corpus(
        captions,
        vectors,
        library,
        collection=collection,
        query_position=query_position,
        corpus=corpus,
        corpus_name=corpus_name,
        normalize=normalize,
        facts=replace(facts, split=name_of_split or "", command=COMMAND.get()),
    )
    contents: dict[str, FileContent] = {}
    if descriptions is not None and file is None and images is not None:
        run = EmbeddingsRun(images, side, similarity="cosine", model=facts.model)
        contents["embeddings.npz"] = partial(save_embeddings, run=run)
    try:
        written = [] if output is None else _write(report, output, contents)
    finally:
        report.show()
    say_written(written)


def _check_source(context: typer.Context, file: Path | None, model: str | None, batch_size: int) -> None:
    """A file or a model, and no option of the one with the other."""
    if file is not None and model is not None:
        raise InvalidOption(f"{file} is encoded already: give it, or --model {model}, not both")
    if file is None and model is None:
        raise InvalidOption(
            "nothing to rank: name a file with embeddings of the captions, or a model with --model ID_OR_FOLDER"
        )
    named = [name for name in OF_MODEL if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"]
    if file is not None and named:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in named)
        raise InvalidOption(f"{options}: only for --model, and {file} holds vectors of captions; leave it out")
    if model is not None:
        check_model(model, batch_size=batch_size)


def _check_summaries(summarizer: str | None, file: Path | None) -> None:
    """A model that can be loaded, and a file to write its summaries to; or a file that holds summaries."""
    from cxc_eccv.cli.user_tables import read_summaries

    if summarizer is not None:
        check_model(summarizer)
    if file is not None and summarizer is not None:
        refuse_unwritable(file, file=True)
    elif file is not None:
        read_summaries(file)


def _load_vectors(file: Path, name: str | None) -> tuple[Embeddings, Embeddings | None, Provenance]:
    """The vectors of captions and images in a file, and what a report says of it."""
    from cxc_eccv.runs import load_embeddings
    from cxc_eccv.types.provenance import Provenance

    run = load_embeddings(file).without_roles()  # a query and what it searches are alike: captions
    if run.captions is None:
        raise InvalidOption(f"{file}: holds no captions; a query and what it searches are captions")
    return run.captions, run.images, Provenance(run=run.facts(), model=name or run.model or file.stem)


def _load_encoder(model: str, name: str | None, device: str | None, batch_size: int) -> tuple[Encode, Provenance]:
    """What turns texts into vectors of a model, which are kept; and what a report says of it."""
    from cxc_eccv.encoding import Encoding, encode_once, load_model
    from cxc_eccv.encoding.identity import describe_encoding
    from cxc_eccv.types.json_records import to_json
    from cxc_eccv.types.provenance import Provenance

    loaded = load_model(model, device=device, name=name)
    encoding = Encoding(batch_size=batch_size)

    def encode(captions: Any, *, quiet: bool = False) -> Embeddings:  # noqa: ANN401 - as of encode_once
        run, was_there = encode_once(loaded, captions=captions, encoding=encoding)
        if not quiet:
            say_kept(run, was_there)
        return cast("Embeddings", run.without_roles().captions)

    facts = {**loaded.facts, **to_json(describe_encoding(loaded, ["captions"], encoding))}
    return encode, Provenance(model=loaded.title, others={"encoding": facts})


def _find_summaries(
    texts: Iterable[Text],
    file: Path | None,
    positions: range,
    summarizer: str | None,
    device: str | None,
    batch_size: int,
) -> tuple[Summaries, JsonObject]:
    """The summaries of a file, or of a model, which keeps them in the file; and what a report says of these."""
    if summarizer is None:
        from cxc_eccv.cli.user_tables import read_summaries
        from cxc_eccv.hashing import hash_file
        from cxc_eccv.studies.explain.caption_corpus import key_summaries

        path = cast("Path", file)
        summaries = key_summaries(read_summaries(path), positions, path)
        return summaries, {"file": path.name, "sha256": hash_file(path)}
    with needs_extra("train"):
        from cxc_eccv.studies.explain.summaries import load_summarizer, summarize

    loaded = load_summarizer(summarizer, device=device)
    rows = list(texts)
    made = summarize(loaded, rows, file, batch_size=batch_size)
    return {row[:2]: summary for row, summary in zip(rows, made, strict=True)}, loaded.facts


def _list_texts(captions: pa.Table, descriptions: pa.Table | None, positions: range) -> Iterator[Text]:
    """Yield the joined other captions, or descriptions, of every image at every position."""
    import numpy as np

    from cxc_eccv.studies.explain.caption_corpus import describe, pair_up
    from cxc_eccv.studies.explain.summaries import join_captions

    owners = np.asarray(captions["image_id"], dtype=np.int64)
    for position in positions:
        pairing = pair_up(owners, position)
        sources = captions
        if descriptions is not None:
            pairing = describe(pairing, descriptions)
            sources = descriptions
        for image_id, text in zip(pairing.image_ids.tolist(), join_captions(sources, pairing), strict=True):
            yield image_id, position, text


def _write(report: QueryCorpusReport, output: Path, further: dict[str, FileContent]) -> list[Path]:
    from cxc_eccv.runs.rankings import write_rankings

    contents: dict[str, FileContent] = {
        "query_corpus.json": report.to_json(),
        "query_corpus.md": report.to_markdown(),
        "rankings.parquet": partial(write_rankings, run=report.rankings),
        **further,
    }
    return write_texts(output, contents, recorded=True)
