"""``cxc-eccv train``: train a baseline; one subcommand per baseline."""

from __future__ import annotations

import os

import typer

from cxc_eccv.cli.extras import needs_train_extra
from cxc_eccv.cli.help import ScriptCommand

train = typer.Typer(no_args_is_help=True, help="Train a baseline. Under torchrun, on several processes.")

# Options are those of dataclasses, transformers' TrainingArguments among them, and are read by their own parser.
OTHER_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@train.command("dual-encoder", cls=ScriptCommand, context_settings=OTHER_OPTIONS)
def dual_encoder(context: typer.Context) -> None:
    """Train a dual encoder of the CxC paper: text-text, image-text, or both; or fine-tune CLIP and its kin.

    The options are those of the script; --help lists them.

    Example: cxc-eccv train dual-encoder --no_pretraining --data_dir sample --images sample --text_model sample
    --image_model sample --train_text_model --extra_layers 0 --per_device_train_batch_size 30 --report_on test
    """
    with needs_train_extra():
        from cxc_eccv.baselines.dual_encoder.script import train as run

    _print(run(context.args))


@train.command("char-gru", cls=ScriptCommand, context_settings=OTHER_OPTIONS)
def char_gru(context: typer.Context) -> None:
    """Train the character GRU on captions of the same image, or on captions with precomputed image features.

    The options are those of the script; --help lists them.

    Example: cxc-eccv train char-gru --data_dir sample --train_on coco/train coco/val --held_out 10 --hidden_size 8
    --epochs 2 --cycle_epochs 1 --output_dir char_gru --report_on test
    """
    with needs_train_extra():
        from cxc_eccv.baselines.char_gru.script import train as run

    _print(run(context.args))


def _print(report: object) -> None:
    """Every process has the report; the first one prints it."""
    from cxc_eccv.report.console import print_report
    from cxc_eccv.types import Report

    if isinstance(report, Report) and os.environ.get("RANK", "0") == "0":
        print_report(report)
