"""``cxc-eccv entailment``: a classifier of entailment, what it is made of and how good it is; Entail@K by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.choices import AllowModified, BatchSize, DataDir, Dtype, names, split_name
from cxc_eccv.cli.extras import check_model, needs_train_extra
from cxc_eccv.cli.help import Command
from cxc_eccv.cli.output import say_written
from cxc_eccv.errors import InvalidOption
from cxc_eccv.shown import upper_first
from cxc_eccv.studies.asking.options import AnswerForm, QuestionForm, QuestionImages
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.labelled import LabelledPairs
    from cxc_eccv.types import FloatArray

    Said = tuple[LabelledPairs, FloatArray, dict[str, Any]]
    """Labelled pairs, the probabilities that a classifier gives them, and what is known of it."""

entailment = typer.Typer(
    no_args_is_help=True,
    help="Count a classifier's training data, or measure it. Entail@K by hand, or its mean.",
)


@entailment.command("data", cls=Command)
def data(data_dir: DataDir = None, allow_modified: AllowModified = False) -> None:
    """Count the labelled pairs at hand that a classifier can be trained on, beside the paper's Table 2.

    The last number is of pairs that hold no image, caption or words of a test split: what training takes unless it is
    told otherwise. Nothing is downloaded.

    Examples:
      cxc-eccv entailment data
      cxc-eccv entailment data --data-dir sample
    """
    from cxc_eccv.sources.edition import describe_data
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.training_data import count_corpora, table_of_counts
    from cxc_eccv.tables import tables_to_console

    library = Library(data_dir, offline=True, allow_modified=allow_modified)
    say(upper_first(describe_data({"data": {"edition": library.edition}}, "")))
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
    from cxc_eccv.cli.output import COMMAND, check_output
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.measures import check_precision, check_threshold
    from cxc_eccv.studies.entailment.quality import report_classifier, write_classifier_folder
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.types import check_whole

    if (model is None) == (scores is None):
        raise InvalidOption("name the classifier (--model), or a table of what it said (--scores): one of the two")
    if threshold is not None and precision is not None:
        raise InvalidOption("--threshold and --precision: give one of them")
    check_output(output)
    check_whole("seed", seed, 0)
    check_whole("batch_size", batch_size)
    if threshold is not None:
        check_threshold(threshold)
    if precision is not None:
        check_precision(precision)
    library = Library(data_dir, allow_modified=allow_modified)
    if scores is not None:
        labelled, said, facts = _read_scores(scores, pairs, library, images, name)
    else:
        loading = {"device": device, "dtype": dtype, "name": name}
        labelled, said, facts = _ask(str(model), pairs, library, images, batch_size, loading)
    if threshold is not None:
        facts |= {"threshold": threshold, "threshold_from": "as given"}
    report = report_classifier(labelled, said, library, seed=seed, precision=precision, **facts)
    try:
        written = [] if output is None else write_classifier_folder(output, report, labelled, said, COMMAND.get())
    finally:
        print_shown(tables_to_console(report.tables()))
    say_written(written)


def _read_scores(scores: Path, pairs: str, library: Library, images: Path | None, name: str | None) -> Said:
    from cxc_eccv.cli.user_tables import read_probabilities
    from cxc_eccv.studies.entailment.labelled import read_labelled

    labelled = read_labelled(pairs, library, images=images)
    facts = {"model": name or scores.name, "threshold": 0.5, "threshold_from": "the default"}
    return labelled, labelled.align(read_probabilities(scores), scores), facts


def _ask(
    model: str, pairs: str, library: Library, images: Path | None, batch_size: int, loading: dict[str, Any]
) -> Said:
    from cxc_eccv.studies.entailment.labelled import find_images, find_labelled, read_labelled

    check_model(model, images, batch_size=batch_size, dtype=loading["dtype"])
    find_labelled(pairs)
    with needs_train_extra():
        from cxc_eccv.studies.entailment.scoring import announce, load_classifier
    from cxc_eccv.studies.entailment.seen import seen_by

    announced = announce(model)
    config = announced.config
    labelled = read_labelled(pairs, library, images=images if config.has_visual else None)
    find_images(announced, labelled.table["image"].to_pylist(), images)
    classifier = load_classifier(model, **loading)
    said = classifier.score(*labelled.ask(classifier, images).part(slice(None)), batch_size=batch_size)
    facts = {"model": classifier.name, "fingerprint": classifier.fingerprint, "threshold": config.threshold}
    facts["seen"] = seen_by(classifier)
    return labelled, said, {**facts, "training_data": getattr(config, "training_data", None)}


@entailment.command("mean", cls=Command)
def mean(
    reports: Annotated[
        list[Path],
        typer.Argument(help="Two report.json files, or their folders, for each model: on COCO and on Flickr30k."),
    ],
    output: Annotated[Path | None, typer.Option(help="File (.json) to keep the numbers in.")] = None,
    models: Annotated[
        list[str] | None, typer.Option("--names", help="Models' names. Default: that of each report on COCO.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
) -> None:
    """Average Entail@K over COCO and Flickr30k, each counting half, as the multi-modal entailment paper prints it.

    Each report needs the per_query.parquet that evaluate --output writes beside it. Two reports under different
    policies for pairs without a label, or by different classifiers, are refused.

    Examples:
      cxc-eccv entailment mean coco_report flickr30k_report
      cxc-eccv entailment mean clip_coco clip_f30k albef_coco albef_f30k
      --names CLIP,ALBEF --output mean.json
    """
    from cxc_eccv.comparison import load_reports
    from cxc_eccv.studies.entailment.mean import mean_entailment
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.writing import refuse_unwritable, write_json

    if output is not None:
        refuse_unwritable(output, file=True)
    chosen = names(models)
    if len(reports) % 2 or (chosen is not None and len(chosen) != len(reports) // 2):
        given = f"reports given: {len(reports)}" + ("" if chosen is None else f", names: {len(chosen)}")
        raise InvalidOption(
            f"{given}. Give two reports for each model, on COCO and on Flickr30k, one after the other, and as many "
            "names as models, or none"
        )
    pairs = [load_reports(reports[place : place + 2]) for place in range(0, len(reports), 2)]
    titles: list[str | None] = [None] * len(pairs) if chosen is None else [*chosen]
    means = [
        mean_entailment(pair, name=name, seed=seed, confidence=confidence)
        for pair, name in zip(pairs, titles, strict=True)
    ]
    if output is not None:
        write_json(output, {"schema": 1, "models": [{"name": scores.name, **scores.records()} for scores in means]})
    print_shown(tables_to_console([scores.table for scores in means]))
    say_written([] if output is None else [output])


@entailment.command("export", cls=Command)
def export(
    runs: Annotated[
        list[Path], typer.Argument(help="A file of embeddings, scores or rankings (image to text) for each model.")
    ],
    output: Annotated[Path, typer.Option(help="Folder to write to, which holds no questions yet.")],
    form: QuestionForm = "html",
    images: QuestionImages = "coco",
    split: Annotated[str, typer.Option(help="val or test.")] = "test",
    sample: Annotated[int, typer.Option(help="Images, drawn at random from those that every model has.")] = 50,
    depth: Annotated[int, typer.Option(help="Captions at the top of each image's ranking.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of the draw and of the order.")] = 0,
    hide_known: Annotated[
        bool, typer.Option("--hide-known", help="Ask about all pairs, original captions and labelled ones among them.")
    ] = False,
    models: Annotated[
        list[str] | None, typer.Option("--names", help="Models' names. Default: what the files say, or their names.")
    ] = None,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Write the top captions of some images for people to judge: the first half of Entail@K judged by hand.

    Every pair is there once, in an order that tells neither model nor rank. People say of each whether the caption
    describes the image, and whether it follows from the image's captions; an image's own captions, and pairs that a
    file of entailment labels has, are not asked about. asked.json says what was exported: put the answers beside it.

    Examples:
      cxc-eccv entailment export clip.npz blip.npz --images val2014 --output asked
      cxc-eccv entailment export clip.npz --format csv --images "val2014/{file_name}"
      --sample 20 --hide-known --output all_pairs
    """
    from cxc_eccv.runs import load_run
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.manual import export_pairs

    loaded = [load_run(path) for path in runs]
    titles = names(models) or [run.model or path.name for run, path in zip(loaded, runs, strict=True)]
    if len(titles) != len(loaded) or len(set(titles)) < len(titles):
        raise InvalidOption(f"{len(loaded)} runs need as many different names, not {', '.join(titles)}: give --names")
    library = Library(data_dir, allow_modified=allow_modified)
    written = export_pairs(
        dict(zip(titles, loaded, strict=True)),
        output,
        form=form,
        images=images,
        split=split_name(split),
        data_dir=library,
        sample=sample,
        depth=depth,
        seed=seed,
        mark_known=not hide_known,
    )
    say_written(written)
    say(f"when people have answered, put their files into {output}: cxc-eccv entailment manual {output}/ANSWERS")


