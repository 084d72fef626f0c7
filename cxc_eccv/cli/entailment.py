"""``cxc-eccv entailment``: what a classifier of entailment is made of, and how good it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import AllowModified, BatchSize, DataDir, Dtype
from cxc_eccv.cli.extras import needs_train_extra
from cxc_eccv.cli.help import Command
from cxc_eccv.errors import InvalidOption
from cxc_eccv.terminal import print_shown

if TYPE_CHECKING:
    from cxc_eccv.entailment.scoring import Classifier

__all__ = ["entailment", "load_classifier_or_advise"]

entailment = typer.Typer(no_args_is_help=True, help="Count a classifier's training data, or measure it.")


@entailment.command("data", cls=Command)
def data(data_dir: DataDir = None, allow_modified: AllowModified = False) -> None:
    """Count the labelled pairs at hand that a classifier can be trained on, beside the paper's Table 2.

    The last number is of pairs that hold no image, caption or words of a test split: what training takes unless it is
    told otherwise. Nothing is downloaded.

    Examples:
      cxc-eccv entailment data
      cxc-eccv entailment data --data-dir sample
    """
    from cxc_eccv.entailment.training_data import count_corpora, table_of_counts
    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    library = Library(data_dir, offline=True, allow_modified=allow_modified)
    print_shown(tables_to_console([table_of_counts(library, count_corpora(library))]))


@entailment.command("score", cls=Command)
def score(
    pairs: Annotated[
        str, typer.Argument(help="Labelled pairs: a file (.parquet, .csv, .jsonl), or a part such as cxc/test.")
    ],
    model: Annotated[str | None, typer.Option(help="The classifier: its folder or Hub id.")] = None,
    scores: Annotated[
        Path | None,
        typer.Option(help="In its place, a table of probabilities (.parquet, .csv, .jsonl) of these pairs."),
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder with the image files, at any depth.")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Lowest probability that counts as entailed. Default: the classifier's own.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="In its place, the precision (0.9) that a threshold chosen here shall reach.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="Folder for report.json, probabilities.parquet and report.html.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the classifier is called. Default: its id, or its folder's name.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    batch_size: BatchSize = 64,
    device: Annotated[str | None, typer.Option(help="Torch device. Default: a GPU where there is one.")] = None,
    dtype: Dtype = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Measure a classifier on labelled pairs, and say what it was trained on.

    Accuracy, precision, recall and F0.5 with intervals that keep the pairs of an image together; what each of some
    wanted precisions costs; and whether the probabilities mean what they say, as a diagram in the page.

    Examples:
      cxc-eccv entailment score cxc/test --model classifier --output report
      cxc-eccv entailment score cxc/val --model classifier --precision 0.9
      cxc-eccv entailment score pairs.jsonl --model classifier --images val2014
      cxc-eccv entailment score cxc/test --scores report/probabilities.parquet
    """
    from cxc_eccv.cli.output import COMMAND, check_output, say_written
    from cxc_eccv.entailment.labelled import read_labelled
    from cxc_eccv.entailment.quality import report_classifier
    from cxc_eccv.report.classifier import write_classifier_folder
    from cxc_eccv.sources.library import Library
    from cxc_eccv.tables import tables_to_console

    if (model is None) == (scores is None):
        raise InvalidOption("name the classifier (--model), or a table of what it said (--scores): one of the two")
    if threshold is not None and precision is not None:
        raise InvalidOption("--threshold and --precision: give one of them")
    check_output(output)
    library = Library(data_dir, allow_modified=allow_modified)
    facts: dict[str, Any] = {"seed": seed, "precision": precision}
    if scores is not None:
        from cxc_eccv.cli.user_tables import read_probabilities

        labelled = read_labelled(pairs, library, images=images)
        said = labelled.align(read_probabilities(scores), scores)
        facts |= {"model": name or scores.name, "threshold": 0.5, "threshold_from": "the default"}
    elif model is not None:
        classifier = load_classifier_or_advise(model, device=device, dtype=dtype, name=name)
        config = classifier.model.config
        labelled = read_labelled(pairs, library, images=images if config.has_visual else None)
        said = classifier.score(*labelled.ask(classifier, images).part(slice(None)), batch_size=batch_size)
        facts |= {"model": classifier.name, "fingerprint": classifier.fingerprint, "threshold": config.threshold}
        facts["training_data"] = getattr(config, "training_data", None)
    if threshold is not None:
        facts |= {"threshold": threshold, "threshold_from": "as given"}
    report = report_classifier(labelled, said, library, **facts)
    try:
        written = [] if output is None else write_classifier_folder(output, report, labelled, said, COMMAND.get())
    finally:
        print_shown(tables_to_console(report.tables()))
    say_written(written)


def load_classifier_or_advise(model: str, **options: Any) -> Classifier:  # noqa: ANN401 - of load_classifier
    """A classifier, or which extra is not installed."""
    with needs_train_extra():
        from cxc_eccv.entailment.scoring import load_classifier
    return load_classifier(model, **options)
