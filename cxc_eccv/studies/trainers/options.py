"""The command line of a training script, from dataclasses."""

from __future__ import annotations

from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from transformers import HfArgumentParser, TrainingArguments

from cxc_eccv.studies.trainers.model_card import Settings


def option(default: Any, text: str, *, aliases: Sequence[str] = ()) -> Any:  # noqa: ANN401 - as of dataclasses.field
    """A field of such a dataclass, with its default and its help; lists are copied for each instance."""
    metadata = {"help": text, **({"aliases": list(aliases)} if aliases else {})}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


FURTHER_OPTIONS = (
    "Every option of transformers' TrainingArguments works too, such as\n--max-steps, --logging-steps, --bf16,"
    " --gradient-checkpointing and --seed:\nhttps://huggingface.co/docs/transformers/main_classes/trainer"
)

NAMES: Mapping[Any, str] = {int: "INT", float: "FLOAT"}
"""Types of options to their names in the help."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """The options of ``cxc-eccv train NAME``: dataclasses, whose ``_argument_group_name`` is their heading.

    ``presets`` maps the names for ``--preset`` to new defaults of options.
    """

    name: str
    kinds: Sequence[type]
    presets: Mapping[str, Settings] = field(default_factory=dict)

    def read(self, command: Sequence[str]) -> tuple[Any, ...]:
        """Parse a command line into one dataclass of each kind."""
        parser = HfArgumentParser(
            list(self.kinds),  # type: ignore[arg-type] # its annotation only allows instances
            prog=f"cxc-eccv train {self.name}",
            usage=SUPPRESS,  # the command prints it
            epilog=FURTHER_OPTIONS if any(issubclass(kind, TrainingArguments) for kind in self.kinds) else None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,  # as in all commands
        )
        self._describe_options(parser)
        preset = parser.parse_known_args(list(command))[0].preset if self.presets else None
        if preset is not None:
            parser.set_defaults(**self.presets[preset])
        *arguments, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
        if unknown:
            parser.error(f"unknown options: {' '.join(unknown)}; --help lists the options")
        return tuple(arguments)

    def _describe_options(self, parser: HfArgumentParser) -> None:
        """Hide what transformers declares, show an option once, and its default unless its help has it."""
        shared = {one.name: one for one in fields(TrainingArguments)}
        declared = {one.name: one for kind in self.kinds for one in fields(kind)}
        for action in parser._actions:
            one = declared.get(action.dest)
            if one is None:
                continue
            if one is shared.get(one.name) or "help" not in one.metadata:
                action.help = SUPPRESS
                continue
            action.option_strings = [flag for flag in action.option_strings if "_" not in flag]
            action.metavar = (
                None if action.choices else "BOOL" if action.nargs == "?" else NAMES.get(action.type, "TEXT")
            )
            if action.default not in (None, False, []) and "efault: " not in str(action.help):
                shown = " ".join(map(str, action.default)) if isinstance(action.default, list) else action.default
                action.help = f"{action.help} Default: {shown}."
