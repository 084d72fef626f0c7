"""Help and usage errors as a terminal shows them."""

from __future__ import annotations

import io
import re
import sys
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from cxc_eccv.cli.choices import DATA, DataOptions
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

COLUMN = 30
"""Widest column of the options' names; the text of longer ones begins in the next line."""

OPTION_GROUPS = {
    "Input": (
        *("model", "classifier", "images", "captions", "config", "limit", "name", "similarity", "adversarial"),
        *("revision", "trust_remote_code", "built", "beside", "summarizer", "summaries", "labelled"),
        *("labelled_retriever", "project", "preferences", "training_data"),
    ),
    "Encoding": (
        *("only", "caption_prompt", "image_prompt", "pooling", "central_crop", "batch_size", "device", "dtype"),
        "skip_bad_images",
    ),
    "Data": (
        *("split", "collection", "labels", "sources", "verified", "queries", "allow_missing", "concepts"),
        "annotations",
    ),
    "What to score": (
        *("tasks", "metrics", "direction", "query_position", "normalize", "unjudged", "bounds", "bounds_depth"),
        *("probabilities", "answers", "threshold", "precision", "share", "score", "rerank", "top_k", "max_pairs"),
    ),
    "What to ask": (
        *("scheme", "strategy", "budget", "depth", "metric", "ask_known", "without_reasons", "leave_open", "size"),
    ),
    "Statistics": ("intervals", "confidence", "seed"),
    "Output": ("output", "keep_run"),
}
"""Heading to the options below it, in every command that has many: an option of one name does one thing."""

MANY = 11
"""The help of a command with more options than these is grouped."""


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

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes of typer that are not public
        """Arguments, then the options group by group, one below the other in the same columns."""
        records: dict[str, Any] = {one.name: one.get_help_record(ctx) for one in self._listed(ctx)}
        arguments = {parameter.name for parameter in self.params if parameter.param_type_name == "argument"}
        groups = {"Arguments": [records.pop(name) for name in [*records] if name in arguments]}
        own = [name for name, record in records.items() if record]
        for title, names in OPTION_GROUPS.items() if len(own) > MANY else ():
            groups[title] = [records[name] for name in own if name in names]
            own = [name for name in own if name not in names]
        groups["Other options" if len(groups) > 1 else "Options"] = [records[name] for name in own]
        width = min(COLUMN, max(len(record[0]) for rows in groups.values() for record in rows))
        for title, rows in groups.items():
            if rows:
                (name, text), *others = rows
                with formatter.section(title):
                    formatter.write_dl([(name.ljust(width), text), *others], col_max=COLUMN)

    def _listed(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """The parameters that the help of this command explains."""
        return self.get_params(ctx)

    def get_short_help_str(self, limit: int = 45) -> str:
        """The first sentence, whatever its length; the list of commands wraps it."""
        return " ".join((self.help or "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".") + "."


class DataCommand(Command):
    """A command that reads raw files, and takes the program's options that say which."""

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        """Its own options, and those of the program."""
        return [*super().get_params(ctx), *_data_parameters(ctx)]

    def _listed(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
        return super().get_params(ctx)

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - classes of typer that are not public
        """Name the program's options, which its own help explains."""
        options = ", ".join(parameter.opts[0] for parameter in _data_parameters(ctx))
        formatter.write_paragraph()
        formatter.write_text(f"Options of every command: {options} (see cxc-eccv --help).")

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401 - as of typer
        """Run with the options behind the command's name, else those before it, else those of a run.yaml."""
        before, behind = DATA.get()._asdict(), {name: ctx.params.pop(name) for name in DataOptions._fields}
        typed = {name for name in behind if ctx.get_parameter_source(name).name == "COMMANDLINE"}
        DATA.set(
            DataOptions(**{name: behind[name] if name in typed else before[name] or behind[name] for name in behind})
        )
        return super().invoke(ctx)


def _data_parameters(ctx: Any) -> list[Any]:  # noqa: ANN401 - a class of typer that is not public
    return [parameter for parameter in ctx.find_root().command.params if parameter.name in DataOptions._fields]


class ScriptCommand(Command):
    """A command whose options are those of a training script, which lists them itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - a class of typer that is not public
        """Print the examples before what the script says of itself and its options."""
        if "--help" in args or "-h" in args:
            say("Examples:\n  {}\n".format(split_help(self.help or "")[1].replace("\n", "\n  ")))
        return super().parse_args(ctx, [*DATA.get().to_arguments(), *args])


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
