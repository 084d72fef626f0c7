"""``cxc-eccv rate-failures``: export failures for people to rate, and read their ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.shared_options import DataCommand, Group, names, open_library
from cxc_eccv.studies.asking.options import AnswerForm, AnswerWorkers, QuestionForm, QuestionImages
from cxc_eccv.terminal import say

COMMANDS = {"rate_failures": Group.RESEARCH}

rate_failures = typer.Typer(no_args_is_help=True, help="Ask people to rate failures, and compare the ratings.")


@rate_failures.command("export", cls=DataCommand)
def export(
    explained: Annotated[Path, typer.Argument(help="Folder that explain --output wrote.")],
    output: Annotated[Path, typer.Option(help="Folder to write to. It keeps its other files.")],
    form: QuestionForm = "html",
    images: QuestionImages = "coco",
    sample: Annotated[int, typer.Option(help="Number of failures, drawn at random.")] = 100,
    keywords: Annotated[
        int,
        typer.Option(help="Fewest keywords of a query that the texts of its right image share; 0 keeps all failures."),
    ] = 1,
) -> None:
    r"""Write failures for people to rate: the query, the right image and the retrieved one.

    Examples:
    ```sh
    cxc-eccv rate-failures export explained --images val2014 --output asked
    cxc-eccv rate-failures export explained --format csv --sample 20 \
      --output asked
    ```

    Keyword matching comes first: a failure is left out if no concept that its query mentions is mentioned by the other
    captions or descriptions of the right image.

    People mark what is wrong with the retrieved image: object class, colour, enumeration, size, action or detail; or
    only alternatives, if it fits the query as well. They rate from 1 to 10 how well it replaces the right image. Every
    18 failures are mixed with two known pairs: an image that matches by the labels, and one that does not. The format
    html is one page for any browser. With csv or jsonl, each person fills in a copy of the file.
    """
    from cxc_eccv.studies.explain.exported_failures import export_failures, keep_matched, read_failures

    table, split = read_failures(explained, open_library())
    say_written(export_failures(table, output, split, form=form, images=images, sample=sample, keywords=keywords))
    kept, of_text = (keep_matched(table, least).num_rows for least in (keywords, 0))
    say(f"keyword matching left out {of_text - kept:,} of {of_text:,} failures of text queries (--keywords {keywords})")
    say(f"after people have answered: cxc-eccv rate-failures ratings ANSWERS --explained {explained}")


@rate_failures.command("ratings", cls=DataCommand)
def ratings(
    files: Annotated[list[Path], typer.Argument(help="Answered files of rate-failures export, all of them.")],
    explained: Annotated[Path, typer.Option(help="Folder of the failures that were exported.")],
    form: AnswerForm = None,
    worker: AnswerWorkers = None,
    output: Annotated[Path | None, typer.Option(help="File (.json) for the numbers.")] = None,
) -> None:
    r"""Count what people marked, and test which of CA, NCS, CE and SD agrees with their ratings.

    Examples:
    ```sh
    cxc-eccv rate-failures ratings ann.csv ben.csv --explained explained
    cxc-eccv rate-failures ratings failures.jsonl --explained explained \
      --output ratings.json
    ```

    Shows each rater's answers to known pairs and the agreement between raters, the share of each class, classes that
    are marked together (association rules), and the rank correlation of each number with the mean rating of a failure.
    Whether people agree with a number is only said if known pairs were answered, and raters agree better than by
    chance. Rows that were changed or not answered in full are refused.
    """
    from cxc_eccv.evaluation.make_report import make_provenance
    from cxc_eccv.hashing import hash_content
    from cxc_eccv.studies.explain.exported_failures import read_failures
    from cxc_eccv.studies.explain.ratings import read_ratings, report_ratings
    from cxc_eccv.types.provenance import Provenance
    from cxc_eccv.writing import refuse_unwritable, write_json

    if output is not None:
        refuse_unwritable(output, file=True)
    library = open_library()
    table, split = read_failures(explained, library)
    answers, known = read_ratings(files, table, split, form, names(worker))
    hashes = {path.name: hash_content(path) for path in (*files, explained / "failures.parquet")}
    facts = make_provenance(library, split.name, Provenance(others={"files": hashes}))
    report = report_ratings(answers, known, table, provenance=facts)
    try:
        written = [] if output is None else [write_json(output, report.record())]
    finally:
        report.show()
    say_written(written)