@entailment.command("manual", cls=Command)
def manual(
    answers: Annotated[list[Path], typer.Argument(help="Answered files, in the folder that entailment export wrote.")],
    form: AnswerForm = None,
    output: Annotated[Path | None, typer.Option(help="File (.json) to keep the numbers in.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="File (.jsonl) to write all answers to, as a file of entailment labels.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the intervals' bootstrap.")] = 0,
    confidence: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    data_dir: DataDir = None,
    allow_modified: AllowModified = False,
) -> None:
    """Score the exported models by what people answered: Entail@K judged by hand, the paper's E@M.

    Of several people the majority decides. Rows that are not as they were exported, and pairs without an answer, are
    refused, with their place and what to do. A table that an older version wrote, with every label 0 or 1, is read too.

    Examples:
      cxc-eccv entailment manual asked/ann.jsonl asked/ben.jsonl
      cxc-eccv entailment manual asked/ann.csv --output manual.json
      --labels entailment_test.jsonl
    """
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.manual import score_answers
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.writing import refuse_unwritable

    for path in (output, labels):
        if path is not None:
            refuse_unwritable(path, file=True)
    library = Library(data_dir, allow_modified=allow_modified)
    scores = score_answers(answers, form=form, data_dir=library, seed=seed, confidence=confidence)
    written = [scores.save(output)] if output is not None else []
    written += [scores.save_labels(labels)] if labels is not None else []
    print_shown(tables_to_console([scores.table]))
    say_written(written)
