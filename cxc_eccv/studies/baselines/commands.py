"""``cxc-eccv baseline`` and ``train``: score reference models, and train them."""

from __future__ import annotations

import os
import shlex
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cxc_eccv.cli.delivery import COMMAND, check_folder, deliver, say_written, show_command
from cxc_eccv.cli.shared_options import Group, ScriptCommand, open_library, split_name
from cxc_eccv.extras import needs_extra
from cxc_eccv.terminal import print_shown, say
from cxc_eccv.writing import refuse_unwritable

if TYPE_CHECKING:
    from cxc_eccv.studies.trainers.model_card import ScoredPairs, Trained

COMMANDS = {"baseline": Group.SCORE, "train": Group.RESEARCH}


def baseline(
    name: Annotated[str, typer.Argument(help="bow, random, word_vectors, image_features or other_captions.")],
    vectors: Annotated[
        Path | None, typer.Option(help="Text file of word vectors, one word per line as in GloVe, for word_vectors.")
    ] = None,
    features: Annotated[
        Path | None, typer.Option(help="File of embeddings: images for image_features, captions for other_captions.")
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Hub id or folder: image model of image_features, text model of other_captions.")
    ] = None,
    images: Annotated[Path | None, typer.Option(help="Folder with the images, at any depth, for --model.")] = None,
    central_crop: Annotated[
        float | None, typer.Option(help="Share of an image's area to keep, for --model (0.875 in the CxC paper).")
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="coco, flickr8k or flickr30k, for other_captions. Default: coco.")
    ] = None,
    pool: Annotated[
        str | None,
        typer.Option(
            metavar="max|mean|harmonic",
            help="Cosine of other_captions: the largest, the mean, or RefCLIPScore's harmonic mean. Default: max.",
        ),
    ] = None,
    split: Annotated[str, typer.Option(metavar="val|test", help="Split to score.")] = "test",
    seed: Annotated[int | None, typer.Option(help="Seed of the vectors, for random. Default: 0.")] = None,
    output: Annotated[Path | None, typer.Option(help="Folder for report.json and its pages.")] = None,
) -> None:
    r"""Score a baseline that needs no training.

    Examples:
    ```sh
    cxc-eccv baseline bow --split test
    cxc-eccv baseline word_vectors --vectors glove.6B.300d.txt
    cxc-eccv baseline image_features --model google/vit-base-patch16-224 \
      --images val2014
    ```

    bow: TF-IDF bag of words with document frequencies of the validation captions; text-text retrieval on CxC.
    random: random vectors for images and captions; every task.
    word_vectors: the mean of a caption's word vectors, read from a file of yours; text-text retrieval and similarity.
    image_features: pooled features of an image model, or of a file of yours; image-image retrieval and similarity.
    other_captions: a text model scores a caption by the other captions of an image; every image-text task.
    """
    from cxc_eccv.report.saving import FILES, refuse_foreign_files
    from cxc_eccv.sources.collections.coco import COLLECTION as COCO
    from cxc_eccv.studies.baselines.untrained import Inputs, baseline_named

    check_folder(output, FILES)
    if output is not None:
        refuse_foreign_files(output)
    score = baseline_named(name)
    scored = open_library().split(split_name(split), collection or COCO)
    report, _ = score(
        scored,
        Inputs(
            vectors=vectors,
            features=features,
            model=model,
            images=images,
            central_crop=central_crop,
            seed=seed,
            collection=collection,
            pool=pool,
        ),
    )
    deliver(report, output)


train = typer.Typer(no_args_is_help=True, help="Train a baseline; under torchrun, on several processes.")

# Options are those of dataclasses, transformers' TrainingArguments among them, and are read by their own parser.
OTHER_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@train.command("dual-encoder", cls=ScriptCommand, context_settings=OTHER_OPTIONS)
def dual_encoder(context: typer.Context) -> None:
    r"""Train a dual encoder of the CxC paper: text-text, image-text, or both; or fine-tune CLIP and its kin.

    Examples:
    ```sh
    cxc-eccv train dual-encoder --preset quick --report-on test \
      --output-dir quick
    cxc-eccv train dual-encoder --no-pretraining --data-dir sample \
      --images sample --text-model sample --image-model sample \
      --train-text-model --extra-layers 0 --per-device-train-batch-size 30 \
      --learning-rate 1e-3 --num-train-epochs 40 --logging-steps 20 \
      --report-on test
    ```

    Run the same command again to continue after an interruption. `--push-to-hub --hub-model-id YOUR_NAME/MODEL` uploads
    the model with card and report as it is trained; `cxc-eccv push FOLDER YOUR_NAME/MODEL` does so later.
    """
    _train("dual_encoder", context.args)


