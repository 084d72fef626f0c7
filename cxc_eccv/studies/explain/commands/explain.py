"""``cxc-eccv explain``: what a model's failed queries retrieved instead, in concepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Thumbnails, concept_source, names, open_library, split_name
from cxc_eccv.cli.extras import load_runs
from cxc_eccv.cli.output import COMMAND, check_output, say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown
from cxc_eccv.writing import replaced_folder

if TYPE_CHECKING:
    from cxc_eccv.studies.explain.explanation import Explanation, Paired
    from cxc_eccv.studies.explain.reranking import Reranking
    from cxc_eccv.tables import Table

FILES = ("explain.json", "failures.parquet", "explain.md", "explain.html")


def explain(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Embeddings, scores or rankings, also of query-corpus: a file per model, the first the baseline."
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(help="Folder for explain.json, failures.parquet, explain.md and explain.html.")
    ] = None,
    concepts: Annotated[str, typer.Option(help="What tells the concepts of an image: coco or visual-genome.")] = "coco",
    instances: Annotated[
        Path | None,
        typer.Option(help="COCO's annotations with boxes (instances_val2014.json). Default: those of --data-dir."),
    ] = None,
    objects: Annotated[
        Path | None, typer.Option(help="Visual Genome's objects.json. Default: that of --data-dir.")
    ] = None,
    image_data: Annotated[Path | None, typer.Option(help="The image_data.json that belongs to it.")] = None,
    directions: Annotated[
        list[str] | None, typer.Option(help="Of t2i, i2t and t2t, comma-separated or repeated. Default: all it can.")
    ] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    name: Annotated[
        list[str] | None,
        typer.Option(help="What the models are called, one per file. Default: what the file says, else its name."),
    ] = None,
    direction: Annotated[
        str | None, typer.Option(help="Of a rankings file that does not say it: i2t, t2i or t2t.")
    ] = None,
    similarity: Annotated[
        str | None, typer.Option(help="Of embeddings: cosine or dot. Default: what the file says, else cosine.")
    ] = None,
    adversarial: Annotated[
        Path | None,
        typer.Option(help="Embeddings of altered queries by the same model, from encode --config adversarial."),
    ] = None,
    seed: Annotated[
        int, typer.Option(help="Seed of the bootstrap behind intervals, and of the failures the page draws.")
    ] = 0,
    images: Thumbnails = None,
) -> None:
    """Say what failed queries retrieved instead: which concepts of the right image, how many, how large.

    A query fails where the item at its top is of another image than its own. CA is the share of the right image's
    concepts that the retrieved one shows, NCS how close the others are in WordNet, CE by how many instances the common
    ones differ, SD how many of these differ in size by 100% or more, relative to the smaller one and to that of the
    right image. CE and SD need boxes.

    With several files the models stand side by side, with intervals of their differences over the queries that both
    fail.

    rankings.parquet of query-corpus has its failures: captions that search images as the mean of their other captions.

    With altered queries they are ranked where the originals were: how many went lower, and what it does to the metrics.

    Examples:
      cxc-eccv explain clip.npz --output explained
      cxc-eccv explain clip.npz --instances instances_val2014.json
      --output explained
      cxc-eccv explain clip.npz siglip.npz --directions t2i
      cxc-eccv explain query_corpus/rankings.parquet --output explained
      cxc-eccv explain minilm.npz --concepts visual-genome
      cxc-eccv explain clip.npz --adversarial altered.npz --output explained
    """
    from cxc_eccv.runs import load_embeddings
    from cxc_eccv.sources.wordnet import load_wordnet
    from cxc_eccv.studies.explain.concepts import load_concepts
    from cxc_eccv.studies.explain.explanation import check_runs, compare_failures, explain_run
    from cxc_eccv.studies.explain.global_table import make_tables
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.types import check_whole

    check_output(output, FILES, images=images)
    if adversarial is not None and len(files) > 1:
        raise InvalidOption("--adversarial is for one model; name one file, that of the model that encoded the queries")
    check_whole("seed", seed, 0)
    source = concept_source(concepts)
    library, wanted = open_library(), split_name(split)
    runs, asked = load_runs(files, direction, name), names(directions)
    selections = check_runs(runs, library, wanted, directions=asked, similarity=similarity)
    baseline = next(iter(runs.values()))
    if adversarial is not None:
        from cxc_eccv.studies.explain.reranking import check_altered, rerank, reranking_tables

        altered = load_embeddings(adversarial)
        check_altered(baseline, altered, library.captions(wanted), asked)
    load_wordnet()
    shown = load_concepts(library, wanted, source, instances=instances, objects=objects, image_data=image_data)
    explained = [
        explain_run(run, library, shown, wanted, similarity=similarity, name=model, selection=selections[model])
        for model, run in runs.items()
    ]
    paired = [row for other in explained[1:] for row in compare_failures(explained[0], other, seed=seed)]
    tables, reranked = make_tables(explained, paired), None
    if adversarial is not None:
        reranked = rerank(baseline, altered, library, wanted, directions=asked, similarity=similarity, seed=seed)
        tables += reranking_tables(reranked)
    of_page = {"library": library, "images": images, "seed": seed}
    try:
        written = [] if output is None else _write(output, explained, paired, reranked, tables, **of_page)
    finally:
        print_shown(tables_to_console(tables))
    say_written(written)


def _write(
    output: Path,
    explained: Sequence[Explanation],
    paired: Sequence[Paired],
    reranked: Reranking | None,
    tables: Sequence[Table],
    **of_page: Any,  # noqa: ANN401 - of render_explained
) -> list[Path]:
    """Write the numbers, a row per failure, the tables and the page, all or nothing; other files are kept."""
    from cxc_eccv.parquet import write_parquet
    from cxc_eccv.studies.explain.global_table import explanations_to_json, join_tables
    from cxc_eccv.studies.explain.page import render_explained
    from cxc_eccv.tables import tables_to_markdown

    with replaced_folder(output, FILES) as folder:
        texts = {
            "explain.json": explanations_to_json(explained, paired, reranked, COMMAND.get()),
            "explain.md": tables_to_markdown(tables),
            "explain.html": render_explained(explained, tables=tables, **of_page),
        }
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
        write_parquet(join_tables(explained), folder / "failures.parquet")
    return [output / file for file in FILES]
