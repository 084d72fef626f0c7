"""``cxc-eccv explain``: what failed queries retrieved instead, in the concepts that images show."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import add_command, check_folder, say_written
from cxc_eccv.cli.named_models import load_runs
from cxc_eccv.cli.shared_options import OF_ADVANCED, Group, Names, Similarity, Thumbnails, open_library, split_name
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown, say, upper_first
from cxc_eccv.writing import FileContent, write_texts

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Split
    from cxc_eccv.studies.explain.concepts import ImageConcepts
    from cxc_eccv.studies.explain.failure_report import FailureReport
    from cxc_eccv.tables import Table

COMMANDS = {"explain": Group.RESEARCH}

COCO = "coco"

FILES = ("explain.json", "failures.parquet", "explain.md", "explain.html")

Annotations = Annotated[
    Path | None,
    typer.Option(
        help="COCO annotations with boxes (instances_val2014.json); of Visual Genome the folder with objects.json and "
        "image_data.json. Default: the files in --data-dir."
    ),
]


def explain(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Embeddings, scores or rankings, also those of query-corpus: one file per model, the first is the "
            "baseline."
        ),
    ] = None,
    name: Names = None,
    similarity: Similarity = None,
    adversarial: Annotated[
        Path | None,
        typer.Option(help="Embeddings of altered queries (config adversarial) by the same model."),
    ] = None,
    collection: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="coco, or visual_genome for a file of query-corpus on that collection.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = "coco",
    split: Annotated[
        str | None, typer.Option(metavar="val|test", help="Split. Default: test for coco, else every split.")
    ] = None,
    concepts: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Annotations for the concepts: coco or visual-genome. Default: those of the collection.",
            rich_help_panel=OF_ADVANCED,
        ),
    ] = None,
    annotations: Annotations = None,
    show_concepts: Annotated[
        str | None,
        typer.Option(help="Show the concepts of a split (all) or of one image (its COCO id), instead of failures."),
    ] = None,
    direction: Annotated[
        list[str] | None,
        typer.Option(metavar="t2i|i2t|t2t", help="Direction to explain. Repeat for several. Default: all."),
    ] = None,
    size_threshold: Annotated[
        float,
        typer.Option(
            help="Smallest difference in size that counts in SD (T_D); 1 is 100%.", rich_help_panel=OF_ADVANCED
        ),
    ] = 1.0,
    seed: Annotated[
        int,
        typer.Option(
            help="Seed of the bootstrap, and of the failures that the page shows.", rich_help_panel=OF_ADVANCED
        ),
    ] = 0,
    output: Annotated[
        Path | None, typer.Option(help="Folder for explain.json, failures.parquet, explain.md and explain.html.")
    ] = None,
    images: Thumbnails = None,
) -> None:
    r"""Explain failed queries: what the retrieved image lacks.

    Examples:
    ```sh
    cxc-eccv explain clip.npz --output explained
    cxc-eccv explain clip.npz --annotations instances_val2014.json \
      --output explained
    cxc-eccv explain clip.npz siglip.npz --direction t2i
    ```

    A query fails if the top item belongs to another image. CA is the share of the right image's concepts that the
    retrieved image shows, NCS how close the others are in WordNet, CE how many instances the common ones differ by, and
    SD how many of these differ in size by 100% or more (--size-threshold), relative to the smaller one and to the right
    image. CE and SD need boxes.

    Several files are compared with the first, with intervals of the differences over the queries that both models fail,
    and the concepts that one of them misses significantly more often.

    It also explains rankings.parquet of query-corpus, where an image is the mean of its other captions, or of its
    descriptions by Visual Genome.

    --adversarial ranks altered queries instead of the originals, and shows how many ranks got worse and what the
    metrics become.

    --show-concepts needs no file: it counts the concepts of a split's images, or lists those of an image.
    """
    from cxc_eccv.metrics.size_disagreement import check_threshold
    from cxc_eccv.runs import load_embeddings
    from cxc_eccv.sources.wordnet import load_wordnet
    from cxc_eccv.statistics import Intervals
    from cxc_eccv.studies.explain.concepts import check_source, load_concepts
    from cxc_eccv.studies.explain.explanation import check_runs, compare_failures, explain_run
    from cxc_eccv.studies.explain.failure_report import FailureReport
    from cxc_eccv.studies.explain.separating_concepts import separate_models

    concepts = concepts or (COCO if collection == COCO else "visual-genome")
    if show_concepts is not None:
        _show_concepts(show_concepts, concepts, _open_split(collection, split), annotations)
        return
    if not files:
        raise InvalidOption("nothing to explain: name a file of embeddings, scores or rankings")
    check_folder(output, FILES, images=images)
    if adversarial is not None and len(files) > 1:
        raise InvalidOption("--adversarial is for one model; name one file, that of the model that encoded the queries")
    Intervals(seed=seed)
    check_threshold(size_threshold)
    check_source(concepts)
    data = _open_split(collection, split)
    runs = load_runs(files, name)
    selections = check_runs(runs, data, directions=direction, similarity=similarity)
    baseline = next(iter(runs.values()))
    if adversarial is not None:
        from cxc_eccv.studies.explain.reranking import check_altered, rerank

        altered = load_embeddings(adversarial)
        check_altered(baseline, altered, data.captions, direction)
    load_wordnet()
    shown = load_concepts(data, concepts, annotations)
    explained = [
        explain_run(
            run,
            data,
            shown,
            similarity=similarity,
            name=model,
            selection=selections[model],
            size_threshold=size_threshold,
        )
        for model, run in runs.items()
    ]
    paired = compare_failures(explained[0], explained[1:], seed=seed)
    separation = separate_models(explained, seed=seed) if len(explained) > 1 else None
    reranked = None
    if adversarial is not None:
        reranked = rerank(
            baseline,
            altered,
            data,
            directions=direction,
            similarity=similarity,
            seed=seed,
        )
    report = FailureReport(explanations=explained, paired=paired, reranked=reranked, separation=separation, seed=seed)
    try:
        written = [] if output is None else _write(report, output, images)
    finally:
        report.show()
    say_written(written)


def _write(report: FailureReport, folder: Path, images: Path | None) -> list[Path]:
    """Write the numbers, the failures and the pages, all or none."""
    from cxc_eccv.parquet import write_parquet
    from cxc_eccv.studies.explain.failure_report import join_tables

    with_command = replace(report, explanations=[add_command(explanation) for explanation in report.explanations])
    contents: dict[str, FileContent] = {
        "explain.json": with_command.to_json(),
        "failures.parquet": partial(write_parquet, join_tables(report.explanations)),
        "explain.md": with_command.to_markdown(),
        "explain.html": with_command.to_html(images),
    }
    return write_texts(folder, contents, recorded=True)


def _open_split(collection: str, split: str | None) -> Split:
    """The split whose images have concepts: one of COCO, or by default all of Visual Genome's."""
    from cxc_eccv.sources.catalog import ALL_SPLITS
    from cxc_eccv.sources.collections.collection import find_collection

    declared = find_collection(collection)
    if declared.photographs != COCO:
        raise InvalidOption(
            f"nobody annotated concepts in the images of {declared.title}; choose coco or visual_genome"
        )
    default = "test" if declared.is_default else ALL_SPLITS
    return open_library().split(default if split is None else split_name(split), declared)


