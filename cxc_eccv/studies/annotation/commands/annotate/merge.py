"""``cxc-eccv annotate merge``: answers become labels."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.choices import AllowModified, DataDir
from cxc_eccv.cli.output import say_written
from cxc_eccv.studies.annotation.commands.annotate.telling import Folder, data_option, name_some, say_next
from cxc_eccv.terminal import say

if TYPE_CHECKING:
    from pyarrow import Table

    from cxc_eccv.sources.readers import LabelFile


def merge(
    folder: Folder,
    rule: Annotated[str, typer.Option(help="How answers become a label: majority, all or dawid_skene.")] = "majority",
    version: Annotated[str, typer.Option(help="Of the labels.")] = "1.0.0",
    least_answers: Annotated[int, typer.Option(help="People who must have answered about a pair.")] = 1,
    licence: Annotated[
        str | None, typer.Option("--license", help="Of the labels, as the Hub calls it: cc-by-4.0, for example.")
    ] = None,
    citation: Annotated[Path | None, typer.Option(help="Of the labels, for the card: a file with its BibTeX.")] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Make labels of the answers: labels.parquet, a source like the official ones, and README.md, its card.

    Rejected sheets do not count, nor do those that are still to be checked by hand. The folder can be loaded by
    datasets, and pushed to the Hub, as it is.

    Examples:
      cxc-eccv annotate merge doubts
      cxc-eccv annotate merge doubts --rule dawid_skene --version 1.1.0
      cxc-eccv annotate merge doubts --license cc-by-4.0
    """
    from cxc_eccv.judgments.evidence import Thresholds, gather, official_sources
    from cxc_eccv.sources.library import Library
    from cxc_eccv.sources.reading import read_text
    from cxc_eccv.studies.annotation.project import CARD, LABELS, Project, compare_labels

    library = Library(data_dir, allow_modified=allow_modified)
    files = [folder / LABELS, folder / CARD]
    before = _read_all(files)
    labels = Project.open(folder, library).merge(
        rule=rule,
        version=version,
        least_answers=least_answers,
        licence=licence,
        citation=None if citation is None else read_text(citation),
    )
    if _read_all(files) == before:
        say(f"nothing has changed: {folder / LABELS} is what these answers say")
    else:
        say_written(files)
    if licence is None:
        say("the card states no licence: name one (--license) before others use the labels")
    _say_compared(labels, compare_labels(labels, library))
    judging = [name for name in official_sources() if gather(library, labels.split, "i2t", name, Thresholds())]
    command = ["cxc-eccv", "evaluate", "MODEL", "--labels", str(folder)]
    command += ["--sources", ",".join([*judging, labels.name])]
    if labels.split != "test":
        command += ["--split", labels.split]
    say(f"use them: {shlex.join(command + data_option(data_dir))}")
    say_next(data_dir, "report", folder, "MODEL")


def _say_compared(labels: LabelFile, compared: Table) -> None:
    """What is new, and what contradicts official sources."""
    positive = int(labels.table["positive"].to_numpy().sum())
    rows = compared.to_pylist()
    confirmed = {(row["image_id"], row["caption_id"]) for row in rows if row["positive"] and row["source_positive"]}
    say(f"{labels.table.num_rows:,} pairs have a label, {positive:,} of them positive")
    lacking = labels.facts["counts"]["pairs"] - labels.table.num_rows
    if lacking:
        say(f"{lacking:,} that were answered have none: their sheets are not accepted, or too few people answered")
    say(f"{positive - len(confirmed):,} positives are new: no official source has them")
    against = [row for row in rows if row["positive"] != row["source_positive"]]
    for source in dict.fromkeys(row["source"] for row in against):
        pairs = [row for row in against if row["source"] == source]
        named = (f"image {row['image_id']} with caption {row['caption_id']}" for row in pairs)
        say(f"{source} says otherwise of {len(pairs):,}: {name_some(named)}")
    if not against:
        say("no label contradicts an official source")


def _read_all(files: Iterable[Path]) -> list[bytes | None]:
    return [file.read_bytes() if file.is_file() else None for file in files]
