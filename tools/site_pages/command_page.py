"""``docs/reference/cli.md``: every command, its arguments and options, from the command line itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import typer.main

from cxc_eccv.cli.app import app
from cxc_eccv.terminal import markdown_table

__all__ = ["commands", "training_options"]


def commands() -> str:
    """The options of the program, then all commands in the order in which ``cxc-eccv --help`` lists them."""
    program = typer.main.get_command(app)
    blocks = [
        "## Options of every command",
        "They stand before or after the command's name; commands that read no raw files take them before it only.",
        _table([parameter for parameter in program.params if not parameter.is_eager]),
    ]
    return "\n\n".join([*blocks, *(_command(name, command) for name, command in _of_group(program))])


def _of_group(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - a class of typer
    """Names and commands; those of a group within the group come under the names of both."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _of_group(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def training_options(name: str) -> str:
    """The options of ``train NAME``, a table for each of their groups, from its own parser.

    Example:
        >>> "`--text-model`" in training_options("dual-encoder")
        True
    """
    options = import_module(f"cxc_eccv.studies.baselines.{name.replace('-', '_')}.options")
    parser: argparse.ArgumentParser = options.COMMAND.make_parser()
    blocks = []
    for group in parser._action_groups:
        rows = [_training_row(action) for action in group._group_actions if action.help != argparse.SUPPRESS]
        rows = [row for row in rows if "`--help`" not in row[0]]
        if rows:
            title = (
                "" if group.title in (None, "options", "positional arguments") else f"{str(group.title).capitalize()}:"
            )
            blocks += [title, markdown_table(["option", "meaning"], rows)]
    return "\n\n".join(block for block in [*blocks, " ".join((parser.epilog or "").split())] if block)


def _training_row(action: argparse.Action) -> tuple[str, str]:
    flags = ", ".join(f"`{flag}`" for flag in action.option_strings)
    choices = f"One of {', '.join(f'`{choice}`' for choice in action.choices)}. " if action.choices else ""
    return flags, f"{choices}{action.help}"


def _command(name: str, command: Any) -> str:  # noqa: ANN401 - a class of typer that is not public
    shown = [parameter for parameter in command.params if parameter.name != "help" and not parameter.hidden]
    usage = " ".join(["cxc-eccv", name, *_usage(shown)])
    blocks = [f"## `{name}`", command.help.replace("Examples:\n", "").strip(), f"Usage: `{usage}`"]
    if name.startswith("train "):
        blocks.append(training_options(name.removeprefix("train ")))
    return "\n\n".join([*blocks, *([_table(shown)] if shown else [])])


def _table(parameters: list[Any]) -> str:
    return markdown_table(["argument or option", "default", "meaning"], [_row(parameter) for parameter in parameters])


def _usage(parameters: list[Any]) -> Iterator[str]:
    yield "[OPTIONS]"
    for parameter in parameters:
        if parameter.param_type_name == "argument":
            yield parameter.name.upper() + ("..." if parameter.nargs == -1 else "")


def _row(parameter: Any) -> tuple[str, str, str]:  # noqa: ANN401 - a class of typer that is not public
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`", "required" if parameter.required else "", parameter.help or ""
    choices = (parameter.metavar or "").split("|")
    meaning = parameter.help or ""
    if len(choices) > 1:
        meaning = f"One of {', '.join(f'`{choice}`' for choice in choices)}. {meaning}"
    flags = ", ".join(f"`{flag}`" for flag in (*parameter.opts, *parameter.secondary_opts))
    return flags, "required" if parameter.required else _default(parameter), meaning


def _default(parameter: Any) -> str:  # noqa: ANN401 - a class of typer that is not public
    if isinstance(parameter.default, bool):
        return (
            f"`{(parameter.opts if parameter.default else parameter.secondary_opts)[0]}`"
            if parameter.secondary_opts
            else ""
        )
    return f"`{parameter.default}`" if isinstance(parameter.default, str | int | float) else ""