SHOWN = 15
"""Concepts of a split that are listed, the most frequent ones."""


def _show_concepts(which: str, source: str, split: Split, annotations: Path | None) -> None:
    """Print the counts of a split and its most frequent concepts, or the concepts of one image."""
    from cxc_eccv.sources.catalog import describe_data
    from cxc_eccv.studies.explain.concepts import load_concepts
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.types.provenance import DataFacts

    if which != "all" and not which.isdecimal():
        raise InvalidOption(f"--show-concepts {which}: give all, or the COCO id of an image")
    image_concepts = load_concepts(split, source, annotations)
    if which != "all" and int(which) not in split.image_ids:
        raise InvalidOption(f"image {which} is not in the split {split.name}; name its split with --split")
    data = DataFacts(edition=split.library.edition)
    say(upper_first(describe_data(data, split.name, split.collection.title)))
    tables = _tabulate_split(image_concepts) if which == "all" else [_tabulate_image(image_concepts, int(which))]
    print_shown(tables_to_console(tables))


def _tabulate_split(image_concepts: ImageConcepts) -> list[Table]:
    """The counts of a split, and its most frequent concepts."""
    from cxc_eccv.sources.catalog import ALL_SPLITS
    from cxc_eccv.tables import Table

    annotated = len(image_concepts.images)
    showing = sum(map(bool, image_concepts.images.values()))
    boxes = sum(map(len, image_concepts.boxes.values()))
    rows = [
        ("images of the split", f"{image_concepts.n_images:,}"),
        ("annotated", f"{annotated:,}"),
        ("  with concepts", f"{showing:,}"),
        ("  without: their annotators found nothing", f"{annotated - showing:,}"),
        ("not annotated", f"{image_concepts.n_images - annotated:,}"),
        ("boxes, an instance each", f"{boxes:,}" if image_concepts.counted else "not counted"),
    ]
    if image_concepts.groups:
        rows.append(("  groups, counted once", f"{image_concepts.groups:,}"))
    rows += [(f"left out: {reason}", f"{count:,}") for reason, count in sorted(image_concepts.left_out.items())]
    images = Counter(chain.from_iterable(image_concepts.images.values()))
    rows.append(("different concepts", f"{len(images):,}"))
    counts = Counter(box.concept for box in chain.from_iterable(image_concepts.boxes.values()))
    by_frequency = sorted(images.items(), key=lambda item: (-item[1], item[0]))
    header = [("concept",), ("images",)]
    most = [[concept, f"{number:,}"] for concept, number in by_frequency[:SHOWN]]
    if image_concepts.counted:
        header.append(("instances",))
        most = [[concept, number, f"{counts[concept]:,}"] for concept, number in most]
    where = "all splits" if image_concepts.split == ALL_SPLITS else f"{image_concepts.split} split"
    return [
        Table([("what",), ("number",)], rows, f"{image_concepts.source}, {where}"),
        Table(header, most, f"The {len(most)} most frequent concepts"),
    ]


def _tabulate_image(image_concepts: ImageConcepts, image: int) -> Table:
    """A row per concept of one image."""
    from cxc_eccv.tables import Table

    (shown,) = image_concepts.of([image])
    if not shown:
        raise InvalidOption(
            f"image {image} shows no concept: {image_concepts.source} have an entry for it, and nothing in it"
        )
    boxes = image_concepts.boxes.get(image, ())
    title = f"{image_concepts.source}, image {image}"
    if not image_concepts.counted:
        return Table([("concept",)], [[concept] for concept in shown], title)
    rows = []
    for concept, areas in shown.items():
        names = sorted({box.name for box in boxes if box.concept == concept})
        sizes = [f"{area:.2%}" for area in sorted(areas.tolist(), reverse=True)]
        rows.append((concept, ", ".join(names), str(areas.size), ", ".join(sizes)))
    header = [("concept",), ("called",), ("instances",), ("share of the image",)]
    return Table(header, rows, title, prose=frozenset([1, 2, 3]))
