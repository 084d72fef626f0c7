"""The command line of a training script, from dataclasses."""

from __future__ import annotations

from argparse import SUPPRESS, RawDescriptionHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Generic, TypeVar, get_type_hints

from transformers import HfArgumentParser, TrainingArguments

from cxc_eccv.studies.trainers.model_card import Settings


def option(
    default: Any,  # noqa: ANN401 - as of dataclasses.field
    text: str,
    *,
    aliases: Sequence[str] = (),
    shapes: bool = True,
) -> Any:  # noqa: ANN401 - likewise
    """A field of such a dataclass, with its default and its help; lists are copied for each instance.

    ``shapes`` says whether a run with another value is another run: options that compare equal go on from each other's
    checkpoints.
    """
    metadata: dict[str, Any] = {"help": text}
    if aliases:
        metadata["aliases"] = list(aliases)
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata, compare=shapes)
    return field(default=default, metadata=metadata, compare=shapes)


FURTHER_OPTIONS = (
    "Every option of transformers' TrainingArguments works too, such as\n--max-steps, --logging-steps, --bf16,"
    " --gradient-checkpointing and --seed:\nhttps://huggingface.co/docs/transformers/main_classes/trainer"
)

TYPE_NAMES: Mapping[Any, str] = {int: "INT", float: "FLOAT"}
"""Types of options to their names in the help."""


OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True, slots=True)
class CommandLine(Generic[OptionsT]):
    """The options of ``cxc-eccv train NAME``: a dataclass, or a NamedTuple of several.

    The ``_argument_group_name`` of a dataclass is its heading in the help. ``presets`` maps the names for ``--preset``
    to new defaults of options.
    """

    name: str
    options: type[OptionsT]
    presets: Mapping[str, Settings] = field(default_factory=dict)

    @property
    def kinds(self) -> Sequence[type]:
        """The dataclasses."""
        return [self.options] if is_dataclass(self.options) else list(get_type_hints(self.options).values())

    def make_parser(self) -> HfArgumentParser:
        """The parser of a command line, whose help shows the options of this package."""
        parser = HfArgumentParser(
            list(self.kinds),  # type: ignore[arg-type] # its annotation only allows instances
            prog=f"cxc-eccv train {self.name}",
            usage=SUPPRESS,  # the command prints it
            epilog=FURTHER_OPTIONS if any(issubclass(kind, TrainingArguments) for kind in self.kinds) else None,
            formatter_class=RawDescriptionHelpFormatter,
            allow_abbrev=False,  # as in all commands
        )
        self._describe_options(parser)
        return parser

    def read(self, command: Sequence[str]) -> OptionsT:
        """Parse a command line; the script checks what it says."""
        parser = self.make_parser()
        preset = parser.parse_known_args(list(command))[0].preset if self.presets else None
        if preset is not None:
            parser.set_defaults(**self.presets[preset])
        *arguments, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
        if unknown:
            parser.error(f"unknown options: {' '.join(unknown)}; --help lists the options")
        return arguments[0] if is_dataclass(self.options) else self.options(*arguments)

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
                None if action.choices else "BOOL" if action.nargs == "?" else TYPE_NAMES.get(action.type, "TEXT")
            )
            if action.default not in (None, False, []) and "efault: " not in str(action.help):
                shown = " ".join(map(str, action.default)) if isinstance(action.default, list) else action.default
                action.help = f"{action.help} Default: {shown}."
