"""Help and usage errors as a terminal shows them."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cxc_eccv.terminal import say

EXAMPLES = re.compile(r"^Examples?:\s*", re.MULTILINE)

EXAMPLE_WIDTH = 78
"""Columns of an example, which stands two columns in: what a narrow terminal wraps cannot be copied."""


def split_help(text: str) -> tuple[str, str]:
    r"""What a command does, and its examples, a command a line; long ones go on after a backslash as in a shell.

    Example:
        >>> print(split_help("Example: cxc-eccv evaluate " + 9 * "--tasks cxc ")[1])
        cxc-eccv evaluate --tasks cxc --tasks cxc --tasks cxc --tasks cxc \
          --tasks cxc --tasks cxc --tasks cxc --tasks cxc --tasks cxc
    """
    does, *examples = EXAMPLES.split(text, maxsplit=1)
    lines = [line.strip() for part in examples for line in part.splitlines() if line.strip()]
    commands = "\n".join(lines).replace("\n--", " --").splitlines()
    return does.strip(), "\n".join(map(_continue_lines, commands))


def _continue_lines(command: str) -> str:
    first, *options = command.split(" --")
    lines = [first]
    for option in options:
        if len(lines[-1]) + len(f" --{option} \\") <= EXAMPLE_WIDTH:
            lines[-1] += f" --{option}"
        else:
            lines.append(f"  --{option}")
    return " \\\n".join(lines)


USAGE_ERRORS: Any = typer.BadParameter.__bases__
"""What is wrong with a command line, of any kind; typer has a public name for this one of them alone."""


class Command(TyperCommand):
    """A command whose examples keep their lines, and whose first sentence is not cut in the list of commands."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes of typer that are not public
        """The text in paragraphs, then the examples as they are to be typed."""
        does, examples = split_help(self.help or "")
        with formatter.indentation():
            for paragraph in does.split("\n\n"):
                formatter.write_paragraph()
                formatter.write_text(paragraph)
        if examples:
            with formatter.section("Examples"):
                for line in examples.splitlines():
                    formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence, whatever its length; the list of commands wraps it."""
        return " ".join((self.help or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


class ScriptCommand(Command):
    """A command whose options are those of a training script, which lists them itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of typer that is not public
        """Print the examples before what the script says of itself and its options."""
        if "--help" in args or "-h" in args:
            say("Examples:\n  {}\n".format(split_help(self.help or "")[1].replace("\n", "\n  ")))
        return super().parse_args(ctx, args)


class Group(TyperGroup):
    """The commands; what is wrong with an argument is shown like any other message."""

    def main(self, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401 - as of typer
        """Run, and end with an exit status."""
        options["standalone_mode"] = False
        try:
            status = super().main(*arguments, **options)
        except USAGE_ERRORS as error:
            text = io.StringIO()
            error.show(file=text)
            say(text.getvalue().rstrip(), err=True)
            status = error.exit_code
        except typer.Abort:
            status = 1
        sys.exit(status)
