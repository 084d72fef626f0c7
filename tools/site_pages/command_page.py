"""``docs/reference/cli.md``: every command, its arguments and options, from the command line itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from cxc_eccv.builders.markdown import table
from cxc_eccv.cli import app

__all__ = ["commands"]

EXAMPLES = re.compile(r"^Examples?:\s*", re.MULTILINE)


def commands() -> str:
    """All commands, in the order in which ``cxc-eccv --help`` lists them."""
    group: Any = typer.main.get_command(app)
    return "\n\n".join(_command(name, command) for name, command in group.commands.items())


def _command(name: str, command: Any) -> str:  # noqa: ANN401 - a class of typer that is not public
    text, examples = _split(command.help)
    shown = [one for one in command.params if one.name != "help" and not one.hidden]
    usage = " ".join(["cxc-eccv", name, *_usage(shown)])
    blocks = [f"## `{name}`", text, f"Usage: `{usage}`"]
    blocks += [table(["argument or option", "default", "meaning"], [_row(one) for one in shown])] if shown else []
    return "\n\n".join([*blocks, f"```sh\n{examples}\n```"] if examples else blocks)


def _split(text: str) -> tuple[str, str]:
    """What the command does, and its examples, a command to a line."""
    parts = EXAMPLES.split(text, maxsplit=1)
    lines = parts[1].splitlines() if len(parts) > 1 else []
    return parts[0].strip(), "\n".join(line.strip() for line in lines if line.strip())


def _usage(parameters: list[Any]) -> Iterator[str]:
    yield "[OPTIONS]"
    for one in parameters:
        if one.param_type_name == "argument":
            yield one.name.upper() + ("..." if one.nargs == -1 else "")


def _row(one: Any) -> tuple[str, str, str]:  # noqa: ANN401 - a class of typer that is not public
    if one.param_type_name == "argument":
        return f"`{one.name.upper()}`", "required" if one.required else "", one.help or ""
    flags = ", ".join(f"`{flag}`" for flag in (*one.opts, *one.secondary_opts))
    return flags, "required" if one.required else _default(one), one.help or ""


def _default(one: Any) -> str:  # noqa: ANN401 - a class of typer that is not public
    if isinstance(one.default, bool):
        return f"`{(one.opts if one.default else one.secondary_opts)[0]}`" if one.secondary_opts else ""
    return f"`{one.default}`" if isinstance(one.default, str | int | float) else ""