@train.command("char-gru", cls=ScriptCommand, context_settings=OTHER_OPTIONS)
def char_gru(context: typer.Context) -> None:
    r"""Train the character GRU on captions of the same image, or on captions with image features.

    Examples:
    ```sh
    cxc-eccv train char-gru --data-dir sample --train-on coco/train coco/val \
      --held-out 10 --hidden-size 8 --epochs 2 --cycle-epochs 1 \
      --output-dir char_gru --report-on test
    ```

    Run the same command again to continue after an interruption.
    """
    _train("char_gru", context.args, images="--image-folder")


@train.command("entailment-classifier", cls=ScriptCommand, context_settings=OTHER_OPTIONS)
def entailment_classifier(context: typer.Context) -> None:
    r"""Train a classifier of entailment: does an image with its captions entail a sentence?

    Examples:
    ```sh
    cxc-eccv train entailment-classifier --data-dir sample --images sample \
      --train-on cxc/val coco/val --text-model sample \
      --visual-text-model sample --image-model sample --learning-rate 1e-3 \
      --report-on cxc/test
    ```

    Run the same command again to continue after an interruption. `--push-to-hub --hub-model-id YOUR_NAME/MODEL` uploads
    the model with card and report as it is trained; `cxc-eccv push FOLDER YOUR_NAME/MODEL` does so later.
    """
    _train("entailment_classifier", context.args)


def _train(package: str, arguments: Sequence[str], images: str = "--images") -> None:
    """Train, then write the report and the card, and print the scores, on the first process.

    Folders that are absent or cannot be written are refused before torch is imported; the script's parser checks the
    rest.
    """
    _check_folders(arguments, images)
    with needs_extra("train"):
        from transformers.utils import logging

        from cxc_eccv.encoding.processes import leave_group

        script = import_module(f"cxc_eccv.studies.baselines.{package}.script")
    logging.disable_progress_bar()  # of transformers, for each file
    trained: Trained = script.train(arguments)
    leave_group()
    if os.environ.get("RANK", "0") == "0":
        _deliver(trained)


def _check_folders(arguments: Sequence[str], images: str) -> None:
    """Refuse folders of data and images that are absent, and an output folder that cannot be written."""
    from cxc_eccv.sources.download import image_folder, mirror_folder

    checks: dict[str, Callable[[str], object]] = {"--data-dir": mirror_folder, images: image_folder}
    checks["--output-dir"] = lambda output: refuse_unwritable(Path(output))
    for option, value in pairwise(word for argument in arguments for word in argument.split("=", 1)):
        if option in checks:
            checks[option](value)


def _deliver(trained: Trained) -> None:
    """Write the report and the card of a model, print its scores and how to score it, and upload it where asked."""
    from cxc_eccv.report.files import REPORT_FOLDER
    from cxc_eccv.report.score_tables import table_of_change
    from cxc_eccv.studies.trainers.model_card import write_model_card
    from cxc_eccv.tables import tables_to_console

    command = _training_command(trained.kind)
    output = trained.output / REPORT_FOLDER
    if trained.report is not None:
        deliver(trained.report, output, images=trained.images)
        if trained.before is not None:
            print_shown(tables_to_console([table_of_change(trained.before, trained.report)]))
    elif trained.pairs is not None:
        _deliver_pairs(trained.pairs, output)
    elif output.exists():
        warnings.warn(f"{output} belongs to an earlier run; --report-on test scores this model", stacklevel=2)
    again = f"{command} --report-on test" if trained.report is None and trained.pairs is None else command
    scoring = "\n".join(map(show_command, trained.scoring)) or again
    say_written([trained.model, write_model_card(trained, command, scoring)])
    say("\n".join(trained.outcome))
    if trained.report is None and trained.pairs is None:
        lines = [shlex.join(["cxc-eccv", *line]) for line in trained.scoring]
        say("\n  ".join(["score it:", *(lines or ["the same command with --report-on test"])]))
    if trained.push is not None:
        trained.push()


def _deliver_pairs(scored: ScoredPairs, output: Path) -> None:
    written = scored.write(output, COMMAND.get())
    scored.report.show()
    say_written(written)


def _training_command(kind: str) -> str:
    """The command line, with torchrun if there are several processes."""
    command = COMMAND.get() or f"cxc-eccv train {kind}"
    processes = os.environ.get("WORLD_SIZE", "1")
    return command if processes == "1" else f"torchrun --nproc-per-node {processes} --no-python {command}"
