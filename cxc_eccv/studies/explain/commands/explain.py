"""``cxc-eccv explain``: what a model's failed queries retrieved instead, in concepts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import Confidence, Names, Similarity, Thumbnails, load_runs, open_library, split_name
from cxc_eccv.cli.output import COMMAND, check_folder, say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.studies.explain.commands.concepts import Annotations, annotation_files, read_source
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
            help="Embeddings, scores or rankings, also those of query-corpus: one file per model, the first is the "
            "baseline."
        ),
    ],
    name: Names = None,
    similarity: Similarity = None,
    adversarial: Annotated[
        Path | None,
        typer.Option(help="Embeddings of altered queries by the same model, from encode --config adversarial."),
    ] = None,
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    concepts: Annotated[str, typer.Option(help="Annotations for the concepts: coco or visual-genome.")] = "coco",
    annotations: Annotations = None,
    direction: Annotated[
        list[str] | None, typer.Option(help="Direction to explain: t2i, i2t or t2t. Repeat for several. Default: all.")
    ] = None,
    confidence: Confidence = 0.95,
    seed: Annotated[int, typer.Option(help="Seed of the bootstrap, and of the failures that the page shows.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for explain.json, failures.parquet, explain.md and explain.html.")
    ] = None,
    images: Thumbnails = None,
) -> None:
    """Explain failed queries: which concepts of the right image the retrieved one lacks, how many, how large.

    A query fails if the top item belongs to another image. CA is the share of the right image's concepts that the
    retrieved image shows, NCS how close the others are in WordNet, CE how many instances the common ones differ by, and
    SD how many of these differ in size by 100% or more, relative to the smaller one and to the right image. CE and SD
    need boxes.

    Several files are compared with the first, with intervals of the differences over the queries that both models fail.

    rankings.parquet of query-corpus holds captions that search images as the mean of their other captions.

    --adversarial ranks altered queries in the place of the originals, and shows how many ranks got worse and what the
    metrics become.

    Examples:
      cxc-eccv explain clip.npz --output explained
      cxc-eccv explain clip.npz --annotations instances_val2014.json
      --output explained
      cxc-eccv explain clip.npz siglip.npz --direction t2i
      cxc-eccv explain query_corpus/rankings.parquet --output explained
      cxc-eccv explain minilm.npz --concepts visual-genome
      cxc-eccv explain clip.npz --adversarial altered.npz --output explained
    """
    from cxc_eccv.evaluation.settings import Settings
    from cxc_eccv.runs import load_embeddings
    from cxc_eccv.sources.wordnet import load_wordnet
    from cxc_eccv.studies.explain.concepts import load_concepts
    from cxc_eccv.studies.explain.explanation import check_runs, compare_failures, explain_run
    from cxc_eccv.studies.explain.global_table import make_tables
    from cxc_eccv.tables import tables_to_console

    check_folder(output, FILES, images=images)
    if adversarial is not None and len(files) > 1:
        raise InvalidOption("--adversarial is for one model; name one file, that of the model that encoded the queries")
    Settings(seed, confidence)
    source = read_source(concepts)
    library, wanted = open_library(), split_name(split)
    runs = load_runs(files, name)
    selections = check_runs(runs, library, wanted, directions=direction, similarity=similarity)
    baseline = next(iter(runs.values()))
    if adversarial is not None:
        from cxc_eccv.studies.explain.reranking import check_altered, rerank, reranking_tables

        altered = load_embeddings(adversarial)
        check_altered(baseline, altered, library.captions(wanted), direction)
    load_wordnet()
    shown = load_concepts(library, wanted, source, **annotation_files(source, annotations))
    explained = [
        explain_run(run, library, shown, wanted, similarity=similarity, name=model, selection=selections[model])
        for model, run in runs.items()
    ]
    paired = [
        row
        for other in explained[1:]
        for row in compare_failures(explained[0], other, seed=seed, confidence=confidence)
    ]
    tables, reranked = make_tables(explained, paired, confidence), None
    if adversarial is not None:
        reranked = rerank(
            baseline,
            altered,
            library,
            wanted,
            directions=direction,
            similarity=similarity,
            seed=seed,
            confidence=confidence,
        )
        tables += reranking_tables(reranked)
    of_page = {"library": library, "images": images, "seed": seed}
    try:
        written = [] if output is None else _write(output, explained, paired, reranked, tables, confidence, **of_page)
    finally:
        print_shown(tables_to_console(tables))
    say_written(written)


def _write(
    output: Path,
    explained: Sequence[Explanation],
    paired: Sequence[Paired],
    reranked: Reranking | None,
    tables: Sequence[Table],
    confidence: float,
    **of_page: Any,  # noqa: ANN401 - of render_explained
) -> list[Path]:
    """Write the numbers, a row per failure, the tables and the page, all or nothing; other files are kept."""
    from cxc_eccv.parquet import write_parquet
    from cxc_eccv.studies.explain.global_table import explanations_to_json, join_tables
    from cxc_eccv.studies.explain.page import render_explained
    from cxc_eccv.tables import tables_to_markdown

    with replaced_folder(output, FILES) as folder:
        texts = {
            "explain.json": explanations_to_json(explained, paired, reranked, COMMAND.get(), confidence),
            "explain.md": tables_to_markdown(tables),
            "explain.html": render_explained(explained, tables=tables, **of_page),
        }
        for file, text in texts.items():
            (folder / file).write_text(text, encoding="utf-8", newline="\n")
        write_parquet(join_tables(explained), folder / "failures.parquet")
    return [output / file for file in FILES]
