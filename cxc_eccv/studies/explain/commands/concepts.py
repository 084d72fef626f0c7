"""``cxc-eccv concepts``: the concepts that images show, by the annotations of people."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import open_library, split_name
from cxc_eccv.errors import InvalidOption, UnknownName
from cxc_eccv.shown import upper_first
from cxc_eccv.terminal import Sheet, print_shown, say

if TYPE_CHECKING:
    from cxc_eccv.studies.explain.concepts import ImageConcepts

SHOWN = 15
"""Concepts of a split that are listed, the most frequent ones."""


SOURCES = {"coco": "coco", "visual-genome": "visual_genome"}

Annotations = Annotated[
    Path | None,
    typer.Option(
        help="COCO annotations with boxes (instances_val2014.json); of Visual Genome the folder with objects.json and "
        "image_data.json. Default: the files in --data-dir."
    ),
]


def read_source(source: str) -> str:
    """Python's name of a source of concepts."""
    if source not in SOURCES:
        raise UnknownName("source of concepts", source, SOURCES)
    return SOURCES[source]


def annotation_files(source: str, path: Path | None) -> dict[str, Path]:
    """The files that ``--annotations`` names for a source, as ``load_concepts`` takes them."""
    if path is None:
        return {}
    if source == "coco":
        return {"instances": path}
    if not path.is_dir():
        raise InvalidOption(
            f"--annotations {path}: for Visual Genome give the folder with objects.json, image_data.json"
        )
    files = {"objects": path / "objects.json", "image_data": path / "image_data.json"}
    for file in files.values():
        if not file.is_file():
            raise InvalidOption(f"--annotations {path}: {file} is not a file")
    return files


def concepts(
    source: Annotated[str, typer.Option(help="Annotations to read: coco or visual-genome.")] = "coco",
    annotations: Annotations = None,
    split: Annotated[str, typer.Option(help="train, restval, val or test.")] = "test",
    image: Annotated[int | None, typer.Option(help="COCO id of one image to show.")] = None,
) -> None:
    """Show which concepts images show, as WordNet synsets.

    The concepts come from annotations by people, with their number and size; cxc-eccv explain describes failures by
    them. Numbers and sizes need boxes. COCO's instances and Visual Genome have boxes; category sets do not.

    Examples:
      cxc-eccv concepts --data-dir sample
      cxc-eccv concepts --annotations instances_val2014.json --image 391895
      cxc-eccv concepts --source visual-genome --split val
    """
    from cxc_eccv.sources.catalog import describe_data
    from cxc_eccv.studies.explain.concepts import load_concepts

    library = open_library()
    chosen = read_source(source)
    image_concepts = load_concepts(library, split_name(split), chosen, **annotation_files(chosen, annotations))
    if image is not None and image not in library.karpathy(image_concepts.split).image_ids:
        raise InvalidOption(f"image {image} is not one of {split}; name its split with --split")
    say(upper_first(describe_data({"data": {"edition": library.edition}, "split": image_concepts.split})))
    for sheet in _sheets(image_concepts) if image is None else [_sheet_of_image(image_concepts, image)]:
        print_shown(sheet)


def _sheets(image_concepts: ImageConcepts) -> list[Sheet]:
    """The counts of a split, and its most frequent concepts."""
    annotated, showing = len(image_concepts.images), sum(map(bool, image_concepts.images.values()))
    boxes = sum(map(len, image_concepts.boxes.values()))
    rows = [
        ("images of the split", f"{image_concepts.n_images:,}"),
        ("annotated", f"{annotated:,}"),
        ("  with concepts", f"{showing:,}"),
        ("  without: their annotators found nothing", f"{annotated - showing:,}"),
        ("not annotated", f"{image_concepts.n_images - annotated:,}"),
        ("boxes, an instance each", f"{boxes:,}" if image_concepts.counted else "not counted"),
        *([("  groups, counted once", f"{image_concepts.groups:,}")] if image_concepts.groups else []),
        *((f"left out: {reason}", f"{count:,}") for reason, count in sorted(image_concepts.left_out.items())),
    ]
    images = Counter(concept for shown in image_concepts.images.values() for concept in shown)
    rows.append(("different concepts", f"{len(images):,}"))
    counts = Counter(box.concept for boxes in image_concepts.boxes.values() for box in boxes)
    most = [
        (concept, f"{number:,}", f"{counts[concept]:,}")[: 2 + image_concepts.counted]
        for concept, number in sorted(images.items(), key=lambda item: (-item[1], item[0]))[:SHOWN]
    ]
    return [
        Sheet(("what", "number"), rows, title=f"{image_concepts.source}, {image_concepts.split} split"),
        Sheet(
            ("concept", "images", "instances")[: 2 + image_concepts.counted],
            most,
            title=f"The {len(most)} most frequent concepts",
        ),
    ]


def _sheet_of_image(image_concepts: ImageConcepts, image: int) -> Sheet:
    """A row per concept of one image."""
    (shown,) = image_concepts.of([image])
    if not shown:
        raise InvalidOption(
            f"image {image} shows no concept: {image_concepts.source} have an entry for it, and nothing in it"
        )
    boxes = image_concepts.boxes.get(image, ())
    rows = []
    for concept, areas in shown.items():
        names = sorted({box.name for box in boxes if box.concept == concept})
        sizes = ", ".join(f"{area:.2%}" for area in sorted(areas.tolist(), reverse=True))
        rows.append((concept, *([", ".join(names), str(areas.size), sizes] if image_concepts.counted else [])))
    header = ("concept", *(["called", "instances", "share of the image"] if image_concepts.counted else []))
    return Sheet(header, rows, prose=frozenset(range(1, len(header))), title=f"{image_concepts.source}, image {image}")
