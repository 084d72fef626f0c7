"""The command line of a training script: dataclasses' fields as options, told in the words of ``cxc-eccv train``."""

from __future__ import annotations

from argparse import Action, ArgumentDefaultsHelpFormatter
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from transformers import HfArgumentParser

from cxc_eccv.errors import UnknownName

__all__ = ["read_arguments"]


def read_arguments(
    name: str,
    about: str,
    kinds: Sequence[type],
    command: Sequence[str],
    presets: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> tuple[Any, ...]:
    """One dataclass of each kind, filled in from a command line; ``--help`` lists all options and ends the program.

    Args:
        name: of the script under ``cxc-eccv train``.
        about: what it does.
        kinds: dataclasses; one's ``_argument_group_name`` is the heading of its options.
        command: arguments as on the command line.
        presets: what ``--preset`` may name, to the options that stand where the command does not name them.

    Raises:
        UnknownName: no such preset.

    Example:
        >>> from dataclasses import dataclass
        >>> @dataclass
        ... class Arguments:
        ...     epochs: int = 3
        >>> read_arguments("my-model", "Train it.", [Arguments], ["--epochs", "5"])
        (Arguments(epochs=5),)
    """
    usage = "%(prog)s [OPTIONS]"  # over a hundred options on one line help nobody
    parser = HfArgumentParser(
        list(kinds),  # type: ignore[arg-type] # its annotation knows instances alone
        prog=f"cxc-eccv train {name}",
        usage=usage,
        description=about,
        formatter_class=_DefaultsHelp,
    )
    preset = parser.parse_known_args(list(command))[0].preset if presets else None
    if preset is not None:
        if preset not in presets:
            raise UnknownName("preset", preset, presets)
        parser.set_defaults(**presets[preset])
    *found, unknown = parser.parse_args_into_dataclasses(list(command), return_remaining_strings=True)
    if unknown:
        parser.error(f"unknown: {' '.join(unknown)}; --help lists the options")
    return tuple(found)


class _DefaultsHelp(ArgumentDefaultsHelpFormatter):
    """Tells the defaults that there are: None and an empty list say nothing to a user."""

    def _get_help_string(self, action: Action) -> str | None:
        return action.help if action.default in (None, []) else super()._get_help_string(action)
