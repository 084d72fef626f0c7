"""``cxc-eccv entailment``: how good a classifier of entailment is; Entail@K by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cxc_eccv.cli.delivery import say_written
from cxc_eccv.cli.named_models import load_runs
from cxc_eccv.cli.shared_options import (
    BatchSize,
    Command,
    DataCommand,
    Device,
    Group,
    Names,
    names,
    open_library,
    split_name,
)
from cxc_eccv.errors import InvalidOption
from cxc_eccv.extras import needs_extra
from cxc_eccv.studies.asking.options import AnswerForm, AnswerWorkers, QuestionForm, QuestionImages
from cxc_eccv.terminal import print_shown, say

if TYPE_CHECKING:
    from cxc_eccv.sources.library import Library
    from cxc_eccv.studies.entailment.labelled import LabelledPairs
    from cxc_eccv.types import FloatArray

    Said = tuple[LabelledPairs, FloatArray, dict[str, Any]]
    """Labelled pairs, the probabilities that a classifier gives them, and what is known of it."""

COMMANDS = {"entailment": Group.RESEARCH}

entailment = typer.Typer(no_args_is_help=True, help="Score a classifier of entailment, or Entail@K by hand.")


@entailment.command("score", cls=DataCommand)
def score(
    pairs: Annotated[
        str, typer.Argument(help="Labelled pairs: a file (.parquet, .csv, .jsonl), or a part such as cxc/test.")
    ],
    model: Annotated[
        str,
        typer.Option(
            help="The classifier: its folder or Hub id; or a file (.parquet, .csv, .jsonl) of a judge's probabilities."
        ),
    ],
    images: Annotated[Path | None, typer.Option(help="Folder with the images, at any depth.")] = None,
    batch_size: BatchSize = 64,
    device: Device = None,
    threshold: Annotated[
        float | None, typer.Option(help="Lowest probability that counts as entailed. Default: the classifier's.")
    ] = None,
    precision: Annotated[
        float | None, typer.Option(help="Choose the threshold that reaches this precision (0.9) on these pairs.")
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for report.json and probabilities.parquet.")] = None,
) -> None:
    """Measure a classifier, or another judge by its probabilities, on labelled pairs.

    Examples:
    ```sh
    cxc-eccv entailment score cxc/test --model classifier --output scored
    cxc-eccv entailment score cxc/val --model classifier --precision 0.9
    cxc-eccv entailment score pairs.jsonl --model classifier --images val2014
    ```

    Shows accuracy, precision, recall and F0.5, with intervals that keep the pairs of an image together; the recall at
    several precisions; how well probabilities match shares of entailed pairs; calibration error, AUC and kappa by
    source of the pairs; and what the classifier was trained on.
    """
    from cxc_eccv.cli.delivery import COMMAND, check_folder
    from cxc_eccv.sources.columns import TABLE_ENDINGS, find_ending
    from cxc_eccv.studies.entailment.measures import check_precision, check_threshold
    from cxc_eccv.studies.entailment.quality import report_classifier, write_classifier_folder
    from cxc_eccv.types import check_whole

    scores = Path(model) if find_ending(Path(model)) in TABLE_ENDINGS else None
    if threshold is not None and precision is not None:
        raise InvalidOption("--threshold and --precision: give one of them")
    check_folder(output)
    check_whole("batch_size", batch_size)
    if threshold is not None:
        check_threshold(threshold)
    if precision is not None:
        check_precision(precision)
    library = open_library()
    if scores is not None:
        labelled, probabilities, facts = _read_scores(scores, pairs, library, images)
    else:
        labelled, probabilities, facts = _ask(model, pairs, library, images, batch_size, device)
    if threshold is not None:
        facts |= {"threshold": threshold, "threshold_from": "as given"}
    report = report_classifier(labelled, probabilities, library, precision=precision, **facts)
    try:
        written = (
            [] if output is None else write_classifier_folder(output, report, labelled, probabilities, COMMAND.get())
        )
    finally:
        report.show()
    say_written(written)


def _read_scores(scores: Path, pairs: str, library: Library, images: Path | None) -> Said:
    from cxc_eccv.cli.user_tables import read_probabilities
    from cxc_eccv.studies.entailment.labelled import read_labelled

    labelled = read_labelled(pairs, library, images=images)
    facts = {"model": scores.name, "threshold": 0.5, "threshold_from": "the default"}
    return labelled, labelled.align(read_probabilities(scores), scores), facts


def _ask(model: str, pairs: str, library: Library, images: Path | None, batch_size: int, device: str | None) -> Said:
    from cxc_eccv.cli.named_models import check_model
    from cxc_eccv.studies.entailment.judge import ClassifierJudge
    from cxc_eccv.studies.entailment.labelled import find_labelled, read_labelled, seen_by

    check_model(model, images, batch_size=batch_size)
    find_labelled(pairs)
    with needs_extra("train"):
        from cxc_eccv.studies.entailment.scoring import find_classifier

    classifier = find_classifier(model, device=device)
    labelled = read_labelled(pairs, library, images=images if classifier.has_visual else None)
    judge = ClassifierJudge(classifier, images, batch_size=batch_size)
    probabilities = judge.score(*labelled.ask(classifier, images))
    facts = {"model": classifier.name, "fingerprint": classifier.fingerprint, "threshold": classifier.threshold}
    return labelled, probabilities, facts | {"seen": seen_by(classifier), "training_data": classifier.training_data}


@entailment.command("mean", cls=Command)
def mean(
    reports: Annotated[
        list[Path],
        typer.Argument(help="Two report.json files, or their folders, of each model: on COCO and on Flickr30k."),
    ],
    output: Annotated[Path | None, typer.Option(help="File (.json) for the numbers.")] = None,
    name: Annotated[
        list[str] | None,
        typer.Option(help="Name of a model; repeat for each. Default: that of its report on COCO."),
    ] = None,
) -> None:
    r"""Average Entail@K over COCO and Flickr30k, each counting half, as in the multi-modal entailment paper.

    Examples:
    ```sh
    cxc-eccv entailment mean coco_report flickr30k_report
    cxc-eccv entailment mean clip_coco clip_f30k albef_coco albef_f30k \
      --name CLIP --name ALBEF --output mean.json
    ```

    Each report needs the per_query.parquet that evaluate --output writes beside it. The two reports of a model must use
    the same policy, or the same classifier, for pairs without a label.
    """
    from cxc_eccv.comparison import load_reports
    from cxc_eccv.studies.entailment.mean_scores import mean_entailment
    from cxc_eccv.tables import tables_to_console
    from cxc_eccv.writing import refuse_unwritable, write_json

    if output is not None:
        refuse_unwritable(output, file=True)
    if len(reports) % 2 or (name and len(name) != len(reports) // 2):
        given = f"reports given: {len(reports)}" + (f", names: {len(name)}" if name else "")
        raise InvalidOption(
            f"{given}. Give two reports for each model, on COCO and on Flickr30k, one after the other, and as many "
            "names as models, or none"
        )
    pairs = [load_reports(reports[place : place + 2]) for place in range(0, len(reports), 2)]
    titles: Sequence[str | None] = name or [None] * len(pairs)
    means = [mean_entailment(pair, name=title) for pair, title in zip(pairs, titles, strict=True)]
    if output is not None:
        write_json(output, {"schema": 1, "models": [scores.record() for scores in means]})
    print_shown(tables_to_console([table for scores in means for table in scores.tables()]))
    say_written([] if output is None else [output])


@entailment.command("pairs", cls=DataCommand)
def pairs(
    files: Annotated[
        list[Path], typer.Argument(help="Embeddings, scores or rankings (image to text), one file per model.")
    ],
    output: Annotated[Path, typer.Option(help="File (.parquet, .csv, .jsonl) for the pairs.")],
    number: Annotated[
        str | None, typer.Option(help="Another number, such as coco_5k/t2i/recall_at_1. Default: Entail@K.")
    ] = None,
) -> None:
    r"""List the pairs of the test split without a label that Entail@K of these models needs, for a judge of yours.

    Examples:
    ```sh
    cxc-eccv entailment pairs clip.npz blip.npz --output pairs.csv
    cxc-eccv evaluate clip.npz --tasks entailment --judge answered.csv
    cxc-eccv entailment pairs clip.npz --number coco_5k/t2i/recall_at_1 \
      --output pairs.csv
    ```

    The file has each pair once, with image_id, caption_id, file_name, the image's captions and the caption. Add a
    column probability, from 0 to 1, and name the file with evaluate --judge; for another number than
    Entail@K, with --bounds too.
    """
    from cxc_eccv.studies.entailment.unjudged_pairs import list_unjudged, write_unjudged
    from cxc_eccv.writing import check_output

    check_output(output, (".parquet", ".csv", ".jsonl"))
    pairs = list_unjudged(load_runs(files, None).values(), open_library(), number=number)
    say_written([write_unjudged(output, pairs)])
    say(f"{pairs.num_rows:,} pairs without a label")


@entailment.command("export", cls=DataCommand)
def export(
    files: Annotated[
        list[Path], typer.Argument(help="Embeddings, scores or rankings (image to text), one file per model.")
    ],
    output: Annotated[Path, typer.Option(help="Folder to write to, which holds no questions yet.")],
    name: Names = None,
    form: QuestionForm = "html",
    images: QuestionImages = "coco",
    split: Annotated[str, typer.Option(metavar="val|test", help="Split of the pairs.")] = "test",
    sample: Annotated[int, typer.Option(help="Number of images, drawn at random from those of all models.")] = 50,
    depth: Annotated[int, typer.Option(help="Top captions of the ranking of each image.")] = 10,
    ask_known: Annotated[
        bool, typer.Option("--ask-known", help="Also ask about original captions and pairs with an entailment label.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of the images and of the order of the questions.")] = 0,
) -> None:
    r"""Write the top captions of some images for people to judge: the first step of Entail@K by hand.

    Examples:
    ```sh
    cxc-eccv entailment export clip.npz blip.npz --images val2014 \
      --output asked
    cxc-eccv entailment export clip.npz --format csv \
      --images "val2014/{file_name}" --sample 20 --ask-known \
      --output all_pairs
    ```

    Every pair occurs once, in an order that shows neither model nor rank. People judge whether the caption describes
    the image, and whether it follows from the image's captions. An image's own captions and pairs with an entailment
    label are known, and not asked. asked.json lists what was exported; put the answers beside it.
    """
    from cxc_eccv.studies.entailment.by_hand import export_pairs

    library = open_library()
    written = export_pairs(
        load_runs(files, name),
        output,
        form=form,
        images=images,
        split=split_name(split),
        data_dir=library,
        sample=sample,
        depth=depth,
        seed=seed,
        ask_known=ask_known,
    )
    say_written(written)
    command = f"cxc-eccv entailment score-answers {output}/ANSWERS"
    say(f"after people have answered, put their files into {output}: {command}")


@entailment.command("score-answers", cls=DataCommand)
def score_by_answers(
    answers: Annotated[list[Path], typer.Argument(help="Answered files, in the folder that entailment export wrote.")],
    form: AnswerForm = None,
    worker: AnswerWorkers = None,
    output: Annotated[Path | None, typer.Option(help="File (.json) for the numbers.")] = None,
    save_labels: Annotated[
        Path | None, typer.Option(help="File (.jsonl) for all answers, as a file of entailment labels.")
    ] = None,
) -> None:
    r"""Score the exported models by people's answers: Entail@K by hand, the paper's E@M.

    Examples:
    ```sh
    cxc-eccv entailment score-answers asked/ann.jsonl asked/ben.jsonl
    cxc-eccv entailment score-answers asked/ann.csv --output by_hand.json \
      --save-labels entailment_test.jsonl
    ```

    If several people answered, the majority decides. Rows that were changed and pairs without an answer are refused.
    """
    from cxc_eccv.studies.entailment.by_hand import score_answers
    from cxc_eccv.writing import refuse_unwritable, write_json

    for path in (output, save_labels):
        if path is not None:
            refuse_unwritable(path, file=True)
    library = open_library()
    scores = score_answers(answers, form=form, workers=names(worker), data_dir=library)
    written = [write_json(output, scores.record())] if output is not None else []
    written += [scores.save_labels(save_labels)] if save_labels is not None else []
    scores.show()
    say_written(written)
