"""The command line of a training script from dataclasses, with hyphenated names, help and presets."""

from __future__ import annotations

import re
from argparse import Action, ArgumentDefaultsHelpFormatter
from collections.abc import Mapping, Sequence
from dataclasses import field
from types import MappingProxyType
from typing import Any

from transformers import HfArgumentParser
from transformers.hf_argparser import string_to_bool

from cxc_eccv.errors import UnknownName


def option(default: Any, text: str, *, aliases: Sequence[str] = ()) -> Any:  # noqa: ANN401 - as of dataclasses.field
    """A field of such a dataclass, with its default and its help; lists are copied for each instance."""
    metadata = {"help": text, **({"aliases": list(aliases)} if aliases else {})}
    if isinstance(default, list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def read_arguments(
    name: str,
    about: str,
    kinds: Sequence[type],
    command: Sequence[str],
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """Parse the command line of ``cxc-eccv train NAME`` into one dataclass of each kind.

    A dataclass's ``_argument_group_name`` is the heading of its options. ``presets`` maps the names for ``--preset`` to
    new defaults of options.
    """
    parser = HfArgumentParser(
        list(kinds),  # type: ignore[arg-type] # its annotation only allows instances
        prog=f"cxc-eccv train {name}",
        usage="%(prog)s [OPTIONS]",  # there are over a hundred options
        description=about,
        formatter_class=_HyphensHelp,
        allow_abbrev=False,  # as in all commands
    )
    _prefer_hyphens(parser)
    preset = parser.parse_known_args(list(command))[0].preset if presets else None
    if preset is not None:
        if preset not in presets:
            raise UnknownName("preset", preset, presets)
        parser.set_defaults(**presets[preset])
    *arguments, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
    if unknown:
        parser.error(f"unknown options: {' '.join(unknown)}; --help lists the options")
    return tuple(arguments)


def _prefer_hyphens(parser: HfArgumentParser) -> None:
    """Accept but hide names with underscores; make each switch ``--name`` or ``--no-name``."""
    for action in list(parser._actions):
        action.option_strings = [name for name in action.option_strings if "_" not in name]
        if action.type is string_to_bool:
            action.nargs, action.const = "?", True
            off = f"--no-{action.dest.replace('_', '-')}"
            if off not in parser._option_string_actions and not action.dest.startswith("no_"):
                parser.add_argument(off, f"--no_{action.dest}", dest=action.dest, action="store_false", default=None)


class _HyphensHelp(ArgumentDefaultsHelpFormatter):
    """Help that shows a switch and its opposite as one entry, and hides defaults of None and empty lists."""

    def add_argument(self, action: Action) -> None:
        if action.const is not False:  # the opposite of a switch
            super().add_argument(action)

    def _format_action_invocation(self, action: Action) -> str:
        shown = super()._format_action_invocation(action)
        if action.type is not string_to_bool:
            return shown
        name = action.option_strings[-1]
        return name if name.startswith("--no-") else f"{name}, --no-{name[2:]}"

    def _get_help_string(self, action: Action) -> str | None:
        text = action.help if action.default in (None, []) else super()._get_help_string(action)
        return text and re.sub(r"--\w+", lambda match: match[0].replace("_", "-"), text)
